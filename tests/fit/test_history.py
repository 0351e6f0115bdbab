"""How long workloads run, by the run times of others: checked against ranks, and against runs that were cut off."""

from __future__ import annotations

import itertools
from math import inf

from hypothesis import given
from hypothesis import strategies as st

from gangctl.fit.ends import LEAST, History
from tests.strategies import PROPERTY

TIMES = st.lists(st.integers(1, 50).map(float), min_size=LEAST, max_size=40)
CHANCE = st.floats(0, 1, exclude_max=True)


class TestLeft:
    def test_each_gap_between_run_times_is_as_likely_as_any_other(self) -> None:
        history = History(map(float, range(10, 101, 10)))
        found = [history.left(0, (number + 0.5) / 11) for number in range(11)]
        edges = [0.0, *map(float, range(10, 101, 10)), inf]
        assert found == list(itertools.pairwise(edges))

    def test_the_time_that_is_left_is_of_those_that_run_longer_than_the_age(self) -> None:
        history = History([*[5.0] * 30, *map(float, range(110, 120))])
        assert history.left(100, 0.05) == (0, 10)
        assert history.left(100, 0.99) == (19, inf)

    def test_too_few_longer_runs_give_no_range(self) -> None:
        assert History([1.0] * (LEAST - 1)).left(0, 0.5) is None
        assert History([*[5.0] * 30, *[100.0] * (LEAST - 1)]).left(5, 0.5) is None
        assert History([*[5.0] * 30, *[100.0] * LEAST]).left(5, 0.5) == (0, 95)

    def test_workloads_that_run_longer_than_the_finished_ones_make_the_end_later(self) -> None:
        short = [10.0] * 10
        assert History(short).left(0, 0.8) == (0, 10)
        assert History(short, [60.0] * 10).left(0, 0.8) == (10, inf)
        assert History(short, [1.0] * 10).left(0, 0.8) == (0, 10)

    @PROPERTY
    @given(TIMES, st.lists(st.integers(0, 60).map(float), max_size=20), st.integers(0, 60), CHANCE, CHANCE)
    def test_what_is_left_is_a_range_that_grows_with_the_chance(
        self, times: list[float], ages: list[float], age: int, one: float, other: float
    ) -> None:
        history = History(times, ages)
        low, high = (history.left(age, each) for each in sorted([one, other]))
        assert (low is None) == (high is None) == (sum(each > age for each in times) < LEAST)
        if low is not None and high is not None:
            assert 0 <= low[0] < low[1]
            assert low[0] <= high[0]
            assert low[1] <= high[1]

    @PROPERTY
    @given(TIMES)
    def test_without_others_each_rank_of_a_run_is_as_likely(self, times: list[float]) -> None:
        history, chances = History(times), 1000
        found = [history.left(0, (number + 0.5) / chances) for number in range(chances)]
        longest = sum(each is not None and each[1] == inf for each in found)
        assert abs(longest / chances - 1 / (len(times) + 1)) <= 1.5 / chances


def test_the_middle_of_run_times_leaves_a_tenth_out_at_each_end() -> None:
    assert History(map(float, range(11))).middle() == (1.0, 9.0)
    assert History([4.0]).middle() == (4.0, 4.0)
