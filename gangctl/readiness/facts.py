"""Facts of one JobSet and its objects at one point in time: the input of readiness.

The classes are small, because a controller stores 100,000 pods. Times are Unix seconds, 0 if there is
none: Kubernetes writes whole seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gangctl.api.jobset import JobSet
from gangctl.api.scheduling import Observed
from gangctl.gang.desired import Assessment, JobProgress
from gangctl.gang.generation import ApiState
from gangctl.kueue.blocked import Blocked
from gangctl.kueue.objects import QueuedWorkload
from gangctl.kueue.stuck import Stuck


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
class QueueFacts:
    """State of a JobSet in Kueue; ``workload`` is None if Kueue has created none (yet)."""

    local_queue: str
    cluster_queue: str
    workload: QueuedWorkload | None = None
    blocked: Blocked | None = None
    stuck: Stuck | None = None
    never: str = ""
    """Why it can never be admitted, with the arithmetic; empty if unknown."""
    cluster: str = ""
    """The worker cluster on which MultiKueue runs it, or ran it; empty for none."""
    queues_known: bool = True
    """Whether ClusterQueues may be read."""


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
