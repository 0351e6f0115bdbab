"""What is read of a cluster in which everything was installed by manifests: objects become facts."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from aiohttp import web

from gangctl.webhooks.configurations import Endpoint, WebhookSettings, build_configurations
from tests.cli.doctor.health import JOBSET_SERVICE, SERVICE, Object, foreign, others
from tests.cli.httpserver import HERE, ask, listening
from tests.cli.run import Answer
from tests.gang.pipeline import stored
from tests.jobsets import FIXTURE_UID, jobset, rj
from tests.rows import each

REGISTRATION: Final = "/apis/admissionregistration.k8s.io/v1"
SCHEDULING: Final = "/apis/scheduling.k8s.io"
KUEUE: Final = "/apis/kueue.x-k8s.io"


def ago(seconds: int) -> str:
    """So long before it is asked: a run reaches its last tests half an hour after they were collected."""
    return (datetime.now(UTC) - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def slices(service: tuple[str, str], *ready: bool) -> Object:
    metadata = {"name": "s", "namespace": service[0], "labels": {"kubernetes.io/service-name": service[1]}}
    return {"metadata": metadata, "endpoints": [{"conditions": {"ready": each}} for each in ready]}


def deployment(name: str, image: str, *, wanted: int = 1, ready: int = 1, **status: Any) -> Object:
    pod = {"containers": [{"name": "c", "image": image}]}
    counts = {"replicas": wanted, "updatedReplicas": wanted, **({"readyReplicas": ready} if ready else {})}
    return {
        "metadata": {"name": name, "generation": 2},
        "spec": {"replicas": wanted, "selector": {"matchLabels": {"app": name}}, "template": {"spec": pod}},
        "status": {"observedGeneration": 2, **counts, **status},
    }


def pod_of(name: str, image: str, waiting: str = "", message: str = "", *args: str, **status: Any) -> Object:
    """A pod that is ready, or whose container waits."""
    state = {"waiting": {"reason": waiting, "message": message}} if waiting else {"running": {}}
    conditions = [{"type": "Ready", "status": "False" if waiting or status else "True"}]
    container = {"name": "c", "image": image, "args": list(args)}
    return {
        "metadata": {"name": name},
        "spec": {"containers": [container]},
        "status": {"conditions": conditions, "containerStatuses": [{"ready": not waiting, "state": state}], **status},
    }


def of_kind(configurations: list[Object], kind: str) -> list[Object]:
    return [each for each in configurations if each["kind"] == kind]


LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/gangctl-system/leases"
QUOTAS: Final = "/api/v1/resourcequotas"
FORBIDDEN: Final = object()
"""The answer to a user without the right."""


def lease(name: str) -> dict[str, Any]:
    """One that is held."""
    spec = {"holderIdentity": "gangctl-1", "leaseDurationSeconds": 3600, "renewTime": ago(5)}
    return {"metadata": {"name": name}, "spec": spec}


def installed() -> dict[str, Any]:
    """Lists by path, other answers as they are."""
    endpoint = Endpoint(service=SERVICE[1], namespace=SERVICE[0])
    own = build_configurations(WebhookSettings(endpoint, ("kube-system", SERVICE[0])), b"")
    every = [*own, *others()]
    stored = jobset("js", rj("w", 1, 2, 2), namespace=HERE, uid="u-1")
    stored["metadata"]["creationTimestamp"] = ago(300)
    stored["status"] = {"restarts": 0}
    check = {
        "metadata": {"name": "gang"},
        "spec": {"controllerName": "gangctl.dev/gang-ready"},
        "status": {"conditions": [{"type": "Active", "status": "True", "reason": "Active", "message": "m"}]},
    }
    text = (
        "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
        "integrations:\n  frameworks: [batch/job, jobset.x-k8s.io/jobset]\n"
    )
    return {
        "/version": {"gitVersion": "v1.36.3"},
        SCHEDULING: {"versions": [{"version": "v1alpha2"}]},
        f"{SCHEDULING}/v1alpha2": {"resources": [{"name": "workloads"}, {"name": "podgroups"}]},
        f"{SCHEDULING}/v1alpha2/workloads": [],
        f"{SCHEDULING}/v1alpha2/podgroups": [],
        "/apis/jobset.x-k8s.io": {"versions": [{"version": "v1alpha2"}]},
        "/apis/jobset.x-k8s.io/v1alpha2/jobsets": [stored],
        "/apis/batch/v1/jobs": [],
        "/api/v1/pods": [],
        "/api/v1/nodes": [],
        "/api/v1/namespaces": [],
        QUOTAS: [],
        "/apis/events.k8s.io/v1/events": [],
        REGISTRATION: {"resources": [{"name": "mutatingadmissionpolicies"}]},
        f"{REGISTRATION}/mutatingwebhookconfigurations": of_kind(every, "MutatingWebhookConfiguration"),
        f"{REGISTRATION}/validatingwebhookconfigurations": of_kind(every, "ValidatingWebhookConfiguration"),
        f"/apis/discovery.k8s.io/v1/namespaces/{SERVICE[0]}/endpointslices": [slices(SERVICE, True, False)],
        f"/apis/discovery.k8s.io/v1/namespaces/{JOBSET_SERVICE[0]}/endpointslices": [slices(JOBSET_SERVICE, True)],
        "/apis/apps/v1/namespaces/gangctl-system/deployments": [
            deployment("gangctl", "gangctl:0.1.0", wanted=2, ready=2)
        ],
        "/apis/apps/v1/namespaces/jobset-system/deployments": [deployment("jobset-controller", "jobset:v0.12.0")],
        "/apis/apps/v1/namespaces/kueue-system/deployments": [deployment("kueue-controller", "kueue:v0.19.2")],
        LEASES: [lease("gangctl"), lease("another-operator")],
        KUEUE: {"versions": [{"version": "v1beta2"}, {"version": "v1beta1"}]},
        f"{KUEUE}/v1beta2": {"resources": []},
        f"{KUEUE}/v1beta2/admissionchecks": [check],
        f"{KUEUE}/v1beta2/clusterqueues": [{"metadata": {"name": "cq"}, "spec": {"namespaceSelector": {}}}],
        f"{KUEUE}/v1beta2/localqueues": [
            {"metadata": {"name": "q", "namespace": HERE}, "spec": {"clusterQueue": "cq"}},
        ],
        "/api/v1/namespaces/kueue-system/configmaps/kueue-manager-config": {
            "metadata": {"name": "kueue-manager-config"},
            "data": {"controller_manager_config.yaml": text},
        },
    }


@asynccontextmanager
async def serving(answers: dict[str, Any]) -> AsyncIterator[str]:
    """Dry runs come back as they would from JobSet and gangctl; a function among the answers is called."""

    async def answer(request: web.Request) -> web.Response:
        if request.method == "POST":
            return web.json_response(admitted(await request.json(), request), status=201)
        found = answers.get(request.path)
        if callable(found):
            found = await found()
        if found is FORBIDDEN:
            status = {"kind": "Status", "reason": "Forbidden", "message": f"no right to {request.path}", "code": 403}
            return web.json_response(status, status=403)
        if found is None:
            status = {"kind": "Status", "reason": "NotFound", "message": f"no {request.path}", "code": 404}
            return web.json_response(status, status=404)
        return web.json_response({"items": found, "metadata": {}} if isinstance(found, list) else found)

    async with listening(answer) as url:
        yield url


def admitted(body: Object, request: web.Request) -> Object:
    """What a server answers to reviews and dry runs."""
    if body["kind"] == "SelfSubjectAccessReview":
        return {**body, "status": {"allowed": True}}
    assert request.query["dryRun"] == "All"
    stored = copy.deepcopy(body)
    if body["kind"] == "Job" and "annotations" in body["metadata"]:
        stored["spec"]["template"]["spec"]["schedulingGroup"] = {"podGroupName": "gangctl-proof-00000000-0000-0-0"}
    for item in stored["spec"].get("replicatedJobs", ()):
        item["template"]["metadata"] = {"annotations": {"gangctl.dev/gang-ref": json.dumps({"v": 1})}}
        item["template"]["spec"]["completionMode"] = "Indexed"
    return stored


async def doctor(tmp_path: Path, answers: dict[str, Any], *flags: str) -> Answer:
    async with serving(answers) as url:
        return await ask(tmp_path, url, "doctor", "-o", "json", *flags)


def found(answer: Answer, check: str) -> tuple[str, list[str]]:
    assert answer.code in {0, 1}, answer.err
    (one,) = [each for each in answer.json["checks"] if each["id"] == check]
    return one["verdict"], one["evidence"]


async def test_a_complete_installation_is_read(tmp_path: Path) -> None:
    answer = await doctor(tmp_path, installed())
    unlike = {each["id"]: each for each in answer.json["checks"] if each["verdict"] != "ok"}
    assert set(unlike) == {"gangctl-authority", "scheduler-gate"}, unlike
    assert found(answer, "gangctl-replicas")[1] == [
        "Service gangctl-system/gangctl-webhook: 1 ready endpoints",
        "Deployment gangctl-system/gangctl: 2 of 2 replicas ready, image gangctl:0.1.0",
    ]
    assert found(answer, "gangctl-leader")[1][0].startswith('holder "gangctl-1", renewed ')
    assert "jobset:v0.12.0" in found(answer, "jobset-controller")[1][0]
    assert found(answer, "kueue-configuration")[1] == ["integrations.frameworks: batch/job, jobset.x-k8s.io/jobset"]
    assert found(answer, "kueue-checks")[1] == ["AdmissionCheck gang is active"]


OWN_PODS: Final = f"/api/v1/namespaces/{SERVICE[0]}/pods"
OWN_DEPLOYMENTS: Final = f"/apis/apps/v1/namespaces/{SERVICE[0]}/deployments"
OLD_PODS: Final = [pod_of("old-1", "gangctl:0.1.0"), pod_of("old-2", "gangctl:0.1.0")]
ROLLING: Final = {"replicas": 3, "updatedReplicas": 1}
PULL: Final = 'Back-off pulling image "gangctl:9.9.9"'
UNSCHEDULABLE: Final = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/3 nodes fit",
}
NO_PODS: Final = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota"}
LATE: Final = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "m"}


@each(
    ("status", "new", "verdict", "seen"),
    [
        (ROLLING, [pod_of("new", "gangctl:9.9.9", "ImagePullBackOff", PULL)], "warning", f"ImagePullBackOff: {PULL}"),
        (
            ROLLING,
            [pod_of("new", "gangctl:9.9.9", conditions=[UNSCHEDULABLE])],
            "warning",
            "Unschedulable: 0/3 nodes fit",
        ),
        (
            {**ROLLING, "conditions": [LATE]},
            [pod_of("new", "gangctl:9.9.9", phase="Running")],
            "warning",
            "is not ready",
        ),
        (
            {"replicas": 2, "updatedReplicas": 0, "conditions": [NO_PODS]},
            [],
            "warning",
            "its pods cannot be created: exceeded quota",
        ),
        (ROLLING, [pod_of("new", "gangctl:9.9.9", "ContainerCreating")], "ok", "pod new (image gangctl:9.9.9): "),
        ({"observedGeneration": 1}, [], "ok", "its rollout to image gangctl:9.9.9 is not finished"),
    ],
)
async def test_the_image_that_runs_is_that_of_ready_pods(
    status: Object, new: list[Object], verdict: str, seen: str, tmp_path: Path
) -> None:
    """While a rollout is not finished, the Deployment has the image that may never run."""
    rolled = deployment("gangctl", "gangctl:9.9.9", wanted=2, ready=2, **status)
    answers = {**installed(), OWN_DEPLOYMENTS: [rolled], OWN_PODS: [*OLD_PODS, *new]}
    answer = await doctor(tmp_path, answers, "--only", "gangctl-replicas")
    (report,) = answer.json["checks"]
    assert report["verdict"] == verdict, report
    runs = "Deployment gangctl-system/gangctl: 2 of 2 replicas ready, image gangctl:0.1.0; its rollout to image "
    assert f"{runs}gangctl:9.9.9 is not finished" in report["evidence"]
    assert seen in " ".join(report["evidence"])
    assert (report["message"] == "the rollout of gangctl to image gangctl:9.9.9 is stuck: gangctl:0.1.0 runs") is (
        verdict == "warning"
    )


async def test_a_pod_that_waits_is_named_with_its_reason_also_without_a_rollout(tmp_path: Path) -> None:
    first = deployment("gangctl", "gangctl:9.9.9", wanted=1, ready=0)
    waiting = pod_of("new", "gangctl:9.9.9", "ErrImagePull", "not found")
    answers = {**installed(), **NOT_READY, OWN_DEPLOYMENTS: [first], OWN_PODS: [waiting]}
    verdict, evidence = found(await doctor(tmp_path, answers), "gangctl-replicas")
    assert verdict == "failed"
    assert "Deployment gangctl-system/gangctl: 0 of 1 replicas ready, image gangctl:9.9.9" in evidence
    assert "pod new (image gangctl:9.9.9): ErrImagePull: not found" in evidence


async def test_without_the_right_to_read_pods_the_image_that_runs_is_unknown(tmp_path: Path) -> None:
    rolled = deployment("gangctl", "gangctl:9.9.9", wanted=2, ready=2, **ROLLING)
    answers = {**installed(), OWN_DEPLOYMENTS: [rolled], OWN_PODS: FORBIDDEN}
    verdict, evidence = found(await doctor(tmp_path, answers, "--only", "gangctl-replicas"), "gangctl-replicas")
    assert verdict == "ok"
    assert evidence[1].endswith("2 of 2 replicas ready; its rollout to image gangctl:9.9.9 is not finished")
    assert evidence[2] == "you may not list pods in namespace gangctl-system: which image runs is not known"


@each(
    ("check", "who", "old", "new"),
    [
        ("jobset-controller", "the JobSet controller", "jobset:v0.11.0", "jobset:v0.12.0"),
        ("kueue-api", "Kueue", "kueue:v0.19.0", "kueue:v0.20.0"),
    ],
)
async def test_stuck_rollouts_of_jobset_and_kueue_are_reported(
    check: str, who: str, old: str, new: str, tmp_path: Path
) -> None:
    project = old.partition(":")[0]
    rolled = deployment(f"{project}-controller", new, replicas=2, updatedReplicas=1)
    changed = {
        f"/apis/apps/v1/namespaces/{project}-system/deployments": [rolled],
        f"/api/v1/namespaces/{project}-system/pods": [pod_of("a", old), pod_of("b", new, "CrashLoopBackOff")],
    }
    answer = await doctor(tmp_path, {**installed(), **changed}, "--only", check)
    (report,) = answer.json["checks"]
    assert report["verdict"] == "warning"
    assert report["message"] == f"the rollout of {who} to image {new} is stuck: {old} runs"


async def test_shards_are_those_of_the_pods_that_run(tmp_path: Path) -> None:
    """A rollout with other arguments that never starts leads no shard."""
    rolled = deployment("gangctl", "gangctl:0.1.0", wanted=2, ready=2, **ROLLING)
    rolled["spec"]["template"]["spec"]["containers"][0]["args"] = ["--shards=3", "--unknown"]
    pods = [*OLD_PODS, pod_of("new", "gangctl:0.1.0", "CrashLoopBackOff", "", "--shards=3")]
    answers = {**installed(), OWN_DEPLOYMENTS: [rolled], OWN_PODS: pods}
    answer = await doctor(tmp_path, answers)
    assert found(answer, "gangctl-leader")[0] == "ok"
    replicas = next(each for each in answer.json["checks"] if each["id"] == "gangctl-replicas")
    assert replicas["message"] == "the rollout of gangctl is stuck: the pods before it run"


async def test_without_gangctl_one_check_fails_and_those_that_need_it_are_skipped(tmp_path: Path) -> None:
    kinds = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    registered = {f"{REGISTRATION}/{kind.lower()}s": of_kind(others(), kind) for kind in kinds}
    gone = {**installed(), **registered, LEASES.replace(SERVICE[0], "default"): [], OWN_DEPLOYMENTS: []}
    answer = await doctor(tmp_path, gone)
    (failed,) = [each for each in answer.json["checks"] if each["verdict"] == "failed"]
    assert (failed["id"], failed["message"]) == ("gangctl-webhooks", "gangctl is not installed here")
    skipped = {each["id"] for each in answer.json["checks"] if each["message"].startswith("skipped: ")}
    assert skipped == {"gangctl-authority", "webhook-order", "gangctl-replicas", "gangctl-leader", "policies"}
    assert "Lease" not in " ".join(each["message"] for each in answer.json["checks"])


def child_workload() -> dict[str, Any]:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "js-w-0", "uid": "j", "controller": True}
    meta = {"name": "js-w-0-x", "namespace": HERE, "uid": "w", "ownerReferences": [owner]}
    job = {"metadata": {"name": "js-w-0", "namespace": HERE, "uid": "j"}, "spec": {}}
    return {f"{SCHEDULING}/v1alpha2/workloads": [{"metadata": meta, "spec": {}}], "/apis/batch/v1/jobs": [job]}


def leaving_group(seconds: int) -> dict[str, Any]:
    meta = {
        "name": "g",
        "namespace": HERE,
        "uid": "g",
        "deletionTimestamp": ago(seconds),
        "finalizers": ["scheduling.k8s.io/podgroup-protection"],
    }
    return {f"{SCHEDULING}/v1alpha2/podgroups": [{"metadata": meta, "spec": {}}]}


def quota(plural: str, hard: int, used: int) -> Object:
    """A ResourceQuota on a number of objects, which was counted, and on pods."""
    limit = f"count/{plural}.scheduling.k8s.io"
    status = {"hard": {limit: str(hard), "pods": "1"}, "used": {limit: str(used), "pods": "0"}}
    return {"metadata": {"name": "objects", "namespace": HERE}, "status": status}


def restartable(hard: int, *groups: str, suspend: bool = False) -> dict[str, Any]:
    """Two gangs of a JobSet that may restart, of which ``groups`` exist, and a quota that has counted these."""
    workers = [rj(name, 1, 2, 2, mode="Gang") for name in ("a", "b")]
    spec: Object = {"failurePolicy": {"maxRestarts": 1}, "suspend": suspend}
    own = stored(jobset("js", *workers, namespace=HERE, uid=FIXTURE_UID, **spec))
    exist = [{"metadata": {"name": f"{name}-{FIXTURE_UID[:13]}-0", "namespace": HERE, "uid": name}} for name in groups]
    path = f"{SCHEDULING}/v1alpha2/namespaces/{HERE}/podgroups"
    return {
        "/apis/jobset.x-k8s.io/v1alpha2/jobsets": [own],
        QUOTAS: [quota("podgroups", hard, len(groups))],
        path: exist,
    }


def waiting(**spec: Any) -> dict[str, Any]:
    """An old JobSet that no controller has written a status of, and no Deployment of JobSet."""
    own = jobset("js", rj("w", 1, 1, 1), namespace=HERE, uid=FIXTURE_UID, suspend=True, **spec)
    own["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    return {"/apis/jobset.x-k8s.io/v1alpha2/jobsets": [own], "/apis/apps/v1/namespaces/jobset-system/deployments": []}


def starting_together() -> dict[str, Any]:
    """Two gangs that start together on 1.37, of a JobSet that may restart, without any of their objects."""
    spec: Object = {"failurePolicy": {"maxRestarts": 1}}
    slices = rj("w", 2, 1, 1, mode="ReplicatedGang")
    own = stored(jobset("js", slices, options='{"composite": true}', namespace=HERE, uid=FIXTURE_UID, **spec))
    return {
        SCHEDULING: {"versions": [{"version": "v1beta1"}, {"version": "v1alpha3"}]},
        f"{SCHEDULING}/v1beta1": {"resources": [{"name": "workloads"}, {"name": "podgroups"}]},
        f"{SCHEDULING}/v1alpha3": {"resources": [{"name": "compositepodgroups"}]},
        f"{SCHEDULING}/v1beta1/workloads": [],
        f"{SCHEDULING}/v1beta1/podgroups": [],
        f"{SCHEDULING}/v1alpha3/namespaces/{HERE}/compositepodgroups": [],
        "/apis/jobset.x-k8s.io/v1alpha2/jobsets": [own],
        QUOTAS: [quota("compositepodgroups", 1, 0)],
    }


NAMESPACE_SKIPPED: Final = {
    "/api/v1/namespaces": [{"metadata": {"name": "away", "labels": {"gangctl.dev/skip": "true"}}}]
}
NO_LEASE: Final[dict[str, Any]] = {LEASES: []}
EARLY: Final = {
    f"{REGISTRATION}/mutatingwebhookconfigurations": [
        foreign("MutatingWebhookConfiguration", "a-kueue", None),
        *build_configurations(WebhookSettings(Endpoint(url="https://x")), b"")[:2],
    ]
}
NOT_READY: Final = {
    f"/apis/discovery.k8s.io/v1/namespaces/{SERVICE[0]}/endpointslices": [slices(SERVICE, False)],
}
UNEVALUATED: Final = {
    "/apis/gangctl.dev/v1alpha1/gangpolicies": [
        {
            "metadata": {"name": "p"},
            "status": {
                "conditions": [
                    {"type": "Ready", "status": "False", "reason": "EvaluationUnavailable", "message": "no worker"}
                ]
            },
        }
    ]
}
CHANGED_SINCE: Final = {
    "/apis/gangctl.dev/v1alpha1/gangpolicies": [
        {
            "metadata": {"name": "p", "generation": 2},
            "status": {
                "conditions": [
                    {"type": "Ready", "status": "False", "reason": "r", "message": "m", "observedGeneration": 1}
                ]
            },
        }
    ]
}
PLAIN: Final = {"/api/v1/namespaces/kueue-system/configmaps/kueue-manager-config": None}


@each(
    ("changed", "check", "verdict", "word"),
    [
        (child_workload(), "job-controller-gangs", "warning", f"{HERE}/js-w-0-x of Job js-w-0"),
        ({**child_workload(), "/apis/batch/v1/jobs": []}, "job-controller-gangs", "ok", ""),
        (partial(leaving_group, 900), "terminating-groups", "failed", "scheduling.k8s.io/podgroup-protection"),
        (partial(leaving_group, 10), "terminating-groups", "ok", "is being deleted"),
        (restartable(3, "js-a"), "object-quotas", "warning", "lack 1 now, and 2 for a restart"),
        (restartable(4, "js-a"), "object-quotas", "ok", "1 of 4 podgroups.scheduling.k8s.io used"),
        (restartable(2, "js-a", "other"), "object-quotas", "warning", "lack 1 now, and 2 for a restart"),
        (restartable(0, suspend=True), "object-quotas", "ok", "lack 0 now, and 0 for a restart"),
        (starting_together(), "object-quotas", "warning", "lack 1 now, and 1 for a restart"),
        ({QUOTAS: FORBIDDEN}, "object-quotas", "unknown", ""),
        (waiting(), "jobset-controller", "failed", f"{HERE}/js"),
        # MultiKueue writes its status, once it runs elsewhere.
        (waiting(managedBy="kueue.x-k8s.io/multikueue"), "jobset-controller", "unknown", ""),
        (NAMESPACE_SKIPPED, "skipped-namespaces", "warning", "away"),
        (UNEVALUATED, "policies", "failed", "GangPolicy p: no worker"),
        (CHANGED_SINCE, "policies", "ok", "GangPolicy p: gangctl has not loaded it yet"),
        (NO_LEASE, "gangctl-leader", "unknown", ""),
        (EARLY, "webhook-order", "warning", "a-kueue, gangctl-gangs"),
        (NOT_READY, "gangctl-replicas", "failed", "0 ready endpoints"),
        (PLAIN, "kueue-configuration", "unknown", ""),
        ({f"{KUEUE}/v1beta2/clusterqueues": []}, "kueue-queues", "warning", "does not exist; create it"),
        ({f"{KUEUE}/v1beta2/clusterqueues": FORBIDDEN}, "kueue-queues", "unknown", ""),
    ],
)
async def test_a_difference_in_the_installation_is_found(
    changed: dict[str, Any] | Callable[[], dict[str, Any]], check: str, verdict: str, word: str, tmp_path: Path
) -> None:
    # What is so many seconds old is so when the test runs, not when tests are collected.
    change = changed() if callable(changed) else changed
    answer = await doctor(tmp_path, {**installed(), **change}, "--only", check)
    seen = found(answer, check)
    assert seen[0] == verdict, answer.json
    assert word in " ".join(seen[1])


@pytest.mark.parametrize("scheduling", [True, False])
async def test_a_jobset_controller_with_gang_scheduling_is_reported(tmp_path: Path, *, scheduling: bool) -> None:
    """The name of the schema is that of real API servers: JobSet 0.12 on Kubernetes 1.37."""
    spec: Object = {"properties": {"suspend": {}, **({"scheduling": {}} if scheduling else {})}}
    schemas = {"io.x-k8s.jobset.v1alpha2.JobSet": {"properties": {"spec": spec}}}
    document = {"components": {"schemas": schemas}}
    answers = {**installed(), "/openapi/v3/apis/jobset.x-k8s.io/v1alpha2": document}
    answer = await doctor(tmp_path, answers, "--only", "jobset-api")
    assert ("spec.scheduling" in " ".join(found(answer, "jobset-api")[1])) is scheduling


async def test_the_namespace_of_gangctl_can_be_given(tmp_path: Path) -> None:
    answers = installed()
    answers["/apis/coordination.k8s.io/v1/namespaces/ops/leases"] = answers.pop(LEASES)
    answer = await doctor(tmp_path, answers, "--only", "gangctl-leader", "--gangctl-namespace", "ops")
    assert found(answer, "gangctl-leader")[0] == "ok"


@each("words", [["--shards=3"], ["--shards", "3"]])
@each("may_list", [True, False])
async def test_each_shard_is_checked_even_without_the_right_to_list_leases(
    words: list[str], may_list: bool, tmp_path: Path
) -> None:
    divided = deployment("gangctl", "gangctl:0.1.0", wanted=4, ready=4)
    divided["spec"]["template"]["spec"]["containers"][0]["args"] = ["controller", *words]
    held = [lease("gangctl"), lease("gangctl-shard-1")]
    answers = {**installed(), "/apis/apps/v1/namespaces/gangctl-system/deployments": [divided]}
    answers |= {f"{LEASES}/{each['metadata']['name']}": each for each in held}
    answers[LEASES] = held if may_list else FORBIDDEN
    answer = await doctor(tmp_path, answers, "--only", "gangctl-leader")
    verdict, evidence = found(answer, "gangctl-leader")
    assert verdict == "failed"
    assert [line.partition(",")[0] for line in evidence] == [
        'shard 0: holder "gangctl-1"',
        'shard 1: holder "gangctl-1"',
        "shard 2: there is no Lease",
    ]


async def test_the_missing_right_does_not_depend_on_the_order_of_answers(tmp_path: Path) -> None:
    fast_one_answered = asyncio.Event()

    async def slow() -> object:
        await fast_one_answered.wait()
        return FORBIDDEN

    async def fast() -> object:
        fast_one_answered.set()
        return FORBIDDEN

    for answers in ((slow, fast), (fast, slow)):
        fast_one_answered.clear()
        plurals = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
        changed = {f"{REGISTRATION}/{plural}": each for plural, each in zip(plurals, answers, strict=True)}
        answer = await doctor(tmp_path, {**installed(), **changed}, "--only", "gangctl-webhooks")
        assert answer.json["checks"][0]["message"] == f"no right to {REGISTRATION}/mutatingwebhookconfigurations"


async def test_a_server_that_fails_halfway_is_one_error(tmp_path: Path) -> None:
    answers = installed()
    answers[f"{REGISTRATION}/mutatingwebhookconfigurations"] = {"items": "nonsense", "metadata": {}}
    answers["/apis/apps/v1/namespaces/gangctl-system/deployments"] = [
        {"metadata": {"name": "x"}, "spec": {"template": 3}}
    ]
    answer = await doctor(tmp_path, answers)
    assert (answer.code, "Traceback" in answer.err, "internal error" in answer.err) == (1, False, False)
