from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import pairwise

import pytest
from structlog.testing import capture_logs

from gangctl.client.pacing import Clock
from gangctl.errors import (
    ConflictError,
    ForbiddenError,
    LeadershipLostError,
    OwnershipConflictError,
    TooManyRequestsError,
)
from gangctl.runtime.controller import (
    Action,
    Controller,
    ControllerObserver,
    ControllerOptions,
    await_change,
    default_error_policy,
    error_kind,
    requeue,
    retry,
)
from tests.client.clock import VirtualClock, settle

Reconcile = Callable[[str], Awaitable[Action]]


class Totals(ControllerObserver):
    def __init__(self) -> None:
        self.results: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()

    def reconciled(self, result: str, seconds: float) -> None:
        assert seconds >= 0
        self.results[result] += 1

    def failed(self, kind: str) -> None:
        self.errors[kind] += 1


class Rig:
    """Starts controllers on the virtual clock and ends them with the test."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.totals = Totals()
        self.tasks: list[asyncio.Task[None]] = []

    def start(self, reconcile: Reconcile, options: ControllerOptions | None = None) -> Controller[str]:
        controller = Controller(
            "test",
            reconcile,
            options=options,
            observer=self.totals,
            clock=self.clock,
            randomness=lambda: 0.0,
        )
        self.tasks.append(asyncio.create_task(controller.run()))
        return controller


@pytest.fixture
async def rig(clock: VirtualClock) -> AsyncIterator[Rig]:
    rig = Rig(clock)
    yield rig
    for task in rig.tasks:
        task.cancel()
    await asyncio.gather(*rig.tasks, return_exceptions=True)


def scripted(*outcomes: Action | BaseException) -> tuple[Reconcile, list[str]]:
    """A reconcile with these outcomes in order, the last one repeated; and the keys it was called with."""
    left, calls = list(outcomes), list[str]()

    async def reconcile(key: str) -> Action:
        calls.append(key)
        outcome = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    return reconcile, calls


async def test_a_key_is_not_requeued_after_success(rig: Rig, clock: VirtualClock) -> None:
    reconcile, calls = scripted(await_change())
    controller = rig.start(reconcile)
    controller.enqueue("a")
    await clock.advance(1000)
    assert calls == ["a"]
    controller.enqueue("a")
    await clock.advance(0)
    assert calls == ["a", "a"]
    assert rig.totals.results == {"done": 2}


async def test_a_requeued_key_is_reconciled_after_its_delay(rig: Rig, clock: VirtualClock) -> None:
    reconcile, calls = scripted(requeue(10))
    rig.start(reconcile).enqueue("a")
    await clock.advance(35)
    assert calls == ["a"] * 4
    assert rig.totals.results == {"requeued": 4}


async def test_transient_errors_are_retried_with_growing_delays(rig: Rig, clock: VirtualClock) -> None:
    failure = ConflictError(409, "Conflict", "changed")
    reconcile, calls = scripted(failure, failure, failure, await_change())
    controller = rig.start(reconcile)
    controller.enqueue("a")
    await clock.advance(0.1)
    assert len(calls) == 2
    await clock.advance(0.2)
    assert len(calls) == 3
    assert list(controller.queue._failures) == ["a"]
    await clock.advance(0.4)
    assert len(calls) == 4
    assert not controller.queue._failures
    assert rig.totals.results == {"retried": 3, "done": 1}
    assert rig.totals.errors == {"ConflictError": 3}


async def test_retry_after_of_the_server_is_honoured(rig: Rig, clock: VirtualClock) -> None:
    reconcile, calls = scripted(TooManyRequestsError(429, "TooManyRequests", "", retry_after=7), await_change())
    rig.start(reconcile).enqueue("a")
    await clock.advance(6.9)
    assert len(calls) == 1
    await clock.advance(0.2)
    assert len(calls) == 2


@pytest.mark.parametrize("error", [ForbiddenError(403, "Forbidden", "no"), OwnershipConflictError("theirs")])
async def test_terminal_errors_wait_for_a_change(rig: Rig, clock: VirtualClock, error: Exception) -> None:
    reconcile, calls = scripted(error)
    rig.start(reconcile).enqueue("a")
    await clock.advance(10_000)
    assert calls == ["a"]
    assert rig.totals.results == {"failed": 1}


async def test_a_reconcile_can_request_a_backoff(rig: Rig, clock: VirtualClock) -> None:
    reconcile, calls = scripted(retry(), retry(5), await_change())
    rig.start(reconcile).enqueue("a")
    await clock.advance(0.1)
    assert len(calls) == 2
    await clock.advance(5)
    assert len(calls) == 3
    assert rig.totals.errors == {}


async def test_an_error_policy_overrides_the_default(clock: VirtualClock) -> None:
    reconcile, calls = scripted(ValueError("x"))
    controller = Controller("test", reconcile, error_policy=lambda _key, _error: await_change(), clock=clock)
    task = asyncio.create_task(controller.run())
    controller.enqueue("a")
    await clock.advance(1000)
    assert calls == ["a"]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_an_unexpected_error_is_logged_with_its_traceback_once_per_window(rig: Rig, clock: VirtualClock) -> None:
    reconcile, calls = scripted(ZeroDivisionError("oops"))
    with capture_logs() as logs:
        rig.start(reconcile).enqueue("a")
        await clock.advance(299)
        errors = [line for line in logs if line["log_level"] == "error"]
        assert len(errors) == 1
        assert isinstance(errors[0]["exc_info"], ZeroDivisionError)
        assert len(calls) > 5
        await clock.advance(200)
    assert len([line for line in logs if line["log_level"] == "error"]) == 2
    assert rig.totals.errors == {"panic": len(calls)}


async def test_a_reconcile_that_hangs_ends_at_its_deadline(rig: Rig) -> None:
    async def hang(_: str) -> Action:
        await asyncio.Event().wait()
        return await_change()

    rig.start(hang, ControllerOptions(deadline_seconds=0.01)).enqueue("a")
    async with asyncio.timeout(300):
        while not rig.totals.errors:
            await settle()
    assert rig.totals.errors == {"deadline": 1}


async def test_a_timeout_error_of_a_reconcile_is_not_counted_as_the_deadline(rig: Rig, clock: VirtualClock) -> None:
    reconcile, _ = scripted(TimeoutError(), await_change())
    rig.start(reconcile).enqueue("a")
    await clock.advance(0)
    assert rig.totals.errors == {"panic": 1}


async def test_keys_are_reconciled_concurrently_but_each_by_one_worker(rig: Rig) -> None:
    active: Counter[str] = Counter()
    most = 0
    done = Counter[str]()
    controller: Controller[str]

    async def reconcile(key: str) -> Action:
        nonlocal most
        active[key] += 1
        assert active[key] == 1
        most = max(most, sum(active.values()))
        if done[key] < 3:
            controller.enqueue(key)
        await settle(3)
        active[key] -= 1
        done[key] += 1
        return await_change()

    controller = rig.start(reconcile, ControllerOptions(workers=3))
    for key in "abcdef":
        controller.enqueue(key)
    async with asyncio.timeout(300):
        while sum(done.values()) < 6 * 4:
            await settle()
    assert done == dict.fromkeys("abcdef", 4)
    assert most == 3


async def test_reconciles_that_never_wait_leave_turns_to_other_tasks(rig: Rig) -> None:
    done: list[str] = []

    async def reconcile(key: str) -> Action:
        done.append(key)
        return await_change()

    controller = rig.start(reconcile, ControllerOptions(workers=2))
    for number in range(100):
        controller.enqueue(f"k{number}")
    seen = []
    while len(done) < 100:
        await asyncio.sleep(0)
        seen.append(len(done))
    assert max(after - before for before, after in pairwise([0, *seen])) <= 2


async def test_a_key_whose_reconcile_was_cancelled_stays_queued(rig: Rig) -> None:
    begun = asyncio.Event()
    calls: list[str] = []

    async def reconcile(key: str) -> Action:
        calls.append(key)
        if len(calls) == 1:
            begun.set()
            await asyncio.Event().wait()
        return await_change()

    controller = rig.start(reconcile)
    controller.enqueue("a")
    await begun.wait()
    rig.tasks[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await rig.tasks[0]
    rig.tasks.append(asyncio.create_task(controller.run()))
    await settle()
    assert calls == ["a", "a"]


async def test_a_reconcile_that_awaits_what_is_cancelled_is_retried(rig: Rig, clock: VirtualClock) -> None:
    reconcile, calls = scripted(asyncio.CancelledError(), await_change())
    rig.start(reconcile, ControllerOptions(workers=1)).enqueue("a")
    await clock.advance(1)
    assert calls == ["a", "a"]
    assert rig.totals.results == {"retried": 1, "done": 1}


async def test_lost_leadership_ends_all_work(rig: Rig) -> None:
    async def reconcile(key: str) -> Action:
        if key == "b":
            raise LeadershipLostError("deposed")
        await asyncio.Event().wait()
        return await_change()

    controller = rig.start(reconcile)
    controller.enqueue("a")
    controller.enqueue("b")
    with pytest.raises(LeadershipLostError):
        await rig.tasks[0]
    await controller.queue.resume()
    assert sorted(controller.queue._queued) == ["a", "b"]


async def test_an_error_of_the_observer_is_raised(clock: VirtualClock) -> None:
    class Broken(ControllerObserver):
        def reconciled(self, result: str, seconds: float) -> None:
            raise RuntimeError(f"metrics are broken: {result} {seconds}")

    reconcile, _ = scripted(await_change())
    controller = Controller("test", reconcile, observer=Broken(), clock=clock)
    controller.enqueue("a")
    with pytest.raises(ExceptionGroup):
        await controller.run()


def test_error_kinds_are_a_closed_set() -> None:
    assert error_kind(ConflictError(409, "Conflict", "")) == "ConflictError"
    assert error_kind(KeyError("a very special key")) == "panic"
    assert default_error_policy("k", ConflictError(409, "Conflict", "")) == retry()


async def test_a_controller_requeues_with_the_real_clock() -> None:
    reconcile, calls = scripted(requeue(0.01))
    controller = Controller[str]("test", reconcile, clock=Clock())
    task = asyncio.create_task(controller.run())
    controller.enqueue("a")
    async with asyncio.timeout(300):
        while len(calls) < 3:
            await settle()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
