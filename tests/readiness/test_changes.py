"""A disturbance is counted once, however often its cause changes."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from gangctl.gang.reasons import Reason
from gangctl.readiness.metrics import Disruptions, transition
from gangctl.readiness.result import GangPhase, Readiness
from tests.readiness.standings import standing
from tests.rows import each


def test_a_change_of_phase_is_a_transition() -> None:
    before, now = standing(), standing(phase=GangPhase.READY)
    assert transition(before, now) == (GangPhase.SCHEDULING, GangPhase.READY)
    for nothing in ((None, now), (before, None), (before, before), (before, replace(now, uid="another"))):
        assert transition(*nothing) is None


def disturbed(*story: Readiness | None) -> list[Reason]:
    found = Disruptions()
    pairs = pairwise(story)
    return [reason for before, now in pairs if (reason := found.stands(before, now)) is not None]


def degraded(*reasons: Reason) -> Readiness:
    return standing("js", *reasons, phase=GangPhase.DEGRADED)


R = standing(phase=GangPhase.READY)


@each(
    ("story", "reasons"),
    [
        ([R, degraded(Reason.NODE_LOST), degraded(Reason.PREEMPTED), R], [Reason.NODE_LOST]),
        ([R, degraded(Reason.NOT_READY), degraded(Reason.NODE_LOST), R], [Reason.NODE_LOST]),
        ([R, degraded(), degraded(Reason.NOT_READY), R], [Reason.NOT_READY]),
        ([R, degraded(), None], [Reason.UNKNOWN]),
        ([R, degraded(Reason.NODE_LOST), R, degraded(Reason.NODE_LOST)], [Reason.NODE_LOST, Reason.NODE_LOST]),
        ([R, standing(phase=GangPhase.SUCCEEDED), None], []),
        ([standing(), degraded(Reason.NODE_LOST)], []),
        ([None, degraded(Reason.NODE_LOST), R], []),
        ([None, None], []),
    ],
)
def test_a_disturbance_is_counted_once_with_its_most_specific_cause(
    story: list[Readiness | None], reasons: list[Reason]
) -> None:
    assert disturbed(*story) == reasons
