"""From the phases of its groups to that of the JobSet: of the group that is least far, and of those that run the worst.

Groups that have succeeded hold nothing back. Neither do those whose stage has not come, as long as others have some way
to go; but a JobSet is not ready without them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from gangctl.readiness.phases import GangPhase
from gangctl.readiness.result import GroupReadiness

ORDER: Final = (
    GangPhase.SUSPENDED,
    GangPhase.QUEUED,
    GangPhase.FAILED,
    GangPhase.RESTARTING,
    GangPhase.GATED,
    GangPhase.PENDING,
    GangPhase.WAITING_FOR_PODS,
    GangPhase.SCHEDULING,
    GangPhase.UNSCHEDULABLE,
    GangPhase.PARTIALLY_PLACED,
    GangPhase.DEGRADED,
    GangPhase.STARTING,
    GangPhase.PARTIALLY_READY,
    GangPhase.READY,
    GangPhase.SUCCEEDED,
)
"""What decides comes first."""
_RANK: Final = {phase: rank for rank, phase in enumerate(ORDER)}
_FROM_THE_FIRST: Final = frozenset({GangPhase.DEGRADED, GangPhase.RESTARTING, GangPhase.FAILED})
"""Phases that a JobSet enters with the first of its groups; others with the last."""


def rolled_up(groups: Sequence[GroupReadiness], to_come: Collection[str]) -> tuple[GangPhase, int]:
    """Phase of a JobSet, and since when it is in it; ``to_come`` are names of groups whose stage has not come."""
    if not groups:
        return GangPhase.PENDING, 0
    phase, since = _least(groups)
    if to_come and phase is not GangPhase.SUCCEEDED:
        begun = [group for group in groups if group.name not in to_come and group.phase is not GangPhase.SUCCEEDED]
        if begun:
            phase, since = _least(begun)
            phase = GangPhase.PARTIALLY_READY if phase is GangPhase.READY else phase
    return phase, since


def _least(groups: Sequence[GroupReadiness]) -> tuple[GangPhase, int]:
    phase = min((group.phase for group in groups), key=_RANK.__getitem__)
    times = [group.since for group in groups if group.phase is phase]
    return phase, min(times) if phase in _FROM_THE_FIRST else max(times)


def all_done(times: Sequence[int]) -> int:
    """When the last of several things was done, 0 as long as one of them is not."""
    return max(times, default=0) if all(times) else 0
