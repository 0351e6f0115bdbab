from __future__ import annotations

import asyncio

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gangctl.runtime.controller import AT_ONCE, ControllerObserver, RetryPolicy, WorkQueue
from tests.client.clock import VirtualClock, settle

KEYS = st.sampled_from("abcd")


class QueueMachine(RuleBasedStateMachine):
    """Any order of adds, delays, failures and work: no key twice at once, none lost, none early."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = VirtualClock()
        self.queue = WorkQueue[str](clock=self.clock, randomness=lambda: 0.0)
        self.working: set[str] = set()
        self.wanted: dict[str, float] = {}  # key -> when it must be in line, at the latest
        self.dirty: set[str] = set()  # added while processed

    def want(self, key: str, when: float) -> None:
        self.wanted[key] = min(when, self.wanted.get(key, when))

    @rule(key=KEYS)
    def add(self, key: str) -> None:
        self.queue.add(key)
        if key in self.working:
            self.dirty.add(key)
        else:
            self.want(key, self.clock.now())

    @rule(key=KEYS, seconds=st.integers(min_value=-1, max_value=10))
    def add_after(self, key: str, seconds: float) -> None:
        self.queue.add_after(key, seconds)
        if seconds <= 0 and key in self.working:
            self.dirty.add(key)
        else:
            self.want(key, self.clock.now() + max(0.0, seconds))

    @rule(key=KEYS, at_least=st.sampled_from([0.0, 3.0]))
    def add_failed(self, key: str, at_least: float) -> None:
        delay = self.queue.add_failed(key, at_least=at_least)
        assert at_least <= delay <= 120
        self.want(key, self.clock.now() + delay)

    @rule(key=KEYS)
    def forget(self, key: str) -> None:
        self.queue.forget(key)

    @rule()
    def pause(self) -> None:
        self.queue.pause()

    @rule()
    def resume(self) -> None:
        with pytest.raises(StopIteration):  # so few keys are queued at once
            self.queue.resume().send(None)

    @precondition(lambda self: len(self.queue) > 0)
    @rule()
    def take(self) -> None:
        key = self.queue._take()
        assert key not in self.working, "two workers have one key"
        self.working.add(key)
        when = self.wanted.get(key)
        assert when is not None, "nobody asked for this key"
        assert when <= self.clock.now(), "a delayed key came early"
        del self.wanted[key]
        delayed = self.queue._delayed.get(key)
        if delayed is not None:  # a delayed request outlives an earlier immediate one
            self.want(key, delayed[0])

    @precondition(lambda self: self.working)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.working)))
        self.working.discard(key)
        self.queue.done(key)
        if key in self.dirty:
            self.dirty.discard(key)
            self.want(key, self.clock.now())

    @rule(seconds=st.integers(min_value=0, max_value=5))
    def time_passes(self, seconds: float) -> None:
        self.clock.tick(seconds)
        for key, when in self.wanted.items():
            if when <= self.clock.now() and key in self.working:
                self.dirty.add(key)

    @invariant()
    def nothing_is_lost(self) -> None:
        for key, when in self.wanted.items():
            if when > self.clock.now():
                assert key in self.queue._delayed
            else:
                assert key in self.queue._queued or key in self.queue._again or key in self.queue._parked

    @invariant()
    def nothing_is_in_two_places(self) -> None:
        assert not {*self.queue._queued, *self.queue._parked} & set(self.queue._processing)
        assert not set(self.queue._queued) & set(self.queue._parked)
        assert set(self.queue._processing) == self.working >= self.queue._again

    @invariant()
    def there_is_a_line_only_where_somebody_takes_from_it(self) -> None:
        assert not (self.queue._queued if not self.queue._attended else self.queue._parked)


TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


class Log(ControllerObserver):
    def __init__(self) -> None:
        self.lines: list[tuple[object, ...]] = []

    def made(self, queue: WorkQueue[str]) -> None:
        self.queue = queue

    def added(self) -> None:
        self.lines.append(("added", len(self.queue)))

    def taken(self, waited_seconds: float) -> None:
        self.lines.append(("taken", len(self.queue), waited_seconds))

    def retried(self) -> None:
        self.lines.append(("retried",))


@pytest.fixture
def queue(clock: VirtualClock) -> WorkQueue[str]:
    return WorkQueue(clock=clock, randomness=lambda: 0.0)


async def test_keys_are_returned_in_order_and_once(queue: WorkQueue[str]) -> None:
    for key in "abab":
        queue.add(key)
    assert [await queue.get(), await queue.get()] == ["a", "b"]
    assert len(queue) == 0


async def test_a_key_added_during_its_processing_is_returned_again_afterwards(queue: WorkQueue[str]) -> None:
    queue.add("a")
    await queue.get()
    queue.add("a")
    queue.add("a")
    assert len(queue) == 0
    queue.done("a")
    assert await queue.get() == "a"
    queue.done("a")
    assert len(queue) == 0


async def test_of_several_delays_the_earliest_counts(queue: WorkQueue[str], clock: VirtualClock) -> None:
    queue.add_after("a", 5)
    queue.add_after("a", 2)
    queue.add_after("a", 9)
    assert clock.pending == [2]
    clock.tick(1.9)
    assert len(queue) == 0
    clock.tick(0.1)
    assert await queue.get() == "a"
    queue.done("a")
    clock.tick(100)
    assert len(queue) == 0


async def test_the_delay_of_failures_grows_until_they_are_forgotten(clock: VirtualClock) -> None:
    queue = WorkQueue[str](clock=clock, policy=RetryPolicy(1, 5), randomness=lambda: 0.0)
    assert [queue.add_failed("a") for _ in range(5)] == [1, 2, 4, 5, 5]
    assert list(queue._failures) == ["a"]
    assert queue.add_failed("b", at_least=3) == 3
    queue.forget("a")
    assert queue.add_failed("a") == 1


async def test_jitter_only_shortens_a_delay(clock: VirtualClock) -> None:
    queue = WorkQueue[str](clock=clock, policy=RetryPolicy(8, 60, jitter=0.5), randomness=lambda: 0.999)
    assert 4 <= queue.add_failed("a") < 4.1


async def test_the_observer_receives_depth_and_latency(clock: VirtualClock) -> None:
    log = Log()
    queue = WorkQueue[str](clock=clock, observer=log, randomness=lambda: 0.0)
    queue.add("a")
    queue.add("b")
    clock.tick(3)
    await queue.get()
    queue.add_failed("a")
    queue.pause()
    assert log.lines == [("added", 1), ("added", 2), ("taken", 1, 3.0), ("retried",)]
    assert len(queue) == 0


async def test_keys_that_were_not_queued_when_resuming_was_cancelled_stay_parked(queue: WorkQueue[str]) -> None:
    queue.pause()
    keys = [str(number) for number in range(AT_ONCE + 2)]
    for key in keys:
        queue.add(key)
    resuming = asyncio.create_task(queue.resume())
    await asyncio.sleep(0)
    assert len(queue) == AT_ONCE, "webhooks are answered in between"
    resuming.cancel()
    with pytest.raises(asyncio.CancelledError):
        await resuming
    queue.pause()
    await queue.resume()
    assert [await queue.get() for _ in keys] == [*keys[AT_ONCE:], *keys[:AT_ONCE]]


async def test_waiting_workers_each_get_one_key(queue: WorkQueue[str]) -> None:
    workers = [asyncio.create_task(queue.get()) for _ in range(3)]
    await settle()
    queue.add("a")
    queue.add("b")
    await settle()
    assert [worker.done() for worker in workers] == [True, True, False]
    queue.add("c")
    assert await workers[2] == "c"


async def test_a_key_given_to_a_cancelled_waiter_goes_to_the_next(queue: WorkQueue[str]) -> None:
    first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
    await settle()
    queue.add("a")
    first.cancel()
    assert await second == "a"
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_a_cancelled_waiter_receives_no_key(queue: WorkQueue[str]) -> None:
    first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
    await settle()
    first.cancel()
    await settle()
    queue.add("a")
    assert await second == "a"
