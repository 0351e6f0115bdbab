"""Order of causes: the most likely first.

Causes that never end by themselves and explain all others come first: without an API there are no groups, without
groups the scheduler writes no condition. A rejection by the scheduler counts only if no earlier cause explains it. Lost
nodes come after it, because their pods are replaced and then rejected. Then come containers, which can fail only on a
node. Causes that end by themselves, such as a queue or starting containers, come after those that do not. Causes that
delay nothing now, such as a lost guarantee while all pods run, come last.
"""

from __future__ import annotations

from typing import Final

from gangctl.gang.reasons import Reason
from gangctl.readiness.result import Cause

TIERS: Final[tuple[tuple[str, tuple[Reason, ...]], ...]] = (
    ("nothing starts before a user resumes it", (Reason.SUSPENDED, Reason.DEACTIVATED, Reason.FAILED_TO_START)),
    ("it can never be admitted", (Reason.NEVER_FITS,)),
    (
        "its queue is closed, or Kueue cannot take it",
        (
            Reason.QUEUE_BLOCKED,
            Reason.FRAMEWORK_NOT_ENABLED,
            Reason.NAMESPACE_NOT_MANAGED,
            Reason.PRIORITY_CLASS_MISSING,
            Reason.TOO_MANY_PODSETS,
            Reason.WORKLOAD_MISSING,
            Reason.FAILED_CHECK_WITHOUT_QUOTA,
            Reason.EVICTED_HOLDS_QUOTA,
            Reason.FINISHED_HOLDS_QUOTA,
        ),
    ),
    ("there are no gangs here", (Reason.API_UNAVAILABLE,)),
    ("this JobSet is none", (Reason.NOT_GANGED, Reason.FOREIGN_WORKLOAD)),
    ("its pods are outside of their groups", (Reason.FIELD_DROPPED,)),
    ("its groups are not there", (Reason.NAME_CONFLICT, Reason.POD_GROUP_MISSING, Reason.POD_GROUP_TERMINATING)),
    ("a quorum cannot be met", (Reason.GANG_TAIL_BLOCKED, Reason.MIN_COUNT_UNREACHABLE)),
    ("the scheduler knows no groups, or refuses this one whatever is free", (Reason.SCHEDULING_GATE_OFF,)),
    ("pods and group contradict each other", (Reason.PRIORITY_MISMATCH,)),
    ("pods wait for each other in a circle", (Reason.EXCLUSIVE_TOPOLOGY_DEADLOCK,)),
    ("what it needs is refused", (Reason.JOB_CREATION_REFUSED, Reason.POD_CREATION_REFUSED)),
    ("it is held back on purpose", (Reason.ADMISSION_GATED, Reason.PODS_GATED)),
    ("another Workload comes first", (Reason.HEAD_BLOCKS_QUEUE, Reason.WAITING_FOR_CHECK)),
    ("no domain is large enough", (Reason.TOPOLOGY_TOO_SMALL,)),
    (
        "the scheduler refuses",
        (Reason.UNSCHEDULABLE, Reason.SCHEDULER_ERROR, Reason.SCHEDULER_SILENT, Reason.SCHEDULER_BACKOFF),
    ),
    ("what was placed is lost", (Reason.NODE_LOST, Reason.PREEMPTED)),
    ("containers fail", (Reason.IMAGE_PULL, Reason.CONTAINER_CONFIG, Reason.CRASH_LOOP)),
    ("containers take long, perhaps because they wait for those that fail", (Reason.NOT_READY, Reason.STARTING)),
    (
        "something is late that usually comes by itself",
        (Reason.PODS_MISSING, Reason.PODS_TERMINATING, Reason.RESTARTING, Reason.WAITING_FOR_STAGE),
    ),
    (
        "Kueue's word for what the causes before it explain",
        (Reason.EVICTED_AS_NOT_READY, Reason.PODS_NOT_READY, Reason.WAITING_FOR_QUOTA, Reason.QUEUE_BACKOFF),
    ),
    ("nothing was found", (Reason.UNKNOWN,)),
)
"""Tiers of causes that do not end by themselves; within a tier, the one with more affected pods is first."""

WAITING: Final[tuple[Reason, ...]] = (
    Reason.WAITING_FOR_CHECK,
    Reason.QUEUE_BACKOFF,
    Reason.ADMISSION_GATED,
    Reason.WAITING_FOR_QUOTA,
    Reason.RESTARTING,
    Reason.PREEMPTED,
    Reason.PODS_TERMINATING,
    Reason.POD_GROUP_MISSING,
    Reason.PODS_GATED,
    Reason.SCHEDULER_BACKOFF,
    Reason.SCHEDULER_SILENT,
    Reason.PODS_MISSING,
    Reason.STARTING,
    Reason.NOT_READY,
    Reason.WAITING_FOR_STAGE,
)
"""Causes that end by themselves, in the order in which they end; unlisted reasons delay nothing, and come last."""

_TIER: Final = {reason: place for place, (_, reasons) in enumerate(TIERS) for reason in reasons}
_WAIT: Final = {reason: place for place, reason in enumerate(WAITING)}


def place_of(cause: Cause) -> tuple[object, ...]:
    """Sort key of causes; a total order, so that the order of finding does not matter."""
    places = _TIER if cause.blocking else _WAIT
    return (
        not cause.blocking,
        places.get(cause.reason, len(places)),
        -cause.pods,
        _TIER.get(cause.reason, len(_TIER)),
        cause.reason.value,
        cause.groups,
        cause.message,
        cause.evidence,
    )
