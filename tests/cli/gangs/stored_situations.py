"""Situations made of stored objects: those that no real control plane here can produce, and rights that users lack."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from gangctl.gang.reasons import Reason
from gangctl.readiness.causes.context import Command
from tests.cli.gangs import dump
from tests.cli.gangs.dump import AT, GROUP_OF_SWEEP, WAITS, Object
from tests.cli.kueueobjects import CONFIGURATION, LONG_AGO, QUEUE, condition
from tests.cli.kueueserver import config_map

NODES: Final = "nodes"
CLUSTER_QUEUES: Final = "clusterqueues.kueue.x-k8s.io"
_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?Z")
_BUG: Final = "a defect of Kueue, which cannot be produced at will"


@dataclass(frozen=True)
class Stored:
    """One way to a cause, and what that suggests. ``first`` is whether the cause is named before all others.

    ``code`` is the exit code of the command, ``shows`` a part of its output, if not the name of the object that it is
    about. ``forbidden`` are resources that the user may not read.
    """

    id: str
    reason: Reason
    how: str
    command: Command
    objects: Callable[[], list[Object]]
    code: int
    shows: str
    forbidden: tuple[str, ...]
    first: bool


STORED: Final[list[Stored]] = []


def stored(
    reason: Reason,
    how: str,
    command: Command,
    *,
    code: int = 0,
    shows: str = "",
    forbidden: tuple[str, ...] = (),
    first: bool = True,
) -> Callable[[Callable[[], list[Object]]], Callable[[], list[Object]]]:
    """Take a function in, by its name."""

    def take(objects: Callable[[], list[Object]]) -> Callable[[], list[Object]]:
        STORED.append(Stored(objects.__name__, reason, how, command, objects, code, shows, forbidden, first))
        return objects

    return take


def up_to_date(found: Iterable[Object]) -> list[Object]:
    """The same objects, as if the dump had been written just now."""
    late = datetime.now(UTC) - datetime.fromisoformat(AT)

    def moved(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: moved(each) for key, each in value.items()}
        if isinstance(value, list):
            return [moved(each) for each in value]
        if isinstance(value, str) and (time := _TIME.fullmatch(value)):
            return (datetime.fromisoformat(f"{time[1]}Z") + late).strftime("%Y-%m-%dT%H:%M:%SZ")
        return value

    return [moved(each) for each in found]


def find(found: Iterable[Object], kind: str, name: str = WAITS) -> Object:
    """One of the objects."""
    return next(each for each in found if (each["kind"], each["metadata"]["name"]) == (kind, name))


def without(found: Iterable[Object], *gone: Object) -> list[Object]:
    """The others."""
    return [each for each in found if all(each is not other for other in gone)]


def without_pods(found: list[Object]) -> list[Object]:
    """Without those of the waiting gang."""
    return without(found, *dump.pods_of(found, WAITS))


@stored(Reason.NOT_GANGED, "JobSet without pods: all replicas 0", Command.PLAN, shows="GangEmpty")
def no_replicas() -> list[Object]:
    found = without_pods(dump.objects())
    (rj,) = find(found, "JobSet")["spec"]["replicatedJobs"]
    rj["replicas"] = 0
    del rj["template"]["metadata"]
    return without(found, find(found, "Job", f"{WAITS}-workers-0"))


@stored(
    Reason.NAME_CONFLICT, "PodGroup of another owner, whose deletion waits for the gang's own pods", Command.SUSPEND
)
def kept_by_its_pods() -> list[Object]:
    found = dump.objects()
    metadata = find(found, "PodGroup", GROUP_OF_SWEEP)["metadata"]
    metadata["ownerReferences"][0]["uid"] = "another"
    metadata |= {"deletionTimestamp": AT, "finalizers": ["scheduling.k8s.io/podgroup-protection"]}
    # What JobSet's webhook sets, and a patch must not change.
    (rj,) = find(found, "JobSet")["spec"]["replicatedJobs"]
    rj["groupName"] = "default"
    rj["template"]["spec"]["template"]["metadata"] = {}
    return found


@stored(Reason.NAME_CONFLICT, "the same of a JobSet that Kueue has admitted, and would resume", Command.DEACTIVATE)
def kept_by_pods_that_kueue_admitted() -> list[Object]:
    found = kept_by_its_pods()
    find(found, "JobSet")["metadata"]["labels"] = {QUEUE: "q"}
    admitted = waits(condition("QuotaReserved"), condition("Admitted"))
    return [*found, *(one for one in admitted if one["apiVersion"].startswith("kueue"))]


@stored(Reason.PODS_MISSING, "JobSet whose controller has made no Job", Command.DESCRIBE_JOBSET)
def no_jobs() -> list[Object]:
    found = without_pods(dump.objects())
    del find(found, "PodGroup", GROUP_OF_SWEEP)["status"]
    return without(found, find(found, "Job", f"{WAITS}-workers-0"))


def deleted(*finalizers: str) -> list[Object]:
    """The JobSet is being deleted, and has no pods any more."""
    found = without_pods(dump.objects())
    find(found, "JobSet")["metadata"] |= {"deletionTimestamp": "2026-11-21T15:00:00Z", "finalizers": list(finalizers)}
    return found


@stored(Reason.PODS_TERMINATING, "JobSet deleted in the foreground whose Jobs stay", Command.JOBS, shows=WAITS)
def jobs_that_stay() -> list[Object]:
    found = deleted("foregroundDeletion")
    find(found, "Job", f"{WAITS}-workers-0")["metadata"]["finalizers"] = ["example.com/cleanup"]
    return found


@stored(Reason.PODS_TERMINATING, "JobSet deleted with a finalizer that no controller removes", Command.DESCRIBE_JOBSET)
def finalizer_that_stays() -> list[Object]:
    return deleted("example.com/cleanup")


@stored(Reason.PODS_TERMINATING, "pod that does not end, and that its Job does not replace", Command.DESCRIBE_POD)
def pod_that_does_not_end() -> list[Object]:
    found = dump.objects()
    find(found, "PodGroup", GROUP_OF_SWEEP)["status"]["conditions"][0] |= {"status": "True", "reason": "Scheduled"}
    pods = dump.pods_of(found, WAITS)
    for pod in pods:
        dump.ready(pod)
    pods[0]["metadata"] |= {
        "deletionTimestamp": "2026-11-21T15:00:00Z",
        "deletionGracePeriodSeconds": 30,
        "finalizers": ["batch.kubernetes.io/job-tracking"],
    }
    return found


def ended(reason: str, code: int) -> list[Object]:
    """The containers of a placed gang have ended, and were not restarted."""
    found = dump.objects()
    find(found, "PodGroup", GROUP_OF_SWEEP)["status"]["conditions"][0] |= {"status": "True", "reason": "Scheduled"}
    for pod in dump.pods_of(found, WAITS):
        dump.ready(pod)
        pod["status"]["conditions"][1]["status"] = "False"
        state = {"terminated": {"exitCode": code, "reason": reason, "finishedAt": AT}}
        pod["status"]["containerStatuses"] = [
            {"name": "main", "image": "none", "imageID": "", "ready": False, "restartCount": 0, "state": state}
        ]
    return found


@stored(
    Reason.CRASH_LOOP,
    "containers that have ended, and were not restarted",
    Command.ENDED_LOGS,
    shows="error: the server could not find the requested resource",
)
def ended_containers() -> list[Object]:
    return ended("OOMKilled", 137)


@stored(Reason.CRASH_LOOP, "containers whose program cannot be started, so that there is no log", Command.DESCRIBE_POD)
def containers_without_a_program() -> list[Object]:
    return ended("StartError", 128)


def rejected() -> list[Object]:
    """A pod of a placed gang that the kubelet of its node did not admit; its Job has not made another one."""
    objects = ended("Error", 1)
    first = min(dump.pods_of(objects, WAITS), key=lambda pod: str(pod["metadata"]["name"]))
    for pod in dump.pods_of(objects, WAITS):
        dump.ready(pod)
    first["status"] = {
        "phase": "Failed",
        "reason": "UnexpectedAdmissionError",
        "message": "Pod was rejected: Allocate failed due to no healthy devices present, which is unexpected",
        "startTime": AT,
        "conditions": first["status"]["conditions"][:1],
    }
    return objects


@stored(Reason.NODE_UNHEALTHY, "pod that the kubelet of its node did not admit", Command.DESCRIBE_NODE)
def rejected_pod() -> list[Object]:
    return rejected()


@stored(
    Reason.NODE_UNHEALTHY,
    "the same for a user without the right to read nodes",
    Command.DESCRIBE_POD,
    forbidden=(NODES,),
)
def rejected_pod_for_a_user() -> list[Object]:
    return rejected()


@stored(Reason.UNSCHEDULABLE, "user without the right to read nodes", Command.DESCRIBE_POD, forbidden=(NODES,))
def nodes_forbidden() -> list[Object]:
    return dump.objects()


@stored(
    Reason.UNSCHEDULABLE,
    "option topologyKey, user without the right to read nodes",
    Command.DESCRIBE_POD,
    forbidden=(NODES,),
)
def nodes_with_racks_forbidden() -> list[Object]:
    short = "0/2 nodes are available: 2 Insufficient cpu."
    return in_racks(f"0/2 placements are available, first placement status: {short}")


@stored(Reason.TOPOLOGY_TOO_SMALL, "option topologyKey with a label that no node has", Command.NODE_LABELS)
def no_racks() -> list[Object]:
    found = in_racks("no feasible placements found")
    for pod in dump.pods_of(found, WAITS):
        # Before an autoscaler could have added the first node of a rack.
        pod["status"]["conditions"][0]["lastTransitionTime"] = "2026-11-21T14:50:00Z"
    return found


def in_racks(message: str) -> list[Object]:
    found = dump.objects()
    constraints = {"topology": [{"key": "rack"}]}
    find(found, "PodGroup", GROUP_OF_SWEEP)["spec"]["schedulingConstraints"] = constraints
    for pod in dump.pods_of(found, WAITS):
        pod["status"]["conditions"][0]["message"] = message
    return found


def waits(*conditions: Object, **spec: Any) -> list[Object]:
    """The gang in its queue, with a Workload of Kueue in these conditions."""
    return dump.queued(dump.queued_workload(*conditions, **spec), cpu="100")


def pending(reason: str = "Pending") -> Object:
    """Kueue's condition of what holds no quota."""
    return condition("QuotaReserved", False, reason, "insufficient quota for cpu")


