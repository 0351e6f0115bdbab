"""The time spent in a place is the sum over its entries, and never decreases."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangctl.readiness.metrics import Lapse

moves = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["a", "b", "c", ""]), st.integers(0, 9)), max_size=40)


@given(moves)
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
