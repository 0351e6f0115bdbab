"""What stands beside a measurement, and small sums that benchmarks make themselves."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.scrape import plain_gauges
from benchmarks.steady import of_each, shapes
from benchmarks.sustained import Paced, slope
from benchmarks.yardsticks import PAGE, json_round_trip, listing


class Pages:
    """An API server with so many objects."""

    def __init__(self, objects: int) -> None:
        self.objects = objects
        self.asked: list[tuple[str, str]] = []

    async def get(self, path: str, **more: str | int | bool) -> dict[str, Any]:
        begin, limit = int(more.get("continue", 0)), int(more["limit"])
        self.asked.append((path, str(more.get("continue", ""))))
        end = min(self.objects, begin + limit)
        token = str(end) if end < self.objects else ""
        return {"metadata": {"continue": token}, "items": [{}] * (end - begin)}


async def test_a_listing_reads_every_page() -> None:
    server = Pages(2 * PAGE + 1)
    assert await listing(server, ["/a", "/b"]) > 0
    assert server.asked == [(path, token) for path in ("/a", "/b") for token in ("", str(PAGE), str(2 * PAGE))]


def test_a_round_trip_takes_time() -> None:
    assert json_round_trip({"a": [1, 2, 3]}, 10) > 0


def test_gauges_are_as_many_as_asked_for() -> None:
    (family,) = plain_gauges(123).collect()
    assert len(family.samples) == 123


def test_a_backlog_grows_by_its_second_half() -> None:
    assert slope([(0.0, 5.0), (1.0, 7.0), (2.0, 9.0)]) == pytest.approx(2)
    assert slope([(0.0, 5.0)]) == 0
    steady = Paced([(float(at), min(at, 10)) for at in range(1, 41)], answered=2_000, due=2_000)
    assert steady.growth == pytest.approx(0)
    behind = Paced([(float(at), at * 5.0) for at in range(1, 41)], answered=1_800, due=2_000)
    assert behind.growth == pytest.approx(10), "5 of 50 a second"


def test_writes_are_counted_by_their_jobset() -> None:
    writes = [{"objectRef": {"name": name}} for name in ("one-0-0123456789", "each-1-a-0123456789", "each-1-b-98765")]
    assert of_each(writes) == {"one-0": 1, "each-1": 2}
    assert [count for _, count in shapes(0).values()] == [1, 3, 12]
