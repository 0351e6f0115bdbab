"""The aggregates are always the sum over the present gangs, and have a bounded number of rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gangctl.gang.reasons import Reason
from gangctl.readiness.metrics import OTHERS, THE_OTHERS, Aggregates, Blocked, Limits, Queue, queue_of
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


def tables(aggregates: Aggregates) -> dict[str, Any]:
    rows = dict(aggregates.rows())
    return {
        "phases": {queue: dict(row.phases) for queue, row in rows.items()},
        "pods": {queue: row.pods for queue, row in rows.items()},
        "gangs": {gang.key: gang for gang in aggregates.gangs()},
        "blocked": dict(aggregates.blocked()),
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
    for (queue, reason), found in aggregates.blocked().items():
        kept = [gang for gang in left if queue_of(gang) == queue and gang.blocked_by is reason]
        first = min(next(each.since for each in gang.causes if each.blocking) or gang.since for gang in kept)
        assert found == Blocked(len(kept), first)
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
    assert len([queue for queue, _ in shown["blocked"] if queue != THE_OTHERS]) <= limits.reasons
    assert len({namespace for namespace, _ in shown["lost"]} - {OTHERS}) <= limits.namespaces
    assert len(shown["gangs"]) == min(limits.gangs, len(small))
    assert shown["without"] == len(small) - len(shown["gangs"])
    assert sum(shown["pods"].values(), Counts()) == sum(all_of_it["pods"].values(), Counts())
    for name in ("blocked", "lost"):
        by_last = {table: Counter[str]() for table in ("shown", "all")}
        for table, found in (("shown", shown[name]), ("all", all_of_it[name])):
            for key, value in found.items():
                by_last[table][key[-1]] += value.gangs if name == "blocked" else value
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
    place = Queue("ns", "local", "cluster"), Reason.UNSCHEDULABLE
    for number, gang in enumerate(gangs):
        assert aggregates.blocked()[place] == Blocked(50 - number, 100 + number)
        aggregates.stands(gang, None)
    assert place not in aggregates.blocked()


def test_a_cause_without_a_time_lasts_as_long_as_the_phase() -> None:
    aggregates = Aggregates()
    starting = cause(Reason.STARTING, since=3, blocking=False)
    aggregates.stands(None, standing("js", starting, Reason.UNSCHEDULABLE, since=7))
    assert list(aggregates.blocked().values()) == [Blocked(1, 7)]
