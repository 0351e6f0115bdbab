"""An event loop without a machine: virtual time, connections in memory, and random numbers and wall clock of a seed.

Client, server, webhooks and simulated controllers exchange bytes through a queue instead of sockets, without TLS. A
thread's work is done in place. So nothing depends on how busy the machine is: one seed is one run.
"""

from __future__ import annotations

import asyncio
import random
import selectors
import socket
import uuid
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from contextvars import Context
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import count
from typing import Any, Final, Self, TypeVar, TypeVarTuple
from unittest.mock import patch

from gangctl.runtime.controller import RetryPolicy
from gangctl.runtime.server import WebhookServer

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
Factory = Callable[[], asyncio.Protocol]

_BEGIN: Final = datetime(2026, 1, 1, tzinfo=UTC)
_APART: Final = 1e-9
_ORDERED: Final = 1_000_000
_RETRY: Final = RetryPolicy(base_seconds=0.01, cap_seconds=30.0, jitter=0.0)
"""Of the simulated controllers: what is refused for hours is not tried every second."""
_WALLS: Final = ("sandbox.objects", "sandbox.deletion", "client.pacing", "controllers.reporter")
"""Modules of gangctl that read the time of day."""


class _Pipe(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, loop: asyncio.AbstractEventLoop, address: tuple[str, int]) -> None:
        super().__init__({"peername": address, "sockname": address})
        self._loop = loop
        self._protocol: Any = None
        self._peer: _Pipe | None = None
        self._arrived: deque[bytes | None] = deque()
        self._paused = self._closing = self._due = False

    def join(self, peer: _Pipe, protocol: asyncio.BaseProtocol) -> None:
        """Connect this end."""
        self._peer, self._protocol = peer, protocol
        protocol.connection_made(self)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._closing and data and self._peer is not None:
            self._peer._arrive(bytes(data))

    def _arrive(self, data: bytes | None) -> None:
        """Receive; None is the end."""
        self._arrived.append(data)
        self._deliver_soon()

    def _deliver_soon(self) -> None:
        if not self._due and self._arrived and not self._paused:
            self._due = True
            self._loop.call_soon(self._deliver)

    def _deliver(self) -> None:
        self._due = False
        if self._closing or self._paused or not self._arrived:
            return
        data = self._arrived.popleft()
        if data is not None:
            self._protocol.data_received(data)
        elif not self._protocol.eof_received():
            self.close()
        self._deliver_soon()

    def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        if self._peer is not None:
            self._peer._arrive(None)
        self._loop.call_soon(self._protocol.connection_lost, None)

    def abort(self) -> None:
        self.close()

    def is_closing(self) -> bool:
        return self._closing

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        self._deliver_soon()

    def is_reading(self) -> bool:
        return not self._paused and not self._closing

    def get_protocol(self) -> asyncio.BaseProtocol:
        protocol: asyncio.BaseProtocol = self._protocol
        return protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing is kept back."""


class _Listening:
    """What ``create_server`` returns; it poses as its only socket, too."""

    family = socket.AF_INET

    def __init__(self, servers: dict[int, Factory], address: tuple[str, int]) -> None:
        self._servers = servers
        self._address = address

    @property
    def sockets(self) -> tuple[Self, ...]:
        return (self,)

    def getsockname(self) -> tuple[str, int]:
        return self._address

    def close(self) -> None:
        self._servers.pop(self._address[1], None)

    async def wait_closed(self) -> None:
        """It is closed at once."""


class _Instant(selectors.DefaultSelector):
    """Waits for timers only, by moving the clock."""

    def __init__(self, passed: Callable[[float], None]) -> None:
        super().__init__()
        self._passed = passed

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("every task waits, and no timer will wake any")
        self._passed(max(0.0, timeout))
        return []


class MemoryLoop(asyncio.SelectorEventLoop):
    """The loop; ``time()`` is in seconds since its start."""

    def __init__(self) -> None:
        self._now = 0.0
        self._servers: dict[int, Factory] = {}
        self.free = count(20_000)
        self._timers = count()
        self._bound: dict[int, tuple[str, int]] = {}
        self.services: dict[int, list[int]] = {}
        """Ports behind which one of several servers answers, each by its own port."""
        super().__init__(_Instant(self._passed))

    def time(self) -> float:
        return self._now

    def _passed(self, seconds: float) -> None:
        self._now += seconds

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Of timers for the same moment the first one made is the first: a heap alone does not say."""
        return super().call_at(when + next(self._timers) % _ORDERED * _APART, callback, *args, context=context)

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        del executor
        done: asyncio.Future[T] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 -- the caller gets it, as from a thread
            done.set_exception(error)
        return done

    async def create_server(  # type: ignore[override]
        self, protocol_factory: Factory, host: str | None = None, port: int | None = None, **_options: Any
    ) -> _Listening:
        number = port or next(self.free)
        if number in self._servers:
            raise OSError(f"port {number} is taken")
        self._servers[number] = protocol_factory
        return _Listening(self._servers, (host or "127.0.0.1", number))

    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        present = [port for port in self.services.get(address[1], [address[1]]) if port in self._servers]
        if not present:
            raise ConnectionRefusedError(111, f"Connect call failed {address}")
        self._bound[sock.fileno()] = address[0], random.choice(present)

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: Factory, *, sock: socket.socket, **_options: Any
    ) -> tuple[asyncio.Transport, asyncio.Protocol]:
        address = self._bound.pop(sock.fileno())
        sock.close()
        accepting = self._servers.get(address[1])
        if accepting is None:
            raise ConnectionRefusedError(111, f"Connect call failed {address}")
        near, far = _Pipe(self, address), _Pipe(self, address)
        client, server = protocol_factory(), accepting()
        far.join(near, server)
        near.join(far, client)
        return near, client


class _Ports:
    """Ports for :class:`tests.faults.world.World`: no other process has any of them."""

    def __init__(self, loop: MemoryLoop) -> None:
        self._loop = loop

    def take(self) -> int:
        """A port."""
        return next(self._loop.free)

    def release(self) -> None:
        """They end with the loop."""


def run(seed: int, main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """``asyncio.run`` in memory; the same seed is the same run."""
    loop = MemoryLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner, _seeded(seed, loop):
        return runner.run(main())


@contextmanager
def _seeded(seed: int, loop: MemoryLoop) -> Iterator[None]:
    class Moment(datetime):
        """The time of day follows the loop's."""

        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            moment = (_BEGIN + timedelta(seconds=loop.time())).astimezone(tz)
            return cls.fromtimestamp(moment.timestamp(), tz)

    def identity() -> uuid.UUID:
        return uuid.UUID(int=random.getrandbits(128), version=4)

    before = random.getstate()
    random.seed(seed)
    try:
        with ExitStack() as patches:
            for module in _WALLS:
                patches.enter_context(patch(f"gangctl.{module}.datetime", Moment))
            patches.enter_context(patch("uuid.uuid4", identity))
            patches.enter_context(patch("gangctl.sandbox.controllers._RETRY", _RETRY))
            patches.enter_context(patch.dict(WebhookServer.__init__.__kwdefaults__, clock=loop.time))
            patches.enter_context(patch("tests.faults.world.Ports", lambda: _Ports(loop)))
            yield
    finally:
        random.setstate(before)
