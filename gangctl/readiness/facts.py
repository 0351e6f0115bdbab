"""Facts of one JobSet and its objects at one point in time, from informers, a listing, or files.

The classes are small, because a controller stores 100,000 pods: equal values share one object, names of namespaces,
JobSets, groups and nodes, messages, times. Facts are read from raw pods, nodes and events of any shape. Times are Unix
seconds, 0 if there is none: Kubernetes writes whole seconds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final, TypeVar

from gangctl.api.jobset import JobSet
from gangctl.api.meta import (
    DEFAULT_SCHEDULER,
    GANG_REF,
    JOB_INDEX,
    JOBSET_NAME,
    REPLICATED_JOB_NAME,
    RESTART_ATTEMPT,
)
from gangctl.api.objects import Key, Object, condition_of, object_at, objects_at
from gangctl.api.pods import is_finished
from gangctl.api.requests import Extended, extended_requests
from gangctl.api.scheduling import ApiState, Observed, named_group
from gangctl.errors import one_line
from gangctl.gang.config import read_config
from gangctl.gang.desired import Assessment, JobProgress
from gangctl.kueue.objects import QueuedWorkload
from gangctl.kueue.queues import QueueFacts
from gangctl.readiness.autoscaling import ScaleUp, is_saying
from gangctl.readiness.containers import READINESS_GATES, containers_of, failure_of, waiting_of, was_rejected
from gangctl.readiness.onnodes import OnNodes

H = TypeVar("H", bound=Hashable)


@dataclass(frozen=True, slots=True)
class PodFacts:
    """Facts of a pod; finished ones are usually left out, because their Jobs count them."""

    namespace: str
    name: str
    jobset: str
    """Label ``jobset.sigs.k8s.io/jobset-name``."""
    replicated_job: str
    job_index: int
    attempt: int
    """JobSet restart in which it was created."""
    group: str
    """The group that it names: the PodGroup; on 1.35 ``WORKLOAD/PODGROUP/KEY``; empty for none."""
    scheduler: str
    priority: int
    created: int
    deleting: bool
    phase: str
    """``status.phase``."""
    gates: tuple[str, ...] = ()
    """Names of ``spec.schedulingGates``."""
    node: str = ""
    placed_at: int = 0
    """Last transition of condition PodScheduled to True."""
    started_at: int = 0
    """``status.startTime``: when the kubelet wrote its first status, by its clock."""
    refused: str = ""
    """Reason of condition PodScheduled while that is False: Unschedulable, SchedulerError, SchedulingGated."""
    refusal: str = ""
    """Its message; pods of one group share one string."""
    refused_at: int = 0
    ready: bool = False
    ready_at: int = 0
    """Last transition of condition Ready."""
    waiting: str = ""
    """Waiting (``ImagePullBackOff``) or termination reason (``OOMKilled``) of its first container that is not ready, or
    why it is not ready although its containers are."""
    waiting_message: str = ""
    restarts: int = 0
    """Sum over its containers."""
    ended_at: int = 0
    """When a container that has been started again ended last."""
    ran: int = 0
    """For how many seconds that container had run, 0 if unknown."""
    disrupted: str = ""
    """Reason of condition DisruptionTarget while that is True: ``PreemptionByScheduler``, ``TerminationByKubelet``."""
    nominated: str = ""
    """The node on which the scheduler makes room for it, by preemption."""
    extended: Extended = ()
    """What it requests of extended resources, such as ``nvidia.com/gpu``; pods of one shape share it."""
    unclaimed: tuple[str, ...] = ()
    """ResourceClaimTemplates from which no claim has been made for it yet."""
    deleted_at: int = 0
    """``metadata.deletionTimestamp``: until when it has to end, its grace period included."""


@dataclass(frozen=True, slots=True)
class EndedPod:
    """A pod that has finished."""

    pod: PodFacts
    at: int
    """When its last container ended, Unix seconds; 0 if that is not known."""
    why: str = ""
    """Why it failed; empty if it succeeded, and if its status does not have it."""
    rejected: bool = False
    """Whether the kubelet of its node did not admit it: it has no logs."""


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """Whether a node is ready; ``reason`` is why it is not ready, ``since`` when it became so."""

    name: str
    ready: bool
    reason: str = ""
    since: int = 0
    unschedulable: bool = False
    troubles: tuple[str, ...] = ()
    """Conditions beside Ready that say that something is wrong, of the kubelet or of node-problem-detector."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A denied creation by a controller: the last event of :data:`REFUSING_KINDS` of a Job or JobSet."""

    namespace: str
    kind: str
    """``Job`` or ``JobSet``: the kind of the event's object."""
    name: str
    uid: str
    message: str
    at: int
    reason: str = ""
    """Of the event."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One JobSet with all known objects that belong to it, by its name and UID.

    Objects that are forbidden to read, or not watched, are None, and ignored.
    """

    jobset: JobSet
    assessment: Assessment
    """The assessment of its stamps (:func:`gangctl.gang.desired.assess`)."""
    jobs: Sequence[JobProgress]
    """Jobs of this JobSet."""
    pods: Sequence[PodFacts]
    """Pods with its name, including existing ones of earlier attempts."""
    groups: Mapping[str, Observed]
    """PodGroups by name that it controls or that have a name of its plan; empty before 1.36."""
    workload: Observed | None
    """The Workload of ``scheduling.k8s.io`` under the name of its plan."""
    api: ApiState
    queue: QueueFacts | None = None
    """None without a queue, or without Kueue."""
    kueue: bool | None = None
    """Whether the cluster has Kueue, None if unknown."""
    nodes: Mapping[str, NodeFacts] | None = None
    """Every node by name."""
    refused: Sequence[Refused] = ()
    foreign_workload: str = ""
    """Name of another owner's Workload for this JobSet."""
    groups_known: bool = True
    """Whether Workloads and PodGroups may be read; otherwise they are empty here, and ignored."""
    composite_missing: bool = False
    """Whether the CompositePodGroup of its plan does not exist; False also where that is not known."""
    pods_known: bool = True
    """Whether pods may be read; otherwise there are none here, and what follows is from the status of the JobSet."""
    on_nodes: OnNodes = field(default_factory=OnNodes)
    ended: Sequence[EndedPod] = ()
    """Pods with its name that have failed, and as far as a command has read them those that have succeeded."""

    @property
    def queued_workload(self) -> QueuedWorkload | None:
        """Its Workload of Kueue; None without a queue, and if Kueue has created none."""
        return self.queue.workload if self.queue is not None else None


