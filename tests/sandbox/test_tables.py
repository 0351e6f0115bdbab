"""Texts in the cells of tables: durations, and values at JSONPaths. tests/conformance compares whole tables."""

from __future__ import annotations

from typing import Any

import pytest

from gangctl.sandbox.columns import duration, select, since
from tests.rows import each

MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400


@each(
    ("seconds", "text"),
    [
        (-2, "<invalid>"),
        (-1.5, "0s"),
        (0.9, "0s"),
        (119, "119s"),
        (2 * MINUTE, "2m"),
        (2 * MINUTE + 5, "2m5s"),
        (10 * MINUTE + 5, "10m"),
        (3 * HOUR - 1, "179m"),
        (3 * HOUR, "3h"),
        (7 * HOUR + 5 * MINUTE, "7h5m"),
        (8 * HOUR + 5 * MINUTE, "8h"),
        (2 * DAY - 1, "47h"),
        (2 * DAY, "2d"),
        (7 * DAY + HOUR, "7d1h"),
        (8 * DAY + HOUR, "8d"),
        (2 * YEAR - 1, "729d"),
        (2 * YEAR, "2y"),
        (3 * YEAR + DAY, "3y1d"),
        (9 * YEAR + DAY, "9y"),
    ],
)
def test_durations_are_those_of_kubectl(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize("time", [None, "", "yesterday", "2026-01-01T00:00:00"])
def test_the_age_without_a_valid_time_is_unknown(time: str | None) -> None:
    assert since(time) == "<unknown>"


@each(
    ("path", "values"),
    [
        (".a", [1]),
        (".b.c", ["x"]),
        (".b['c']", ["x"]),
        (r".b.with\.dot", [2]),
        (".list[1].n", ["two"]),
        (".list[*].n", ["one", "two"]),
        ('.list[?(@.t=="B")].n', ["two"]),
        (".list[?(@.t!='B')].n", ["one"]),
        (".list[?(@.sub.deep == 'y')].t", ["B"]),
        (".nothing", []),
        (".a.b", []),
        (".list[7]", []),
        (".a[0]", []),
        ("..n", ["one", "two"]),
        (".list[0:1].n", ["one"]),
        (".list[", []),
    ],
)
def test_json_paths_select_values(path: str, values: list[Any]) -> None:
    obj = {
        "a": 1,
        "b": {"c": "x", "with.dot": 2},
        "list": [{"t": "A", "n": "one"}, {"t": "B", "n": "two", "sub": {"deep": "y"}}],
    }
    assert select(path, obj) == values
