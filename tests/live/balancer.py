"""What a Service is to gangctl's replicas: new connections go, in turn, to the ready ones.

As with a Service, a connection that exists stays with its replica, ready or not, and nobody looks
into it: the API server's TLS ends at the replica.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from http import HTTPStatus
from types import TracebackType
from typing import Final, Self

import aiohttp

from tests.controlplane.wait import wait_until
from tests.live.gangctl import Gangctl

_PERIOD_SECONDS: Final = 0.1
_PROBE_SECONDS: Final = 0.5
_CHUNK: Final = 2**16


class Balancer:
    """Round robin over the ready ones of ``replicas``, which may change at any time; ``async with``."""

    def __init__(self) -> None:
        """No replica is behind it yet."""
        self.replicas: list[Gangctl] = []
        self.endpoints: list[Gangctl] = []
        """Those that were ready when they last answered, without those that are hung."""
        self.hung: set[Gangctl] = set()
        """Replicas whose probes fail without an answer, set by tests that pause one: a late one may be just slow."""
        self.connections: Counter[Gangctl] = Counter()
        """How many lead to each replica."""
        self._turn = 0
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """Where API servers go."""
        if self._server is None:
            raise RuntimeError("the balancer is not open")
        return f"https://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> Self:
        # The streams' own tasks would outlive the balancer: these are ended with it.
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self._keep(self._probe())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def settled(self, *endpoints: Gangctl) -> None:
        """Wait until exactly these are sent to."""
        await wait_until(
            lambda: set(self.endpoints) == set(endpoints), f"endpoints {[each.process.name for each in endpoints]}"
        )

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._server is None:
            # It was accepted before the end and is handed over after it.
            writer.transport.abort()
        else:
            self._keep(self._relay(reader, writer), writer.close)

    def _keep(self, work: Coroutine[None, None, None], ended: Callable[[], None] = lambda: None) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # Not in the work itself: one that is cancelled before it has begun does nothing at all.
        task.add_done_callback(lambda _: ended())

    async def _probe(self) -> None:
        while True:
            asked = [each for each in self.replicas if each not in self.hung]
            ready = dict(zip(asked, await asyncio.gather(*map(_is_ready, asked)), strict=True))
            said = [each for each, well in ready.items() if (each in self.endpoints if well is None else well)]
            self.endpoints = [each for each in said if each not in self.hung]
            await asyncio.sleep(_PERIOD_SECONDS)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, to the next endpoint; refused there, it ends here, as with a Service."""
        try:
            if not self.endpoints:
                return
            self._turn += 1
            replica = self.endpoints[self._turn % len(self.endpoints)]
            host, _, port = replica.webhook_address.rpartition(":")
            self.connections[replica] += 1
            try:
                there = await asyncio.open_connection(host, int(port))
                try:
                    await asyncio.gather(_pump(reader, there[1]), _pump(there[0], writer))
                finally:
                    there[1].close()
            finally:
                self.connections[replica] -= 1
        except OSError:
            return


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(_CHUNK):
        writer.write(chunk)
        await writer.drain()
    with suppress(OSError):
        writer.write_eof()


async def _is_ready(replica: Gangctl) -> bool | None:
    """Whether it is ready, and not if the port refuses; None without an answer in time."""
    try:
        async with asyncio.timeout(_PROBE_SECONDS):
            status, _ = await replica.fetch("/readyz")
    except aiohttp.ClientConnectorError:
        return False
    except (aiohttp.ClientError, OSError):
        return None
    return status == HTTPStatus.OK
