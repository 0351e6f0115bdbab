from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest
import structlog

from gangctl.client.pacing import Clock, Timer
from gangctl.runtime.workerprocess import WorkerDiedError, WorkerProcess
from gangctl.runtime.workers import Workers, WorkersBrokenError, WorkersClosedError, WorkersObserver
from tests.controlplane.wait import wait_for
from tests.rows import each
from tests.runtime.workerprocesses import SPEC, ask, children, gone, next_of


class Seen(WorkersObserver):
    def __init__(self) -> None:
        self.deaths: list[str] = []
        self.problems: list[str] = []

    def died(self, why: str) -> None:
        self.deaths.append(why)

    def troubled(self, problem: str) -> None:
        self.problems.append(problem)


async def until_idle(workers: Workers, count: int) -> None:
    async def idle() -> bool:
        return workers.idle == count

    await wait_for(idle, what=f"{count} idle workers")


async def test_a_spare_worker_replaces_a_killed_one() -> None:
    seen = Seen()
    async with Workers(SPEC, size=2, observer=seen) as workers:
        first = await workers.take()
        await until_idle(workers, 1)
        await first.send(["hang"])
        await workers.discard(first)
        idle = children()
        second = await workers.take()
        assert second.pid in idle
        assert await ask(second, "echo", 1) == [1]
    assert gone(first.pid)
    assert gone(second.pid)
    assert not children()
    assert not seen.deaths


async def test_no_worker_is_started_before_the_first_take_if_not_ahead() -> None:
    async with Workers(SPEC, ahead=False) as workers:
        assert not children()
        process = await workers.take()
        assert children() == [process.pid]


async def test_a_caller_that_ends_workers_leaves_some_to_others() -> None:
    async with Workers(SPEC, size=2) as workers:
        await workers.until_prepared(2)
        await workers.discard(await workers.take(leave=1))
        waiting = asyncio.create_task(workers.take(leave=1))
        await asyncio.sleep(0)
        left = await workers.take()
        new = await waiting
        assert new.pid != left.pid
        assert sorted(children()) == sorted([left.pid, new.pid])
        next_one = asyncio.create_task(workers.take(leave=1))
        other = asyncio.create_task(workers.take())
        await asyncio.sleep(0)
        await workers.discard(new)
        workers.give_back(left)
        assert await other is left, "one that another caller can take is not kept for the first"
        await next_one


async def test_the_pool_is_bounded_and_reuses_returned_workers() -> None:
    async with Workers(SPEC, size=2) as workers:
        one, two = await workers.take(), await workers.take()
        third = asyncio.create_task(workers.take())
        await asyncio.sleep(0)
        workers.give_back(one)
        assert await third is one
        workers.give_back(two)
        workers.give_back(one)
        assert sorted(children()) == sorted([one.pid, two.pid])
        assert await workers.take() is two


async def test_workers_are_prepared_before_take_and_again_after_a_refresh() -> None:
    reported: list[int] = []

    async def prepare(process: WorkerProcess) -> None:
        assert await ask(process, "echo", 1) == [1]
        reported.append(process.pid)

    async with Workers(SPEC, size=2, prepare=prepare) as workers:
        await workers.until_prepared(2)
        lent = await workers.take()
        workers.refresh()
        await workers.until_prepared(1)
        assert len(reported) == 3, "one that is lent is left alone"
        assert reported[2] != lent.pid
        workers.give_back(lent)
        await workers.until_prepared(2)
        assert reported[3] == lent.pid
        assert set(reported) == set(children())


async def test_an_outdated_worker_can_be_taken() -> None:
    async with Workers(SPEC) as workers:
        process = await workers.take()
        workers.refresh()
        waiting = asyncio.create_task(workers.take())
        await asyncio.sleep(0)
        workers.give_back(process)
        assert await waiting is process


async def test_a_worker_that_dies_is_replaced_and_reported() -> None:
    seen = Seen()
    async with Workers(SPEC, observer=seen) as workers:

        async def spare() -> bool:
            return workers.idle == 1

        await wait_for(spare, what="a spare worker")
        [pid] = children()
        os.kill(pid, signal.SIGSEGV)

        async def replaced() -> bool:
            return workers.idle == 1 and children() not in ([pid], [])

        await wait_for(replaced, what="another worker")
        assert seen.deaths == ["crash"]


async def test_an_idle_worker_that_died_is_reported_although_a_caller_comes_before_it_is_noticed() -> None:
    seen = Seen()
    async with Workers(SPEC, observer=seen) as workers:
        first = await workers.take()
        workers.give_back(first, worked=False)
        os.kill(first.pid, signal.SIGSEGV)
        await first.exited
        assert (await workers.take()).pid != first.pid
        assert seen.deaths == ["crash"]


