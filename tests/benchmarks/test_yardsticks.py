"""What stands beside a measurement, and small sums that benchmarks make themselves."""

from __future__ import annotations

from collections import Counter
from typing import Any

import orjson
import pytest

from benchmarks.admission import order
from benchmarks.budgets import limit_of
from benchmarks.burst import Run as Burst
from benchmarks.burst import Way, manifest, turns
from benchmarks.burst import figures_of as of_bursts
from benchmarks.floor import prepare
from benchmarks.hostile import Run as Reviews
from benchmarks.hostile import figures_of as of_reviews
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


def test_a_round_trip_uses_the_client_of_gangctl(monkeypatch: pytest.MonkeyPatch) -> None:
    assert json_round_trip({"a": [1, 2, 3]}, 10) > 0
    read: list[bytes] = []
    monkeypatch.setattr(orjson, "loads", read.append)
    json_round_trip({"a": [1, 2, 3]}, 2)
    assert read == [b'{"a":[1,2,3]}'] * 2


def test_the_requested_number_of_gauges_is_made() -> None:
    (family,) = plain_gauges(123).collect()
    assert len(family.samples) == 123


def test_the_growth_of_a_backlog_is_that_of_its_second_half() -> None:
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


def test_every_phase_of_admission_is_the_first_of_a_round() -> None:
    phases = ["none", "native", "gangctl"]
    rounds = [order(phases, number) for number in range(4)]
    assert [each[0] for each in rounds] == [*phases, "none"]
    assert rounds[1] == ["native", "gangctl", "none"]
    assert all(sorted(each) == sorted(phases) for each in rounds)


def test_the_cpu_of_a_burst_is_compared_with_that_of_the_jobset_controller() -> None:
    done = Burst([0.1], [2.0], 3.0, {"gangctl": 6.0, "jobset": 12.0, "etcd": 100.0})
    bare = Burst([0.1], [2.0], 3.0, {"jobset": 1.0})
    runs = [{Way.GANGCTL: done, Way.FLOOR: bare, Way.NONE: bare}] * 2
    (cpu,) = (figure for figure in of_bursts(runs, 300) if figure.limit == "burst-cpu")
    assert cpu.rounds == (20.0, 20.0)
    assert cpu.yardstick == (40.0, 40.0)
    assert cpu.judged(limit_of("burst-cpu")) == 0.5


def test_reviews_beside_hostile_policies_are_judged_by_the_slowest_of_them_too() -> None:
    calm = Reviews(latencies=[0.01] * 100)
    beside = Reviews(latencies=[0.01] * 95 + [0.2] * 5)
    median, slowest = of_reviews([(calm, calm), (beside, calm)])
    assert (median.limit, slowest.limit) == ("hostile", "hostile-slowest")
    assert median.judged(limit_of("hostile")) == pytest.approx(1)
    assert slowest.judged(limit_of("hostile-slowest")) == pytest.approx(20)
    assert median.observed is not None
    assert median.observed.count == 200


def test_the_floor_has_the_objects_that_gangctl_would_write() -> None:
    prepared = prepare(manifest("b0", gangs=True), "n", "1.37")
    kinds = Counter(each["kind"] for each in prepared.objects)
    assert kinds == {"Workload": 1, "PodGroup": 3}
    groups = {each["metadata"]["name"] for each in prepared.objects if each["kind"] == "PodGroup"}
    named = [
        entry["template"]["spec"]["template"]["spec"]["schedulingGroup"]["podGroupName"]
        for entry in prepared.jobset["spec"]["replicatedJobs"]
    ]
    assert set(named) == groups
    assert "gangctl.dev" not in str(prepared.jobset)


def test_each_way_is_the_first_of_a_round() -> None:
    assert [turns(number)[0] for number in range(4)] == [*Way, Way.GANGCTL]
    assert all(sorted(turns(number)) == sorted(Way) for number in range(4))
