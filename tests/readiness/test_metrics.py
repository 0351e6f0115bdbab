"""What metrics count of gangs: sums over those that are there, in a bounded number of rows; each event once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
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
    BlockedGangs,
    Hold,
    Oldest,
    PodState,
    Queue,
    QueueRow,
    RowLimits,
    pod_states,
    queue_of,
    transition,
)
from gangctl.readiness.result import Counts, GangPhase, Readiness
from tests.readiness.standings import cause, standing, standings

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


def pods_of(row: QueueRow) -> Counter[str]:
    """Every number of pods of a row."""
    asked = {"desired": row.desired, "minimum": row.minimum, "stranded": row.stranded}
    return Counter({**{state.value: count for state, count in row.states.items()}, **asked})


def total(rows: Iterable[Counter[str]]) -> Counter[str]:
    return sum(rows, Counter())


def tables(aggregates: Aggregates) -> dict[str, Any]:
    rows = dict(aggregates.rows())
    return {
        "phases": {queue: dict(row.phases) for queue, row in rows.items()},
        "pods": {queue: pods_of(row) for queue, row in rows.items()},
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
        assert row.states == total(Counter(pod_states(gang.counts)) for gang in here)
        assert row.desired == sum(gang.counts.desired for gang in here)
        assert row.minimum == sum(gang.counts.minimum for gang in here)
        assert row.stranded == sum(gang.counts.stranded for gang in here)
    for hold, found in aggregates.blocked().items():
        kept = [gang for gang in left if (queue_of(gang), gang.blocked_by, gang.phase) == hold]
        first = min(next(each.since for each in gang.causes if each.blocking) or gang.since for gang in kept)
        assert found == BlockedGangs(len(kept), first)
    for hold, found in aggregates.dated().items():
        kept = [gang for gang in left if (queue_of(gang), gang.blocked_by, gang.phase) == hold]
        assert found == BlockedGangs(len(kept), min(gang.since for gang in kept))
    assert sum(found.gangs for found in aggregates.dated().values()) == sum(gang.phase in DATED for gang in left)
    assert sum(found.gangs for found in aggregates.blocked().values()) == sum(
        gang.blocked_by is not None for gang in left
    )


@given(steps, st.builds(RowLimits, *[st.integers(0, 3)] * 5))
def test_gangs_beyond_the_row_limits_are_summed_up(story: list[Step], limits: RowLimits) -> None:
    small, large = Aggregates(limits), Aggregates()
    reported(small, story)
    reported(large, story)
    shown, all_of_it = tables(small), tables(large)
    assert len([queue for queue in shown["phases"] if queue != THE_OTHERS]) <= limits.queues
    assert len([hold for hold in shown["blocked"] if hold.queue != THE_OTHERS]) <= limits.reasons
    assert len([hold for hold in shown["dated"] if hold.queue != THE_OTHERS]) <= limits.dated
    assert len({namespace for namespace, _ in shown["lost"]} - {OTHERS}) <= limits.namespaces
    assert len(shown["gangs"]) == min(limits.gangs, len(all_of_it["gangs"]))
    assert shown["without"] == len(all_of_it["gangs"]) - len(shown["gangs"])
    assert not [gang for gang in shown["gangs"].values() if gang.phase.over]
    assert total(shown["pods"].values()) == total(all_of_it["pods"].values())
    for name in ("blocked", "dated", "lost"):
        by_last = {table: Counter[str]() for table in ("shown", "all")}
        for table, found in (("shown", shown[name]), ("all", all_of_it[name])):
            for key, value in found.items():
                by_last[table][str(key[1])] += value if name == "lost" else value.gangs
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
    aggregates = Aggregates(RowLimits(gangs=1, queues=1))
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


def test_a_finished_jobset_gives_its_row_to_the_next_at_once() -> None:
    aggregates = Aggregates(RowLimits(gangs=1))
    first, second, done = standing("first"), standing("second"), standing("done", phase=GangPhase.SUCCEEDED)
    for gang in (done, first, second):
        aggregates.stands(None, gang)
    assert (aggregates.gangs(), aggregates.without_row) == ([first], 1)
    aggregates.stands(first, replace(first, phase=GangPhase.FAILED))
    assert (aggregates.gangs(), aggregates.without_row) == ([second], 0)
    assert sum(count for _, row in aggregates.rows() for count in row.phases.values()) == 3


@given(st.builds(Counts, *[st.integers(0, 1_000)] * len(Counts.__slots__)))
def test_states_of_pods_are_disjoint(pods: Counts) -> None:
    states = pod_states(pods)
    assert set(states) == set(PodState)
    assert min(states.values()) >= 0
    if pods.wanted >= pods.created >= pods.placed >= pods.ready:
        assert sum(states.values()) == pods.wanted + pods.finished


def test_a_gang_without_a_row_is_counted_once() -> None:
    aggregates = Aggregates(RowLimits(gangs=1, queues=1, reasons=1, namespaces=1))
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
        assert aggregates.blocked()[place] == BlockedGangs(50 - number, 100 + number)
        aggregates.stands(gang, None)
    assert place not in aggregates.blocked()


def test_a_degraded_gang_hides_no_other_that_the_same_cause_blocks() -> None:
    aggregates = Aggregates()
    place = Queue("ns", "local", "cluster")
    waits, degraded = (cause(Reason.UNSCHEDULABLE, since=since) for since in (30, 20))
    aggregates.stands(None, standing("waits", waits))
    aggregates.stands(None, standing("ran", degraded, phase=GangPhase.DEGRADED, since=10))
    assert aggregates.blocked() == {
        Hold(place, Reason.UNSCHEDULABLE, GangPhase.SCHEDULING): BlockedGangs(1, 30),
        Hold(place, Reason.UNSCHEDULABLE, GangPhase.DEGRADED): BlockedGangs(1, 20),
    }
    assert aggregates.dated() == {Hold(place, Reason.UNSCHEDULABLE, GangPhase.DEGRADED): BlockedGangs(1, 10)}


def test_a_crash_loop_has_lasted_since_the_first_crash_whatever_the_phase() -> None:
    aggregates = Aggregates()
    starting = standing("js", cause(Reason.CRASH_LOOP, since=100), phase=GangPhase.STARTING)
    degraded = standing("js", cause(Reason.CRASH_LOOP, since=400), phase=GangPhase.DEGRADED, since=300)
    aggregates.stands(None, starting)
    aggregates.stands(starting, degraded)
    assert list(aggregates.blocked().values()) == [BlockedGangs(1, 100)]
    assert list(aggregates.dated().values()) == [BlockedGangs(1, 300)]


@given(st.lists(st.tuples(st.integers(0, 300), st.sampled_from(GangPhase)), min_size=1))
def test_what_began_to_block_later_than_its_gang_waits_is_no_older_after_other_changes(
    changes: list[tuple[int, GangPhase]],
) -> None:
    aggregates = Aggregates()
    before = standing("js", since=100)
    aggregates.stands(None, before, 100)
    for number, (since, phase) in enumerate(changes):
        now = standing("js", cause(Reason.QUEUE_BLOCKED, since=since), phase=phase, since=100)
        aggregates.stands(before, now, 200 + number)
        (blocked,) = aggregates.blocked().values()
        assert blocked.since >= 200
        before = now


def test_a_gang_behind_a_head_is_held_up_from_when_that_does_not_end() -> None:
    aggregates = Aggregates()
    waits, blocks = (
        standing("js", cause(Reason.HEAD_BLOCKS_QUEUE, since=100, blocking=blocking), since=100)
        for blocking in (False, True)
    )
    aggregates.stands(None, waits, 100)
    aggregates.stands(waits, blocks, 500)
    assert list(aggregates.blocked().values()) == [BlockedGangs(1, 500)]


def test_a_cause_without_a_time_lasts_as_long_as_the_phase() -> None:
    aggregates = Aggregates()
    starting = cause(Reason.STARTING, since=3, blocking=False)
    aggregates.stands(None, standing("js", starting, Reason.UNSCHEDULABLE, since=7))
    assert list(aggregates.blocked().values()) == [BlockedGangs(1, 7)]


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


def test_a_change_of_phase_is_a_transition() -> None:
    before, now = standing(), standing(phase=GangPhase.READY)
    assert transition(before, now) == (GangPhase.SCHEDULING, GangPhase.READY)
    for nothing in ((None, now), (before, None), (before, before), (before, replace(now, uid="another"))):
        assert transition(*nothing) is None
