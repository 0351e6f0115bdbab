"""JobSets and changes of one, and the answer of a real JobSet 0.12 on Kubernetes 1.37 to each.

Of new ones those that its webhook refuses are left out: the sandbox takes them.

``python -m tests.sandbox.jobset_cases`` asks a real one and writes ``jobset_answers.json``.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tests.controlplane.api import ApiClient, ApiFailure, Object, Objects, path_of
from tests.controlplane.plane import ControlPlane

ANSWERS: Final = Path(__file__).with_name("jobset_answers.json")
CHANGED: Final = "changed"
LONG: Final = "a" * 64
_JOB: Final = "/spec/replicatedJobs/0/template/spec"


def pod(**spec: Any) -> Object:
    """A pod template."""
    return {"spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


def replicated(name: str = "r", job: Object | None = None, **fields: Any) -> Object:
    """A ReplicatedJob; ``job`` are fields of its Jobs' spec."""
    return {"name": name, "template": {"spec": {"template": pod(), **(job or {})}}, **fields}


def jobset(*jobs: Object, name: str = "js", **spec: Any) -> Object:
    """A JobSet with one ReplicatedJob, or those given."""
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name},
        "spec": {"replicatedJobs": list(jobs) or [replicated()], **spec},
    }


def _on(*jobs: tuple[str, str]) -> Objects:
    return [{"name": name, "status": status} for name, status in jobs]


def _rule(name: str = "n", action: str = "FailJobSet", **fields: Any) -> Object:
    return {"name": name, "action": action, **fields}


def _rules(*rules: Object) -> Object:
    return jobset(failurePolicy={"rules": list(rules)})


def _claims(*names: str, mounted: bool = True, volumes: Objects | None = None) -> Object:
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in names] if mounted else []
    made = pod(
        containers=[{"name": "c", "image": "i", "volumeMounts": mounts}], **({"volumes": volumes} if volumes else {})
    )
    templates = [{"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"]}} for name in names]
    return jobset(replicated(job={"template": made}), volumeClaimPolicies=[{"templates": templates}])


_ONE: Final[Object] = {"completions": 1, "parallelism": 1}
_RICH: Final[Object] = {
    "parallelism": 2,
    "completions": 2,
    "backoffLimit": 0,
    "suspend": False,
    "template": {
        "metadata": {"annotations": {"x": "y"}, "creationTimestamp": None},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "priorityClassName": "",
            "nodeSelector": {},
            "tolerations": [],
            "schedulingGroup": {"podGroupName": "g"},
            "workloadRef": {"name": "w", "podGroup": "g"},
            "securityContext": {},
            "containers": [
                {
                    "name": "c",
                    "command": [],
                    "resources": {"requests": {"cpu": 0.5, "memory": "1024Mi"}},
                    "ports": [{"containerPort": 80}],
                    "env": [{"name": "A", "value": ""}, {"name": "B", "valueFrom": {"configMapKeyRef": {"key": "k"}}}],
                    "livenessProbe": {"httpGet": {"port": "x"}},
                }
            ],
            "volumes": [{"name": "v", "rbd": {"image": "i", "monitors": ["a"]}}, {"name": "z", "emptyDir": {}}],
        },
    },
}

