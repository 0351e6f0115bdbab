"""What metrics count of gangs: sums over those that are there, in a bounded number of rows; each event once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangctl.gang.reasons import Reason
from gangctl.readiness.metrics import (
    DATED,
    OTHERS,
    THE_OTHERS,
    Aggregates,
    Blocked,
    Disruptions,
    Hold,
    Lapse,
    Limits,
    Measured,
    Oldest,
    Queue,
    Span,
    Starts,
    queue_of,
    transition,
)
from gangctl.readiness.result import Counts, GangPhase, Readiness
from tests.readiness.standings import cause, standing, standings
from tests.rows import each

Step = tuple[Readiness, bool]
"""A gang that stands there from now on, or that goes."""

steps = st.lists(st.tuples(standings(), st.booleans()), max_size=40)


def reported(aggregates: Aggregates, story: Sequence[Step]) -> dict[tuple[str, str], Readiness]:
    """Apply a story to the aggregates; returns the remaining gangs."""
    left: dict[tuple[str, str], Readiness] = {}
    for gang, stays in story:
        before = left.pop(gang.key, None)
        if stays:
            left[gang.key] = gang
        aggregates.stands(before, gang if stays else None)
    return left


def tables(aggregates: Aggregates) -> dict[str, Any]:
    rows = dict(aggregates.rows())
    return {
        "phases": {queue: dict(row.phases) for queue, row in rows.items()},
        "pods": {queue: row.pods for queue, row in rows.items()},
        "gangs": {gang.key: gang for gang in aggregates.gangs()},
        "blocked": dict(aggregates.blocked()),
        "dated": dict(aggregates.dated()),
        "lost": dict(aggregates.lost()),
        "without": aggregates.without_row,
        "length": len(aggregates),
    }


@given(steps)
def test_aggregates_after_changes_equal_those_of_the_remaining_gangs(story: list[Step]) -> None:
    moved, anew = Aggregates(), Aggregates()
    for gang in reported(moved, story).values():
        anew.stands(None, gang)
    assert tables(moved) == tables(anew)


@given(steps)
def test_aggregates_are_the_sum_over_the_remaining_gangs(story: list[Step]) -> None:
    aggregates = Aggregates()
    left = list(reported(aggregates, story).values())
    for queue, row in aggregates.rows():
        here = [gang for gang in left if queue_of(gang) == queue]
        assert row.phases == Counter(gang.phase for gang in here)
        assert row.pods == sum((gang.counts for gang in here), Counts())
    for hold, found in aggregates.blocked().items():
        kept = [gang for gang in left if (queue_of(gang), gang.blocked_by, gang.phase) == hold]
        first = min(next(each.since for each in gang.causes if each.blocking) or gang.since for gang in kept)
        assert found == Blocked(len(kept), first)
    for hold, found in aggregates.dated().items():
        kept = [gang for gang in left if (queue_of(gang), gang.blocked_by, gang.phase) == hold]
        assert found == Blocked(len(kept), min(gang.since for gang in kept))
    assert sum(found.gangs for found in aggregates.dated().values()) == sum(gang.phase in DATED for gang in left)
    assert sum(found.gangs for found in aggregates.blocked().values()) == sum(
        gang.blocked_by is not None for gang in left
    )


@given(steps, st.builds(Limits, *[st.integers(0, 3)] * 4))
def test_gangs_beyond_the_row_limits_are_summed_up(story: list[Step], limits: Limits) -> None:
    small, large = Aggregates(limits), Aggregates()
    reported(small, story)
    reported(large, story)
    shown, all_of_it = tables(small), tables(large)
    assert len([queue for queue in shown["phases"] if queue != THE_OTHERS]) <= limits.queues
    assert len([hold for hold in shown["blocked"] if hold.queue != THE_OTHERS]) <= limits.reasons
    assert len({namespace for namespace, _ in shown["lost"]} - {OTHERS}) <= limits.namespaces
    assert len(shown["gangs"]) == min(limits.gangs, len(small))
    assert shown["without"] == len(small) - len(shown["gangs"])
    assert sum(shown["pods"].values(), Counts()) == sum(all_of_it["pods"].values(), Counts())
    for name in ("blocked", "dated", "lost"):
        by_last = {table: Counter[str]() for table in ("shown", "all")}
        for table, found in (("shown", shown[name]), ("all", all_of_it[name])):
            for key, value in found.items():
                by_last[table][str(key[1:])] += value if name == "lost" else value.gangs
        assert by_last["shown"] == by_last["all"]


def test_empty_aggregates_have_no_rows() -> None:
    aggregates = Aggregates()
    gang = standing("js", Reason.NOT_GANGED)
    aggregates.stands(None, gang)
    aggregates.stands(gang, None)
    assert tables(aggregates) == tables(Aggregates())


def test_an_unknown_gang_is_not_subtracted() -> None:
    aggregates = Aggregates()
    aggregates.stands(standing("other"), None)
    aggregates.stands(standing("js", phase=GangPhase.READY), standing("js"))
    assert tables(aggregates)["phases"] == {Queue("ns", "local", "cluster"): {GangPhase.SCHEDULING: 1}}


def test_a_row_is_released_with_its_last_gang_to_the_next() -> None:
    aggregates = Aggregates(Limits(gangs=1, queues=1))
    first, second, third = (standing(f"js-{n}", local_queue=f"queue-{n}") for n in (1, 2, 3))
    for gang in (first, second, third):
        aggregates.stands(None, gang)
    moved = replace(first, phase=GangPhase.READY)
    aggregates.stands(first, moved)
    assert aggregates.gangs() == [moved]
    assert [queue.local_queue for queue, _ in aggregates.rows()] == ["queue-1", OTHERS]
    aggregates.stands(moved, None)
    assert aggregates.gangs() == [second]
    assert [queue.local_queue for queue, _ in aggregates.rows()] == ["queue-2", OTHERS]
    aggregates.stands(third, None)
    assert [queue.local_queue for queue, _ in aggregates.rows()] == ["queue-2"]
    assert aggregates.without_row == 0


def test_a_gang_without_a_row_is_counted_once() -> None:
    aggregates = Aggregates(Limits(gangs=1, queues=1, reasons=1, namespaces=1))
    for name in ("a", "b"):
        gang = standing(name, Reason.NOT_GANGED, namespace=name)
        aggregates.stands(None, gang)
        aggregates.stands(gang, replace(gang, phase=GangPhase.UNSCHEDULABLE))
    assert aggregates.dropped == {"gangs": 1, "queues": 1, "reasons": 1, "namespaces": 1}


def test_the_next_oldest_gang_is_found_when_the_oldest_is_removed() -> None:
    aggregates = Aggregates()
    gangs = [standing(f"js-{n}", cause(Reason.UNSCHEDULABLE, since=100 + n)) for n in range(50)]
    for gang in gangs:
        aggregates.stands(None, gang)
    place = Hold(Queue("ns", "local", "cluster"), Reason.UNSCHEDULABLE, GangPhase.SCHEDULING)
    for number, gang in enumerate(gangs):
        assert aggregates.blocked()[place] == Blocked(50 - number, 100 + number)
        aggregates.stands(gang, None)
    assert place not in aggregates.blocked()


def test_a_degraded_gang_hides_no_other_that_the_same_cause_blocks() -> None:
    aggregates = Aggregates()
    place = Queue("ns", "local", "cluster")
    waits, degraded = (cause(Reason.UNSCHEDULABLE, since=since) for since in (30, 20))
    aggregates.stands(None, standing("waits", waits))
    aggregates.stands(None, standing("ran", degraded, phase=GangPhase.DEGRADED, since=10))
    assert aggregates.blocked() == {
        Hold(place, Reason.UNSCHEDULABLE, GangPhase.SCHEDULING): Blocked(1, 30),
        Hold(place, Reason.UNSCHEDULABLE, GangPhase.DEGRADED): Blocked(1, 20),
    }
    assert aggregates.dated() == {Hold(place, Reason.UNSCHEDULABLE, GangPhase.DEGRADED): Blocked(1, 10)}


def test_a_crash_loop_has_lasted_since_the_first_crash_whatever_the_phase() -> None:
    aggregates = Aggregates()
    starting = standing("js", cause(Reason.CRASH_LOOP, since=100), phase=GangPhase.STARTING)
    degraded = standing("js", cause(Reason.CRASH_LOOP, since=400), phase=GangPhase.DEGRADED, since=300)
    aggregates.stands(None, starting)
    aggregates.stands(starting, degraded)
    assert list(aggregates.blocked().values()) == [Blocked(1, 100)]
    assert list(aggregates.dated().values()) == [Blocked(1, 300)]


def test_a_cause_without_a_time_lasts_as_long_as_the_phase() -> None:
    aggregates = Aggregates()
    starting = cause(Reason.STARTING, since=3, blocking=False)
    aggregates.stands(None, standing("js", starting, Reason.UNSCHEDULABLE, since=7))
    assert list(aggregates.blocked().values()) == [Blocked(1, 7)]


@given(st.lists(st.tuples(st.integers(0, 5), st.none() | st.integers(0, 20)), max_size=200))
def test_the_first_is_the_earliest_of_the_present_entries(story: list[tuple[int, int | None]]) -> None:
    oldest: Oldest[int] = Oldest()
    there: dict[int, int] = {}
    for key, time in story:
        if time is not None:
            there[key] = time
            oldest.put(key, time)
        elif there.pop(key, None) is not None:
            oldest.remove(key)
        assert len(oldest) == len(there)
        if there:
            assert oldest.first() == min(there.values())


def test_replaced_entries_do_not_accumulate() -> None:
    oldest: Oldest[str] = Oldest()
    for time in range(10_000):
        oldest.put("a", time)
    assert len(oldest._heap) < 100


def test_the_first_of_no_entries_is_an_error() -> None:
    with pytest.raises(ValueError, match="nothing that could be the oldest"):
        Oldest[str]().first()


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["a", "b", "c", ""]), st.integers(0, 9)), max_size=40))
def test_the_total_is_the_sum_of_the_times_of_all_entries(story: list[tuple[int, str, int]]) -> None:
    lapse: Lapse[int, str] = Lapse(2, "others")
    where: dict[int, str] = {}
    passed, now = 0.0, 0.0
    for key, place, seconds in story:
        if where.pop(key, None) is not None:
            lapse.leave(key, now)
        if place:
            lapse.enter(key, place, now)
            where[key] = place
        before = dict(lapse.seconds(now))
        now += seconds
        passed += seconds * len(where)
        after = dict(lapse.seconds(now))
        assert all(after[each] >= before[each] for each in before)
        assert sum(after.values()) == pytest.approx(passed)
        assert len(set(after) - {"others"}) <= 2


def test_an_empty_place_that_is_not_kept_is_dropped() -> None:
    lapse: Lapse[int, str] = Lapse(2, "others")
    assert lapse.enter(1, "a", 0)
    assert lapse.enter(2, "b", 0)
    assert not lapse.enter(3, "c", 0)
    lapse.leave(1, 5)
    lapse.leave(3, 5)
    lapse.keep(lambda _: False)
    assert dict(lapse.seconds(5)) == {"b": 5, "others": 5}
    assert lapse.enter(3, "c", 5)


def test_leaving_without_entering_changes_nothing() -> None:
    lapse: Lapse[int, str] = Lapse(2, "others")
    lapse.leave(1, 5)
    assert dict(lapse.seconds(9)) == {}


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


READY = {"phase": GangPhase.READY, "placed_at": 1_010, "first_ready_at": 1_020, "ready_at": 1_030, "been_ready": True}


def ready(**known: Any) -> Readiness:
    return standing(**{**READY, **known})


def all_of(starts: Starts, *story: Readiness) -> list[Measured]:
    return [measured for now in story for measured in starts.stands(now)]


def test_a_start_is_measured_from_creation_admission_and_first_ready_pod() -> None:
    placed = standing(placed_at=1_010, admitted_at=1_005)
    assert all_of(Starts(0), standing(admitted_at=1_005), placed, ready(admitted_at=1_005)) == [
        Measured(Span.TO_SCHEDULED, 10),
        Measured(Span.TO_READY, 30),
        Measured(Span.ADMITTED_TO_READY, 25),
        Measured(Span.SPREAD, 10),
    ]


def test_a_recovered_gang_is_not_measured_again() -> None:
    degraded = ready(phase=GangPhase.DEGRADED, ready_at=0)
    starts = Starts(0)
    assert len(all_of(starts, standing(), ready())) == 4
    assert all_of(starts, ready(), degraded, ready(ready_at=2_000), ready(ready_at=2_000)) == []


def test_a_gang_that_was_ready_before_this_leader_is_not_measured() -> None:
    starts = Starts(1_030.9)
    assert all_of(starts, ready(name="in that second")) == [
        Measured(Span.TO_READY, 30),
        Measured(Span.ADMITTED_TO_READY, 30),
        Measured(Span.SPREAD, 10),
    ]
    starts = Starts(1_031)
    assert all_of(starts, ready(), ready(phase=GangPhase.DEGRADED, ready_at=0), ready(ready_at=5_000)) == []


def test_a_gang_first_seen_degraded_is_not_measured_when_it_recovers() -> None:
    degraded = ready(phase=GangPhase.DEGRADED, ready_at=0)
    assert all_of(Starts(2_000), degraded, ready(ready_at=2_100)) == []


def test_a_gang_placed_before_this_leader_is_measured_when_it_becomes_ready() -> None:
    spans = [measured.span for measured in all_of(Starts(1_020), standing(placed_at=1_010), ready())]
    assert spans == [Span.TO_READY, Span.ADMITTED_TO_READY, Span.SPREAD]


def test_a_restart_is_not_measured_from_creation_unless_it_was_never_ready() -> None:
    again = ready(attempt=1, placed_at=9_000, first_ready_at=9_010, ready_at=9_050)
    restarting = standing(attempt=1, phase=GangPhase.RESTARTING)
    starts = Starts(0)
    all_of(starts, standing(), ready())
    assert all_of(starts, restarting, again) == [Measured(Span.SPREAD, 40)]
    assert Measured(Span.TO_READY, 8_050) in all_of(Starts(0), standing(), restarting, again)
    assert all_of(Starts(5_000), restarting, again) == [Measured(Span.SPREAD, 40)]


def test_each_admission_is_measured() -> None:
    starts = Starts(0)
    all_of(starts, standing(), ready())
    evicted = standing(phase=GangPhase.QUEUED, admitted_at=0)
    again = ready(admitted_at=3_000, placed_at=3_005, first_ready_at=3_010, ready_at=3_012)
    assert all_of(starts, evicted, again) == [Measured(Span.ADMITTED_TO_READY, 12), Measured(Span.SPREAD, 2)]


def test_a_gang_ready_before_its_last_admission_is_not_measured_for_it() -> None:
    starts = Starts(0)
    all_of(starts, standing(), ready())
    assert [each.span for each in all_of(starts, ready(admitted_at=3_000))] == [Span.SPREAD]


def test_a_new_jobset_of_the_same_name_is_measured_again() -> None:
    starts = Starts(0)
    assert len(all_of(starts, ready())) == 4
    assert len(all_of(starts, ready(uid="another"))) == 4
    starts.forget(ready().key)
    assert len(all_of(starts, ready(uid="another"))) == 4


def test_a_measured_duration_is_never_negative() -> None:
    assert Measured(Span.TO_READY, 0) in all_of(Starts(0), ready(created_at=1_031))
