"""What readiness finds: counts and phases of each group and of the JobSet, and the causes in order of likelihood.

Times are Unix seconds, 0 where there is none.
"""

from __future__ import annotations

from dataclasses import dataclass

from gangctl.gang.reasons import Reason
from gangctl.readiness.phases import GangPhase


@dataclass(frozen=True, slots=True)
class Counts:
    """Pods of a group, or of all groups of a JobSet."""

    desired: int = 0
    """As configured: pods that exist at once when none has finished."""
    minimum: int = 0
    """minCount as it is now: pods that have to be placed together."""
    wanted: int = 0
    """Pods that should exist now: those desired without those that have finished for good."""
    created: int = 0
    """Pods of this attempt that exist and have not finished; terminating ones are not counted."""
    placed: int = 0
    """Of these, on a node."""
    ready: int = 0
    """Of these, ready."""
    finished: int = 0
    """Pods that have succeeded."""
    stranded: int = 0
    """Pods that hold a node while fewer pods of their group do than have to start together."""

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
    """Whose pods are in it, in the order of the JobSet."""
    phase: GangPhase
    since: int
    counts: Counts
    placed_at: int = 0
    """When the last pod that was needed got its node, 0 before that."""
    first_ready_at: int = 0
    ready_at: int = 0
    """When the first and the last pod became ready; the latter 0 until all are."""
    been_ready: bool = False
    """Whether it has been ready in this attempt."""
    missing_since: int = 0
    """Since when pods are missing of which their Jobs may tell in a moment that they have succeeded."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a gang is not ready.

    ``message`` is one sentence without its full stop; ``evidence`` are facts as they were seen, each one line, the most
    telling first; ``remedy`` says what to do, and ``command`` is the next one to run (both may be empty).
    """

    reason: Reason
    message: str
    evidence: tuple[str, ...] = ()
    remedy: str = ""
    command: str = ""
    groups: tuple[str, ...] = ()
    """Groups it holds back; empty for all of the JobSet."""
    pods: int = 0
    """How many pods it holds back, as far as that can be said."""
    since: int = 0
    blocking: bool = True
    """False for what ends by itself: containers that start, a turn in a queue that comes."""


@dataclass(frozen=True, slots=True)
class Readiness:
    """How far one JobSet has come. ``causes`` are ranked, the most likely first; a settled phase has none."""

    namespace: str
    name: str
    uid: str
    phase: GangPhase
    since: int
    counts: Counts
    groups: tuple[GroupReadiness, ...]
    causes: tuple[Cause, ...] = ()
    level: str = "None"
    """:data:`gangctl.gang.report.Level`."""
    local_queue: str = ""
    cluster_queue: str = ""
    attempt: int = 0
    created_at: int = 0
    admitted_at: int = 0
    """When it was free to start: admitted by Kueue, or created."""
    placed_at: int = 0
    first_ready_at: int = 0
    ready_at: int = 0
    """As those of the groups: when the last of them was complete, 0 until all are."""
    been_ready: bool = False
    """Whether it has been ready in this attempt."""
    lost: Cause | None = None
    """Why it is a gang in name only, whatever its phase: another time, some of its pods may start without the rest."""
    look_again: float | None = None
    """When time alone changes the answer, Unix seconds."""

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.namespace, self.name

    @property
    def reason(self) -> Reason | None:
        """The most likely cause, None where there is nothing to explain."""
        return self.causes[0].reason if self.causes else None

    @property
    def blocked_by(self) -> Reason | None:
        """The most likely cause that does not end by itself; None as long as it gets on."""
        return next((cause.reason for cause in self.causes if cause.blocking), None)
