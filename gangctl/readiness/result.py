"""Result of readiness: phases and counts of each group and of the JobSet, and the causes in order of likelihood.

A JobSet's phase is that of its least advanced group; of running groups, the worst.

Times are Unix seconds, 0 if there is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gangctl.gang.reasons import Reason


class GangPhase(StrEnum):
    """Stable, CamelCase, in the order of the lifecycle; :attr:`label` in metrics."""

    SUSPENDED = "Suspended"
    QUEUED = "Queued"
    GATED = "Gated"
    PENDING = "Pending"
    WAITING_FOR_PODS = "WaitingForPods"
    SCHEDULING = "Scheduling"
    UNSCHEDULABLE = "Unschedulable"
    PARTIALLY_PLACED = "PartiallyPlaced"
    STARTING = "Starting"
    PARTIALLY_READY = "PartiallyReady"
    READY = "Ready"
    DEGRADED = "Degraded"
    RESTARTING = "Restarting"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"

    @property
    def label(self) -> str:
        """Value of the metrics label."""
        return self.value.lower()

    @property
    def sentence(self) -> str:
        """Description for users."""
        return _SENTENCES[self]

    @property
    def over(self) -> bool:
        """Whether the phase is final."""
        return self in {GangPhase.SUCCEEDED, GangPhase.FAILED}

    @property
    def settled(self) -> bool:
        """Whether no cause is needed: the gang is ready or finished."""
        return self is GangPhase.READY or self.over


_SENTENCES: Final[Mapping[GangPhase, str]] = {
    GangPhase.SUSPENDED: "A user suspended the JobSet, and no queue will start it.",
    GangPhase.QUEUED: "It waits in a queue of Kueue.",
    GangPhase.GATED: "It is held back: by a gate on the JobSet, or by scheduling gates on its pods.",
    GangPhase.PENDING: "It is there, and nothing has been made for it in this cluster yet.",
    GangPhase.WAITING_FOR_PODS: "Fewer pods exist than have to start together.",
    GangPhase.SCHEDULING: "All pods that have to start together exist, and the scheduler has not decided.",
    GangPhase.UNSCHEDULABLE: "The scheduler has looked, and found no place for all of them.",
    GangPhase.PARTIALLY_PLACED: "Some pods hold nodes while others that they need have none.",
    GangPhase.STARTING: "All pods have nodes; none is ready yet.",
    GangPhase.PARTIALLY_READY: "All pods have nodes; some are ready.",
    GangPhase.READY: "All pods that it needs are ready.",
    GangPhase.DEGRADED: "It was ready, and is not any more.",
    GangPhase.RESTARTING: "The JobSet starts anew: pods of the attempt before are on their way out.",
    GangPhase.SUCCEEDED: "It has finished, with success.",
    GangPhase.FAILED: "It has finished, without success.",
}


@dataclass(frozen=True, slots=True)
class Counts:
    """Pods of a group, or of all groups of a JobSet."""

    desired: int = 0
    """As configured: pods that exist at once when none has finished."""
    minimum: int = 0
    """Present minCount: pods that have to be placed together."""
    wanted: int = 0
    """Pods that should exist now: those desired without those that finished permanently."""
    created: int = 0
    """Pods of this attempt that exist and have not finished; terminating ones are not counted."""
    placed: int = 0
    """Existing pods on a node."""
    ready: int = 0
    """Existing pods that are ready."""
    finished: int = 0
    """Pods that have succeeded."""
    stranded: int = 0
    """Pods with a node while their group has fewer placed pods than have to start together."""

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


@dataclass(frozen=True, slots=True)
class GroupReadiness:
    """One gang at run time: a PodGroup; on 1.35 a group of a Workload."""

    name: str
    template: str
    replicated_jobs: tuple[str, ...]
    """ReplicatedJobs with pods in it, in the order of the JobSet."""
    phase: GangPhase
    since: int
    counts: Counts
    placed_at: int = 0
    """When the last needed pod got its node, 0 before that."""
    first_ready_at: int = 0
    ready_at: int = 0
    """When the first and the last pod became ready; the latter 0 until all are."""
    been_ready: bool = False
    """Whether it has been ready in this attempt."""
    missing_since: int = 0
    """Since when pods are missing that their Jobs may soon count as succeeded."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a gang is not ready.

    ``message`` is one sentence without its full stop; ``evidence`` are observed facts, each one line, the most relevant
    first; ``remedy`` is what to do, and ``command`` is the next command to run (both may be empty).
    """

    reason: Reason
    message: str
    evidence: tuple[str, ...] = ()
    remedy: str = ""
    command: str = ""
    groups: tuple[str, ...] = ()
    """Affected groups; empty for all of the JobSet."""
    pods: int = 0
    """Number of affected pods, as far as known."""
    since: int = 0
    blocking: bool = True
    """False if it ends by itself: containers that start, waiting in a queue."""


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
    created_at: int = 0
    admitted_at: int = 0
    """When it was allowed to start: admitted by Kueue, or created."""
    placed_at: int = 0
    first_ready_at: int = 0
    ready_at: int = 0
    """As those of the groups: the latest of their times, 0 until all have one."""
    been_ready: bool = False
    """Whether it has been ready in this attempt."""
    lost: Cause | None = None
    """Why all-or-nothing is not guaranteed, in any phase: some of its pods may start without the rest."""
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
