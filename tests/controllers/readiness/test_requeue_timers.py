"""Changes are checked together and soon, each key rarely, and other tasks run meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangctl.controllers.readiness.controller import REST_SECONDS, TOGETHER_SECONDS, RequeueTimers
from tests.client.clock import VirtualClock, until


class Rig:
    """An requeue_timers in virtual time, and what it looked at when."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.looks: list[tuple[float, str, float]] = []
        self.costs: dict[str, float] = {}
        self.requeue_timers: RequeueTimers[str] = RequeueTimers(self._check, clock=self.clock)

    def _check(self, key: str, since: float) -> None:
        self.looks.append((self.clock.now() - 1000, key, since - 1000))
        self.clock.tick(self.costs.get(key, 0.0))

    @property
    def keys(self) -> list[str]:
        return [key for _, key, _ in self.looks]


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    made = Rig()
    task = asyncio.create_task(made.requeue_timers.run())
    yield made
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_concurrent_changes_are_one_check(rig: Rig) -> None:
    for key in ("a", "b", "a", "a"):
        rig.requeue_timers.mark(key)
    await rig.clock.advance(10)
    assert rig.keys == ["a", "b"]
    assert [at for at, _, _ in rig.looks] == [pytest.approx(TOGETHER_SECONDS)] * 2


async def test_a_key_that_keeps_changing_is_checked_at_once_and_then_twice_a_second(rig: Rig) -> None:
    for _ in range(300):
        rig.requeue_timers.mark("a")
        await rig.clock.advance(0.01)
    times = [at for at, _, _ in rig.looks]
    assert times[0] == pytest.approx(TOGETHER_SECONDS)
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert min(gaps) >= REST_SECONDS - 1e-9
    assert max(gaps) <= REST_SECONDS + TOGETHER_SECONDS + 0.01


async def test_a_paused_key_does_not_delay_the_others(rig: Rig) -> None:
    rig.requeue_timers.mark("a")
    await rig.clock.advance(0.2)
    rig.requeue_timers.mark("a")
    rig.requeue_timers.mark("b")
    await rig.clock.advance(0.11)
    assert rig.keys == ["a", "b"]
    await rig.clock.advance(0.5)
    assert rig.keys == ["a", "b", "a"]
    assert rig.looks[-1][2] == pytest.approx(0.2)


async def test_the_latency_counts_from_the_first_unchecked_change(rig: Rig) -> None:
    rig.requeue_timers.mark("a")
    await rig.clock.advance(0.05)
    rig.requeue_timers.mark("a")
    await rig.clock.advance(1)
    rig.requeue_timers.mark("a")
    await rig.clock.advance(1)
    assert [since for _, _, since in rig.looks] == [pytest.approx(0), pytest.approx(1.05)]


async def test_a_change_during_a_check_is_not_lost() -> None:
    clock, seen = VirtualClock(), list[str]()

    def check(key: str, _: float) -> None:
        seen.append(key)
        if len(seen) == 1:
            requeue_timers.mark(key)

    requeue_timers: RequeueTimers[str] = RequeueTimers(check, clock=clock)
    task = asyncio.create_task(requeue_timers.run())
    requeue_timers.mark("a")
    await clock.advance(5)
    assert seen == ["a", "a"]
    task.cancel()


async def test_the_last_requeue_time_replaces_earlier_ones(rig: Rig) -> None:
    rig.requeue_timers.again("a", 10)
    rig.requeue_timers.again("a", 20)
    rig.requeue_timers.again("b", 5)
    rig.requeue_timers.again("b", None)
    await rig.clock.advance(19)
    assert rig.keys == []
    await rig.clock.advance(2)
    assert rig.keys == ["a"]
    await rig.clock.advance(100)
    assert rig.keys == ["a"]


async def test_an_earlier_requeue_time_wakes_the_timer(rig: Rig) -> None:
    rig.requeue_timers.again("a", 500)
    await rig.clock.advance(1)
    rig.requeue_timers.again("b", 2)
    await rig.clock.advance(3)
    assert rig.keys == ["b"]


async def test_a_slow_check_runs_less_often_than_the_others(rig: Rig) -> None:
    rig.costs["huge"] = 0.3
    for _ in range(100):
        rig.requeue_timers.mark("huge")
        rig.requeue_timers.mark("small")
        await rig.clock.advance(0.1)
    counts = Counter(rig.keys)
    assert counts["huge"] <= 5
    assert counts["small"] >= 15