@dataclass(frozen=True, slots=True)
class Collections:
    """Lookups in a cluster's objects; they never block, and if possible use one point in time."""

    jobs: Callable[[Key], Iterable[JobProgress]]
    """Child Jobs of JobSets with a name, also of earlier ones with that name."""
    pods: Callable[[Key], Iterable[PodFacts]]
    """Pods of JobSets with a name."""
    groups: Callable[[str, str, Sequence[str]], Mapping[str, Observed]]
    """PodGroups of a namespace that the JobSet with this UID controls or that have one of these names."""
    workload: Callable[[str, str], Observed | None]
    """The Workload of ``scheduling.k8s.io`` of a namespace and a name."""
    claimed: Callable[[str, str], str | None]
    """Name of another owner's Workload for the JobSet of a namespace and a name."""
    refused: Callable[[str, str, str], Refused | None] = lambda _namespace, _kind, _name: None
    """The last denied creation of the Job or JobSet of a namespace, kind and name."""
    nodes: Callable[[], Mapping[str, NodeFacts] | None] = lambda: None
    groups_known: bool = True
    """Whether Workloads and PodGroups may be read."""
    composite: Callable[[str, str], Observed | None] | None = None
    """The CompositePodGroup of a namespace and a name; None where they are not known."""
    pods_known: bool = True
    """Whether pods may be read."""


def is_stamped(jobset: JobSet) -> bool:
    """Whether it was decided at its creation which gangs it has."""
    return any(GANG_REF in rj.annotations for rj in jobset.replicated_jobs)


def is_followed(jobset: JobSet) -> bool:
    """Whether a gang was requested, or is stamped.

    An invalid configuration is a request, too: it was stored past the webhook, and the JobSet runs without its gang.
    """
    if is_stamped(jobset):
        return True
    config, errors = read_config(jobset)
    return config.asks_for_gangs or bool(errors)


