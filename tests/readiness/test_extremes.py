"""The earliest time of the present entries, whatever was added and removed before."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangctl.readiness.metrics import Oldest

moves = st.lists(st.tuples(st.integers(0, 5), st.none() | st.integers(0, 20)), max_size=200)


@given(moves)
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
