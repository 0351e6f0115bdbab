"""What is read of a cluster in which everything was installed by manifests: objects become facts."""

from __future__ import annotations

import asyncio
import copy
import time
from collections import Counter
from collections.abc import Callable
from email.utils import formatdate
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from aiohttp import web

from gangctl.webhooks.configurations import Endpoint, WebhookSettings, build_configurations
from tests.cli.doctor.cluster import (
    FORBIDDEN,
    KUEUE,
    LEASES,
    NOT_READY,
    OWN_DEPLOYMENTS,
    QUOTAS,
    REGISTRATION,
    REVIEWS,
    SCHEDULING,
    ago,
    deployment,
    doctor,
    found,
    installed,
    lease,
    of_kind,
)
from tests.cli.doctor.health import SERVICE, Object, foreign, others
from tests.cli.httpserver import HERE
from tests.gang.pipeline import child_job, stored
from tests.jobsets import FIXTURE_UID, jobset, rj
from tests.rows import each

TENANTS: Final = Path(__file__).parents[3] / "manifests" / "tenants"


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


def ended() -> dict[str, Any]:
    """The same, whose second gang has finished, and has no group any more."""
    objects = restartable(3, "js-a")
    job = copy.deepcopy(child_job(objects["/apis/jobset.x-k8s.io/v1alpha2/jobsets"][0], 1, 0))
    job["spec"]["template"]["spec"]["schedulingGroup"] = {"podGroupName": f"js-b-{FIXTURE_UID[:13]}-0"}
    job["status"] = {"succeeded": 2, "conditions": [{"type": "Complete", "status": "True"}]}
    return {**objects, "/apis/batch/v1/jobs": [job]}


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


def selecting(team: str) -> dict[str, Any]:
    """A ClusterQueue for the namespaces of a team, and a namespace of team b."""
    queue = {"metadata": {"name": "cq"}, "spec": {"namespaceSelector": {"matchLabels": {"team": team}}}}
    namespace = {"metadata": {"name": HERE, "labels": {"team": "b"}}}
    path = "/api/v1/namespaces"
    return {f"{KUEUE}/v1beta2/clusterqueues": [queue], path: [namespace], f"{path}/{HERE}": namespace}


def refusing(message: str) -> dict[str, Any]:
    """The dry run of a Job is refused."""

    async def refuse() -> web.Response:
        status = {"kind": "Status", "reason": "Forbidden", "message": message, "code": 403}
        return web.json_response(status, status=403)

    return {f"POST /apis/batch/v1/namespaces/{HERE}/jobs": refuse}


DENIED: Final = 'admission webhook "{}" denied the request: no'
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
        (ended(), "object-quotas", "ok", "lack 0 now, and 2 for a restart"),
        (starting_together(), "object-quotas", "warning", "lack 1 now, and 1 for a restart"),
        ({QUOTAS: FORBIDDEN}, "object-quotas", "unknown", ""),
        (waiting(), "jobset-controller", "failed", f"{HERE}/js"),
        # MultiKueue writes its status, once it runs elsewhere.
        (waiting(managedBy="kueue.x-k8s.io/multikueue"), "jobset-controller", "unknown", ""),
        (NAMESPACE_SKIPPED, "skipped-namespaces", "warning", "away"),
        (UNEVALUATED, "policies", "failed", "GangPolicy p: no worker"),
        (CHANGED_SINCE, "policies", "ok", "GangPolicy p: gangctl has not loaded it yet"),
        (refusing(DENIED.format("jobs.gangs.gangctl.dev")), "job-groups", "warning", "was refused: admission webhook"),
        # These come after what names the group.
        (refusing(DENIED.format("validate.kyverno.svc-fail")), "job-groups", "unknown", ""),
        (refusing('jobs.batch "gangctl-proof" is forbidden: exceeded quota: q'), "job-groups", "unknown", ""),
        (NO_LEASE, "gangctl-leader", "unknown", ""),
        (EARLY, "webhook-order", "warning", "a-kueue, gangctl-gangs"),
        (NOT_READY, "gangctl-replicas", "failed", "0 ready endpoints"),
        (PLAIN, "kueue-configuration", "unknown", ""),
        ({f"{KUEUE}/v1beta2/clusterqueues": []}, "kueue-queues", "warning", "does not exist; create it"),
        ({f"{KUEUE}/v1beta2/clusterqueues": FORBIDDEN}, "kueue-queues", "unknown", ""),
        (selecting("a"), "kueue-queues", "warning", "does not match the labels of the namespace: team in (a)"),
        (selecting("b"), "kueue-queues", "ok", ""),
        ({**selecting("a"), "/api/v1/namespaces": FORBIDDEN}, "kueue-queues", "warning", "labels of the namespace"),
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


