from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import structlog

from gangctl.client.pacing import Clock, Timer
from gangctl.runtime.workerchild import FrameError
from gangctl.runtime.workerprocess import Exit, WorkerDiedError, WorkerProcess, WorkerSpec
from gangctl.runtime.workers import Workers, WorkersBrokenError, WorkersClosedError, WorkersObserver
from tests.controlplane.wait import wait_for
from tests.rows import each

SPEC = WorkerSpec("test", "tests.runtime.workerservices:Answers", memory_bytes=256 << 20)


def nested(levels: int) -> Any:
    """A list in a list."""
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


def gone(pid: int) -> bool:
    """Whether a process has ended; one that its new parent has not reaped yet has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


async def until_gone(pid: int) -> None:
    async def ended() -> bool:
        return gone(pid)

    await wait_for(ended, what=f"process {pid} to be gone")


@pytest.fixture
async def worker() -> AsyncIterator[WorkerProcess]:
    process = await WorkerProcess.start(SPEC)
    yield process
    await process.close()
    assert gone(process.pid)


async def ask(process: WorkerProcess, *request: Any) -> list[Any]:
    await process.send(request)
    answers = []
    while (answer := await next_of(process)) is not None:
        answers.append(answer)
    return answers


async def next_of(process: WorkerProcess) -> Any:
    """The next answer, whatever it is."""
    return await process.receive(lambda value: value)


async def test_a_request_can_have_any_number_of_answers(worker: WorkerProcess) -> None:
    assert await ask(worker, "count", 3) == [0, 1, 2]
    assert await ask(worker, "count", 0) == []
    big = "x" * 5_000_000
    assert await ask(worker, "echo", {"big": big}) == [{"big": big}]


async def test_a_hanging_worker_is_killed(worker: WorkerProcess) -> None:
    await worker.send(["hang"])
    assert await next_of(worker) == "hanging"
    worker.kill()
    assert (await worker.exited).killed
    assert not worker.alive
    with pytest.raises(WorkerDiedError, match="killed by gangctl"):
        await next_of(worker)


async def test_a_worker_ends_at_its_memory_limit(worker: WorkerProcess) -> None:
    await worker.send(["memory", 1 << 30])
    assert await next_of(worker) == "filling"
    with pytest.raises(WorkerDiedError, match="out of memory") as caught:
        await next_of(worker)
    assert caught.value.ended.for_memory
    assert not worker.alive


@pytest.mark.parametrize(
    ("code", "memory", "words"),
    [
        (-signal.SIGABRT, True, "out of memory"),
        (-signal.SIGKILL, True, "out of memory"),
        (-signal.SIGSEGV, False, "ended by SIGSEGV"),
        (5, False, "exited with 5"),
    ],
)
async def test_the_cause_of_a_worker_s_end_is_reported(
    worker: WorkerProcess, code: int, memory: bool, words: str
) -> None:
    await worker.send(["exit", code])
    assert await next_of(worker) == "leaving"
    with pytest.raises(WorkerDiedError, match=words) as caught:
        await next_of(worker)
    assert caught.value.ended.for_memory is memory
    assert not caught.value.ended.for_time


def hold_up_until_ended(pid: int) -> None:
    """Keep the event loop from learning that a process ends, until it has."""
    with contextlib.suppress(ChildProcessError):  # it has been reaped
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


@pytest.mark.parametrize("code", [5, -signal.SIGSEGV, -signal.SIGKILL])
async def test_a_worker_that_had_ended_before_the_kill_is_not_reported_as_killed(
    worker: WorkerProcess, code: int
) -> None:
    await worker.send(["exit", code])
    assert await next_of(worker) == "leaving"
    hold_up_until_ended(worker.pid)
    worker.kill()
    assert await worker.exited == Exit(code, killed=False)


async def test_a_worker_ends_at_its_cpu_limit() -> None:
    process = await WorkerProcess.start(replace(SPEC, cpu_seconds=0))
    await process.send(["hang"])
    assert await next_of(process) == "hanging"
    with pytest.raises(WorkerDiedError, match="SIGXCPU") as caught:
        await next_of(process)
    assert caught.value.ended.for_time


async def test_an_error_is_logged_without_its_message(worker: WorkerProcess) -> None:
    with structlog.testing.capture_logs() as logs:
        await worker.send(["raise", "a secret"])
        assert await next_of(worker) == "failing"
        with pytest.raises(WorkerDiedError, match="exited with 1"):
            await next_of(worker)
    [line] = [each["line"] for each in logs if each["event"] == "worker wrote"]
    assert line.startswith("RuntimeError in fail (")
    assert "secret" not in str(logs)


async def test_output_of_a_worker_is_truncated_in_the_log(worker: WorkerProcess) -> None:
    with structlog.testing.capture_logs() as logs:
        assert await ask(worker, "say", "\x1b[2J" + "x" * 100_000 + "\n" + "more\n" * 1000) == ["said"]
        await worker.close()
    lines = [each["line"] for each in logs if each["event"] == "worker wrote"]
    assert len(lines) == 10
    assert all(len(line) <= 256 and line.isprintable() for line in lines)


async def test_a_worker_that_answers_null_is_killed(worker: WorkerProcess) -> None:
    await worker.send(["null"])
    with pytest.raises(WorkerDiedError, match="nonsense: a frame that is no answer"):
        await next_of(worker)
    assert (await worker.exited).killed


async def test_a_worker_that_sends_garbage_is_killed(worker: WorkerProcess) -> None:
    await worker.send(["garbage"])
    with pytest.raises(WorkerDiedError, match="nonsense: what came is not a message"):
        await next_of(worker)
    assert (await worker.exited).killed


async def test_an_answer_that_cannot_be_read_ends_the_worker(worker: WorkerProcess) -> None:
    def read(value: Any) -> None:
        raise FrameError(f"no {value}")

    await worker.send(["echo", "x"])
    with pytest.raises(WorkerDiedError, match="nonsense: no x"):
        await worker.receive(read)
    assert (await worker.exited).fault


@pytest.mark.parametrize("value", [2**64, "\ud800", {1: 2}, {"x"}, datetime(2026, 1, 1, tzinfo=UTC), nested(300)])
async def test_what_json_cannot_hold_is_not_sent(worker: WorkerProcess, value: Any) -> None:
    with pytest.raises(FrameError, match="cannot be written as JSON"):
        await worker.send(["echo", value])
    assert await ask(worker, "echo", 1) == [1]


async def test_a_request_above_the_frame_limit_is_not_sent(worker: WorkerProcess) -> None:
    with pytest.raises(FrameError, match="larger than"):
        await worker.send(["echo", "x" * SPEC.frame_bytes])
    assert await ask(worker, "echo", 1) == [1]


async def test_a_worker_sees_no_credentials_and_imports_nothing_from_where_it_was_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "gangctl").mkdir()
    (tmp_path / "json.py").write_text("raise SystemExit('taken over')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    process = await WorkerProcess.start(SPEC)
    try:
        [seen] = await ask(process, "see")
    finally:
        await process.close()
    assert "SECRET_TOKEN" not in seen["environment"]
    assert str(tmp_path) not in seen["path"]
    assert seen["ignored"] == [True, True]
    assert seen["group"] not in {os.getpgid(0), 0}


async def test_interrupting_the_group_does_not_lose_answers(worker: WorkerProcess) -> None:
    os.kill(worker.pid, signal.SIGINT)
    os.kill(worker.pid, signal.SIGTERM)
    assert await ask(worker, "echo", "still here") == ["still here"]


async def test_a_start_that_fails_or_times_out_leaves_no_process() -> None:
    with pytest.raises(WorkerDiedError, match="exited with 7"):
        await WorkerProcess.start(replace(SPEC, service="tests.runtime.workerservices:dies_at_once"))
    with pytest.raises(WorkerDiedError, match="did not accept requests within"):
        await WorkerProcess.start(replace(SPEC, service="tests.runtime.workerservices:never_starts", start_seconds=0.5))
    assert not children()


async def test_a_cancelled_start_leaves_no_process() -> None:
    starting = asyncio.create_task(
        WorkerProcess.start(replace(SPEC, service="tests.runtime.workerservices:never_starts"))
    )

    async def born() -> bool:
        return bool(children())

    await wait_for(born, what="the process to be there")
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert not children()


async def test_a_start_cancelled_before_its_channel_opens_leaves_no_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reached = asyncio.Event()

    async def stuck(**_: object) -> None:
        reached.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio, "open_unix_connection", stuck)
    starting = asyncio.create_task(WorkerProcess.start(SPEC))
    await reached.wait()
    starting.cancel()
    await asyncio.wait([starting])
    assert not children()


def children() -> list[int]:
    """Processes started by this one that run this module's services."""
    mine = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            status = entry.joinpath("stat").read_text(encoding="ascii").rpartition(")")[2].split()
            command = entry.joinpath("cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(status[1]) == os.getpid() and b"workerchild" in command:
            mine.append(int(entry.name))
    return mine


ORPHANS = """
    import asyncio, sys
    from gangctl.runtime.workerprocess import WorkerProcess, WorkerSpec

    async def main():
        spec = WorkerSpec("test", "tests.runtime.workerservices:Answers")
        idle, busy = await WorkerProcess.start(spec), await WorkerProcess.start(spec)
        await busy.send(["hang"])
        await busy.receive(str)
        print(idle.pid, busy.pid, flush=True)
        await asyncio.sleep(60)

    asyncio.run(main())
"""


async def test_workers_end_with_a_killed_parent() -> None:
    starter = await asyncio.create_subprocess_exec(
        sys.executable, "-c", textwrap.dedent(ORPHANS), stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
    )
    assert starter.stdout
    idle, busy = map(int, (await starter.stdout.readline()).split())
    assert not gone(idle)
    assert not gone(busy)
    starter.kill()
    await starter.wait()
    await until_gone(idle)
    await until_gone(busy)


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


async def test_a_worker_runs_with_its_niceness() -> None:
    process = await WorkerProcess.start(replace(SPEC, niceness=3))
    try:
        assert os.getpriority(os.PRIO_PROCESS, process.pid) == os.getpriority(os.PRIO_PROCESS, 0) + 3
    finally:
        await process.close()


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


async def test_a_waiting_take_fails_when_the_pool_closes() -> None:
    spec = replace(SPEC, service="tests.runtime.workerservices:never_starts")
    async with Workers(spec) as workers:
        waiting = asyncio.create_task(workers.take())
        await asyncio.sleep(0)
    with pytest.raises(WorkersClosedError):
        await waiting
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
