"""The real ``gangctl controller`` as a child process."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

import aiohttp

from gangctl.errors import GangctlError

_READY_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 0.05
_LINES: Final = 15


class ChildFailedError(GangctlError):
    """The controller ended by itself, or never became ready."""

    code = "ControllerFailed"


@asynccontextmanager
async def controller(kubeconfig: str | None, context: str | None, log: Path) -> AsyncIterator[None]:
    """Run it while the context lasts, in which it is ready: webhooks registered, caches synced.

    ``kubeconfig`` (None: the default one) has its rights; ``log`` is its output file.
    """
    with reserved_ports() as (webhook, metrics), log.open("ab") as output:
        command = [
            *(sys.executable, "-m", "gangctl", "controller"),
            *(("--kubeconfig", kubeconfig) if kubeconfig else ()),
            *(("--context", context) if context else ()),
            *("--webhook-url", f"https://127.0.0.1:{webhook}"),
            *("--metrics-bind-address", f"127.0.0.1:{metrics}"),
            "--leader-elect=false",
            # Webhooks that point to a port of this machine must not outlive the demo.
            "--unregister-on-exit",
            *("--log-format", "text"),
        ]
        # A new session, so that only the demo handles Ctrl-C in the terminal.
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
        try:
            await wait_ready(process, f"http://127.0.0.1:{metrics}/readyz", log)
            yield
        finally:
            await stop(process)


async def wait_ready(process: asyncio.subprocess.Process, url: str, log: Path) -> None:
    """Wait until the controller answers that it is ready; :class:`ChildFailedError` if it ends, or takes too long."""
    try:
        # A proxy of the environment would be asked for 127.0.0.1.
        async with asyncio.timeout(_READY_SECONDS), aiohttp.ClientSession(trust_env=False) as session:
            while not await _answers(session, url):
                if process.returncode is not None:
                    raise ChildFailedError(f"gangctl controller exited with {process.returncode}\n{_tail(log)}")
                await asyncio.sleep(_LOOK_SECONDS)
    except TimeoutError:
        message = f"gangctl controller was not ready in {_READY_SECONDS:.0f} s\n{_tail(log)}"
        raise ChildFailedError(message) from None


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LINES:])


async def stop(process: asyncio.subprocess.Process) -> None:
    """End a process that has not ended: with SIGTERM, or SIGKILL if it ignores that, as interactive shells do."""
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
        for end in (one, other):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            end.bind(("127.0.0.1", 0))
        ports = one.getsockname()[1], other.getsockname()[1]
        if sys.platform != "linux":
            one.close()
            other.close()
        yield ports
