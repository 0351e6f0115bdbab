from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import structlog

from gangctl.runtime.workerchild import FrameError
from gangctl.runtime.workerprocess import Exit, WorkerDiedError, WorkerProcess
from tests.controlplane.wait import wait_for
from tests.runtime.workerprocesses import SPEC, ask, children, gone, next_of, until_gone


def nested(levels: int) -> Any:
    """A list in a list."""
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.fixture
async def worker() -> AsyncIterator[WorkerProcess]:
    process = await WorkerProcess.start(SPEC)
    yield process
    await process.close()
    assert gone(process.pid)


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


async def test_a_worker_runs_with_its_niceness() -> None:
    process = await WorkerProcess.start(replace(SPEC, niceness=3))
    try:
        assert os.getpriority(os.PRIO_PROCESS, process.pid) == os.getpriority(os.PRIO_PROCESS, 0) + 3
    finally:
        await process.close()
