"""Watches: the changes after a revision, filtered by a selection, and over HTTP: one JSON document a line.

An object that enters the selection is ADDED, one that leaves it DELETED, for any kind of change in the store. A stream
ends when the client has enough, time is up, or the server closes.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal

import orjson
from aiohttp import web

from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.kinds import ResourceKind
from gangctl.sandbox.objects import Object
from gangctl.sandbox.reads import WatchQuery, parse_revision, selection
from gangctl.sandbox.store import ObjectStore, Stored, StoredChange, in_version
from gangctl.sandbox.tables import Tables

EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"


class Watch:
    """One watch: :meth:`take` events, :meth:`wait` for more, :meth:`close` it.

    410 as StatusError if the revision has expired, 400 for selectors.
    """

    def __init__(self, store: ObjectStore, kind: ResourceKind, namespace: str | None, query: WatchQuery) -> None:
        """Start after ``query.resource_version``; with "" or "0" with the present objects."""
        self.kind = kind
        self._namespace = namespace
        self._chosen = selection(kind, query.labels, query.fields)
        self._store = store
        revision = _watch_revision(query.resource_version)
        self._initial: list[tuple[EventType, Stored]] = []
        if revision == 0 or query.initial_events:
            items = (in_version(kind, stored) for stored in store.items(kind.storage, namespace))
            self._initial = [("ADDED", stored) for stored in items if self._chosen.matches(stored.obj)]
            # There is no await before the subscription, so that no change is between it and these objects.
            revision = store.revision
            if query.initial_events and query.bookmarks:
                self._initial.append(("BOOKMARK", self.bookmark(revision, initial_events_end=True)))
        self._subscription = store.subscribe(kind.storage, revision)
        self._after = revision

    def take(self) -> list[tuple[EventType, Stored]]:
        """The events since the last call, frozen, in order."""
        events, self._initial = self._initial, []
        for change in self._subscription.take():
            events += self._events(change)
        return events

    async def wait(self) -> None:
        """Wait until there may be events."""
        if not self._initial:
            await self._subscription.wait()

    def close(self) -> None:
        """Unsubscribe."""
        self._subscription.close()

    def end(self) -> None:
        """End it from the server's side, and wake its waiters."""
        self._subscription.end()

    @property
    def ended(self) -> bool:
        """Whether the server ended it."""
        return self._subscription.ended

    def bookmark(self, revision: int | None = None, *, initial_events_end: bool = False) -> Stored:
        """The object of a BOOKMARK: after the pending events, no earlier revision follows."""
        revision = max(self._store.revision, revision or 0)
        metadata: Object = {"resourceVersion": str(revision)}
        if initial_events_end:
            metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
        return Stored({"kind": self.kind.kind, "apiVersion": self.kind.api_version, "metadata": metadata}, revision)

    def _events(self, change: StoredChange) -> Iterator[tuple[EventType, Stored]]:
        # A watch from a future revision has no events until then.
        if change.revision <= self._after or self._namespace not in {None, change.key[0]}:
            return
        new = in_version(self.kind, change.new)
        is_in = not change.gone and self._chosen.matches(new.obj)
        was_in = change.old is not None and self._chosen.matches(in_version(self.kind, change.old).obj)
        if is_in:
            yield ("MODIFIED" if was_in else "ADDED"), new
        elif was_in:
            yield "DELETED", new if change.gone or change.old is None else self._left(change.old, change.revision)

    def _left(self, old: Stored, revision: int) -> Stored:
        """The last selected state of an object that left the selection, at the revision of the change."""
        # As in convertToWatchEvent of the watch cache: a client resumes after the revision of its last event.
        obj = in_version(self.kind, old).obj
        return Stored({**obj, "metadata": {**obj["metadata"], "resourceVersion": str(revision)}}, revision)


def _watch_revision(text: str) -> int:
    try:
        return parse_revision(text)
    except ValueError as error:
        raise StatusError(500, "", f'resourceVersion: Invalid value: "{text}": {error}') from error


# --min-request-timeout of kube-apiserver.
MINIMUM_SECONDS: Final = 1800.0
"""Minimum lifetime of a watch without a timeout; the maximum is twice as long."""

# nextBookmarkTime of the API server's watch cache.
LAST_BOOKMARK_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """``seconds``: its end; ``bookmark_seconds``: between bookmarks, None without them.

    ``tables`` makes the objects of events, if they are not to be sent as they are.
    """

    seconds: float | None = None
    bookmark_seconds: float | None = None
    tables: Tables | None = None


def line(event: EventType, json: bytes) -> bytes:
    """One event as it is sent."""
    # Joined from bytes: an object is encoded once for all its watches.
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


class WatchStream:
    """Sends one watch; :meth:`run` returns when it is over, having closed it."""

    def __init__(self, request: web.BaseRequest, watch: Watch, options: StreamOptions) -> None:
        """Begin its time; nothing is sent."""
        self._request = request
        self._watch = watch
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
                while await self.send(response, self._events()) and not await self._over(response):
                    pass
            return response
        finally:
            self._watch.close()

    def _events(self) -> list[tuple[EventType, Stored]]:
        """What is to be sent now."""
        events = self._watch.take()
        now = asyncio.get_running_loop().time()
        if self._pause is not None and now >= self._next_bookmark:
            # Behind the events: a client that resumes at the bookmark gets none of those before it any more.
            events.append(("BOOKMARK", self._watch.bookmark()))
            self._next_bookmark = self._bookmark_time(now)
        return events

    async def _over(self, response: web.StreamResponse) -> bool:
        """Wait for events, or until a bookmark is due; returns whether the watch has ended instead."""
        loop = asyncio.get_running_loop()
        with suppress(TimeoutError):
            async with asyncio.timeout_at(min(self._end, self._next_bookmark)):
                await self._watch.wait()
        if not self._watch.ended and loop.time() < self._end:
            return False
        await response.write_eof()
        return True

    async def send(self, response: web.StreamResponse, events: list[tuple[EventType, Stored]]) -> bool:
        """Send events at once; returns whether the watch continues."""
        if events:
            # In one write: a system call for each event would be slow in a burst.
            await response.write(b"".join(self._line(event, stored) for event, stored in events))
        return True

    def _line(self, event: EventType, stored: Stored) -> bytes:
        """One event; of tables the first has the headers."""
        if self._tables is None:
            return line(event, stored.json)
        headers, self._headers = self._headers, False
        return line(event, orjson.dumps(self._tables.of_one(stored, headers=headers)))