NEW: Final[Mapping[str, Object]] = {
    "minimal": jobset(),
    "without spec": {key: value for key, value in jobset().items() if key != "spec"},
    "null for replicatedJobs": {**jobset(), "spec": {"replicatedJobs": None}},
    "pruned": jobset({**replicated(), "gang": 1}, gangConfig={"policy": "x"}),
    "rich": jobset(replicated(job=_RICH, replicas=2), failurePolicy={"maxRestarts": 0}, network={}, suspend=False),
    "status given": {**jobset(), "status": {"restarts": 3}},
    "nameless replicated job": jobset({"template": replicated()["template"]}),
    "without containers": jobset({"name": "r", "template": {}}),
    "two of a name": jobset(replicated("a"), replicated("a")),
    "unknown order": jobset(startupPolicy={"startupPolicyOrder": "Odd"}),
    "unknown operator": jobset(successPolicy={"operator": "None"}),
    "without operator": jobset(successPolicy={"targetReplicatedJobs": ["r"]}),
    "unknown strategy": jobset(failurePolicy={"restartStrategy": "Odd"}),
    "unknown action": _rules(_rule(action="Odd")),
    "negative time": jobset(ttlSecondsAfterFinished=-1),
    "negative restarts": jobset(failurePolicy={"maxRestarts": -1}),
    "depends on itself": jobset(replicated("a"), replicated("b", dependsOn=_on(("b", "Ready")))),
    "depends on many": jobset(
        replicated("a"), replicated("b", dependsOn=_on(*((f"x{at}", "Ready") for at in range(6))))
    ),
    "depends on an odd status": jobset(replicated("a"), replicated("b", dependsOn=_on(("a", "Odd")))),
    "depends twice": jobset(replicated("a"), replicated("b", dependsOn=_on(("a", "Ready"), ("a", "Complete")))),
    "two orders": jobset(
        replicated("a"), replicated("b", dependsOn=_on(("a", "Ready"))), startupPolicy={"startupPolicyOrder": "InOrder"}
    ),
    "odd name": jobset(name="A_b"),
    "empty job name": jobset(replicated("")),
    "nameless rules": _rules({"action": "FailJobSet"}, _rule("")),
    "coordinator": jobset(replicated(job=_ONE), coordinator={"replicatedJob": "r"}),
    "claims": _claims("v"),
    "claims twice": _claims("v", "v"),
    "odd end of claims": jobset(volumeClaimPolicies=[{"retentionPolicy": {"whenDeleted": "Odd"}}]),
}

OLD: Final = jobset(
    {
        "name": "w",
        "template": {
            "metadata": {"annotations": {"a": "1"}},
            "spec": {"parallelism": 2, "completions": 2, "template": pod()},
        },
    },
    replicated("n", {"completionMode": "NonIndexed", "parallelism": 1}),
    name=CHANGED,
    suspend=True,
    managedBy="example.com/nobody",
    failurePolicy={"maxRestarts": 1},
)


def _set(path: str, value: Any) -> Object:
    return {"op": "add", "path": path, "value": value}


def _remove(path: str) -> Object:
    return {"op": "remove", "path": path}


