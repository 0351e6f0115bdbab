"""Every check, with a situation that it has to find, and one that is nearly the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangctl.api.meta import SKIP_LABEL
from gangctl.cli.doctor.canary import Canary
from gangctl.cli.doctor.check import CheckVerdict, overall
from gangctl.cli.doctor.checks import CHECKS, installed
from gangctl.cli.doctor.checks.gangs import Leaving, ReadGangs, ScarceQuota
from gangctl.cli.doctor.checks.installed import Deployment
from gangctl.cli.doctor.checks.jobset import DryRun
from gangctl.cli.doctor.checks.kubernetes import PodField, Right
from gangctl.cli.doctor.checks.presence import Lease
from gangctl.cli.doctor.checks.webhooks import JobPolicy
from gangctl.cli.doctor.cluster import UnseenError
from gangctl.gang.generation import ServedVersion
from gangctl.gang.reasons import Reason
from gangctl.kueue.configuration import KueueConfiguration
from gangctl.kueue.objects import AdmissionCheck, ClusterQueue, Condition, LocalQueue
from gangctl.readiness.result import Cause
from gangctl.runtime.shards import lease_names
from gangctl.webhooks.configurations import AGAIN
from tests.cli.doctor.health import (
    HEALTHY,
    JOBSET_SERVICE,
    NOT_READ,
    NOW,
    SERVICE,
    TORN,
    WHOLE,
    Object,
    asked,
    edited,
    foreign,
    gangpolicy,
    healthy,
    jobset,
    managed,
    others,
    own,
    pod,
    served,
)
from tests.rows import each

IDS: Final = [check.id for check in CHECKS]
OK, WARNING, FAILED, UNKNOWN = CheckVerdict.OK, CheckVerdict.WARNING, CheckVerdict.FAILED, CheckVerdict.UNKNOWN
DENIED: Final = 'admission webhook "{}.gangctl.dev" denied the request: no'
NOTHING_SERVED: Final = served(v1=["priorityclasses"])
OF_136: Final = {"served": served(v1alpha2=["workloads", "podgroups"]), "canary": NOT_READ}
OTHER_V1: Final = ServedVersion(frozenset({"workloads", "podgroups"}), ("PodGroup.spec.queue is required",))
STORED: Final = 'storage is (re)initializing: no kind "Workload" is registered for version "scheduling.k8s.io/v1alpha2"'


def troubled(reason: Reason, *, blocking: bool = True, **changed: Any) -> ReadGangs:
    """A gang with a cause."""
    return ReadGangs(
        "in the cluster",
        1,
        (Cause(reason, "t/js: so", evidence=("as seen",), remedy="do it", command="kubectl x", blocking=blocking),),
        **changed,
    )


def inactive(message: str = "no controller") -> tuple[AdmissionCheck, ...]:
    return (AdmissionCheck("gang", "gangctl.dev/gang-ready", active=Condition(status=False, message=message)),)


def shut() -> ClusterQueue:
    return ClusterQueue("cq", selector=(), active=Condition(status=False, reason="FlavorNotFound", message="no flavor"))


def unready(reason: str) -> Object:
    """A policy that is not evaluated."""
    return gangpolicy("False", reason)


def in_force(part: str) -> Object:
    """A policy with rules or defaults that gangctl evaluates."""
    return {**gangpolicy("True", "InForce"), "spec": {part: [{}]}}


POLICED: Final = (*own(), foreign("ValidatingWebhookConfiguration", "gangctl-policies", SERVICE))


def limited(hard: int, used: int, lacking: int, lacking_next: int) -> ScarceQuota:
    """A ResourceQuota on PodGroups."""
    return ScarceQuota("t", "q", "podgroups.scheduling.k8s.io", hard, used, lacking, lacking_next)


@each(("age", "words"), [(3, "good for 12 s more"), (16, "expired 1 s ago")])
def test_evidence_of_a_lease_has_the_time_that_is_left(age: int, words: str) -> None:
    lease = Lease("a", int(NOW) - age, 15)
    assert lease.text(NOW) == f'holder "a", renewed {age} s ago, {words}'


ALIVE: Final = Lease("a", int(NOW) - 1, 15)
DEAD: Final = Lease("a", int(NOW) - 99, 15)


def sharded(shards: int, *leases: Lease) -> dict[str, Any]:
    """A gangctl with so many shards, and Leases of the first of them."""
    divided = Deployment("gangctl-system", "gangctl", ("gangctl",), 3, 3, shards)
    return {"deployments": (divided,), "leases": dict(zip(lease_names("gangctl", len(leases)), leases, strict=True))}


NOT_INSTALLED: Final[dict[str, Any]] = {
    "configurations": tuple(others()),
    "deployments": tuple(each for each in HEALTHY[installed.deployments] if not each.is_of("gangctl")),
    "leases": {},
    "job_policy": JobPolicy(served=True),
    "dry_run": DryRun(),
    "policies": {"p": {}},
}
NEED_GANGCTL: Final = (
    *("job-groups", "gangctl-authority", "webhook-order", "gangctl-replicas", "gangctl-leader", "admission"),
    "policies",
)


def deployment(namespace: str, name: str, image: str, ready: int = 1) -> tuple[Deployment, ...]:
    return (Deployment(namespace, name, (image,), 1, ready),)


KUEUE: Final = deployment("kueue-system", "kueue-controller-manager", "registry.k8s.io/kueue/kueue:v0.19.2@sha256:a")
VIZ: Final = ("kueue-system", "kueue-kueueviz-backend", "registry.k8s.io/kueue/kueueviz-backend:v0.18.0")
JOBSET: Final = ("jobset-system", "jobset-controller-manager")
BARE: Final = (*own(), foreign("MutatingWebhookConfiguration", "jobset-m", JOBSET_SERVICE, ca_bundle=""))
NO_JOBSET: Final = {"deployments": (), "canary": NOT_READ}


UNWRITTEN: Final = JobPolicy(served=True, how="d")
UNSTAMPED: Final = Canary(jobset(stamped=False), TORN, 5.0)
UNNAMED: Final = Canary(WHOLE, jobset(pod("a", node="n", reference=""), TORN.pods[1]), 5.0)
BROKEN_GLASS: Final = {"t": {SKIP_LABEL: "true"}}


class Case(NamedTuple):
    """``changed`` facts of a healthy cluster, and the verdict of a check on them."""

    check: str
    changed: dict[str, Any]
    verdict: CheckVerdict
    word: str


CASES: Final = [
    Case("kubernetes-version", {"version": "v1.34.9"}, FAILED, "1.35 to 1.37"),
    Case("kubernetes-version", {"version": "v1.35.0-gke.1"}, OK, "1.35"),
    Case("kubernetes-version", {"version": "v1.38.0"}, WARNING, "newer"),
    Case("kubernetes-version", {"version": "nonsense"}, FAILED, "knows"),
    Case("scheduling-api", {"served": NOTHING_SERVED}, FAILED, "serves no Workloads"),
    Case("scheduling-api", {"served": served(v1alpha3=["workloads", "podgroups"])}, FAILED, "v1alpha3"),
    Case("scheduling-api", {"served": served(v1beta1=["workloads"])}, FAILED, "v1beta1"),
    Case("scheduling-api", {"served": served(v1alpha1=["workloads"])}, OK, "v1alpha1"),
    Case("scheduling-api", {"served": served(v1=["workloads", "podgroups"])}, OK, "scheduling.k8s.io/v1"),
    Case("scheduling-api", {"served": {"v1": OTHER_V1}}, FAILED, "PodGroup.spec.queue is required"),
    Case(
        "scheduling-api",
        {"served": {"v1": OTHER_V1, **served(v1beta1=["workloads", "podgroups"])}},
        WARNING,
        "v1beta1: scheduling.k8s.io/v1 is served with other fields",
    ),
    Case("pod-field", {"pod_field": PodField("schedulingGroup", kept=False, how="d")}, FAILED, "drops"),
    Case("pod-field", {"served": NOTHING_SERVED}, FAILED, "no group can exist"),
    Case("job-groups", {"served": NOTHING_SERVED}, UNKNOWN, "no gang can be made"),
    Case("job-groups", {"job_policy": UNWRITTEN}, WARNING, "although the cluster serves"),
    Case("job-groups", {"job_policy": UNWRITTEN, **managed("t")}, WARNING, "although the cluster serves"),
    Case("job-groups", {"job_policy": UNWRITTEN, **managed("other")}, WARNING, "not served by gangctl"),
    Case("job-groups", {"job_policy": UNWRITTEN, "namespace_labels": BROKEN_GLASS}, WARNING, "not served by gangctl"),
    Case("job-groups", {"job_policy": JobPolicy(served=False), **managed("other")}, OK, "gangctl's webhook writes"),
    Case("job-groups", {"job_policy": JobPolicy(served=False)}, OK, "gangctl's webhook writes the group"),
    Case("job-groups", {"job_policy": UNWRITTEN, "configurations": ()}, FAILED, "nothing writes"),
    Case("job-groups", {"job_policy": JobPolicy(served=False), "configurations": ()}, FAILED, "nothing writes"),
    Case("job-groups", {"configurations": ()}, OK, "whether gangctl answers or not"),
    Case("gangctl-webhooks", {"configurations": (own()[0], *others())}, FAILED, "not installed"),
    Case("webhook-order", {"configurations": (own()[0], *others())}, UNKNOWN, "not installed"),
    Case(
        "pod-field",
        {"served": NOTHING_SERVED, "pod_field": PodField("schedulingGroup", kept=False, how="d")},
        OK,
        "cannot hang",
    ),
    Case("pod-field", {"pod_field": PodField("schedulingGroup", None, "schema", "create jobs")}, OK, "is kept"),
    Case(
        "pod-field",
        {"pod_field": PodField("schedulingGroup", None, "schema", "create jobs"), "gangs": ReadGangs("here", 0)},
        UNKNOWN,
        "dry run",
    ),
    Case("stored-objects", {"stored": {"workloads.scheduling.k8s.io": STORED}}, FAILED, "etcd"),
    Case("stored-objects", {"stored": {"workloads.scheduling.k8s.io": "timeout"}}, FAILED, "cannot list"),
    Case("stored-objects", {"stored": {}}, UNKNOWN, "no Workloads"),
    Case("jobset-api", {"jobset_versions": ()}, FAILED, "not served"),
    Case("jobset-api", {"jobset_versions": ("v1beta1",)}, FAILED, "v1alpha2"),
    Case("jobset-api", {"jobset_versions": ("v1beta1", "v1alpha2")}, OK, "is served"),
    Case("jobset-controller", {"deployments": deployment(*JOBSET, "jobset:v0.9.1")}, FAILED, "older"),
    Case("jobset-controller", {"deployments": deployment(*JOBSET, "jobset:v0.10.0")}, OK, "0.10"),
    Case("jobset-controller", {"deployments": deployment(*JOBSET, "jobset:v0.12.0", 0)}, FAILED, "not ready"),
    Case("jobset-controller", {"deployments": deployment("elsewhere", "jobset", "jobset:v0.9.1", 0)}, OK, "works"),
    Case(
        "jobset-controller",
        {**NO_JOBSET, "gangs": ReadGangs("here", 0, jobsets_without_status=("t/js",))},
        FAILED,
        "no JobSet has a status",
    ),
    Case(
        "jobset-controller",
        {**NO_JOBSET, "gangs": ReadGangs("here", 0, jobsets_with_status=1, jobsets_without_status=("t/js",))},
        OK,
        "works",
    ),
    Case("jobset-controller", {**NO_JOBSET, "gangs": ReadGangs("here", 0)}, UNKNOWN, "no Deployment"),
    Case("jobset-webhooks", {"configurations": tuple(own()), "dry_run": DryRun()}, FAILED, "not registered"),
    Case("jobset-webhooks", {"configurations": tuple(own())}, OK, "as in the sandbox"),
    Case(
        "jobset-webhooks",
        {
            "configurations": tuple(own()),
            "dry_run": DryRun(refusal='failed calling webhook "jobsets.gangs.gangctl.dev": refused'),
        },
        UNKNOWN,
        "refused dry run",
    ),
    Case("jobset-webhooks", {"endpoints": {SERVICE: 1, JOBSET_SERVICE: 0}}, FAILED, "do not answer"),
    Case("jobset-webhooks", {"dry_run": DryRun(stamped=True), "endpoints": NOT_READ}, WARNING, "not called"),
    Case("jobset-webhooks", {"dry_run": NOT_READ, "endpoints": NOT_READ}, UNKNOWN, "dry run"),
    Case("jobset-webhooks", {"configurations": BARE, "dry_run": NOT_READ}, WARNING, "know its authority themselves"),
    Case("jobset-webhooks", {"configurations": BARE}, OK, "registered, and answer"),
    Case("gangctl-webhooks", {"configurations": tuple(others())}, FAILED, "not installed"),
    Case("gangctl-webhooks", {"configurations": (own()[1], *others())}, FAILED, "not registered as"),
    Case(
        "gangctl-webhooks", {"configurations": edited(lambda hook: hook.update(matchConditions=[]))}, FAILED, "version"
    ),
    Case("gangctl-webhooks", {"configurations": edited(lambda hook: hook.update(name="old"))}, FAILED, "version"),
    Case(
        "gangctl-webhooks",
        {"configurations": edited(lambda hook: hook["clientConfig"]["service"].update(path="/"))},
        FAILED,
        "version",
    ),
    Case(
        "gangctl-webhooks",
        {"configurations": edited(lambda hook: hook["namespaceSelector"]["matchExpressions"].pop(0))},
        FAILED,
        "version",
    ),
    Case("gangctl-webhooks", {"configurations": edited(lambda hook: hook.update(timeoutSeconds=3))}, OK, "registered"),
    Case("gangctl-webhooks", {"configurations": (*own(failure_policy="Ignore"), *others())}, WARNING, "Ignore"),
    Case("gangctl-webhooks", {"configurations": tuple(own(excluded_namespaces=["kube-system"]))}, WARNING, "its own"),
    Case(
        "gangctl-authority",
        {"configurations": edited(lambda hook: hook["clientConfig"].pop("caBundle"))},
        WARNING,
        "only if they know its authority",
    ),
    Case(
        "gangctl-authority",
        {"configurations": edited(lambda hook: hook["clientConfig"].update(caBundle="bm90IGE="))},
        FAILED,
        "cannot trust",
    ),
    Case("gangctl-authority", {"configurations": tuple(own(-60.0))}, FAILED, "cannot trust"),
    Case("gangctl-authority", {"configurations": tuple(own(24 * 3600.0 - 60))}, WARNING, "within a day"),
    Case("gangctl-authority", {"configurations": tuple(own(24 * 3600.0 + 60))}, OK, "valid"),
    Case("gangctl-authority", {"configurations": ()}, UNKNOWN, "not installed"),
    Case(
        "webhook-order",
        {"configurations": (*own(), foreign("MutatingWebhookConfiguration", "a-kueue", None))},
        WARNING,
        "a-kueue is called before",
    ),
    Case(
        "webhook-order",
        {"configurations": (*own(), foreign("ValidatingWebhookConfiguration", "a-kueue", None))},
        OK,
        "called first",
    ),
    Case("gangctl-replicas", {"endpoints": {SERVICE: 0, JOBSET_SERVICE: 1}}, FAILED, "no replica answers"),
    Case("gangctl-replicas", {"deployments": deployment("gangctl-system", "gangctl", "g", 0)}, WARNING, "not all"),
    Case("gangctl-replicas", {"deployments": deployment("other", "gangctl", "g", 0)}, OK, "ready"),
    Case("gangctl-leader", {"leases": {"gangctl": Lease("a", int(NOW) - 16, 15)}}, FAILED, "does not renew"),
    Case("gangctl-leader", {"leases": {"gangctl": Lease("a", int(NOW) - 15, 15)}}, OK, "leads"),
    Case("gangctl-leader", {"leases": {"gangctl": Lease("", int(NOW), 15)}}, FAILED, "no replica leads"),
    Case("gangctl-leader", {"leases": {}}, UNKNOWN, "no Lease"),
    Case("gangctl-leader", sharded(2, ALIVE, ALIVE), OK, "each of 2 shards has a leader"),
    Case("gangctl-leader", sharded(2, ALIVE), FAILED, "shard 1 has no leader"),
    Case("gangctl-leader", sharded(3, DEAD, ALIVE), FAILED, "shards 0, 2 have no leader"),
    Case("gangctl-leader", sharded(1, ALIVE, DEAD), OK, "leads"),
    Case("gangctl-leader", {**sharded(2, ALIVE, DEAD), "deployments": ()}, FAILED, "shard 1 has no leader"),
    Case("gangctl-leader", {**sharded(2, ALIVE), "deployments": UnseenError("forbidden")}, OK, "leads"),
    Case("gangctl-webhooks", NOT_INSTALLED, FAILED, "gangctl is not installed here"),
    *(Case(check, NOT_INSTALLED, UNKNOWN, "skipped: gangctl is not installed here") for check in NEED_GANGCTL),
    Case("job-groups", {**NOT_INSTALLED, "job_policy": JobPolicy(served=True, writes=True)}, OK, "writes the group"),
    Case("gangctl-leader", {**NOT_INSTALLED, "leases": {"gangctl": ALIVE}}, OK, "leads"),
    Case("gangctl-leader", {**NOT_INSTALLED, "leases": {"gangctl": DEAD}}, UNKNOWN, "skipped"),
    Case("admission", {**NOT_INSTALLED, "leases": {"gangctl": ALIVE}}, FAILED, "without one"),
    Case("admission", {**NOT_INSTALLED, "deployments": UnseenError("forbidden")}, FAILED, "without one"),
    Case("admission", {**NOT_INSTALLED, "leases": UnseenError("forbidden")}, FAILED, "without one"),
    Case("admission", {**NOT_INSTALLED, "configurations": (own()[1], *others())}, FAILED, "without one"),
    Case("admission", {**NOT_INSTALLED, "dry_run": DryRun(stamped=True)}, OK, "stamps it"),
    Case(
        "policies", {**NOT_INSTALLED, "policies": {"p": unready("InvalidExpression")}}, WARNING, "1 GangPolicy cannot"
    ),
    Case("admission", {"dry_run": DryRun(refusal="no")}, FAILED, "is refused"),
    Case("admission", {"dry_run": DryRun(refusal=DENIED.format("fail.policies"))}, UNKNOWN, "a rule of this cluster"),
    Case("admission", {"dry_run": DryRun(refusal=DENIED.format("jobsets.gangs"))}, FAILED, "is refused"),
    Case("admission", {"dry_run": DryRun(refusal=f"{DENIED.format('defaults')}: {AGAIN}")}, FAILED, "is refused"),
    Case("admission", {"dry_run": DryRun()}, FAILED, "without one"),
    Case("admission", {"dry_run": DryRun(), "namespace_labels": BROKEN_GLASS}, WARNING, "not served by"),
    Case("admission", {"dry_run": DryRun(), "namespace_labels": {"t": {}}}, FAILED, "without one"),
    Case("admission", {"dry_run": DryRun(), **managed("other")}, WARNING, "not served by gangctl"),
    Case("admission", {"dry_run": DryRun(), **managed("t")}, FAILED, "without one"),
    Case("admission", {"dry_run": DryRun(), **managed("t"), "configurations": NOT_READ}, FAILED, "without one"),
    Case("policies", {"policies": {"p": unready("EvaluationUnavailable")}}, FAILED, "no process works"),
    Case("policies", {"policies": {"p": unready("InvalidExpression")}}, WARNING, "1 GangPolicy cannot"),
    Case("policies", {"policies": {}}, OK, "0 GangPolicies"),
    Case("policies", {"policies": {"p": in_force("validations")}}, FAILED, "every JobSet passes"),
    Case("policies", {"policies": {"p": in_force("validations")}, "configurations": POLICED}, OK, "1 GangPolicy, none"),
    Case("policies", {"policies": {"p": in_force("defaults")}, "configurations": POLICED}, FAILED, "every JobSet"),
    Case("policies", {"policies": {"p": in_force("defaults")}, "configurations": NOT_READ}, OK, "1 GangPolicy, none"),
    Case("skipped-namespaces", {"skipped": ("t",)}, WARNING, "1 namespace "),
    Case("scheduler-gate", {"gangs": troubled(Reason.SCHEDULING_GATE_OFF, groups_heard=9)}, FAILED, "one by one"),
    Case("scheduler-gate", {"gangs": troubled(Reason.SCHEDULER_SILENT)}, FAILED, "writes no condition"),
    # A gang that was made a moment ago: the scheduler is about to look at it.
    Case(
        "scheduler-gate",
        {"gangs": troubled(Reason.SCHEDULER_SILENT, blocking=False, groups_heard=1)},
        OK,
        "schedules groups",
    ),
    # Its pods all have nodes, and may not have been placed together.
    Case("scheduler-gate", {"gangs": troubled(Reason.SCHEDULING_GATE_OFF, blocking=False)}, FAILED, "one by one"),
    Case("scheduler-gate", {"gangs": troubled(Reason.SCHEDULER_ERROR)}, WARNING, "reports errors"),
    Case("scheduler-gate", {"gangs": troubled(Reason.UNSCHEDULABLE, groups_heard=1)}, OK, "schedules groups"),
    Case("scheduler-gate", {"gangs": ReadGangs("a", 1), "canary": NOT_READ}, UNKNOWN, "not reported on any PodGroup"),
    Case("scheduler-gate", {**OF_136, "gangs": ReadGangs("a", 1, groups_heard=1)}, UNKNOWN, "before Kubernetes 1.37"),
    Case("scheduler-gate", {"gangs": ReadGangs("here", 1)}, OK, "no pod was placed"),
    Case(
        "scheduler-gate",
        {"gangs": ReadGangs("here", 1, left_out=("list podgroups.scheduling.k8s.io",)), "canary": NOT_READ},
        UNKNOWN,
        "not everything needed was read",
    ),
    Case("exclusive-topology", {"gangs": troubled(Reason.EXCLUSIVE_TOPOLOGY_DEADLOCK)}, FAILED, "exclude each other"),
    Case("exclusive-topology", {"gangs": troubled(Reason.POD_CREATION_REFUSED)}, OK, "no gang"),
    Case("job-controller-gangs", {"job_workloads": ("t/w of Job j",)}, WARNING, "Job controller"),
    Case("priorities", {"gangs": troubled(Reason.PRIORITY_MISMATCH)}, FAILED, "another priority"),
    Case("priorities", {"gangs": troubled(Reason.PREEMPTED)}, OK, "all pods have"),
    Case("terminating-groups", {"leaving": (Leaving("t/g", int(NOW) - 301, ("f",)),)}, FAILED, "hang"),
    Case("terminating-groups", {"leaving": (Leaving("t/g", int(NOW) - 300, ("f",)),)}, OK, "hangs in deletion"),
    Case("object-quotas", {"quotas": (limited(2, 1, 1, 1), limited(3, 1, 1, 1))}, WARNING, "no room"),
    Case("object-quotas", {"quotas": (limited(3, 1, 1, 1), limited(1, 1, 0, 0))}, OK, "have room"),
    Case("gangs-in-name-only", {"gangs": troubled(Reason.NOT_GANGED)}, WARNING, "are none"),
    Case("gangs-in-name-only", {"gangs": troubled(Reason.NOT_GANGED, blocking=False)}, WARNING, "are none"),
    Case("gangs-in-name-only", {"gangs": troubled(Reason.POD_GROUP_MISSING, blocking=False)}, OK, "whole"),
    Case("gangs-in-name-only", {"gangs": troubled(Reason.SUSPENDED)}, OK, "whole"),
    Case("kueue-api", {"kueue_versions": ("v1beta1",)}, FAILED, "not served"),
    Case("kueue-api", {"kueue_versions": ()}, OK, "not installed"),
    Case("kueue-api", {"deployments": deployment("kueue-system", "kueue", "kueue:v0.18.9")}, WARNING, "older"),
    Case("kueue-api", {"deployments": deployment("kueue-system", "kueue", "kueue:v0.19.0")}, OK, "0.19"),
    Case("kueue-api", {"deployments": deployment("kueue-system", "kueue", "kueue:v0.19.0", 0)}, FAILED, "not ready"),
    # Its dashboard, which may be scaled down.
    Case("kueue-api", {"deployments": (*KUEUE, *deployment(*VIZ, 0))}, OK, "0.19"),
    Case("kueue-api", {"deployments": deployment("kueue-system", "kueue", "own/kueue-rhel9@sha256:a", 0)}, FAILED, ""),
    Case("kueue-configuration", {"kueue_configuration": KueueConfiguration()}, FAILED, "does not manage"),
    Case(
        "kueue-configuration", {"kueue_configuration": KueueConfiguration(), "kueue_versions": ()}, OK, "not installed"
    ),
    Case(
        "kueue-configuration",
        {"kueue_configuration": KueueConfiguration(known=False, unreadable="gone")},
        UNKNOWN,
        "gone",
    ),
    Case("kueue-queues", {"queues": ((LocalQueue("t", "q", "cq"), None),)}, WARNING, "of 1 LocalQueue admits"),
    Case(
        "kueue-queues", {"queues": ((LocalQueue("t", "q", "cq", "Hold"), None),)}, OK, "0 LocalQueues open, 1 stopped"
    ),
    Case("kueue-queues", {"queues": ((LocalQueue("t", "q", "cq"), shut()),)}, WARNING, "of 1 LocalQueue admits"),
    Case("kueue-checks", {"kueue_checks": inactive()}, FAILED, "not active"),
    Case(
        "kueue-checks", {"kueue_checks": (replace(inactive()[0], controller="other"),)}, OK, "no AdmissionCheck waits"
    ),
    Case("rights", {"rights": (Right("list", "pods", "t", "get", allowed=False),)}, WARNING, "1 of 1"),
    Case("canary-admission", {"canary": Canary(jobset(refusal="no"), TORN, 5.0)}, FAILED, "not be created"),
    Case("canary-admission", {"canary": UNSTAMPED}, FAILED, "without a stamp"),
    Case("canary-admission", {"canary": UNSTAMPED, **managed("other")}, WARNING, "not served by gangctl"),
    Case("canary-groups", {"canary": Canary(jobset(*WHOLE.pods, groups=()), TORN, 5.0)}, FAILED, "were not made"),
    Case("canary-groups", {"canary": Canary(jobset(WHOLE.pods[0]), TORN, 5.0)}, FAILED, "1 of 2 pods"),
    Case("canary-groups", {"canary": Canary(jobset(suspended=True), TORN, 5.0)}, UNKNOWN, "suspended"),
    Case("canary-groups", {"canary": Canary(jobset(denied="exceeded quota"), TORN, 5.0)}, UNKNOWN, "a rule of this"),
    Case(
        "canary-groups",
        {"canary": Canary(jobset(pod("a", reference=""), WHOLE.pods[1]), TORN, 5.0)},
        FAILED,
        "do not name",
    ),
    Case("canary-scheduled", {"canary": Canary(jobset(pod("a", node="n"), pod("b")), TORN, 5.0)}, FAILED, "one pod"),
    Case("canary-scheduled", {"canary": Canary(jobset(pod("a"), pod("b")), TORN, 5.0)}, FAILED, "no pod"),
    Case(
        "canary-all-or-nothing",
        {"canary": Canary(WHOLE, jobset(pod("a", node="n"), TORN.pods[1]), 5.0)},
        FAILED,
        "ignores groups",
    ),
    Case("canary-all-or-nothing", {"canary": UNNAMED}, FAILED, "name no group"),
    Case("canary-all-or-nothing", {"canary": UNNAMED, **managed("other")}, WARNING, "not served by gangctl"),
    Case("scheduler-gate", {"gangs": ReadGangs("here", 1), "canary": UNNAMED, **managed("other")}, WARNING, "served"),
    Case("canary-all-or-nothing", {"canary": Canary(jobset(pod("a"), pod("b")), TORN, 5.0)}, UNKNOWN, "pods that fit"),
    Case(
        "canary-all-or-nothing",
        {"canary": Canary(WHOLE, jobset(pod("a"), pod("b")), 5.0)},
        UNKNOWN,
        "written no condition",
    ),
    Case("canary-cleanup", {"canary": Canary(WHOLE, TORN, 5.0, ("Pod t/a",))}, FAILED, "not everything"),
]


@each("check", IDS)
def test_a_healthy_cluster_passes_every_check(check: str) -> None:
    outcome = asked(check, healthy())
    assert (outcome.verdict, outcome.remedy, outcome.command) == (OK, "", ""), outcome


def test_commands_are_about_the_namespaces_of_gangctl_and_kueue() -> None:
    for lasts in (-60.0, 60.0):
        outcome = asked("gangctl-authority", healthy(configurations=tuple(own(lasts)), gangctl_namespace="platform"))
        assert outcome.command == "kubectl -n platform logs deploy/gangctl"
    queues = healthy(kueue_configuration=KueueConfiguration())
    queues.kueue_namespace = "queues"
    assert asked("kueue-configuration", queues).command == "kubectl -n queues edit configmap kueue-manager-config"


@each("case", CASES, ids=[f"{case.check}-{n}" for n, case in enumerate(CASES)])
def test_a_check_has_the_verdict_for_a_situation(case: Case) -> None:
    outcome = asked(case.check, healthy(**case.changed))
    assert outcome.verdict is case.verdict, outcome
    assert case.word in outcome.message
    if case.verdict in {WARNING, FAILED}:
        assert outcome.remedy, "what fails says what to do"


def test_every_check_can_fail() -> None:
    assert {case.check for case in CASES if case.verdict in {WARNING, FAILED}} == set(IDS)


def test_every_check_has_a_name_of_its_own() -> None:
    assert len(set(IDS)) == len(IDS)


@each("check", IDS)
def test_a_forbidden_fact_makes_a_check_unknown_and_names_the_right(check: str) -> None:
    hidden = UnseenError("forbidden", "list things in namespace t")
    outcome = asked(check, healthy(**{read.__name__: hidden for read in HEALTHY}))
    assert outcome.verdict is UNKNOWN
    assert outcome.message == "you may not list things in namespace t"
    assert "list things in namespace t" in outcome.remedy


def test_a_gangctl_outside_of_the_cluster_passes() -> None:
    found = own()
    for item in found:
        for webhook in item["webhooks"]:
            path = webhook["clientConfig"].pop("service")["path"]
            webhook["clientConfig"]["url"] = f"https://127.0.0.1:9443{path}"
    facts = healthy(configurations=(*found, *others()))
    assert asked("gangctl-webhooks", facts).verdict is OK
    replicas = asked("gangctl-replicas", facts)
    assert (replicas.verdict, replicas.evidence) == (UNKNOWN, ("URL https://127.0.0.1:9443",))


@pytest.mark.parametrize("image", ["jobset:v0.11.2", "jobset:v0.10.0"])
def test_a_jobset_controller_that_drops_the_reference_is_reported(image: str) -> None:
    outcome = asked("jobset-controller", healthy(deployments=deployment(*JOBSET, image)))
    assert outcome.verdict is OK
    assert "webhook for Jobs puts it back" in outcome.evidence[-1]


def test_evidence_is_single_bounded_lines() -> None:
    long = Cause(Reason.NOT_GANGED, "t/js: x\x1b[2J" + "y" * 9999, evidence=("a\nb",) * 40, remedy="do")
    outcome = asked("gangs-in-name-only", healthy(gangs=ReadGangs("here", 1, (long,) * 40)))
    assert all(line.isprintable() and len(line) <= 600 for line in outcome.evidence)
    assert len(outcome.evidence) <= 8


@given(st.lists(st.sampled_from(CheckVerdict), max_size=8))
def test_the_overall_verdict_is_the_worst(verdicts: list[CheckVerdict]) -> None:
    worst = overall(verdicts)
    ranked = [each for each in (FAILED, WARNING, OK) if each in verdicts]
    assert worst is (ranked[0] if ranked else UNKNOWN)