async def test_ages_are_those_of_the_clusters_clock(tmp_path: Path) -> None:
    """This machine is ten minutes ahead of it: the leader renewed its Lease ten minutes and five seconds ago."""

    async def behind() -> web.Response:
        date = formatdate(time.time() - 600, usegmt=True)
        return web.json_response({"gitVersion": "v1.36.3"}, headers={"Date": date})

    renewed = lease("gangctl")
    renewed["spec"] |= {"leaseDurationSeconds": 15, "renewTime": ago(605)}
    answers = {**installed(), "/version": behind, LEASES: [renewed]}
    answer = await doctor(tmp_path, answers, "--only", "gangctl-leader")
    assert found(answer, "gangctl-leader")[0] == "ok"


async def test_checks_share_a_list(tmp_path: Path) -> None:
    asked: Counter[str] = Counter()

    async def counted(plural: str) -> list[Object]:
        asked[plural] += 1
        return []

    lists = {f"{SCHEDULING}/v1alpha2/{plural}": partial(counted, plural) for plural in ("workloads", "podgroups")}
    checks = ("stored-objects", "job-controller-gangs", "terminating-groups")
    flags = [flag for check in checks for flag in ("--only", check)]
    answer = await doctor(tmp_path, {**installed(), **lists}, *flags)
    assert {item["verdict"] for item in answer.json["checks"]} == {"ok"}
    assert asked == {"workloads": 1, "podgroups": 1}


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


async def test_rights_of_queues_fits_and_policies_are_asked_for(tmp_path: Path) -> None:
    refused = {
        *("clusterqueues", "cohorts", "resourceflavors", "topologies", "workloadpriorityclasses", "admissionchecks"),
        *("configmaps", "limitranges", "runtimeclasses", "priorityclasses", "gangpolicies"),
    }
    answers = {**installed(), REVIEWS: lambda asked: asked["resource"] not in refused}
    answer = await doctor(tmp_path, answers, "--only", "rights", "--kueue-namespace", "queues")
    verdict, evidence = found(answer, "rights")
    queues = (
        "list clusterqueues.kueue.x-k8s.io cluster-wide",
        "list admissionchecks.kueue.x-k8s.io cluster-wide",
        "get configmaps/kueue-manager-config in namespace queues",
    )
    fits = (
        *(f"list {plural}.kueue.x-k8s.io cluster-wide" for plural in ("cohorts", "resourceflavors", "topologies")),
        "list workloadpriorityclasses.kueue.x-k8s.io cluster-wide",
        f"list limitranges in namespace {HERE}",
        "list runtimeclasses.node.k8s.io cluster-wide",
        "list priorityclasses.scheduling.k8s.io cluster-wide",
    )
    policies = "fit (defaults of new JobSets), policy, doctor: list gangpolicies.gangctl.dev cluster-wide"
    assert verdict == "warning"
    assert evidence == [f"queue, fit, doctor: {', '.join(queues)}", f"queue, fit: {', '.join(fits)}", policies]


async def test_with_the_roles_of_queues_no_right_of_queues_fits_and_policies_is_missing(tmp_path: Path) -> None:
    view, config = yaml.safe_load_all((TENANTS / "queues.yaml").read_text(encoding="utf-8"))

    def allowed(asked: Object) -> bool:
        """Also by Kubernetes' role view, and that of tenants: what has a namespace may be read in one's own."""
        if asked.get("namespace") == HERE:
            return asked["verb"] in {"get", "list", "watch"}
        role = config if asked.get("namespace") == "kueue-system" else view
        return any(
            asked["verb"] in rule["verbs"]
            and asked["group"] in rule["apiGroups"]
            and asked["resource"] in rule["resources"]
            and asked.get("name") in rule.get("resourceNames", [asked.get("name")])
            for rule in role["rules"]
        )

    answer = await doctor(tmp_path, {**installed(), REVIEWS: allowed}, "--only", "rights")
    commands = {line.partition(": ")[0] for line in found(answer, "rights")[1]}
    assert not [title for title in commands if "queue" in title or "policy" in title], commands


async def test_without_kueue_no_right_of_it_is_asked_for(tmp_path: Path) -> None:
    answers = {**installed(), KUEUE: None, f"{KUEUE}/v1beta2": None, REVIEWS: lambda _: False}
    evidence = " ".join(found(await doctor(tmp_path, answers, "--only", "rights"), "rights")[1])
    assert f"queue, fit: list limitranges in namespace {HERE}" in evidence
    assert "kueue.x-k8s.io" not in evidence


async def test_a_server_that_fails_halfway_is_one_error(tmp_path: Path) -> None:
    answers = installed()
    answers[f"{REGISTRATION}/mutatingwebhookconfigurations"] = {"items": "nonsense", "metadata": {}}
    answers["/apis/apps/v1/namespaces/gangctl-system/deployments"] = [
        {"metadata": {"name": "x"}, "spec": {"template": 3}}
    ]
    answer = await doctor(tmp_path, answers)
    assert (answer.code, "Traceback" in answer.err, "internal error" in answer.err) == (1, False, False)