async def test_failed_starts_are_retried_with_a_delay_and_logged_once() -> None:
    seen = Seen()
    spec = replace(SPEC, service="tests.runtime.workerservices:writes_and_dies")
    with structlog.testing.capture_logs() as logs:
        async with Workers(spec, observer=seen):

            async def often() -> bool:
                return len(seen.deaths) >= 5

            await wait_for(often, what="five starts")
    assert set(seen.deaths) == {"start"}
    assert [each["event"] for each in logs] == ["workers do not work"]
    assert len(seen.problems) == 1
    assert "does not start: exited with 1: LookupError in writes_and_dies" in seen.problems[0]
    assert "secret" not in str(logs)
    assert not children()


@each(
    ("service", "starts", "why"),
    [
        ("dies_at_once", 3, "the worker does not start: exited with 7"),
        ("never_starts", 1, "the worker does not start: the worker did not accept requests within 0.2 s"),
        (
            "greets_with_nonsense",
            1,
            "the worker does not start: the worker answered nonsense: what came is not a message",
        ),
    ],
)
async def test_callers_get_an_error_where_no_worker_starts(service: str, starts: int, why: str) -> None:
    seen = Seen()
    seconds = 0.2 if service == "never_starts" else 300.0
    spec = replace(SPEC, service=f"tests.runtime.workerservices:{service}", start_seconds=seconds)
    async with Workers(spec, observer=seen) as workers:
        with pytest.raises(WorkersBrokenError, match=why):
            await workers.take()
        assert seen.deaths == ["start"] * starts
        assert workers.problem == seen.problems[0]
        with pytest.raises(WorkersBrokenError):
            await workers.take()
        with pytest.raises(WorkersBrokenError):
            await workers.until_prepared(1)
        workers._spec = SPEC
        await until_idle(workers, 1)
        assert not workers.problem
        assert seen.problems == [seen.problems[0], ""]
        workers.give_back(await workers.take())


async def test_callers_get_an_error_where_no_process_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    async with Workers(SPEC) as workers:
        with pytest.raises(WorkersBrokenError, match="No such file or directory: '/nonexistent/python'"):
            await workers.take()


async def test_workers_that_answer_nonsense_are_a_problem_until_one_works() -> None:
    seen = Seen()
    async with Workers(SPEC, size=2, observer=seen) as workers:
        for _ in range(3):
            assert not workers.problem
            process = await workers.take()
            await process.send(["garbage"])
            with pytest.raises(WorkerDiedError):
                await next_of(process)
            await workers.discard(process)
        assert seen.deaths == ["broken"] * 3
        assert "the worker answered nonsense" in workers.problem
        await until_idle(workers, 2)
        process = await workers.take()
        assert workers.problem, "that one starts shows nothing"
        workers.give_back(process, worked=False)
        assert workers.problem, "nor does one that is not asked"
        process = await workers.take()
        assert await ask(process, "echo", 1) == [1]
        workers.give_back(process)
        assert not workers.problem
        assert seen.problems[1:] == [""]


async def test_workers_that_answered_nonsense_are_used_again_after_a_while() -> None:
    class Hasty(Clock):
        def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
            return super().call_later(0 if seconds == 30 else seconds, callback)

    seen = Seen()
    async with Workers(SPEC, observer=seen, clock=Hasty()) as workers:
        workers._failed("nonsense", "broken", failures=3)
        assert workers.problem

        async def over() -> bool:
            return not workers.problem

        await wait_for(over, what="the problem to be forgotten")
    assert seen.problems[1:] == [""]


async def test_waiting_callers_get_an_error_when_the_pool_closes() -> None:
    spec = replace(SPEC, service="tests.runtime.workerservices:never_starts")
    async with Workers(spec) as workers:
        waiting = [asyncio.create_task(workers.take()), asyncio.create_task(workers.until_prepared(1))]
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert [type(task.exception()) for task in waiting if task.done()] == [WorkersClosedError] * 2
    with pytest.raises(WorkersClosedError):
        await workers.take()
    assert not children()


async def test_a_cancelled_take_leaves_the_worker_to_the_next() -> None:
    async with Workers(SPEC, ahead=False) as workers:
        for steps in range(4):
            taker = asyncio.create_task(workers.take())
            for _ in range(steps):
                await asyncio.sleep(0)
            if taker.cancel():
                with pytest.raises(asyncio.CancelledError):
                    await taker
            else:
                workers.give_back(await taker)
        process = await asyncio.wait_for(workers.take(), 300)
        assert await ask(process, "echo", 1) == [1]
    assert not children()
