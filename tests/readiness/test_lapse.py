"""Time in many places at once is the sum over all who are there, and never becomes less."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangctl.readiness.aggregates import Lapse

moves = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["a", "b", "c", ""]), st.integers(0, 9)), max_size=40)


@given(moves)
def test_it_is_the_time_that_each_was_there(story: list[tuple[int, str, int]]) -> None:
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


def test_a_place_that_nobody_wants_is_forgotten_when_all_have_left() -> None:
    lapse: Lapse[int, str] = Lapse(2, "others")
    assert lapse.enter(1, "a", 0)
    assert lapse.enter(2, "b", 0)
    assert not lapse.enter(3, "c", 0)
    lapse.leave(1, 5)
    lapse.leave(3, 5)
    lapse.keep(lambda _: False)
    assert dict(lapse.seconds(5)) == {"b": 5, "others": 5}
    assert lapse.enter(3, "c", 5)


def test_to_leave_where_one_never_was_changes_nothing() -> None:
    lapse: Lapse[int, str] = Lapse(2, "others")
    lapse.leave(1, 5)
    assert dict(lapse.seconds(9)) == {}
