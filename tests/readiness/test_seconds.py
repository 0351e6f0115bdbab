"""Sums over time of what gangs hold: exact, never decreasing, and the same however time is divided."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangctl.readiness.metrics import Queue
from gangctl.readiness.result import PODS, GangPhase, Readiness, Usage
from gangctl.readiness.seconds import Held, HeldTime, held
from tests.readiness.standings import standing

GPU = "nvidia.com/gpu"
PLACES = ("a", "b", "c")
Step = tuple[int, dict[str, int], int]
"""A key, what it holds from now on by place, and the seconds until the next step."""

amounts = st.dictionaries(st.sampled_from(PLACES), st.integers(0, 8), max_size=2)
steps = st.lists(st.tuples(st.integers(0, 3), amounts, st.integers(0, 9)), max_size=40)


def sums(time: HeldTime[int, str], now: float) -> dict[str, float]:
    return {place: seconds for place, (seconds,) in time.sums(now)}


def put(time: HeldTime[int, str], key: int, places: dict[str, int], now: float) -> int:
    return time.put(key, {place: ("others", (amount,)) for place, amount in places.items()}, now)


@given(steps)
def test_the_sum_of_a_place_is_what_is_held_times_the_seconds(story: list[Step]) -> None:
    time: HeldTime[int, str] = HeldTime(len(PLACES))
    holds: dict[int, dict[str, int]] = {}
    expected: Counter[str] = Counter()
    now = 0.0
    for key, places, seconds in story:
        put(time, key, places, now)
        holds[key] = places
        now += seconds
        for own in holds.values():
            expected.update({place: amount * seconds for place, amount in own.items()})
    assert sums(time, now) == {place: expected[place] for place in sums(time, now)}
    assert sum(sums(time, now).values()) == sum(expected.values())


@given(steps, st.lists(st.floats(0, 1), max_size=5))
def test_sums_do_not_depend_on_when_they_are_read(story: list[Step], shares: list[float]) -> None:
    read, unread = HeldTime[int, str](len(PLACES)), HeldTime[int, str](len(PLACES))
    now = 0.0
    for key, places, seconds in story:
        for time in (read, unread):
            put(time, key, places, now)
        for share in sorted(shares):
            sums(read, now + share * seconds)
        now += seconds
    assert sums(read, now) == pytest.approx(sums(unread, now))


@given(steps)
def test_sums_never_decrease_and_others_have_what_has_no_place(story: list[Step]) -> None:
    time: HeldTime[int, str] = HeldTime(1)
    now, before = 0.0, dict[str, float]()
    for key, places, seconds in story:
        put(time, key, places, now)
        after = sums(time, now)
        assert len(set(after) - {"others"}) <= 1
        assert all(after[place] >= before[place] for place in set(before) & set(after))
        now, before = now + seconds, sums(time, now + seconds)
        assert all(seconds >= 0 for seconds in before.values())


def test_an_idle_place_is_kept_until_another_one_needs_the_room() -> None:
    time: HeldTime[int, str] = HeldTime(2)
    assert put(time, 1, {"a": 1}, 0) == put(time, 2, {"b": 1}, 0) == 0
    assert put(time, 3, {"c": 1}, 0) == 1
    put(time, 1, {}, 5)
    assert sums(time, 9) == {"a": 5, "b": 9, "others": 9}
    assert put(time, 3, {"c": 1}, 9) == 0
    assert sums(time, 10) == {"b": 10, "c": 1, "others": 9}


def test_the_place_that_has_been_idle_for_longest_makes_room() -> None:
    time: HeldTime[int, str] = HeldTime(2)
    put(time, 1, {"a": 1}, 0)
    put(time, 2, {"b": 1}, 0)
    put(time, 2, {}, 3)
    put(time, 1, {}, 4)
    sums(time, 8)
    put(time, 3, {"c": 1}, 9)
    assert sums(time, 9) == {"a": 4, "c": 0}


def test_a_key_that_moves_takes_the_place_that_it_leaves() -> None:
    time: HeldTime[int, str] = HeldTime(1)
    put(time, 1, {"a": 1}, 0)
    assert put(time, 1, {"b": 1}, 5) == 0
    assert sums(time, 6) == {"b": 1}


COUNTS = st.integers(0, 64)


@st.composite
def gangs(draw: st.DrawFn) -> Readiness:
    allocated = draw(COUNTS)
    return standing(
        f"js-{draw(st.integers(1, 3))}",
        phase=draw(st.sampled_from(GangPhase)),
        attempt=draw(st.integers(0, 2)),
        been_ready=draw(st.booleans()),
        usage=(
            Usage(GPU, 8 * allocated, 8 * draw(st.integers(0, allocated))),
            Usage(PODS, allocated, draw(st.integers(0, allocated))),
        ),
    )


@given(st.lists(st.tuples(gangs(), st.floats(0, 1e6)), max_size=30))
def test_allocated_time_is_at_least_each_of_its_parts(story: list[tuple[Readiness, float]]) -> None:
    time: HeldTime[tuple[str, str], tuple[Queue, str]] = HeldTime(10, len(Held._fields))
    queue, now = Queue("ns", "local", "cluster"), 0.0
    for gang, seconds in story:
        places = {(queue, resource): ((queue, resource), tuple(amount)) for resource, amount in held(gang).items()}
        time.put(gang.key, places, now)
        now += seconds
        for _, (allocated, ready, incomplete, restarting) in time.sums(now):
            assert 0 <= ready <= allocated
            assert 0 <= restarting <= incomplete <= allocated


def test_what_a_gang_holds_counts_as_restarting_until_it_is_ready_again() -> None:
    usage = (Usage(PODS, 8, 3),)
    story = [
        (GangPhase.STARTING, 0, False, Held(8, 3, 8, 0)),
        (GangPhase.READY, 0, True, Held(8, 3, 0, 0)),
        (GangPhase.DEGRADED, 0, True, Held(8, 3, 8, 0)),
        (GangPhase.RESTARTING, 1, False, Held(8, 3, 8, 8)),
        (GangPhase.STARTING, 1, False, Held(8, 3, 8, 8)),
        (GangPhase.READY, 1, True, Held(8, 3, 0, 0)),
        (GangPhase.DEGRADED, 1, True, Held(8, 3, 8, 0)),
    ]
    for phase, attempt, been, expected in story:
        gang = standing(phase=phase, attempt=attempt, been_ready=been, usage=usage)
        assert held(gang) == {PODS: expected}, phase
