"""JobSets that restart again and again, and those that restart now and then."""

from __future__ import annotations

from dataclasses import replace

from gangctl.readiness.metrics import queue_of
from gangctl.readiness.restarts import WITHIN, RestartLog
from gangctl.readiness.result import GangPhase, Readiness
from tests.readiness.standings import standing


def test_three_restarts_within_the_time_are_a_loop_until_they_are_old() -> None:
    restarts, last = RestartLog(), standing("js")
    queue = queue_of(last)
    for attempt, at in ((1, 0.0), (2, 600.0), (3, 1_200.0)):
        assert restarts.loops(at) == {}
        now = standing("js", attempt=attempt)
        assert restarts.stands(last, now, at)
        last = now
    assert restarts.loops(1_200.0) == {queue: 1}
    assert restarts.loops(WITHIN) == {queue: 1}
    assert restarts.loops(WITHIN + 1) == {}


def test_restarts_of_one_job_alone_are_a_loop() -> None:
    restarts, last = RestartLog(), standing("js")
    story = [((), (1,)), ((1,), (1,)), ((1,), (1, 1)), ((1,), (2, 1)), ((1,), (3, 1))]
    for at, counts in enumerate(story):
        assert restarts.loops(at) == {}
        now = standing("js", job_restarts=counts)
        assert restarts.stands(last, now, at)
        assert not restarts.stands(now, now, at)
        last = now
    assert restarts.loops(5.0) == {queue_of(last): 1}


def looping() -> tuple[RestartLog, Readiness]:
    """A log, and the JobSet whose loop is in it."""
    restarts, last = RestartLog(), standing("js")
    for attempt in (1, 2, 3):
        now = standing("js", attempt=attempt)
        restarts.stands(last, now, 0.0)
        last = now
    return restarts, last


def test_a_finished_jobset_is_in_no_loop() -> None:
    restarts, last = looping()
    restarts.stands(last, standing("js", attempt=3, phase=GangPhase.SUCCEEDED), 1.0)
    assert restarts.loops(1.0) == {}


def test_a_loop_counts_in_the_queue_of_now_and_ends_with_the_jobset() -> None:
    restarts, last = looping()
    moved = replace(last, cluster_queue="another")
    assert not restarts.stands(last, moved, 1.0)
    assert restarts.loops(1.0) == {queue_of(moved): 1}
    restarts.stands(moved, replace(moved, uid="another"), 2.0)
    assert restarts.loops(2.0) == {}
