"""What gangs lose, why, and until when: each loss and each recovery once."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from gangctl.gang.reasons import Reason
from gangctl.readiness.losses import Losses, Noticed, Recovery
from gangctl.readiness.result import Counts, GangPhase, Readiness
from tests.readiness.standings import standing, standings
from tests.rows import each


def noticed(*story: Readiness | None) -> list[Noticed]:
    losses = Losses()
    return [losses.stands(before, now) for before, now in pairwise(story)]


def lost(*story: Readiness | None) -> list[Reason]:
    return [one.loss for one in noticed(*story) if one.loss is not None]


def recoveries(*story: Readiness | None) -> list[Recovery]:
    return [one.recovery for one in noticed(*story) if one.recovery is not None]


def degraded(*reasons: Reason) -> Readiness:
    return standing("js", *reasons, phase=GangPhase.DEGRADED)


R = standing(phase=GangPhase.READY)
PREEMPTED = standing("js", Reason.WAITING_FOR_QUOTA, phase=GangPhase.QUEUED, evicted=Reason.PREEMPTED)
GROWN = standing("js", Reason.PODS_MISSING, phase=GangPhase.WAITING_FOR_PODS, counts=Counts(desired=8, wanted=8))
ENDING = standing("js", Reason.PODS_TERMINATING, phase=GangPhase.TERMINATING, deleting=True)


@each(
    ("story", "reasons"),
    [
        ([R, degraded(Reason.NODE_LOST), degraded(Reason.PREEMPTED), R], [Reason.NODE_LOST]),
        ([R, degraded(Reason.NOT_READY), degraded(Reason.NODE_LOST), R], [Reason.NODE_LOST]),
        ([R, degraded(), degraded(Reason.NOT_READY), R], [Reason.NOT_READY]),
        ([R, degraded(), None], [Reason.UNKNOWN]),
        ([R, degraded(Reason.NODE_LOST), R, degraded(Reason.NODE_LOST)], [Reason.NODE_LOST, Reason.NODE_LOST]),
        ([R, standing(phase=GangPhase.SUCCEEDED), None], []),
        ([R, replace(PREEMPTED, evicted=None), R], [Reason.WAITING_FOR_QUOTA]),
        ([R, PREEMPTED, replace(PREEMPTED, evicted=None), R], [Reason.PREEMPTED]),
        ([R, replace(R, deleting=True), ENDING, None], []),
        ([R, degraded(Reason.NOT_READY), ENDING, None], [Reason.NOT_READY]),
        ([R, GROWN, R, degraded(Reason.NODE_LOST)], [Reason.NODE_LOST]),
        ([standing(), degraded(Reason.NODE_LOST)], []),
        ([None, degraded(Reason.NODE_LOST), R], []),
        ([None, None], []),
    ],
)
def test_a_loss_is_counted_once_with_its_most_specific_cause(
    story: list[Readiness | None], reasons: list[Reason]
) -> None:
    assert lost(*story) == reasons


def at(since: int, phase: GangPhase, *reasons: Reason, attempt: int = 0) -> Readiness:
    return standing("js", *reasons, phase=phase, since=since, attempt=attempt)


READY_AT_100 = at(100, GangPhase.READY)


@each(
    ("story", "recovery"),
    [
        ([at(150, GangPhase.DEGRADED, Reason.NODE_LOST), at(170, GangPhase.READY)], Recovery(Reason.NODE_LOST, 20)),
        (
            [
                at(150, GangPhase.DEGRADED, Reason.NODE_LOST),
                at(160, GangPhase.RESTARTING, Reason.RESTARTING, attempt=1),
                at(165, GangPhase.STARTING, attempt=1),
                at(400, GangPhase.READY, attempt=1),
            ],
            Recovery(Reason.NODE_LOST, 250),
        ),
        (
            [
                at(150, GangPhase.DEGRADED, Reason.NOT_READY),
                at(150, GangPhase.DEGRADED, Reason.CRASH_LOOP),
                at(190, GangPhase.READY),
            ],
            Recovery(Reason.CRASH_LOOP, 40),
        ),
        # A phase that begins with the JobSet is not older than the time at which the gang was ready.
        ([at(5, GangPhase.PENDING), at(130, GangPhase.READY)], Recovery(Reason.UNKNOWN, 30)),
        ([at(150, GangPhase.DEGRADED), at(140, GangPhase.READY)], Recovery(Reason.UNKNOWN, 0)),
    ],
)
def test_a_recovery_lasts_from_the_first_loss_until_the_gang_is_ready(
    story: list[Readiness], recovery: Recovery
) -> None:
    assert recoveries(READY_AT_100, *story) == [recovery]


@each(
    "story",
    [
        [None, at(150, GangPhase.DEGRADED, Reason.NODE_LOST), at(170, GangPhase.READY)],
        [READY_AT_100, at(150, GangPhase.DEGRADED), at(170, GangPhase.FAILED)],
        [READY_AT_100, at(150, GangPhase.DEGRADED), None],
        [READY_AT_100, at(170, GangPhase.SUCCEEDED)],
    ],
)
def test_what_began_before_and_what_does_not_end_is_no_recovery(story: list[Readiness | None]) -> None:
    assert recoveries(*story) == []


@given(st.lists(standings(names=1), max_size=30))
def test_there_is_one_loss_for_each_time_that_a_gang_ceases_to_be_ready(story: list[Readiness]) -> None:
    gangs = [replace(gang, namespace="ns", uid="uid") for gang in story]
    ends = sum(
        before.phase is GangPhase.READY and not now.phase.settled and now.counts.desired <= before.counts.desired
        for before, now in pairwise(gangs)
    )
    # What is still open at the end is counted when the JobSet goes.
    assert len(lost(*gangs, None)) == ends
    assert len(recoveries(*gangs)) <= ends
    assert all(recovery.seconds >= 0 for recovery in recoveries(*gangs))