def assemble(
    jobset: JobSet,
    assessment: Assessment,
    api: ApiState,
    collections: Collections,
    *,
    queue: QueueFacts | None = None,
    kueue: bool | None = None,
    on_nodes: OnNodes | None = None,
    ended: Sequence[EndedPod] = (),
) -> Snapshot:
    """All facts of one JobSet, without those of an earlier one of its name."""
    plan, namespace = assessment.plan, jobset.namespace
    names = [group.name for group in plan.groups] if plan is not None else []
    parent, composite = plan.composite if plan is not None else None, collections.composite
    jobs = [job for job in collections.jobs(jobset.key) if job.jobset_uid == jobset.uid]
    # Jobs whose pods may be denied now, without those of earlier attempts.
    expected = [job for job in jobs if not job.complete and not job.deleting and job.attempt >= jobset.restarts]
    about = [("JobSet", jobset.name, jobset.uid), *(("Job", job.name, job.uid) for job in expected)]
    refusals = [(collections.refused(namespace, kind, name), uid) for kind, name, uid in about]
    return Snapshot(
        jobset=jobset,
        assessment=assessment,
        jobs=jobs,
        pods=list(collections.pods(jobset.key)),
        groups=collections.groups(namespace, jobset.uid, names),
        workload=collections.workload(namespace, plan.workload.name) if plan is not None else None,
        api=api,
        queue=queue,
        kueue=kueue,
        nodes=collections.nodes(),
        # Without denials of an earlier JobSet of this name, and of an earlier attempt's Jobs.
        refused=[
            refused
            for refused, uid in refusals
            # An event need not have the UID of its object, nor an object in a file one.
            if refused is not None and (not uid or refused.uid in {"", uid})
        ],
        foreign_workload=collections.claimed(namespace, jobset.name) or "",
        groups_known=collections.groups_known,
        composite_missing=parent is not None and composite is not None and composite(namespace, parent.name) is None,
        pods_known=collections.pods_known,
        on_nodes=on_nodes or OnNodes(),
        ended=ended,
    )


FAILED_CREATE: Final = "FailedCreate"
"""Reason of the Job controller's event: a pod could not be created."""
JOB_CREATION_FAILED: Final = "JobCreationFailed"
"""Reason of JobSet's event: a Job could not be created."""
SERVICE_CREATION_FAILED: Final = "HeadlessServiceCreationFailed"
CLAIM_CREATION_FAILED: Final = "PVCCreationFailed"
"""Reasons of JobSet's events: it makes no Job before its Service and the claims of volumeClaimPolicies are there."""
REFUSING_KINDS: Final[Mapping[str, str]] = {
    FAILED_CREATE: "Job",
    JOB_CREATION_FAILED: "JobSet",
    SERVICE_CREATION_FAILED: "JobSet",
    CLAIM_CREATION_FAILED: "JobSet",
}
"""Kinds of objects of these events; ReplicaSets and others have FailedCreate events, too."""

NEVER_UPDATED: Final = "NodeStatusNeverUpdated"
"""Reason of the node lifecycle controller for a node whose kubelet has never reported."""

_NUMBER_DIGITS: Final = 9
_SAME: Final = 8192


