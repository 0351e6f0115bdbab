"""What a run was worth, from events that a test writes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.day.figures import BUCKETS, Event, Kind, RunFigures, figures_of
from benchmarks.day.windows import HOURS, NODE_GPUS, Replay
from tests.benchmarks.day.replays import HOUR, demand, pod, pods, replay

WINDOW = HOURS * HOUR
CAPACITY = NODE_GPUS * WINDOW


def whole(job: str, count: int, begin: float, end: float) -> list[Event]:
    """A JobSet that is placed, works and ends."""
    return [
        *pods(begin, Kind.BOUND, job, count),
        *pods(begin, Kind.RUNNING, job, count),
        Event(end, Kind.DONE, job),
        *pods(end, Kind.ENDED, job, count),
    ]


def test_a_whole_gang_is_useful_while_it_works() -> None:
    figures = figures_of(replay(demand("a", 4)), whole("a", 4, HOUR, 2 * HOUR), WINDOW)
    assert (figures.done, figures.jobs, figures.makespan) == (1, 1, 2 * HOUR)
    assert figures.useful == pytest.approx(4 * HOUR / CAPACITY)
    assert figures.held == pytest.approx(figures.useful)
    assert figures.stranded == 0
    assert [wait.seconds for wait in figures.waits] == [HOUR]


def test_pods_without_their_peers_are_stranded() -> None:
    events = pods(0, Kind.BOUND, "a", 3) + pods(0, Kind.RUNNING, "a", 3)
    figures = figures_of(replay(demand("a", 4)), events, WINDOW)
    assert figures.stranded == 1.0
    assert figures.useful == 0
    assert figures.held == pytest.approx(3 / NODE_GPUS)
    assert figures.makespan is None
    assert [(wait.seconds, wait.begun) for wait in figures.waits] == [(WINDOW, False)]


def test_pods_that_are_bound_but_do_not_run_are_neither_useful_nor_stranded() -> None:
    figures = figures_of(replay(demand("a", 2)), pods(0, Kind.BOUND, "a", 2), WINDOW)
    assert figures.held == pytest.approx(2 / NODE_GPUS)
    assert (figures.useful, figures.stranded) == (0, 0)


def test_a_pod_that_stops_ends_the_work_of_all() -> None:
    events = pods(0, Kind.BOUND, "a", 2) + pods(0, Kind.RUNNING, "a", 2) + [pod(HOUR, Kind.STOPPING, "a", 1)]
    figures = figures_of(replay(demand("a", 2)), events, 2 * HOUR)
    assert figures.useful == pytest.approx(2 * HOUR / CAPACITY)
    assert figures.held == pytest.approx(4 * HOUR / CAPACITY)


def test_pods_of_a_done_jobset_are_not_stranded_while_they_end() -> None:
    events = [*pods(0, Kind.BOUND, "a", 2), *pods(0, Kind.RUNNING, "a", 2), Event(HOUR, Kind.DONE, "a")]
    events.append(pod(HOUR, Kind.ENDED, "a", 0))
    figures = figures_of(replay(demand("a", 2)), events, 2 * HOUR)
    assert figures.stranded == 0
    assert figures.held == pytest.approx(3 * HOUR / CAPACITY)


def test_idle_counts_only_beside_a_gang_that_fits() -> None:
    events = pods(0, Kind.BOUND, "a", 4) + pods(0, Kind.RUNNING, "a", 4)
    fits = figures_of(replay(demand("a", 4), demand("b", 4)), events, WINDOW)
    assert fits.idle == pytest.approx(4 / NODE_GPUS)
    larger = figures_of(replay(demand("a", 4), demand("b", 5)), events, WINDOW)
    assert larger.idle == 0


def test_a_gang_of_large_pods_does_not_fit_on_fragments() -> None:
    events = [pod(0, Kind.BOUND, "a", 0, "node-0"), pod(0, Kind.BOUND, "a", 1, "node-1")]
    demands = demand("a", 2), demand("b", 1, gpus=8)
    assert figures_of(replay(*demands, nodes=2), events, WINDOW).idle == 0
    assert figures_of(replay(*demands, nodes=3), events, WINDOW).idle == pytest.approx((7 + 7 + 8) / 24)


def test_gpus_of_a_lost_node_are_not_idle() -> None:
    lost = [Event(0, Kind.LOST, node="node-0")]
    assert figures_of(replay(demand("a", 8)), lost, WINDOW).idle == 0
    back = [*lost, Event(WINDOW / 2, Kind.BACK, node="node-0")]
    assert figures_of(replay(demand("a", 8)), back, WINDOW).idle == pytest.approx(0.5)


def test_gpus_that_others_hold_are_no_part_of_the_capacity() -> None:
    figures = figures_of(replay(demand("a", 6), held=2), pods(0, Kind.BOUND, "a", 6), WINDOW)
    assert figures.held == 1.0


def test_a_wait_begins_with_the_submission_and_ends_with_the_first_whole_start() -> None:
    events = [
        *pods(3 * HOUR, Kind.BOUND, "a", 2),
        pod(3 * HOUR, Kind.RUNNING, "a", 0),
        pod(4 * HOUR, Kind.RUNNING, "a", 1),
        pod(5 * HOUR, Kind.STOPPING, "a", 1),
        pod(6 * HOUR, Kind.RUNNING, "a", 1),
    ]
    figures = figures_of(replay(demand("a", 2, at=HOUR)), events, WINDOW)
    assert [(wait.gpus, wait.seconds, wait.begun) for wait in figures.waits] == [(2, 3 * HOUR, True)]


def test_what_comes_after_the_window_is_no_part_of_shares_but_counts_as_done() -> None:
    figures = figures_of(replay(demand("a", 4)), whole("a", 4, WINDOW, WINDOW + HOUR), WINDOW + HOUR)
    assert (figures.done, figures.useful, figures.makespan) == (1, 0, WINDOW + HOUR)


def test_lines_are_shares_of_each_half_hour() -> None:
    figures = figures_of(replay(demand("a", 4)), whole("a", 4, HOUR / 4, HOUR), WINDOW)
    assert figures.useful_line[:3] == pytest.approx((0.25, 0.5, 0.0))
    assert len(figures.useful_line) == BUCKETS


SIZES = {"a": 3, "b": 5, "c": 8}


@st.composite
def histories(draw: st.DrawFn) -> tuple[Replay, list[Event], float]:
    """Any pods of three JobSets, on nodes that have room for them, in any order of the steps of their lives."""
    demands = [demand(name, count, at=draw(st.floats(0, WINDOW))) for name, count in SIZES.items()]
    steps = [Kind.BOUND, Kind.RUNNING, Kind.STOPPING, Kind.ENDED]
    events = []
    for each in demands:
        for number in range(each.pods):
            times = sorted(draw(st.lists(st.floats(0, 1.25 * WINDOW), min_size=0, max_size=len(steps))))
            node = f"node-{draw(st.integers(0, 1))}"
            events += [pod(at, kind, each.name, number, node) for at, kind in zip(times, steps, strict=False)]
        if draw(st.booleans()):
            events.append(Event(draw(st.floats(0, WINDOW)), Kind.DONE, each.name))
    if draw(st.booleans()):
        events += [Event(draw(st.floats(0, WINDOW)), kind, node="node-1") for kind in (Kind.LOST, Kind.BACK)]
    return replay(*demands, nodes=2), events, draw(st.floats(1, 1.25 * WINDOW))


@given(histories())
def test_shares_add_up(history: tuple[Replay, list[Event], float]) -> None:
    figures = figures_of(*history)
    assert 0 <= figures.useful <= figures.held + 1e-9
    assert 0 <= figures.stranded <= 1 + 1e-9
    assert figures.useful + figures.stranded * figures.held <= figures.held + 1e-9
    assert 0 <= figures.idle <= 1
    mean = sum(figures.useful_line) / BUCKETS
    assert mean == pytest.approx(figures.useful, abs=1e-9)


@given(histories())
def test_the_order_in_which_jobsets_are_listed_does_not_matter(
    history: tuple[Replay, list[Event], float],
) -> None:
    given_replay, events, end = history
    turned = Replay(given_replay.demands[::-1], given_replay.nodes, 0, (), 720.0)
    one, other = figures_of(given_replay, events, end), figures_of(turned, events, end)
    assert figures(one) == pytest.approx(figures(other))


def figures(figures: RunFigures) -> list[float]:
    return [figures.done, figures.useful, figures.held, figures.stranded, figures.idle]
