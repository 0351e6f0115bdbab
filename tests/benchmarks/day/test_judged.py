"""What a run was worth, from events that a test writes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.day.judged import BUCKETS, Event, Judged, Kind, judge
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
    judged = judge(replay(demand("a", 4)), whole("a", 4, HOUR, 2 * HOUR), WINDOW)
    assert (judged.done, judged.jobs, judged.makespan) == (1, 1, 2 * HOUR)
    assert judged.useful == pytest.approx(4 * HOUR / CAPACITY)
    assert judged.held == pytest.approx(judged.useful)
    assert judged.stranded == 0
    assert [wait.seconds for wait in judged.waits] == [HOUR]


def test_pods_without_their_peers_are_stranded() -> None:
    events = pods(0, Kind.BOUND, "a", 3) + pods(0, Kind.RUNNING, "a", 3)
    judged = judge(replay(demand("a", 4)), events, WINDOW)
    assert judged.stranded == 1.0
    assert judged.useful == 0
    assert judged.held == pytest.approx(3 / NODE_GPUS)
    assert judged.makespan is None
    assert [(wait.seconds, wait.begun) for wait in judged.waits] == [(WINDOW, False)]


def test_pods_that_are_bound_but_do_not_run_are_neither_useful_nor_stranded() -> None:
    judged = judge(replay(demand("a", 2)), pods(0, Kind.BOUND, "a", 2), WINDOW)
    assert judged.held == pytest.approx(2 / NODE_GPUS)
    assert (judged.useful, judged.stranded) == (0, 0)


def test_a_pod_that_stops_ends_the_work_of_all() -> None:
    events = pods(0, Kind.BOUND, "a", 2) + pods(0, Kind.RUNNING, "a", 2) + [pod(HOUR, Kind.STOPPING, "a", 1)]
    judged = judge(replay(demand("a", 2)), events, 2 * HOUR)
    assert judged.useful == pytest.approx(2 * HOUR / CAPACITY)
    assert judged.held == pytest.approx(4 * HOUR / CAPACITY)


def test_pods_of_a_done_jobset_are_not_stranded_while_they_end() -> None:
    events = [*pods(0, Kind.BOUND, "a", 2), *pods(0, Kind.RUNNING, "a", 2), Event(HOUR, Kind.DONE, "a")]
    events.append(pod(HOUR, Kind.ENDED, "a", 0))
    judged = judge(replay(demand("a", 2)), events, 2 * HOUR)
    assert judged.stranded == 0
    assert judged.held == pytest.approx(3 * HOUR / CAPACITY)


def test_idle_counts_only_beside_a_gang_that_fits() -> None:
    events = pods(0, Kind.BOUND, "a", 4) + pods(0, Kind.RUNNING, "a", 4)
    fits = judge(replay(demand("a", 4), demand("b", 4)), events, WINDOW)
    assert fits.idle == pytest.approx(4 / NODE_GPUS)
    larger = judge(replay(demand("a", 4), demand("b", 5)), events, WINDOW)
    assert larger.idle == 0


def test_a_gang_of_large_pods_does_not_fit_on_fragments() -> None:
    events = [pod(0, Kind.BOUND, "a", 0, "node-0"), pod(0, Kind.BOUND, "a", 1, "node-1")]
    demands = demand("a", 2), demand("b", 1, gpus=8)
    assert judge(replay(*demands, nodes=2), events, WINDOW).idle == 0
    assert judge(replay(*demands, nodes=3), events, WINDOW).idle == pytest.approx((7 + 7 + 8) / 24)


def test_gpus_of_a_lost_node_are_not_idle() -> None:
    lost = [Event(0, Kind.LOST, node="node-0")]
    assert judge(replay(demand("a", 8)), lost, WINDOW).idle == 0
    back = [*lost, Event(WINDOW / 2, Kind.BACK, node="node-0")]
    assert judge(replay(demand("a", 8)), back, WINDOW).idle == pytest.approx(0.5)


def test_gpus_that_others_hold_are_no_part_of_the_capacity() -> None:
    judged = judge(replay(demand("a", 6), held=2), pods(0, Kind.BOUND, "a", 6), WINDOW)
    assert judged.held == 1.0


def test_a_wait_begins_with_the_submission_and_ends_with_the_first_whole_start() -> None:
    events = [
        *pods(3 * HOUR, Kind.BOUND, "a", 2),
        pod(3 * HOUR, Kind.RUNNING, "a", 0),
        pod(4 * HOUR, Kind.RUNNING, "a", 1),
        pod(5 * HOUR, Kind.STOPPING, "a", 1),
        pod(6 * HOUR, Kind.RUNNING, "a", 1),
    ]
    judged = judge(replay(demand("a", 2, at=HOUR)), events, WINDOW)
    assert [(wait.gpus, wait.seconds, wait.begun) for wait in judged.waits] == [(2, 3 * HOUR, True)]


def test_what_comes_after_the_window_is_no_part_of_shares_but_counts_as_done() -> None:
    judged = judge(replay(demand("a", 4)), whole("a", 4, WINDOW, WINDOW + HOUR), WINDOW + HOUR)
    assert (judged.done, judged.useful, judged.makespan) == (1, 0, WINDOW + HOUR)


def test_lines_are_shares_of_each_half_hour() -> None:
    judged = judge(replay(demand("a", 4)), whole("a", 4, HOUR / 4, HOUR), WINDOW)
    assert judged.useful_line[:3] == pytest.approx((0.25, 0.5, 0.0))
    assert len(judged.useful_line) == BUCKETS


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
    judged = judge(*history)
    assert 0 <= judged.useful <= judged.held + 1e-9
    assert 0 <= judged.stranded <= 1 + 1e-9
    assert judged.useful + judged.stranded * judged.held <= judged.held + 1e-9
    assert 0 <= judged.idle <= 1
    mean = sum(judged.useful_line) / BUCKETS
    assert mean == pytest.approx(judged.useful, abs=1e-9)


@given(histories())
def test_the_order_in_which_jobsets_are_listed_does_not_matter(
    history: tuple[Replay, list[Event], float],
) -> None:
    given_replay, events, end = history
    turned = Replay(given_replay.demands[::-1], given_replay.nodes, 0, (), 720.0)
    one, other = judge(given_replay, events, end), judge(turned, events, end)
    assert figures(one) == pytest.approx(figures(other))


def figures(judged: Judged) -> list[float]:
    return [judged.done, judged.useful, judged.held, judged.stranded, judged.idle]
