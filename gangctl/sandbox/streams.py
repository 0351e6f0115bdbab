"""Watches over HTTP: one JSON document a line, until the client has enough, time is up, or the server closes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import orjson
from aiohttp import web

from gangctl.sandbox import errors, faults
from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.store import Stored
from gangctl.sandbox.tables.table import Tables
from gangctl.sandbox.watches import EventType, Watch

MINIMUM_SECONDS: Final = 1800.0
"""Minimum lifetime of a watch without a timeout; the maximum is twice as long."""

LAST_BOOKMARK_SECONDS: Final = 2.0
CUT_SECONDS: Final = 0.02

FaultyWatch = faults.CutAfter | faults.EndWatch | faults.ExpireWatch | faults.Silence


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """``seconds``: its end; ``bookmark_seconds``: between bookmarks, None without them; ``fault``: an injected one.

    ``tables`` makes the objects of events, if they are not to be sent as they are.
    """

    seconds: float | None = None
    bookmark_seconds: float | None = None
    fault: FaultyWatch | None = None
    tables: Tables | None = None


def line(event: EventType, json: bytes) -> bytes:
    """One event as it is sent."""
    return b'{"type":"' + event.encode() + b'","object":' + json + b"}\n"


def error_line(error: StatusError) -> bytes:
    """An ERROR event, which ends a watch."""
    return b'{"type":"ERROR","object":' + orjson.dumps(error.body()) + b"}\n"


async def begin(request: web.BaseRequest) -> web.StreamResponse:
    """Send the head of a watch."""
    response = web.StreamResponse(headers={"Content-Type": "application/json", "Cache-Control": "no-cache, private"})
    response.enable_chunked_encoding()
    await response.prepare(request)
    return response


async def refuse(request: web.BaseRequest, error: StatusError) -> web.StreamResponse:
    """A watch with only an error event, for a revision that is too old."""
    response = await begin(request)
    await response.write(error_line(error))
    await response.write_eof()
    return response


class Stream:
    """Sends one watch; :meth:`run` returns when it is over, having closed it."""

    def __init__(self, request: web.BaseRequest, watch: Watch, options: StreamOptions, cut: Callable[[], None]) -> None:
        """``cut`` closes the connection of ``request``."""
        self._request = request
        self._watch = watch
        self._fault = options.fault
        self._left = options.fault.events if options.fault is not None else 0
        self._cut = cut
        self._tables = options.tables
        self._headers = True
        loop = asyncio.get_running_loop()
        seconds = options.seconds or MINIMUM_SECONDS * (1 + random.random())  # noqa: S311 -- spreads reconnects
        self._end = loop.time() + seconds
        self._pause = options.bookmark_seconds
        self._next_bookmark = self._end if self._pause is None else self._bookmark_time(loop.time())

    def _bookmark_time(self, now: float) -> float:
        """When the next bookmark is due: regularly, and just before the end so that the next watch begins late."""
        last = self._end - LAST_BOOKMARK_SECONDS
        due = now + (self._pause or 0.0)
        if now < last < due:
            return last
        return min(self._end, due)

    async def run(self) -> web.StreamResponse:
        """Send until the end."""
        try:
            response = await begin(self._request)
            with suppress(ConnectionResetError):  # The client has disconnected.
                while await self._send(response, self._watch.take()) and not await self._over(response):
                    pass
            return response
        finally:
            self._watch.close()

    async def _over(self, response: web.StreamResponse) -> bool:
        """Wait for events; returns whether the watch timed out instead."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout_at(min(self._end, self._next_bookmark)):
                await self._watch.wait()
        except TimeoutError:
            over = loop.time() >= self._end
            if self._pause is not None and not over:
                await response.write(self._line("BOOKMARK", self._watch.bookmark()))
                self._next_bookmark = self._bookmark_time(loop.time())
            if not over:
                return False
        if not self._watch.ended and loop.time() < self._end:
            return False
        await response.write_eof()
        return True

    async def _send(self, response: web.StreamResponse, events: list[tuple[EventType, Stored]]) -> bool:
        """Send events at once; returns whether the watch continues."""
        if self._fault is not None and len(events) >= self._left:
            await self._write(response, events[: self._left])
            return await self._break(response)
        self._left -= len(events)
        await self._write(response, events)
        return True

    async def _write(self, response: web.StreamResponse, events: list[tuple[EventType, Stored]]) -> None:
        if events:
            await response.write(b"".join(self._line(event, stored) for event, stored in events))

    def _line(self, event: EventType, stored: Stored) -> bytes:
        """One event; of tables the first has the headers."""
        if self._tables is None:
            return line(event, stored.json)
        headers, self._headers = self._headers, False
        return line(event, orjson.dumps(self._tables.of_one(stored, headers=headers)))

    async def _break(self, response: web.StreamResponse) -> bool:
        match self._fault:
            case faults.CutAfter():
                # A client may lose unread data at a disconnect; the count is of received events.
                await asyncio.sleep(CUT_SECONDS)
                self._cut()
                await asyncio.get_running_loop().create_future()
            case faults.Silence():
                await asyncio.get_running_loop().create_future()
            case faults.ExpireWatch():
                await response.write(error_line(errors.expired()))
        await response.write_eof()
        return False