CHANGES: Final[Mapping[str, Objects]] = {
    "labels of pods": [_set(f"{_JOB}/template/metadata", {"labels": {"a": "b"}, "annotations": {"c": "d"}})],
    "places of pods": [
        _set(f"{_JOB}/template/spec/nodeSelector", {"a": "b"}),
        _set(f"{_JOB}/template/spec/tolerations", [{"operator": "Exists"}]),
        _set(f"{_JOB}/template/spec/schedulingGates", [{"name": "example.com/gate"}]),
    ],
    "what Go does not write": [
        _set(f"{_JOB}/template/spec/tolerations", []),
        _set(f"{_JOB}/template/spec/priorityClassName", ""),
        _set(f"{_JOB}/template/spec/hostNetwork", False),
        _remove(f"{_JOB}/template/spec/containers/0/resources"),
    ],
    "group of pods": [_set(f"{_JOB}/template/spec/schedulingGroup", {"podGroupName": "g"})],
    "image": [_set(f"{_JOB}/template/spec/containers/0/image", "z")],
    "image at resume": [_set(f"{_JOB}/template/spec/containers/0/image", "z"), _set("/spec/suspend", False)],
    "annotation of jobs": [_set("/spec/replicatedJobs/0/template/metadata/annotations/a", "2")],
    "parallelism alone": [_set(f"{_JOB}/parallelism", 3)],
    "parallelism and completions": [_set(f"{_JOB}/parallelism", 3), _set(f"{_JOB}/completions", 3)],
    "no pods": [_set(f"{_JOB}/parallelism", 0), _set(f"{_JOB}/completions", 0)],
    "no completions": [_remove(f"{_JOB}/completions")],
    "parallelism without indexes": [_set("/spec/replicatedJobs/1/template/spec/parallelism", 3)],
    "mode": [_set(f"{_JOB}/completionMode", "NonIndexed")],
    "mode removed": [_remove(f"{_JOB}/completionMode")],
    "replicas": [_set("/spec/replicatedJobs/0/replicas", 3)],
    "group name": [_set("/spec/replicatedJobs/0/groupName", "x")],
    "one less": [_remove("/spec/replicatedJobs/1")],
    "another name": [_set("/spec/replicatedJobs/0/name", "q")],
    "dependency": [_set("/spec/replicatedJobs/1/dependsOn", _on(("w", "Ready")))],
    "manager": [_set("/spec/managedBy", "example.com/other")],
    "manager removed": [_remove("/spec/managedBy")],
    "failure policy": [_set("/spec/failurePolicy/maxRestarts", 2)],
    "failure policy removed": [_remove("/spec/failurePolicy")],
    "network": [_set("/spec/network/enableDNSHostnames", False)],
    "network removed": [_remove("/spec/network")],
    "success policy": [_set("/spec/successPolicy/operator", "Any")],
    "startup policy": [_set("/spec/startupPolicy/startupPolicyOrder", "InOrder")],
    "resume": [_set("/spec/suspend", False)],
    "time to live": [_set("/spec/ttlSecondsAfterFinished", 10)],
    "coordinator nowhere": [_set("/spec/coordinator", {"replicatedJob": "nope"})],
    "annotations": [_set("/metadata/annotations", {"x": "y"})],
}

STATUSES: Final[Mapping[str, Object]] = {
    "text": {"restarts": "x"},
    "negative": {"previousInPlaceRestartAttempt": -1},
    "condition of a type": {"conditions": [{"type": "A"}]},
    "no time": {
        "conditions": [{"type": "A", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "x"}],
    },
}


def recorded_error(failure: ApiFailure) -> Object:
    """What is recorded of a refusal."""
    return recorded(failure.body)


def recorded(status: Object) -> Object:
    """What is recorded of a Status."""
    causes = (status.get("details") or {}).get("causes") or []
    return {
        "code": status["code"],
        "message": _without_values(status["message"]),
        "causes": [[cause["reason"], cause["field"], _without_values(cause["message"])] for cause in causes],
    }


def _without_values(text: str) -> str:
    """The words without the ReplicatedJobs that they print, whose fields the webhook has in the order of Go."""
    return re.sub(r"Invalid value: \[\{.*\}\]: ", "Invalid value: ...: ", text)


async def ask(api: ApiClient, namespace: str) -> dict[str, dict[str, Object]]:
    """The answers of a real server; what it takes is recorded by its spec."""
    path = path_of("jobset.x-k8s.io/v1alpha2", "jobsets", namespace=namespace)
    one = f"{path}/{CHANGED}"
    await api.create(path, OLD)
    answers: dict[str, dict[str, Object]] = {"new": {}, "changes": {}, "statuses": {}}
    for name, body in NEW.items():
        answers["new"][name] = await _answer(api.create(path, body, dryRun="All"))
    for name, operations in CHANGES.items():
        answers["changes"][name] = await _answer(api.patch(one, operations, "json", dryRun="All"))
    for name, status in STATUSES.items():
        answers["statuses"][name] = await _answer(api.patch(f"{one}/status", {"status": status}, dryRun="All"))
    await api.delete(one)
    return answers


async def _answer(call: Any) -> Object:
    try:
        return {"spec": (await call)["spec"]}
    except ApiFailure as failure:
        return recorded_error(failure)


async def _record() -> None:
    async with ControlPlane.start("1.37", ("jobset",), scheduler=False, controller_manager=False) as plane:
        answers = await ask(plane.api, "default")
    ANSWERS.write_text(json.dumps(answers, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    asyncio.run(_record())
