"""Result of readiness: phases and counts of each group and of the JobSet, and the causes in order of likelihood.

A JobSet's phase is that of its least advanced group; of running groups, the worst.

Times are Unix seconds, 0 if there is none.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, ClassVar, Final, NamedTuple, Self

from gangctl.api.reportfields import INTERNAL, TIME, OutputKey
from gangctl.gang.reasons import Reason


class GangPhase(StrEnum):
    """Stable, CamelCase, in the order of the lifecycle; :attr:`label` in metrics."""

    sentence: str
    """Description for users."""

    def __new__(cls, value: str, sentence: str) -> Self:
        phase = str.__new__(cls, value)
        phase._value_ = value
        phase.sentence = sentence
        return phase

    SUSPENDED = "Suspended", "The JobSet is suspended, and no queue of its own will start it."
    QUEUED = "Queued", "It waits in a queue of Kueue."
    GATED = "Gated", "It is held back: by a gate on the JobSet, or by scheduling gates on its pods."
    PENDING = "Pending", "It exists, and no Jobs and no pods of it are known in this cluster yet."
    WAITING_FOR_PODS = "WaitingForPods", "Fewer pods exist than must start together."
    SCHEDULING = "Scheduling", "All pods that must start together exist, and the scheduler has not decided."
    UNSCHEDULABLE = "Unschedulable", "The scheduler has found no nodes for all pods that must start together."
    PARTIALLY_PLACED = "PartiallyPlaced", "Some pods have nodes, and others that must start with them have none."
    STARTING = "Starting", "All pods that must start together have nodes; none is ready yet."
    PARTIALLY_READY = "PartiallyReady", "All pods that must start together have nodes; some are ready."
    READY = "Ready", "All pods that it needs are ready."
    DEGRADED = "Degraded", "It was ready, and is no longer."
    RESTARTING = "Restarting", "The JobSet restarts: pods of the attempt before are being deleted."
    TERMINATING = "Terminating", "The JobSet is being deleted, and its pods end."
    SUCCEEDED = "Succeeded", "It has succeeded."
    FAILED = "Failed", "It has failed."

    @property
    def label(self) -> str:
        """Value of the metrics label."""
        return self.value.lower()

    @property
    def over(self) -> bool:
        """Whether the phase is final."""
        return self in {GangPhase.SUCCEEDED, GangPhase.FAILED}

    @property
    def settled(self) -> bool:
        """Whether no cause is needed: the gang is ready or finished."""
        return self is GangPhase.READY or self.over


@dataclass(frozen=True, slots=True)
class Counts:
    """Pods by how far they have come."""

    SCHEMA: ClassVar = "PodCounts"

    desired: Annotated[int, "As configured: pods that exist at once when none has finished."] = 0
    minimum: Annotated[int, "Pods that have to be placed together, as it is now (minCount)."] = 0
    wanted: Annotated[int, "Pods that should exist now: desired without those that have finished."] = 0
    created: Annotated[int, "Pods that exist and have not finished; those that terminate are not counted."] = 0
    placed: Annotated[int, "Of those created, on a node.", OutputKey("scheduled")] = 0
    ready: Annotated[int, "Of those created, ready."] = 0
    finished: Annotated[int, "Pods that have finished with success.", OutputKey("succeeded")] = 0
    stranded: Annotated[int, "Pods that hold nodes while their group is short of its minimum."] = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.desired + other.desired,
            self.minimum + other.minimum,
            self.wanted + other.wanted,
            self.created + other.created,
            self.placed + other.placed,
            self.ready + other.ready,
            self.finished + other.finished,
            self.stranded + other.stranded,
        )


PODS: Final = "pods"
"""The resource of which each pod holds one."""


class Usage(NamedTuple):
    """What the pods of a JobSet hold of one resource: :data:`PODS`, or an extended resource that they request."""

    resource: str
    allocated: int
    """Of unfinished pods with a node, those included that terminate."""
    ready: int
    """Of these, of ready pods that do not terminate."""


@dataclass(frozen=True, slots=True)
class GroupReadiness:
    """One gang at run time."""

    SCHEMA: ClassVar = "GroupReport"

    name: Annotated[str, "Its PodGroup; on Kubernetes 1.35 its group of a Workload."]
    template: Annotated[str, "The template of the Workload that it is made from."]
    replicated_jobs: Annotated[tuple[str, ...], "Whose pods are in it."]
    phase: Annotated[GangPhase, "As that of the JobSet."]
    since: Annotated[int, "When it came into that phase.", TIME]
    counts: Annotated[Counts, OutputKey("pods")]
    placed_at: Annotated[int, INTERNAL] = 0
    """When the last needed pod got its node, 0 before that."""
    first_ready_at: Annotated[int, INTERNAL] = 0
    ready_at: Annotated[int, INTERNAL] = 0
    """When the first and the last pod became ready; the latter 0 until all are."""
    been_ready: Annotated[bool, INTERNAL] = False
    """Whether it has been ready in this attempt."""
    counted_by: Annotated[int, INTERNAL] = 0
    """Until when pods are missing that their Jobs may count as succeeded; 0 for none."""
    failed: Annotated[int, INTERNAL] = 0
    """Pods that its Jobs had counted as failed, before any of these."""
    written_at: Annotated[int | None, INTERNAL] = None
    """When a Gang object was written that has it, 0 if that is not known; None for a result of this process."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Why it is not ready."""

    SCHEMA: ClassVar = "CauseReport"

    reason: Annotated[Reason, "Stable, CamelCase."]
    message: Annotated[str, "One sentence."]
    blocking: Annotated[bool, "Whether it does not end by itself."] = True
    groups: Annotated[tuple[str, ...], "Groups it holds back, empty for all."] = ()
    pods: Annotated[int, "Pods it holds back, as far as that can be said."] = 0
    since: Annotated[int, "When it began, empty where that is not known.", TIME] = 0
    evidence: Annotated[tuple[str, ...], "Facts as they were seen, the most telling first."] = ()
    remedy: Annotated[str, "What to do about it, empty where there is nothing."] = ""
    command: Annotated[str, "The next command to run, empty where there is none to suggest."] = ""


