"""The budgets as data: every row is measured by a benchmark that exists, and no benchmark is without a row."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from benchmarks.budgets import APART, ROWS, Direction, limit_of, limits
from benchmarks.catalogue import BENCHES, chosen

README: Final = Path(__file__).parent.parent.parent / "benchmarks" / "README.md"


def test_names_of_rows_are_unique() -> None:
    names = Counter([*(row.id for row in ROWS)])
    assert [name for name, count in names.items() if count > 1] == []
    assert [name for name, count in Counter(limit.id for limit in limits()).items() if count > 1] == []
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", name) for name in [*names, *(limit.id for limit in limits())])


def test_every_limit_is_measured_by_a_benchmark_and_every_benchmark_measures_one() -> None:
    assert {limit.bench for limit in limits()} == set(BENCHES)
    assert [row.id for row in ROWS if not row.limits] == []


def test_benchmarks_that_run_on_demand_are_separate_and_the_others_take_less_than_an_hour() -> None:
    assert {row.id for row in ROWS if row.apart} == {"contention-older", "gangs", "soak"} == set(APART)
    assert {row.id for row in ROWS if not row.apart and set(row.benches) & APART} == set()
    assert sum(BENCHES[name].minutes for name in chosen([])) <= 50


def test_the_page_has_the_duration_of_each_benchmark() -> None:
    lines = re.findall(r"^\| `([a-z-]+)`(, when asked for)? \| ([\d.]+) min \|$", README.read_text(), re.MULTILINE)
    assert [(name, bool(asked), float(minutes)) for name, asked, minutes in lines] == [
        (name, name in APART, bench.minutes) for name, bench in BENCHES.items()
    ]


def test_a_ratio_has_a_reference() -> None:
    assert [limit.id for limit in limits() if limit.relative and not limit.yardstick] == []
    assert limit_of("burst-groups").limit_unit == "x"
    assert limit_of("verdict-time").limit_unit == "ms"


@pytest.mark.parametrize(
    ("direction", "below", "equal", "over"),
    [
        (Direction.AT_MOST, True, True, False),
        (Direction.AT_LEAST, False, True, True),
        (Direction.ABOVE, False, False, True),
    ],
)
def test_a_limit_is_met_on_its_good_side(direction: Direction, below: bool, equal: bool, over: bool) -> None:
    assert [direction.allows(value, 2) for value in (1, 2, 3)] == [below, equal, over]


def test_rows_and_benchmarks_are_chosen_by_name() -> None:
    assert chosen([]) == [name for name in BENCHES if name not in APART]
    assert chosen([], ["soak"]) == [name for name in BENCHES if name not in APART - {"soak"}]
    assert chosen(["start"], ["soak"]) == ["start", "soak"]
    assert chosen(["burst-jobs", "verdict"]) == ["fit", "burst"]
    assert chosen(["soak", "translate", "translate"]) == ["translate", "soak"]
    with pytest.raises(KeyError, match="nowhere"):
        chosen([], ["nowhere"])
    with pytest.raises(KeyError, match="nothing"):
        chosen(["translate", "nothing"])
