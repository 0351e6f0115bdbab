"""An event loop whose waiting costs nothing: when no task can run, its clock jumps to the next timer.

gangctl backs off for seconds, looks again after half a minute, gives a Lease up after fifteen seconds. A thousand
scenarios that wait for such things really would take a day. Client, server and simulated controllers share one loop
here and talk over loopback sockets: when nothing is ready and nothing runs in a thread, only a timer can make a
difference.
"""

from __future__ import annotations

import asyncio
import selectors
import socket
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import Any, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
_LOOPBACK_SECONDS = 0.0005
"""Bytes on their way through the kernel arrive within this; before a jump they get the chance."""


class _Jumping(selectors.DefaultSelector):
    """Waits for sockets as any selector, but for timers by moving the clock."""

    def __init__(self, jump: Callable[[float], bool], passed: Callable[[float], None]) -> None:
        super().__init__()
        self._jump = jump
        self._passed = passed
        self._loopback = _Loopback()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        self._loopback.flush()
        ready = super().select(_LOOPBACK_SECONDS)
        if ready or self._jump(timeout):
            return ready
        begun = time.monotonic()
        ready = super().select(timeout)
        self._passed(time.monotonic() - begun)
        return ready

    def close(self) -> None:
        self._loopback.close()
        super().close()


class _Loopback:
    """A connection to oneself: what was sent before a byte of it has arrived when this byte has.

    A machine with better things to do may leave packets lying for longer than :data:`_LOOPBACK_SECONDS`.
    """

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            self._from = socket.create_connection(server.getsockname())
            self._to, _ = server.accept()
        self._from.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def flush(self) -> None:
        self._from.send(b"x")
        self._to.recv(1)

    def close(self) -> None:
        self._from.close()
        self._to.close()


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop for :func:`run`; :meth:`time` is in seconds, and stands still while anything is done.

    However long the machine takes over something: no timer fires because of it.
    """

    def __init__(self) -> None:
        self._now = 0.0
        self._threads = 0
        super().__init__(_Jumping(self._jump, self._passed))

    def time(self) -> float:
        return self._now

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], Any], *args: *Ts) -> asyncio.Future[Any]:
        future = super().run_in_executor(executor, func, *args)
        self._threads += 1
        future.add_done_callback(self._thread_ended)
        return future

    def _thread_ended(self, _future: asyncio.Future[Any]) -> None:
        self._threads -= 1

    def _jump(self, seconds: float) -> bool:
        """Move the clock, unless a thread may still deliver a result at this moment."""
        if self._threads:
            return False
        self._passed(seconds)
        return True

    def _passed(self, seconds: float) -> None:
        self._now += seconds


def run(main: Coroutine[Any, Any, T]) -> T:
    """``asyncio.run`` in virtual time."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)