def read_pod(raw: Object) -> PodFacts | None:
    """The facts of one pod; None for one that belongs to no JobSet."""
    metadata, spec, status = (object_at(raw, part) for part in ("metadata", "spec", "status"))
    labels = object_at(metadata, "labels")
    jobset = _name(labels.get(JOBSET_NAME))
    if not jobset:
        return None
    conditions = {_text(condition.get("type")): condition for condition in objects_at(status, "conditions")}
    placed = object_at(conditions, "PodScheduled")
    refused = _name(placed.get("reason")) if placed.get("status") == "False" else ""
    # The API server writes this one at the creation, and nothing takes it back once the gates are gone.
    if refused == "SchedulingGated" and not objects_at(spec, "schedulingGates"):
        refused = ""
    ready = object_at(conditions, "Ready")
    disruption = object_at(conditions, "DisruptionTarget")
    waiting, waiting_message = map(sys.intern, waiting_of(spec, status))
    if not waiting and ready.get("reason") == READINESS_GATES:
        waiting, waiting_message = READINESS_GATES, _message(ready.get("message"))
    ended_at, ran = max(map(_last_run, containers_of(status)), default=(0, 0))
    return PodFacts(
        namespace=_name(metadata.get("namespace")),
        name=_text(metadata.get("name")),
        jobset=jobset,
        replicated_job=_name(labels.get(REPLICATED_JOB_NAME)),
        job_index=_number(labels.get(JOB_INDEX)),
        attempt=_number(labels.get(RESTART_ATTEMPT)),
        group=sys.intern(named_group(spec)),
        scheduler=_name(spec.get("schedulerName")) or DEFAULT_SCHEDULER,
        priority=_integer(spec.get("priority")),
        created=unix(metadata.get("creationTimestamp")),
        deleting=bool(metadata.get("deletionTimestamp")),
        phase=_name(status.get("phase")),
        gates=_same(tuple(_name(gate.get("name")) for gate in objects_at(spec, "schedulingGates"))),
        node=_name(spec.get("nodeName")),
        placed_at=unix(placed.get("lastTransitionTime")) if placed.get("status") == "True" else 0,
        started_at=unix(status.get("startTime")),
        refused=refused,
        refusal=_message(placed.get("message")) if refused else "",
        refused_at=unix(placed.get("lastTransitionTime")) if refused else 0,
        ready=ready.get("status") == "True",
        ready_at=unix(ready.get("lastTransitionTime")),
        waiting=waiting,
        waiting_message=waiting_message,
        restarts=sum(_integer(container.get("restartCount")) for container in containers_of(status)),
        ended_at=ended_at,
        ran=ran,
        disrupted=_name(disruption.get("reason")) if disruption.get("status") == "True" else "",
        nominated=_name(status.get("nominatedNodeName")),
        extended=extended_requests(spec),
        unclaimed=_unclaimed(spec, status),
        deleted_at=unix(metadata.get("deletionTimestamp")),
    )


def _unclaimed(spec: Object, status: Object) -> tuple[str, ...]:
    claims = objects_at(spec, "resourceClaims")
    if not claims:
        return ()
    # Where Kubernetes finds that no claim is needed, the entry has no name of a claim.
    made = {_text(one.get("name")) for one in objects_at(status, "resourceClaimStatuses")}
    names = [_name(one.get("resourceClaimTemplateName")) for one in claims if _text(one.get("name")) not in made]
    templates: tuple[str, ...] = _same(tuple(filter(None, names)))
    return templates


def read_ended(raw: Object, *, quoted: bool = True) -> EndedPod | None:
    """A pod that has finished; None for others, and for those of no JobSet.

    Why it failed has what its containers said last, perhaps in their logs, if it is to be ``quoted``.
    """
    pod = read_pod(raw) if is_finished(raw) else None
    if pod is None:
        return None
    status = object_at(raw, "status")
    ends = [object_at(object_at(one, "state"), "terminated").get("finishedAt") for one in containers_of(status)]
    at, failed = max(map(unix, ends), default=0), pod.phase == "Failed"
    why = failure_of(status, quoted=quoted) if failed else ""
    return EndedPod(pod, at, why, rejected=failed and bool(pod.node) and was_rejected(status))


def read_node(raw: Object) -> NodeFacts:
    """The facts of one node. One that has never reported is not ready since its creation."""
    metadata, spec = object_at(raw, "metadata"), object_at(raw, "spec")
    never = {"reason": NEVER_UPDATED, "lastTransitionTime": metadata.get("creationTimestamp")}
    condition = condition_of(raw, "Ready") or never
    ready = condition.get("status") == "True"
    return NodeFacts(
        name=_name(metadata.get("name")),
        ready=ready,
        reason="" if ready else _name(condition.get("reason")),
        since=0 if ready else unix(condition.get("lastTransitionTime")),
        unschedulable=spec.get("unschedulable") is True,
        troubles=tuple(_troubles(raw)),
    )