async def test_a_changed_key_is_checked_before_thousands_that_may_be_affected(rig: Rig) -> None:
    crowd = [f"crowd-{number}" for number in range(3000)]
    rig.costs = dict.fromkeys(crowd, 0.001)
    for key in crowd:
        rig.requeue_timers.mark_later(key)
    await rig.clock.advance(1)
    rig.requeue_timers.mark("a")
    rig.requeue_timers.mark(crowd[-1])
    await rig.clock.advance(1)
    among = [rig.keys.index(key) for key in ("a", crowd[-1])]
    assert max(among) < 1000
    at, _, since = rig.looks[among[0]]
    assert at - since <= 2 * TOGETHER_SECONDS + 0.01
    assert rig.looks[among[1]][2] == pytest.approx(0), "it was marked a second before it changed"
    await rig.clock.advance(10)
    assert sorted(rig.keys) == sorted(["a", *crowd])


async def test_a_key_that_keeps_changing_is_checked_no_more_often_among_thousands(rig: Rig) -> None:
    crowd = [f"crowd-{number}" for number in range(3000)]
    rig.costs = dict.fromkeys(crowd, 0.001)
    for key in crowd:
        rig.requeue_timers.mark_later(key)
    for _ in range(300):
        rig.requeue_timers.mark("a")
        await rig.clock.advance(0.01)
    times = [at for at, key, _ in rig.looks if key == "a"]
    assert len(times) >= 4
    assert min(later - earlier for earlier, later in pairwise(times)) >= REST_SECONDS - 1e-9


async def test_a_slow_deferred_key_is_paused_too(rig: Rig) -> None:
    rig.costs["huge"] = 0.3
    for _ in range(100):
        rig.requeue_timers.mark_later("huge")
        await rig.clock.advance(0.1)
    assert 2 <= len(rig.looks) <= 5


async def test_cleared_keys_are_not_checked(rig: Rig) -> None:
    rig.requeue_timers.mark("a")
    rig.requeue_timers.mark_later("d")
    rig.requeue_timers.again("b", 5)
    rig.requeue_timers.clear()
    rig.requeue_timers.mark("c")
    await rig.clock.advance(100)
    assert rig.keys == ["c"]


async def test_other_tasks_run_while_thousands_are_checked() -> None:
    """Work of a second, during which another task wants the event loop every millisecond."""
    done = list[int]()

    def check(key: int, _: float) -> None:
        until_then = time.perf_counter() + 0.0005
        while time.perf_counter() < until_then:
            pass
        done.append(key)

    requeue_timers: RequeueTimers[int] = RequeueTimers(check)
    task = asyncio.create_task(requeue_timers.run())
    for key in range(2000):
        requeue_timers.mark(key)
    turns = 0
    while len(done) < 2000:
        await asyncio.sleep(0.001)
        turns += 1
    task.cancel()
    # A thousand slices of 2 ms would be all that there is without a pause between them.
    assert turns >= 200
    assert sorted(done) == list(range(2000))


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([0.0, 0.03, 0.2, 2.0])), max_size=20))
def test_every_change_is_checked_soon_after_it_occurred(changes: list[tuple[str, float]]) -> None:
    async def run() -> None:
        rig = Rig()
        task = asyncio.create_task(rig.requeue_timers.run())
        marks: list[tuple[str, float]] = []
        for key, pause in changes:
            rig.requeue_timers.mark(key)
            marks.append((key, rig.clock.now() - 1000))
            await rig.clock.advance(pause)
        await rig.clock.advance(1)
        for key, at in marks:
            seen = [then for then, looked, _ in rig.looks if looked == key and at <= then <= at + REST_SECONDS + 0.25]
            assert seen, (key, at, rig.looks)
        assert len(rig.looks) <= len(marks)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())


async def test_replaced_requeue_times_do_not_accumulate(rig: Rig) -> None:
    for _ in range(5000):
        rig.requeue_timers.again("a", 1000)
    assert len(rig.requeue_timers._alarms) == len(rig.clock.pending) == 1
    await rig.clock.advance(1001)
    assert rig.keys == ["a"]


async def test_the_default_clock_is_real_time() -> None:
    seen = list[str]()
    requeue_timers: RequeueTimers[str] = RequeueTimers(lambda key, _: seen.append(key), together_seconds=0.01)
    task = asyncio.create_task(requeue_timers.run())
    requeue_timers.mark("a")
    condition: Callable[[], object] = lambda: seen  # noqa: E731 - what is waited for
    await until(condition)
    assert seen == ["a"]
    task.cancel()
