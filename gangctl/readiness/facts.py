"""Facts of one JobSet and its objects at one point in time, from informers, a listing, or files.

The classes are small, because a controller stores 100,000 pods. Times are Unix seconds, 0 if there is none:
Kubernetes writes whole seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from gangctl.api.jobset import JobSet
from gangctl.api.meta import GANG_REF
from gangctl.api.objects import Key
from gangctl.api.scheduling import ApiState, Observed
from gangctl.gang.config import read_config
from gangctl.gang.desired import Assessment, JobProgress
from gangctl.kueue.objects import QueuedWorkload
from gangctl.kueue.queues import QueueFacts


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
    refused: str = ""
    """Reason of condition PodScheduled while that is False: Unschedulable, SchedulerError, SchedulingGated."""
    refusal: str = ""
    """Its message; pods of one group share one string."""
    refused_at: int = 0
    ready: bool = False
    ready_at: int = 0
    """Last transition of condition Ready."""
    waiting: str = ""
    """Waiting (``ImagePullBackOff``) or termination reason (``OOMKilled``) of its first container that is not ready."""
    waiting_message: str = ""
    restarts: int = 0
    """Sum over its containers."""
    disrupted: str = ""
    """Reason of condition DisruptionTarget while that is True: ``PreemptionByScheduler``, ``TerminationByKubelet``."""


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """Whether a node is ready; ``reason`` is why it is not ready, ``since`` when it became so."""

    name: str
    ready: bool
    reason: str = ""
    since: int = 0
    unschedulable: bool = False


@dataclass(frozen=True, slots=True)
class Refused:
    """A denied creation by a controller: the last event FailedCreate of a Job, or JobCreationFailed of a JobSet."""

    namespace: str
    kind: str
    """``Job`` or ``JobSet``: the kind of the event's object."""
    name: str
    uid: str
    message: str
    at: int


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
    nodes: Mapping[str, NodeFacts] | None = None
    """Every node by name."""
    refused: Sequence[Refused] = ()
    foreign_workload: str = ""
    """Name of another owner's Workload for this JobSet."""
    groups_known: bool = True
    """Whether Workloads and PodGroups may be read; otherwise they are empty here, and ignored."""
    fits_now: Mapping[str, bool] = field(default_factory=dict)
    """By group: whether its pods without a node would fit now. Unknown for other groups."""
    never_on_nodes: str = ""
    """Why the nodes can never hold it, with nothing else on them; empty if they can, and if that is unknown."""

    @property
    def queued_workload(self) -> QueuedWorkload | None:
        """Its Workload of Kueue; None without a queue, and if Kueue has created none."""
        return self.queue.workload if self.queue is not None else None


_NOTHING: Final[Mapping[str, bool]] = MappingProxyType({})


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


def is_followed(jobset: JobSet) -> bool:
    """Whether a gang was requested, or is stamped."""
    return any(GANG_REF in rj.annotations for rj in jobset.replicated_jobs) or read_config(jobset)[0].asks_for_gangs


def assemble(
    jobset: JobSet,
    assessment: Assessment,
    api: ApiState,
    collections: Collections,
    *,
    queue: QueueFacts | None = None,
    fits_now: Mapping[str, bool] = _NOTHING,
    never_on_nodes: str = "",
) -> Snapshot:
    """All facts of one JobSet, without those of an earlier one of its name."""
    plan, namespace = assessment.plan, jobset.namespace
    names = [group.name for group in plan.groups] if plan is not None else []
    jobs = [job for job in collections.jobs(jobset.key) if job.jobset_uid == jobset.uid]
    about = [("JobSet", jobset.name), *(("Job", job.name) for job in _expected(jobset, jobs))]
    refusals = (collections.refused(namespace, kind, name) for kind, name in about)
    return Snapshot(
        jobset=jobset,
        assessment=assessment,
        jobs=jobs,
        pods=list(collections.pods(jobset.key)),
        groups=collections.groups(namespace, jobset.uid, names),
        workload=collections.workload(namespace, plan.workload.name) if plan is not None else None,
        api=api,
        queue=queue,
        nodes=collections.nodes(),
        refused=[each for each in refusals if each is not None and _concerns(each, jobset)],
        foreign_workload=collections.claimed(namespace, jobset.name) or "",
        groups_known=collections.groups_known,
        fits_now=fits_now,
        never_on_nodes=never_on_nodes,
    )


def _expected(jobset: JobSet, jobs: Sequence[JobProgress]) -> Sequence[JobProgress]:
    """Jobs whose pods may be denied now, without those of earlier attempts."""
    return [job for job in jobs if not job.complete and not job.deleting and job.attempt >= jobset.restarts]


def _concerns(refused: Refused, jobset: JobSet) -> bool:
    """Ignore denials of an earlier JobSet of this name."""
    return refused.kind != "JobSet" or refused.uid in {"", jobset.uid}