@stored(
    Reason.SUSPENDED,
    "snapshot of the moment between admission by Kueue and the start of the JobSet",
    Command.QUEUED_WORKLOAD,
)
def admitted_and_suspended() -> list[Object]:
    return waits(condition("QuotaReserved", since=AT), condition("Admitted", since=AT))


@stored(
    Reason.FAILED_TO_START,
    "snapshot; not with a real Kueue, which resumes what it admits within a second",
    Command.QUEUED_WORKLOAD,
)
def admitted_and_not_resumed() -> list[Object]:
    return waits(condition("QuotaReserved"), condition("Admitted"))


@stored(Reason.SUSPENDED, "suspended JobSet that a TrainJob controls", Command.DESCRIBE_JOBSET)
def suspended_by_its_owner() -> list[Object]:
    found = without_pods(dump.objects())
    jobset = find(found, "JobSet")
    owner = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": WAITS, "uid": "its-trainjob"}
    jobset["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    jobset["spec"]["suspend"] = True
    return found


@stored(Reason.QUEUE_BLOCKED, "Workload that Kueue finds inadmissible in an open queue", Command.QUEUED_WORKLOAD)
def inadmissible() -> list[Object]:
    return waits(condition("QuotaReserved", False, "Inadmissible", "the podset has no resources"))


@stored(
    Reason.QUEUE_CONFLICT,
    "label of the pods that Kueue also writes, on a gang that waits for quota",
    Command.DESCRIBE_JOBSET,
)
def conflicting() -> list[Object]:
    found = waits(pending())
    (rj,) = find(found, "JobSet")["spec"]["replicatedJobs"]
    metadata = rj["template"]["spec"]["template"].setdefault("metadata", {})
    metadata.setdefault("labels", {})["kueue.x-k8s.io/podset"] = "another"
    return found


@stored(
    Reason.WAITING_FOR_QUOTA,
    "JobSet that was just created, before Kueue has made its Workload",
    Command.QUEUE,
    shows="q",
)
def just_created() -> list[Object]:
    found = dump.queued(cpu="100")
    find(found, "JobSet")["metadata"]["creationTimestamp"] = AT
    return found


@stored(
    Reason.WAITING_FOR_QUOTA,
    "the same for a user without the right to read ClusterQueues",
    Command.LOCAL_QUEUES,
    shows="q",
    forbidden=(CLUSTER_QUEUES,),
)
def just_created_for_a_user() -> list[Object]:
    return just_created()


@stored(
    Reason.WAITING_FOR_QUOTA,
    "user without the right to read ClusterQueues",
    Command.QUEUED_WORKLOAD,
    forbidden=(CLUSTER_QUEUES,),
)
def queues_forbidden() -> list[Object]:
    return waits(pending())


@stored(
    Reason.WAITING_FOR_CHECK,
    "snapshot of the moment between the last check of a Workload and its admission",
    Command.QUEUED_WORKLOAD,
)
def no_check_left() -> list[Object]:
    return waits(condition("QuotaReserved"))


@stored(
    Reason.QUEUE_BACKOFF,
    "snapshot; not with a real Kueue: the wait after a late start is EvictedAsNotReady",
    Command.QUEUED_WORKLOAD,
)
def backed_off() -> list[Object]:
    found = waits(
        pending(), condition("Evicted", reason="AdmissionCheck"), condition("Requeued", False, "AdmissionCheck")
    )
    workload = next(each for each in found if each["kind"] == "Workload" and "kueue" in each["apiVersion"])
    workload["status"]["requeueState"] = {"count": 1, "requeueAt": AT}
    return found


@stored(
    Reason.QUEUE_BACKOFF,
    "snapshot; not with a real Kueue: an eviction takes less than a second",
    Command.QUEUED_WORKLOAD,
)
def evicting() -> list[Object]:
    return waits(condition("QuotaReserved"), condition("Evicted", reason="AdmissionCheck", since=AT))


@stored(
    Reason.PREEMPTED, "snapshot; not with a real Kueue: an eviction takes less than a second", Command.QUEUED_WORKLOAD
)
def evicting_for_another() -> list[Object]:
    return waits(condition("QuotaReserved"), condition("Evicted", reason="Preempted", since=AT))


@stored(
    Reason.PODS_NOT_READY,
    "snapshot; by design reported after the cause that keeps pods from being ready, which real clusters have",
    Command.QUEUED_WORKLOAD,
    first=False,
)
def not_all_ready() -> list[Object]:
    found = dump.objects()
    find(found, "JobSet")["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "q"}
    workload = dump.queued_workload(condition("PodsReady", False), held={"f": {"cpu": "6"}})
    queues = [each for each in dump.queued() if "kueue" in each["apiVersion"]]
    return [*found, *queues, workload, config_map({**CONFIGURATION, "waitForPodsReady": {"timeout": "5m"}})]


@stored(Reason.EVICTED_HOLDS_QUOTA, f"snapshot; not with a real Kueue: {_BUG}", Command.QUEUED_WORKLOAD)
def evicted_with_quota() -> list[Object]:
    return waits(condition("QuotaReserved"), condition("Evicted", reason="Preempted"))


@stored(Reason.FAILED_CHECK_WITHOUT_QUOTA, f"snapshot; not with a real Kueue: {_BUG}", Command.QUEUED_WORKLOAD)
def failed_check() -> list[Object]:
    found = waits(pending())
    workload = next(each for each in found if each["kind"] == "Workload" and "kueue" in each["apiVersion"])
    workload["status"]["admissionChecks"] = [
        {"name": "capacity", "state": "Retry", "lastTransitionTime": LONG_AGO, "message": "no"}
    ]
    return found


@stored(
    Reason.FRAMEWORK_NOT_ENABLED,
    "snapshot; not with a real Kueue: the tests register Kueue's webhooks for JobSets, and it would not serve them",
    Command.QUEUE,
    shows="q",
)
def no_framework() -> list[Object]:
    return [*dump.queued(cpu="100"), config_map({**CONFIGURATION, "integrations": {"frameworks": ["batch/job"]}})]


@stored(
    Reason.WORKLOAD_MISSING,
    "snapshot; not with a real Kueue: JobSets cannot be created while it is down",
    Command.QUEUE,
    shows="q",
)
def no_workload() -> list[Object]:
    return dump.queued(cpu="100")


@stored(
    Reason.WORKLOAD_MISSING,
    "the same for a user without the right to read ClusterQueues",
    Command.LOCAL_QUEUES,
    shows="q",
    forbidden=(CLUSTER_QUEUES,),
)
def no_workload_for_a_user() -> list[Object]:
    return no_workload()
