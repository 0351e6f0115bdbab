"""What is known of one JobSet and of what belongs to it, at one moment: the input of readiness.

Everything here is small, because a controller keeps 100,000 pods of it. Times are Unix seconds, 0 where there is
none: Kubernetes writes whole seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gangctl.api.jobset import JobSet
from gangctl.api.scheduling import Observed
from gangctl.gang.assess import Assessment
from gangctl.gang.generation import ApiState
from gangctl.gang.progress import JobProgress
from gangctl.kueue.blocked import Blocked
from gangctl.kueue.objects import QueuedWorkload
from gangctl.kueue.stuck import Stuck


@dataclass(frozen=True, slots=True)
class PodFacts:
    """What readiness needs of a pod; finished ones are usually left out, their Jobs count them."""

    namespace: str
    name: str
    jobset: str
    """Label ``jobset.sigs.k8s.io/jobset-name``."""
    replicated_job: str
    job_index: int
    attempt: int
    """JobSet restart in which it was made."""
    group: str
    """Which group it names: the PodGroup; on 1.35 ``WORKLOAD/PODGROUP/KEY``; empty for none."""
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
    """Last transition of condition Ready, to whatever it is now."""
    waiting: str = ""
    """Why its first container that is not ready waits (``ImagePullBackOff``), or how it ended (``OOMKilled``)."""
    waiting_message: str = ""
    restarts: int = 0
    """Of its containers, together."""
    disrupted: str = ""
    """Reason of condition DisruptionTarget while that is True: ``PreemptionByScheduler``, ``TerminationByKubelet``."""


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """Whether a node can be counted on; ``reason`` is why it is not ready, ``since`` when it became so."""

    name: str
    ready: bool
    reason: str = ""
    since: int = 0
    unschedulable: bool = False


@dataclass(frozen=True, slots=True)
class Refused:
    """What a controller could not create: the last event FailedCreate of a Job, or JobCreationFailed of a JobSet."""

    namespace: str
    kind: str
    """``Job`` or ``JobSet``: what the event is about."""
    name: str
    uid: str
    message: str
    at: int


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """Where a JobSet stands in Kueue; ``workload`` is None where Kueue has made none (yet)."""

    local_queue: str
    cluster_queue: str
    workload: QueuedWorkload | None = None
    blocked: Blocked | None = None
    stuck: Stuck | None = None
    never: str = ""
    """Why it can never be admitted, with the arithmetic; empty where that is not known to be so."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One JobSet with everything that belongs to it, by the same name and UID, as far as it is known.

    What may not be read, or is not followed, is None, and no conclusion is drawn from it.
    """

    jobset: JobSet
    assessment: Assessment
    """What its stamps mean (:func:`gangctl.gang.assess.assess`)."""
    jobs: Sequence[JobProgress]
    """Of this very JobSet."""
    pods: Sequence[PodFacts]
    """Of its name; those of earlier attempts too, as long as they are there."""
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
    """Name of somebody else's Workload for this JobSet."""
    groups_known: bool = True
    """Whether Workloads and PodGroups may be read; otherwise there are none here, from which nothing follows."""
    room: Mapping[str, bool] = field(default_factory=dict)
    """By group: whether its pods that have no node would fit now. Of a group that is not in it that is not known."""
