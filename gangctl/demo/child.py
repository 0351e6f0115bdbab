"""The real ``gangctl controller`` as a child process."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import aiohttp

from gangctl.errors import GangctlError

_READY_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 0.05
_LINES: Final = 15


class ChildFailedError(GangctlError):
    """The controller ended by itself, or never became ready."""

    code = "ControllerFailed"


class Controller:
    """Runs while the context lasts; entered, it is ready: webhooks registered, caches synced."""

    def __init__(self, kubeconfig: str | None, context: str | None, log: Path) -> None:
        """``kubeconfig`` (None: the default one) has its rights; ``log`` is its output file."""
        self._log = log
        self._cluster = (
            *(("--kubeconfig", kubeconfig) if kubeconfig else ()),
            *(("--context", context) if context else ()),
        )
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            webhook, metrics = stack.enter_context(reserved_ports())
            process = await self._start(webhook, metrics)
            stack.push_async_callback(_stop, process)
            await self._wait_ready(process, f"http://127.0.0.1:{metrics}/readyz")
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def _start(self, webhook: int, metrics: int) -> asyncio.subprocess.Process:
        command = [
            *(sys.executable, "-m", "gangctl", "controller", *self._cluster),
            *("--webhook-url", f"https://127.0.0.1:{webhook}"),
            *("--metrics-bind-address", f"127.0.0.1:{metrics}"),
            "--leader-elect=false",
            "--unregister-on-exit",
            *("--log-format", "text"),
        ]
        with self._log.open("ab") as log:
            # A new session, so that only the demo handles Ctrl-C in the terminal.
            return await asyncio.create_subprocess_exec(
                *command, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    async def _wait_ready(self, process: asyncio.subprocess.Process, url: str) -> None:
        deadline = asyncio.get_running_loop().time() + _READY_SECONDS
        async with aiohttp.ClientSession(trust_env=False) as session:
            while not await _answers(session, url):
                if process.returncode is not None:
                    raise ChildFailedError(f"gangctl controller exited with {process.returncode}\n{self._tail()}")
                if asyncio.get_running_loop().time() > deadline:
                    raise ChildFailedError(
                        f"gangctl controller was not ready in {_READY_SECONDS:.0f} s\n{self._tail()}"
                    )
                await asyncio.sleep(_LOOK_SECONDS)

    def _tail(self) -> str:
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines() if self._log.exists() else []
        return "\n".join(lines[-_LINES:])


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        await asyncio.wait_for(process.wait(), _STOP_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()


async def _answers(session: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with session.get(url) as response:
            return response.status == 200  # noqa: PLR2004 -- OK
    except aiohttp.ClientError:
        return False


@contextmanager
def reserved_ports() -> Iterator[tuple[int, int]]:
    """Two ports that no other process is given before the controller listens on them.

    Linux lets it do so while these sockets are bound and do not listen, because its own set SO_REUSEADDR, too. Other
    systems do not, and there the ports are only free.
    """
    with socket.socket() as one, socket.socket() as other:
        for each in (one, other):
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            each.bind(("127.0.0.1", 0))
        ports = one.getsockname()[1], other.getsockname()[1]
        if sys.platform != "linux":
            one.close()
            other.close()
        yield ports
