"""One worker process from start to end: it answers requests, and can be killed at any moment.

A thread cannot be stopped inside C, a process can. It is spawned, never forked from a process with threads, and shares
with its starter only one end of a socketpair.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, Self, TypeVar

import structlog

from gangctl.errors import GangctlError, one_line
from gangctl.runtime.workerchild import EXIT_MEMORY, HEADER, FrameError, FrameKind, pack, unpack, unpack_header

_log = structlog.get_logger(__name__)

_ENVIRONMENT: Final = ("LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "PATH", "PYTHONDONTWRITEBYTECODE", "TZ")
"""The environment variables of a worker: no credentials."""
_STDERR_LINES: Final = 10
_STDERR_CHARACTERS: Final = 256
_CLOSE_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """What a worker runs, and its limits.

    ``service`` is ``module:name``: called without arguments in the worker it returns what answers requests, see
    :data:`~gangctl.runtime.workerchild.Service`. ``memory_bytes`` bounds the address space, libraries included;
    ``cpu_seconds`` the CPU time of one request, as the last resort when the starter does not kill in time;
    ``start_seconds`` the time until it accepts requests. ``niceness`` above 0 lowers its priority.
    """

    name: str
    service: str
    memory_bytes: int = 512 << 20
    frame_bytes: int = 64 << 20
    cpu_seconds: float = 60.0
    start_seconds: float = 30.0
    niceness: int = 0


class Exit(NamedTuple):
    """How a process ended: its exit code (minus the signal), and whether we killed it.

    ``fault`` is what was wrong with a worker that does not work, whatever it is to evaluate; empty otherwise.
    """

    code: int
    killed: bool
    fault: str = ""

    @property
    def for_memory(self) -> bool:
        """Whether it ran out of memory, as far as that is visible.

        It reported so, C++ aborted, or the kernel killed it.
        """
        return not self.killed and self.code in {EXIT_MEMORY, -signal.SIGABRT, -signal.SIGKILL}

    @property
    def for_time(self) -> bool:
        """Whether it used up its CPU time."""
        return not self.killed and self.code == -signal.SIGXCPU

    def __str__(self) -> str:
        if self.fault:
            return self.fault
        if self.killed:
            return "killed by gangctl"
        if self.for_memory:
            return "out of memory"
        if self.code < 0:
            return f"ended by {signal.Signals(-self.code).name}"
        return f"exited with {self.code}"


class WorkerDiedError(GangctlError):
    """The process is gone, or did not work and was killed for that."""

    code = "WorkerDied"

    def __init__(self, name: str, ended: Exit) -> None:
        """Describe how it ended."""
        super().__init__(f"worker {name}: {ended}")
        self.ended = ended


T = TypeVar("T")


def _answer(kind: FrameKind, payload: bytes) -> Any:
    value = None if kind is FrameKind.END else unpack(payload)
    if kind not in {FrameKind.END, FrameKind.ANSWER} or (value is None and kind is FrameKind.ANSWER):
        raise FrameError("a frame that is no answer")
    return value


def no_answer(value: Any) -> None:
    """Read the end of the answers: see :meth:`WorkerProcess.receive`."""
    if value is not None:
        raise FrameError("an answer that was not expected")


class WorkerProcess:
    """Made by :meth:`start`; one request at a time: :meth:`send`, then :meth:`receive` up to the end of the answers.

    A cancelled :meth:`receive` may have read half a message: after that only :meth:`kill` is valid.
    """

    def __init__(
        self, spec: WorkerSpec, process: Process, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Use :meth:`start`."""
        self.spec = spec
        self._process = process
        self._reader = reader
        self._writer = writer
        self._killed = False
        self._fault = ""
        self._greeted = False
        self._output: deque[str] = deque(maxlen=_STDERR_LINES)
        self._cpu_seconds = 0.0
        self._stderr = asyncio.create_task(self._log_output(), name=f"{spec.name}-stderr")
        self.exited: asyncio.Task[Exit] = asyncio.create_task(self._end(), name=f"{spec.name}-exit")
        """Done when the process has ended and is reaped; wait for it behind a shield."""

    @classmethod
    async def start(cls, spec: WorkerSpec) -> Self:
        """Spawn one and wait until it accepts requests.

        :class:`WorkerDiedError` when it ends before, or takes too long; OSError when there is no process. If the wait
        ends for any reason, so does the process.
        """
        worker = await cls._spawn(spec)
        try:
            async with asyncio.timeout(spec.start_seconds):
                await worker.greeted()
        except TimeoutError:
            worker.kill(f"the worker did not accept requests within {spec.start_seconds:g} s")
            raise WorkerDiedError(spec.name, await asyncio.shield(worker.exited)) from None
        except BaseException:
            worker.kill()
            await asyncio.shield(worker.exited)
            raise
        return worker

    @classmethod
    async def _spawn(cls, spec: WorkerSpec) -> Self:
        ours, theirs = socket.socketpair()
        # Closed here once the worker has it: a second copy would keep the channel open after the worker's end.
        with theirs:
            try:
                # Before there is a process: one whose start is cancelled here would have no owner.
                reader, writer = await asyncio.open_unix_connection(sock=ours)
            except BaseException:
                ours.close()
                raise
            try:
                process = await asyncio.create_subprocess_exec(
                    *_command(spec, theirs.fileno()),
                    stdin=DEVNULL,
                    stdout=DEVNULL,
                    stderr=PIPE,
                    env=_environment(),
                    pass_fds=(theirs.fileno(),),
                    # Ctrl-C signals a whole group: pending requests are still answered.
                    start_new_session=True,
                )
            except BaseException:
                writer.close()
                raise
        return cls(spec, process, reader, writer)

    @property
    def pid(self) -> int:
        """Process id, also after its end."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it can take requests, as far as is known."""
        return not self._killed and self._process.returncode is None

    def cpu_seconds(self) -> float:
        """CPU time that it has used so far.

        Wall-clock time where the system does not report that of other processes.
        """
        if sys.platform != "linux":
            return time.monotonic()
        with contextlib.suppress(OSError):  # it is gone: return the last known value
            # The CPU clock of a process by its number, as clock_getcpuclockid(3) makes it.
            self._cpu_seconds = time.clock_gettime((~self.pid << 3) | 2)
        return self._cpu_seconds

    async def greeted(self) -> None:
        """Wait until it reports that it accepts requests: part of :meth:`start`."""
        kind, _ = await self._frame()
        if kind is not FrameKind.HELLO:
            raise await self._nonsense("no greeting")
        self._greeted = True
        while self._output:
            self._log_line(self._output.popleft())

    async def send(self, request: Any) -> None:
        """Send a request.

        :class:`FrameError` when it is too large, :class:`WorkerDiedError` when the process is gone.
        """
        self._writer.write(pack(FrameKind.REQUEST, request, self.spec.frame_bytes))
        try:
            await self._writer.drain()
        except ConnectionError:
            raise WorkerDiedError(self.spec.name, await self._gone()) from None

    async def receive(self, read: Callable[[Any], T]) -> T:
        """The next answer to what was sent, as ``read`` makes it of plain values: of None at the end of the answers.

        ``read`` raises :class:`FrameError` for what is no such answer; the process is then killed.
        :class:`WorkerDiedError` when it is gone.
        """
        kind, payload = await self._frame()
        try:
            return read(_answer(kind, payload))
        except FrameError as error:
            raise await self._nonsense(error.message) from error

    def kill(self, fault: str = "") -> None:
        """Kill it now, in any state; :attr:`exited` is done when it is gone. ``fault`` is why it does not work."""
        # Otherwise one that has ended by itself would be reported as killed.
        if self.alive and not self._has_ended():
            self._killed, self._fault = True, fault
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    def _has_ended(self) -> bool:
        """Whether it ended by itself, though the event loop, which may have been blocked, has not noticed yet."""
        if sys.platform != "linux":
            return False
        try:
            # It is left for its reaper.
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return True

    async def close(self) -> None:
        """Let it end by itself, or kill it when it does not at once."""
        self._writer.close()
        try:
            await asyncio.wait({self.exited}, timeout=_CLOSE_SECONDS)
        finally:
            self.kill()
        await asyncio.shield(self.exited)

    async def _frame(self) -> tuple[FrameKind, bytes]:
        try:
            kind, size = unpack_header(await self._reader.readexactly(HEADER.size), self.spec.frame_bytes)
            return kind, await self._reader.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError):
            raise WorkerDiedError(self.spec.name, await self._gone()) from None
        except FrameError as error:
            raise await self._nonsense(error.message) from error

    async def _nonsense(self, what: str) -> WorkerDiedError:
        self.kill(one_line(f"the worker answered nonsense: {what}", _STDERR_CHARACTERS))
        return WorkerDiedError(self.spec.name, await self._gone())

    async def _gone(self) -> Exit:
        """Wait for the end of a process that has closed its channel: it is of no more use."""
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                return await asyncio.shield(self.exited)
        except TimeoutError:
            self.kill()
            return await asyncio.shield(self.exited)

    async def _end(self) -> Exit:
        code = await self._process.wait()
        # The last line of its output is the reason of a failed start.
        await self._stderr
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()
        # A process that was killed while it ended for another reason counts as ended for that one.
        ended = Exit(code, self._killed and code == -signal.SIGKILL, self._fault)
        if self._greeted:
            return ended if ended.killed else ended._replace(fault="")
        return ended._replace(fault=": ".join([str(ended), *([self._output[-1]] if self._output else [])]))

    async def _log_output(self) -> None:
        """Log the process' output, a few lines of bounded length; read all of it, so that it never blocks.

        What it wrote before it accepted requests is logged then, and otherwise the end of the reason why it did not.
        """
        stderr = self._process.stderr
        if stderr is None:
            raise AssertionError("workers are started with a pipe")
        logged, rest = 0, b""
        while chunk := await stderr.read(4096):
            *lines, rest = (rest + chunk).split(b"\n")
            # A line without an end must not fill the memory.
            rest = rest[: 4 * _STDERR_CHARACTERS]
            for line in lines:
                logged += self._write_down(line, log=logged < _STDERR_LINES)
        self._write_down(rest, log=logged < _STDERR_LINES)

    def _write_down(self, line: bytes, *, log: bool) -> bool:
        """Log a line, or keep it; return whether it is logged."""
        text = one_line(line.decode("utf-8", "replace").strip(), _STDERR_CHARACTERS)
        if text and not self._greeted:
            self._output.append(text)
        elif text and log:
            self._log_line(text)
            return True
        return False

    def _log_line(self, line: str) -> None:
        _log.warning("worker wrote", worker=self.spec.name, pid=self.pid, line=line)


def _command(spec: WorkerSpec, channel: int) -> list[str]:
    launch = {
        "channel": channel,
        "parent": os.getpid(),
        "service": spec.service,
        "memoryBytes": spec.memory_bytes,
        "frameBytes": spec.frame_bytes,
        "cpuSeconds": spec.cpu_seconds,
        "niceness": spec.niceness,
    }
    # -P: nothing is imported from the working directory, which may belong to another user.
    return [sys.executable, "-P", "-m", "gangctl.runtime.workerchild", json.dumps(launch)]


def _environment() -> dict[str, str]:
    """A few of our variables, and our import path."""
    kept = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    # Only the import path of this process: an empty entry means the working directory.
    return {**kept, "PYTHONPATH": os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)}