@dataclass(frozen=True, slots=True)
class Readiness:
    """Readiness of one JobSet. ``causes`` are ranked, the most likely first; a settled phase has none."""

    namespace: str
    name: str
    uid: str
    phase: GangPhase
    since: int
    counts: Counts
    groups: tuple[GroupReadiness, ...]
    causes: tuple[Cause, ...] = ()
    level: str = "None"
    """:data:`gangctl.gang.plan.Level`."""
    local_queue: str = ""
    cluster_queue: str = ""
    cluster: str = ""
    """The worker cluster on which MultiKueue runs it; empty for this one."""
    attempt: int = 0
    job_restarts: tuple[tuple[int, ...], ...] = ()
    """Restarts of single Jobs (RestartJob), by ReplicatedJob and index; empty ones have none."""
    created_at: int = 0
    admitted_at: int = 0
    """When it was allowed to start: admitted by Kueue, or created."""
    placed_at: int = 0
    first_ready_at: int = 0
    ready_at: int = 0
    """As those of the groups: the latest of their times, 0 until all have one."""
    been_ready: bool = False
    """Whether it has been ready in this attempt."""
    ready_before: bool = False
    """Whether it was ready in this attempt before its last admission, or suspension, as far as this process knows."""
    evicted: Reason | None = None
    """Why Kueue evicted it, while it waits to be admitted again; None where that has no reason of gangctl's."""
    runs_between: bool = False
    """Whether a part of it runs to its end before the last part starts: that time is no time of a start."""
    deleting: bool = False
    """Whether the JobSet is being deleted: its pods end because of that."""
    lost: Cause | None = None
    """Why all-or-nothing is not guaranteed, in any phase: some of its pods may start without the rest."""
    usage: tuple[Usage, ...] = ()
    """What its pods hold here, by resource; empty once it has finished."""
    look_again: float | None = None
    """When time alone changes the result, Unix seconds."""

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.namespace, self.name

    @property
    def reason(self) -> Reason | None:
        """The most likely cause, None if there is none."""
        return self.causes[0].reason if self.causes else None

    @property
    def blocked_by(self) -> Reason | None:
        """The most likely cause that does not end by itself; None if there is none."""
        return next((cause.reason for cause in self.causes if cause.blocking), None)
