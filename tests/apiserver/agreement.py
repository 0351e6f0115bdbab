"""JobSets, and the answers of a real API server with JobSet 0.12: to each JobSet, and to the Jobs of those it stores.

``public.json`` has the JobSets in the Go modules of JobSet and Kueue (Apache-2.0), long texts cut. The others have one
error each. ``python -m tests.apiserver.agreement`` asks a real server on Kubernetes 1.37 and writes ``answers.json``.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from gangctl.api.objects import copy
from gangctl.apiserver.childjobs import ChildJobs, replicas_of
from gangctl.apiserver.create import Created
from tests.controlplane.api import ApiClient, ApiFailure, Object, path_of
from tests.controlplane.plane import ControlPlane

_HERE: Final = Path(__file__).parent
ANSWERS: Final = _HERE / "answers.json"
PUBLIC: Final[dict[str, Object]] = json.loads((_HERE / "public.json").read_text())
JOBSET: Final = "jobset.x-k8s.io/v1alpha2"
UID: Final = "00000000-0000-0000-0000-000000000000"
_POD: Final = "template.spec"
_CONTAINER: Final = "template.spec.containers.0"

# Fields of the JobSet's spec; "job." are those of the Job's spec, below which is the pod template.
CHANGES: Final[dict[str, dict[str, Any]]] = {
    "as it is": {},
    "parallelism without completions": {"job.parallelism": 4},
    "neither with NonIndexed": {"job.parallelism": 4, "job.completionMode": "NonIndexed"},
    "per index without Indexed": {"job.completionMode": "NonIndexed", "job.backoffLimitPerIndex": 1},
    "failed indexes without per index": {"job.maxFailedIndexes": 1},
    "failed indexes above completions": {
        "job.maxFailedIndexes": 3, "job.backoffLimitPerIndex": 1, "job.completions": 2, "job.parallelism": 2,
    },
    "too much parallelism": {"job.parallelism": 100_001, "job.completions": 100_001},
    "negative parallelism": {"job.parallelism": -1, "job.completions": 1},
    "negative deadline": {"job.activeDeadlineSeconds": -1},
    "unknown completion mode": {"job.completionMode": "Some"},
    "success policy without Indexed": {
        "job.completionMode": "NonIndexed", "job.successPolicy": {"rules": [{"succeededCount": 1}]},
    },
    "success policy without rules": {"job.successPolicy": {"rules": []}},
    "success of too many": {"job.completions": 2, "job.successPolicy": {"rules": [{"succeededIndexes": "0-4"}]}},
    "failure rule of a restarting pod": {
        "job.podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1]}}]},
    },
    "failure rule of success": {
        f"job.{_POD}.restartPolicy": "Never",
        "job.podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [0]}}]},
    },
    "failure rule of no container": {
        f"job.{_POD}.restartPolicy": "Never",
        "job.podFailurePolicy": {
            "rules": [
                {"action": "Ignore", "onExitCodes": {"containerName": "x", "operator": "In", "values": [3, 1]}},
                {"action": "FailIndex", "onPodConditions": [{"type": "DisruptionTarget"}]},
                {"action": "Count"},
            ]
        },
    },
    "failure rule for all": {"failurePolicy": {"rules": [{"action": "RestartJobSet"}]}},
    "replacement policy": {"job.podReplacementPolicy": "Sometimes"},
    "managed by a word": {"job.managedBy": "me"},
    "always restarting": {f"job.{_POD}.restartPolicy": "Always"},
    "no containers": {f"job.{_POD}.containers": []},
    "containers null": {f"job.{_POD}.containers": None},
    "no image": {f"job.{_CONTAINER}": {"name": "c"}},
    "container in capitals": {f"job.{_CONTAINER}.name": "C"},
    "two of a name": {f"job.{_POD}.initContainers": [{"name": "c", "image": "i"}]},
    "probe of an init container": {
        f"job.{_POD}.initContainers": [{"name": "d", "image": "i", "livenessProbe": {"exec": {"command": ["a"]}}}],
    },
    "sidecar": {f"job.{_POD}.initContainers": [{"name": "d", "image": "i", "restartPolicy": "Always"}]},
    "mount of nothing": {f"job.{_CONTAINER}.volumeMounts": [{"name": "v", "mountPath": "/v"}]},
    "two mounts in one place": {
        f"job.{_POD}.volumes": [{"name": "v"}, {"name": "w", "emptyDir": {}}],
        f"job.{_CONTAINER}.volumeMounts": [{"name": "v", "mountPath": "/v"}, {"name": "w", "mountPath": "/v"}],
    },
    "volume of two kinds": {f"job.{_POD}.volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}]},
    "mount of a volume without a name": {
        f"job.{_POD}.volumes": [{"name": None, "emptyDir": {}}],
        f"job.{_CONTAINER}.volumeMounts": [{"name": None, "mountPath": "/v"}],
    },
    "mount of an invalid volume": {
        f"job.{_POD}.volumes": [{"name": "V", "emptyDir": {}}],
        f"job.{_CONTAINER}.volumeMounts": [{"name": "V", "mountPath": "/v"}],
    },
    "mount of a volume of two kinds": {
        f"job.{_POD}.volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}],
        f"job.{_CONTAINER}.volumeMounts": [{"name": "v", "mountPath": "/v"}],
    },
    "volume twice": {f"job.{_POD}.volumes": [{"name": "v"}, {"name": "v"}]},
    "variable without a name": {f"job.{_CONTAINER}.env": [{"name": "", "value": "a"}]},
    "variable with an equals sign": {f"job.{_CONTAINER}.env": [{"name": "A=B", "value": "a"}]},
    "variable of an integer": {f"job.{_CONTAINER}.env": [{"name": "A", "value": 3}]},
    "variable with two values": {
        f"job.{_CONTAINER}.env": [
            {"name": "A", "value": "a", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
        ],
    },
    "variable from nothing": {f"job.{_CONTAINER}.env": [{"name": "A", "valueFrom": {}}]},
    "environment from nothing": {f"job.{_CONTAINER}.envFrom": [{"prefix": "A"}]},
    "port zero": {f"job.{_CONTAINER}.ports": [{"containerPort": 0}]},
    "port above all": {f"job.{_CONTAINER}.ports": [{"containerPort": 70_000}]},
    "port with a long name": {f"job.{_CONTAINER}.ports": [{"containerPort": 1, "name": "a-name-that-is-too-long"}]},
    "host port that differs": {
        f"job.{_POD}.hostNetwork": True, f"job.{_CONTAINER}.ports": [{"containerPort": 1, "hostPort": 2}],
    },
    "pull policy": {f"job.{_CONTAINER}.imagePullPolicy": "Sometimes"},
    "request above its limit": {f"job.{_CONTAINER}.resources": {"limits": {"cpu": 1}, "requests": {"cpu": 2}}},
    "accelerator requested without a limit": {f"job.{_CONTAINER}.resources": {"requests": {"nvidia.com/gpu": 1}}},
    "accelerator below its limit": {
        f"job.{_CONTAINER}.resources": {"limits": {"nvidia.com/gpu": 2}, "requests": {"nvidia.com/gpu": 1}},
    },
    "half an accelerator": {f"job.{_CONTAINER}.resources": {"limits": {"nvidia.com/gpu": "500m"}}},
    "accelerator without its domain": {f"job.{_CONTAINER}.resources": {"limits": {"gpu": 8}}},
    "quota of an accelerator": {f"job.{_CONTAINER}.resources": {"limits": {"requests.nvidia.com/gpu": 8}}},
    "pods of a container": {f"job.{_CONTAINER}.resources": {"limits": {"pods": 1}}},
    "less than none": {f"job.{_CONTAINER}.resources": {"limits": {"memory": "-1Gi"}}},
    "huge pages alone": {f"job.{_CONTAINER}.resources": {"limits": {"hugepages-2Mi": "4Mi"}}},
    "claim of nothing": {f"job.{_CONTAINER}.resources": {"claims": [{"name": "x"}]}},
    "claim without a source": {f"job.{_POD}.resourceClaims": [{"name": "x"}]},
    "no label for a selector": {f"job.{_POD}.nodeSelector": {"a b": "c"}},
    "no value for a selector": {f"job.{_POD}.nodeSelector": {"a": "b c"}},
    "toleration of a key without a value": {f"job.{_POD}.tolerations": [{"operator": "Equal", "value": "a"}]},
    "toleration of an effect": {f"job.{_POD}.tolerations": [{"key": "a", "operator": "Exists", "effect": "Never"}]},
    "toleration that exists with a value": {
        f"job.{_POD}.tolerations": [{"key": "a", "operator": "Exists", "value": "b"}],
    },
    "gate twice": {f"job.{_POD}.schedulingGates": [{"name": "a/b"}, {"name": "a/b"}]},
    "gate without a name": {f"job.{_POD}.schedulingGates": [{"name": "-"}]},
    "spread without a skew": {
        f"job.{_POD}.topologySpreadConstraints": [
            {"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "Never", "labelSelector": {}}
        ],
    },
    "priority in capitals": {f"job.{_POD}.priorityClassName": "High"},
    "account in capitals": {f"job.{_POD}.serviceAccountName": "Me"},
    "DNS policy": {f"job.{_POD}.dnsPolicy": "Sometimes"},
    "deadline of no seconds": {f"job.{_POD}.activeDeadlineSeconds": 0},
    "label of a pod": {"job.template.metadata": {"labels": {"a b": "c"}}},
    "annotation of a pod": {"job.template.metadata": {"annotations": {"a b": "c"}}},
    "annotation of an integer": {"job.template.metadata": {"annotations": {"a": 1}}},
    "creation time": {"job.template.metadata": {"creationTimestamp": None}},
    "misspelt": {"job.paralelism": 4, f"job.{_POD}.nodeSelectors": {}},
    "suspend null": {"suspend": None, "network": None},
    "replicas null": {"replicatedJobs.0.replicas": None},
    "replicas zero": {"replicatedJobs.0.replicas": 0, "job.parallelism": 4},
    "replicas below zero": {"replicatedJobs.0.replicas": -1},
    "replicas as text": {"replicatedJobs.0.replicas": "2"},
    "no template": {"replicatedJobs.1": {"name": "x"}},
    "name twice": {"replicatedJobs.1": {"name": "w", "template": {"spec": {"template": {"spec": {}}}}}},
    "no name": {"replicatedJobs.0.name": ""},
    "name in capitals": {"replicatedJobs.0.name": "W"},
    "name too long": {"replicatedJobs.0.name": "w" * 61},
    "pod name too long": {"replicatedJobs.0.name": "w" * 54, "job.completions": 1000, "job.parallelism": 1},
    "group in capitals": {"replicatedJobs.0.groupName": "G"},
    "depends on itself": {"replicatedJobs.0.dependsOn": [{"name": "w", "status": "Ready"}]},
    "depends on an empty list": {"replicatedJobs.0.dependsOn": []},
    "depends on nothing": {"replicatedJobs.0.dependsOn": [{"name": "x", "status": "Ready"}]},
    "depends on a state": {"replicatedJobs.0.dependsOn": [{"name": "w", "status": "Done"}]},
    "too many pods": {"replicatedJobs.0.replicas": 2**30, "job.parallelism": 4, "job.completions": 4},
    "subdomain in capitals": {"network": {"subdomain": "S"}},
    "managed by nobody": {"managedBy": "me"},
    "success of nobody": {"successPolicy": {"operator": "All", "targetReplicatedJobs": ["x"]}},
    "failure rules of one name": {
        "failurePolicy": {"rules": [{"name": "a", "action": "FailJobSet"}, {"name": "a", "action": "FailJobSet"}]},
    },
    "failure rule of another name": {"failurePolicy": {"rules": [{"name": "0", "action": "FailJobSet"}]}},
    "failure rule of nobody": {
        "failurePolicy": {
            "rules": [{"action": "FailJobSet", "targetReplicatedJobs": ["x"], "onJobFailureReasons": ["y"]}]
        },
    },
    "failure rule of an action": {"failurePolicy": {"rules": [{"action": "Wait"}]}},
    "coordinator of nothing": {"coordinator": {"replicatedJob": "x"}},
    "coordinator without completions": {"coordinator": {"replicatedJob": "w"}, "job.completionMode": "NonIndexed"},
    "coordinator beyond": {"coordinator": {"replicatedJob": "w", "jobIndex": 1}},
    "coordinator beyond its pods": {"coordinator": {"replicatedJob": "w", "podIndex": 9}, "job.completions": 2},
    "claim policy without a mount": {
        "volumeClaimPolicies": [
            {"templates": [{"metadata": {"name": "v"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]}
        ],
    },
}  # fmt: skip


def _set(obj: Any, path: str, value: Any) -> None:
    *steps, last = path.split(".")
    for step in steps:
        obj = obj[int(step) if isinstance(obj, list) else step]
    if isinstance(obj, list):
        obj[int(last) : int(last) + 1] = [value]
    else:
        obj[last] = value


def _changed(changes: dict[str, Any]) -> Object:
    pod = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicatedJobs": [{"name": "w", "template": {"spec": {"template": pod}}}]}
    jobset = copy({"apiVersion": JOBSET, "kind": "JobSet", "metadata": {"name": "js"}, "spec": spec})
    for path, value in changes.items():
        _set(
            jobset["spec"], path.replace("job.", "replicatedJobs.0.template.spec.", 1), copy({"value": value})["value"]
        )
    return jobset


CASES: Final[dict[str, Object]] = {**{name: _changed(changes) for name, changes in CHANGES.items()}, **PUBLIC}


def errors(created: Created) -> Object:
    """What is compared: fields and reasons, unknown fields, and those of Jobs."""
    return {
        "refused": sorted({(cause.reason, _plain(cause.field)) for cause in created.refused}),
        "unknown": sorted(created.unknown),
        "jobs": sorted({(cause.reason, _plain(cause.field)) for cause in created.jobs}),
    }


def _plain(field: str) -> str:
    """The server names the key of a map in some errors, and in others not."""
    return re.sub(r"\[(?!\d+\])[^\]]*\]", "", field)


def child_jobs(stored: Object) -> Iterator[tuple[str, Object]]:
    """The last Job of each ReplicatedJob of a stored JobSet, and the path of that."""
    stored = {**stored, "metadata": {**stored["metadata"], "uid": UID}}
    children = ChildJobs(stored, JOBSET)
    for index, replicated in enumerate(stored["spec"].get("replicatedJobs") or ()):
        if replicas_of(replicated) > 0:
            yield f"spec.replicatedJobs[{index}]", children.job(replicated, replicas_of(replicated) - 1)


def _causes(failure: ApiFailure) -> list[tuple[str, str]]:
    causes = (failure.body.get("details") or {}).get("causes") or []
    refused = {(cause.get("reason", ""), _plain(cause.get("field", "<nil>"))) for cause in causes}
    return sorted(one for one in refused if one != ("FieldValueInvalid", "<nil>")) or [(failure.reason, "")]


async def answer(api: ApiClient, namespace: str, raw: Object) -> Object:
    """What a real server says of a JobSet, and of its Jobs if it stores it."""
    said: Object = {"refused": [], "unknown": [], "jobs": []}
    metadata = {key: value for key, value in raw["metadata"].items() if key != "namespace"}
    raw = {**raw, "metadata": metadata}
    path, jobs = (path_of(*of, namespace=namespace) for of in ((JOBSET, "jobsets"), ("batch/v1", "jobs")))
    try:
        await api.create(path, raw, dryRun="All", fieldValidation="Strict")
    except ApiFailure as failure:
        said["unknown"] = sorted(set(re.findall(r'unknown field "([^"]*)"', failure.message)))
    try:
        stored = await api.create(path, raw, dryRun="All", fieldValidation="Ignore")
    except ApiFailure as failure:
        return {**said, "refused": _causes(failure)}
    refused: set[tuple[str, str]] = set()
    for place, job in child_jobs(stored):
        try:
            await api.create(jobs, job, dryRun="All", fieldValidation="Ignore")
        except ApiFailure as failure:
            for reason, field in _causes(failure):
                refused.add((reason, f"{place}.name" if field == "metadata.name" else f"{place}.template.{field}"))
    return {**said, "jobs": sorted(refused)}


async def ask(api: ApiClient, namespace: str) -> dict[str, Object]:
    """The answers to all of them."""
    return {name: await answer(api, namespace, raw) for name, raw in CASES.items()}


async def _record() -> None:
    async with ControlPlane.start("1.37", ("jobset",), scheduler=False, controller_manager=False) as plane:
        answers = await ask(plane.api, "default")
    lines = (f" {json.dumps(name)}: {json.dumps(said)}" for name, said in sorted(answers.items()))
    ANSWERS.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    asyncio.run(_record())
