"""When a group entered its phase, was placed and became ready: from the times that others wrote.

So a controller that is restarted says the same as before. What is remembered helps where nothing is written: when a
gang that is degraded lost its first pod, if that has been replaced since.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gangctl.readiness.history import Traces, scheduled_at
from gangctl.readiness.membership import Group
from gangctl.readiness.phases import GangPhase
from gangctl.readiness.reading import unix
from gangctl.readiness.result import GroupReadiness
from gangctl.readiness.totals import Totals, nth

_LASTING: Final = frozenset({GangPhase.DEGRADED, GangPhase.RESTARTING, GangPhase.SUCCEEDED})
"""Phases of which the traces go away while they last: who has seen their beginning knows best."""


@dataclass(frozen=True, slots=True)
class Life:
    """What is known of a group besides its pods."""

    begun: int
    """When its JobSet was free to start, or began its last restart."""
    attempt: int
    now: int
    before: GroupReadiness | None
    """What was found of it in this very attempt."""


def since(phase: GangPhase, group: Group, totals: Totals, found: Traces, life: Life) -> int:
    """When it entered its phase."""
    same = life.before.since if life.before is not None and life.before.phase is phase else 0
    if phase in _LASTING and same:
        return same
    written = _written(phase, group, totals, found, life)
    if phase is GangPhase.READY:
        # Once pods finish, the last of those that are left may have become ready earlier.
        return max(written, same) or life.now
    return written or same or life.now


def _written(phase: GangPhase, group: Group, totals: Totals, found: Traces, life: Life) -> int:
    """What times in the cluster say, 0 where they say nothing."""
    match phase:
        case GangPhase.PENDING | GangPhase.WAITING_FOR_PODS:
            return life.begun or (totals.created_at[0] if totals.created_at else 0)
        case GangPhase.SCHEDULING | GangPhase.GATED:
            return nth(totals.created_at, group.needed)
        case GangPhase.UNSCHEDULABLE:
            said = group.pod_group.scheduled if group.pod_group is not None else None
            told = unix(said.since) if said is not None and not said.status else 0
            return totals.refused_at or max(told, nth(totals.created_at, group.needed))
        case GangPhase.PARTIALLY_PLACED:
            return nth(totals.placed_at, 1)
        case GangPhase.STARTING:
            return nth(totals.placed_at, group.needed)
        case GangPhase.PARTIALLY_READY:
            return max(nth(totals.placed_at, group.needed), nth(totals.ready_at, 1))
        case GangPhase.READY:
            return nth(totals.ready_at, group.wanted)
        case GangPhase.DEGRADED:
            return found.lost_at
        case GangPhase.RESTARTING:
            lost = (pod.ready_at for pod in group.earlier if not pod.ready)
            return life.begun or max(lost, default=0)
        case _:
            # A pod that ends is not ready from then on.
            return max((pod.ready_at for pod in group.over), default=0)


def placed_at(group: Group, totals: Totals, been_ready: bool, life: Life) -> int:
    """When the last pod that was needed got its node, the first time in this attempt; 0 before that."""
    if life.before is not None and life.before.placed_at:
        return life.before.placed_at
    if group.finished:
        return max((pod.placed_at for pod in group.over), default=0)
    decided = scheduled_at(group)
    now = nth(totals.placed_at, group.needed)
    if now or been_ready:
        return min(now, decided) if now and decided else now or decided or nth(totals.placed_at, len(totals.placed_at))
    return 0


def first_ready_at(totals: Totals, life: Life) -> int:
    """When the first pod became ready."""
    if life.before is not None and life.before.first_ready_at:
        return life.before.first_ready_at
    return nth(totals.ready_at, 1)


def ready_at(group: Group, totals: Totals, been_ready: bool, life: Life) -> int:
    """When the last pod became ready, the first time in this attempt; 0 until all are."""
    if life.before is not None and life.before.ready_at:
        return life.before.ready_at
    if not been_ready:
        return 0
    return nth(totals.ready_at, group.wanted) or nth(totals.ready_at, len(totals.ready_at))
