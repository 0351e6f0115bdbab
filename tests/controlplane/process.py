"""
One component as a plain process: started, stopped, killed, paused and started again on the same ports.

Only processes started here are ever signalled, each by its own handle. Output goes to a file, because what a
component said is the first thing to look at when a test fails.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.controlplane.wait import wait_for

_SHIM = Path(__file__).with_name("die_with_parent.py")

# Children die with the thread that started them, so all are started by one thread that lives as long as this process.
_STARTER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="controlplane-starter")

# A line may be a stack or a whole object; what failed must not scroll out of sight behind it.
_SHOWN_COLUMNS = 240
_POLL_SECONDS = 0.02

Ready = Callable[[], Awaitable[bool]]


class ComponentFailed(Exception):  # noqa: N818 - it states what happened
    """A component exited by itself, or never became ready; the message carries the end of its log."""


class Process:
    """A component's process; the same object before, between and after its runs."""

    def __init__(self, name: str, command: Sequence[str], log: Path, *, ready: Ready) -> None:
        self.name = name
        self.command = list(command)
        self.prefix: list[str] = []
        """What the command is run by, nsenter for one; it must end by replacing itself with the command."""
        self.log = log
        self._ready = ready
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        if self._process is None:
            raise ComponentFailed(f"{self.name} was never started")
        return self._process.pid

    async def launch(self) -> None:
        """Start without waiting until it is ready."""
        if self.running:
            raise ComponentFailed(f"{self.name} runs already")
        self._process = await asyncio.wrap_future(_STARTER.submit(self._spawn))

    async def wait_ready(self) -> None:
        async def ready() -> bool:
            if not self.running:
                raise ComponentFailed(f"{self.name} exited with {self._exit_code()}\n{self.tail()}")
            return await self._ready()

        try:
            await wait_for(ready, what=f"{self.name} to be ready")
        except TimeoutError as error:
            raise ComponentFailed(f"{error}\n{self.tail()}") from error

    async def start(self) -> None:
        await self.launch()
        await self.wait_ready()

    async def stop(self, grace: float = 5) -> None:
        """Ask it to end, and end it when it does not."""
        self.terminate()
        if not await self._ended(grace):
            await self.kill()

    async def kill(self) -> None:
        """End it at once, as a machine failure would."""
        self._signal(signal.SIGKILL)
        if not await self._ended(60):
            raise ComponentFailed(f"{self.name} (pid {self.pid}) outlived SIGKILL")

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)
        # A paused process would keep the signal pending for ever.
        self._signal(signal.SIGCONT)

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def tail(self, lines: int = 30) -> str:
        """The last lines of its log, each cut to a width at which many of them can be read."""
        text = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n".join([f"--- {self.name}: last {lines} lines of {self.log}", *map(_cut, text[-lines:])])

    def _spawn(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-I", "-S", str(_SHIM), str(os.getpid()), *self.prefix, *self.command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.log.parent,
                # Ctrl-C in a terminal goes to the whole group; the plane stops its components in order instead.
                start_new_session=True,
            )

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def _exit_code(self) -> int | None:
        return None if self._process is None else self._process.poll()

    async def _ended(self, seconds: float) -> bool:
        """Whether it has ended after so many seconds at most."""
        try:
            async with asyncio.timeout(seconds):
                # Nothing tells of the end of a child of another thread.
                while self.running:  # noqa: ASYNC110
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            return not self.running
        return True


def _cut(line: str) -> str:
    return line if len(line) <= _SHOWN_COLUMNS else f"{line[: _SHOWN_COLUMNS - 3]}..."


def children_of(pid: int) -> list[int]:
    """Processes that a process has started."""
    found: list[int] = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        # The thread may have ended since.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found += map(int, file.read_text().split())
    return found