_MOST_TROUBLES: Final = 4


def _troubles(raw: Object) -> Iterator[str]:
    """The type and reason of each condition of a node that says that something is wrong."""
    wrong: list[tuple[str, str]] = []
    for condition in objects_at(object_at(raw, "status"), "conditions"):
        kind, reason = _name(condition.get("type")), _name(condition.get("reason"))
        # Unlike MemoryPressure, KernelReady and its like, as of EKS, are True while all is well, and so is that of k3s.
        positive = (kind.endswith("Ready") and not kind.endswith("NotReady")) or kind == "EtcdIsVoter"
        if kind != "Ready" and condition.get("status") == ("False" if positive else "True"):
            wrong.append((f"{kind}=False" if positive else kind, reason))
    for what, reason in wrong[:_MOST_TROUBLES]:
        yield f"{what} ({reason})" if reason and reason != what else what


def read_refusal(raw: Object) -> Refused | None:
    """The denied creation in an event of ``events.k8s.io/v1``; None for other events."""
    about = object_at(raw, "regarding")
    kind, reason = _name(about.get("kind")), _name(raw.get("reason"))
    message = _message(raw.get("note"))
    if not kind or REFUSING_KINDS.get(reason) != kind:
        return None
    # JobSet also says so where its cache does not have yet what it has just created.
    if reason == SERVICE_CREATION_FAILED and message.endswith("already exists"):
        return None
    return Refused(
        namespace=_name(about.get("namespace") or object_at(raw, "metadata").get("namespace")),
        kind=kind,
        name=_name(about.get("name")),
        uid=_name(about.get("uid")),
        message=message,
        at=event_seen_at(raw),
        reason=reason,
    )


def read_scale_up(raw: Object) -> ScaleUp | None:
    """What an autoscaler says of a pod in an event of ``events.k8s.io/v1``; None for other events."""
    about, reason, note = object_at(raw, "regarding"), _text(raw.get("reason")), _message(raw.get("note"))
    if about.get("kind") != "Pod" or not is_saying(reason, note):
        return None
    return ScaleUp(_name(about.get("name")), reason, note, event_seen_at(raw))


def event_seen_at(raw: Object) -> int:
    """Last occurrence of an event of ``events.k8s.io/v1``, Unix seconds; 0 if unknown."""
    # A repeated event keeps its eventTime. Events that were written through core/v1 have no eventTime.
    times = (
        object_at(raw, "series").get("lastObservedTime"),
        raw.get("deprecatedLastTimestamp"),
        raw.get("eventTime"),
        object_at(raw, "metadata").get("creationTimestamp"),
    )
    return next((seconds for seconds in map(unix, times) if seconds), 0)


def unix(text: object) -> int:
    """Unix seconds of a time in RFC 3339, 0 if there is none."""
    return _unix(text) if isinstance(text, str) else 0


@lru_cache(_SAME)
def _unix(text: str) -> int:
    # Cached, because the pods of a gang have equal times: they share one number.
    try:
        time = datetime.fromisoformat(text)
        moment = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
        return max(0, int(moment.timestamp()))
    except (ValueError, OverflowError):
        return 0


def _last_run(container: Object) -> tuple[int, int]:
    """When a container ended that has been started again, and for how long it had run."""
    ended = object_at(object_at(container, "lastState"), "terminated")
    end, start = unix(ended.get("finishedAt")), unix(ended.get("startedAt"))
    return end, _same(max(0, end - start)) if start else 0


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _name(value: object) -> str:
    """A shared text."""
    return sys.intern(value) if isinstance(value, str) else ""


def _message(value: object) -> str:
    """A text of another component, on one line of bounded length."""
    return sys.intern(one_line(value)) if isinstance(value, str) else ""


def _number(value: object) -> int:
    """The number in a label, 0 if there is none."""
    text = _text(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _NUMBER_DIGITS else 0


def _integer(value: object) -> int:
    # Not isinstance: True is an int, and `_same` could return it for a 1.
    return _same(value) if type(value) is int else 0


@lru_cache(_SAME)
def _same(value: H) -> H:
    """One object for all equal values. Not for mixed types: 1 and True are equal."""
    return value
