"""The real ``gangctl controller`` as a child process."""

from __future__ import annotations

import asyncio
import socket
import sys
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
        webhook, metrics = _free_ports()
        self._ready_url = f"http://127.0.0.1:{metrics}/readyz"
        self._command = [
            *(sys.executable, "-m", "gangctl", "controller"),
            *(("--kubeconfig", kubeconfig) if kubeconfig else ()),
            *(("--context", context) if context else ()),
            *("--webhook-url", f"https://127.0.0.1:{webhook}"),
            *("--metrics-bind-address", f"127.0.0.1:{metrics}"),
            "--leader-elect=false",
            "--unregister-on-exit",
            *("--log-format", "text"),
        ]
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Self:
        with self._log.open("ab") as log:
            # A new session, so that only the demo handles Ctrl-C in the terminal.
            self._process = await asyncio.create_subprocess_exec(
                *self._command, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        try:
            await self._wait_ready(self._process)
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stop()

    async def _wait_ready(self, process: asyncio.subprocess.Process) -> None:
        deadline = asyncio.get_running_loop().time() + _READY_SECONDS
        async with aiohttp.ClientSession(trust_env=False) as session:
            while not await _answers(session, self._ready_url):
                if process.returncode is not None:
                    raise ChildFailedError(f"gangctl controller exited with {process.returncode}\n{self._tail()}")
                if asyncio.get_running_loop().time() > deadline:
                    raise ChildFailedError(
                        f"gangctl controller was not ready in {_READY_SECONDS:.0f} s\n{self._tail()}"
                    )
                await asyncio.sleep(_LOOK_SECONDS)

    async def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), _STOP_SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()

    def _tail(self) -> str:
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines() if self._log.exists() else []
        return "\n".join(lines[-_LINES:])


async def _answers(session: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with session.get(url) as response:
            return response.status == 200  # noqa: PLR2004 -- OK
    except aiohttp.ClientError:
        return False


def _free_ports() -> tuple[int, int]:
    """Two free ports."""
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]
