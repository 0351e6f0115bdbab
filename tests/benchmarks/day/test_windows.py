"""Windows and clusters follow from the trace by rules."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.day.trace import PHILLY, Job, read_trace
from benchmarks.day.windows import (
    HOURS,
    LONGEST_SECONDS,
    NODE_GPUS,
    VARIATIONS,
    NoWindowError,
    Window,
    prepare,
    windows,
)

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def job(hour: float, gpus: int = 8, seconds: float = 3600.0) -> Job:
    return Job(BEGIN + timedelta(hours=hour), seconds, gpus, "q")


def test_windows_of_the_published_trace() -> None:
    begins = [(window.name, f"{window.begin:%d %H}", len(window.jobs)) for window in windows(read_trace(PHILLY))]
    assert begins == [("busiest", "08 12", 211), ("second", "16 01", 156), ("random", "11 00", 320)]


def test_the_busiest_window_offers_most_and_the_second_most_beside_it() -> None:
    jobs = [job(0), *(job(100 + n) for n in range(3)), *(job(200 + n) for n in range(2)), job(400)]
    busiest, second, _ = windows(jobs)
    assert [len(each.jobs) for each in (busiest, second)] == [3, 2]
    assert busiest.begin + timedelta(hours=HOURS) <= second.begin


def test_jobs_of_one_gpu_make_no_window_busy() -> None:
    jobs = [*(job(number / 10, gpus=1) for number in range(100)), job(100), job(200, gpus=1)]
    assert [each.gpus for each in windows(jobs)[0].jobs] == [8]


def test_a_short_trace_is_one_window() -> None:
    only = windows([job(1), job(5)])
    assert [(each.name, len(each.jobs)) for each in only] == [("busiest", 2)]


def test_a_trace_without_gangs_is_refused() -> None:
    with pytest.raises(NoWindowError, match="no job of 2 GPUs"):
        windows([job(1, gpus=1)])


@given(st.lists(st.tuples(st.integers(0, 400), st.integers(2, 64)), min_size=1), st.integers())
def test_windows_do_not_overlap(rows: list[tuple[int, int]], seed: int) -> None:
    jobs = sorted((job(hour, gpus) for hour, gpus in rows), key=lambda each: each.submitted)
    chosen = sorted(windows(jobs, seed), key=lambda window: window.begin)
    assert all(earlier.end <= later.begin for earlier, later in itertools.pairwise(chosen))
    assert all(window.jobs for window in chosen)


@given(
    st.lists(st.tuples(st.floats(0, 47), st.integers(2, 100), st.floats(1, 1e6)), min_size=1),
    st.sampled_from(sorted(VARIATIONS)),
)
def test_a_cluster_is_as_small_as_the_load_allows(rows: list[tuple[float, int, float]], name: str) -> None:
    variation = VARIATIONS[name]
    window = Window("busiest", BEGIN, tuple(job(*row) for row in rows))
    made = prepare(window, variation)
    offered = sum(each.seconds * each.gpus for each in made.demands)
    largest = max(each.gpus for each in made.demands)

    def enough(nodes: int) -> bool:
        return offered <= variation.load * nodes * NODE_GPUS * made.seconds and largest <= nodes * made.free

    assert enough(len(made.nodes))
    assert not enough(len(made.nodes) - 1)


def test_long_jobs_are_cut() -> None:
    (only,) = prepare(Window("busiest", BEGIN, (job(0, seconds=1e6),)), VARIATIONS["plain"]).demands
    assert only.seconds == LONGEST_SECONDS


def test_eight_gpus_a_pod() -> None:
    window = Window("busiest", BEGIN, (job(0, 4), job(1, 8), job(2, 32)))
    shapes = [(each.pods, each.gpus_a_pod) for each in prepare(window, VARIATIONS["eight"]).demands]
    assert shapes == [(1, 4), (1, 8), (4, 8)]


def test_lost_nodes_come_back_within_the_window() -> None:
    made = prepare(Window("busiest", BEGIN, (job(0, 32),)), VARIATIONS["lost"])
    assert [outage.node for outage in made.outages][:2] == ["node-1", "node-2"]
    assert all(outage.begin < outage.end <= made.seconds for outage in made.outages)


def test_half_the_speed() -> None:
    window = Window("busiest", BEGIN, (job(0),))
    assert prepare(window, VARIATIONS["half-speed"], 720).speed == 360
