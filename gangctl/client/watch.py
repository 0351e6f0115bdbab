"""One watch connection: from a resourceVersion to the end of the stream, or the error that ended it.

The informer keeps a collection current across connections; here nothing is retried and nothing is remembered.
"""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from gangctl.client.resources import Resource
from gangctl.client.responses import decode_object, error_from_status
from gangctl.client.transport import Request, Stream, Transport
from gangctl.errors import ServerError

# A quiet watch is legal: bookmarks come about once a minute (at most 75 s apart), and none come at all for a resource
# without changes since the server started. So silence ends the connection, without an error.
READ_TIMEOUT_SECONDS = 90.0
# Under load, events are read in batches; the first one after a pause is read at once.
GATHER_SECONDS = 0.1
# etcd refuses objects above 1.5 MiB; JSON escapes and managed fields may double what the client sees.
MAX_LINE_BYTES = 4 * 2**20

_OK = 200


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One change: ``type`` is ADDED, MODIFIED, DELETED or BOOKMARK (whose object has only a resourceVersion)."""

    type: str
    object: dict[str, Any]

    @property
    def resource_version(self) -> str:
        """Where a later watch may resume."""
        metadata = self.object.get("metadata")
        return str(metadata.get("resourceVersion") or "") if isinstance(metadata, dict) else ""


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """How long one connection lives and how much data it may deliver.

    The server ends it after ``server_seconds`` plus up to as much again, drawn by ``randomness``, so that many watches
    do not reconnect at once.
    """

    server_seconds: float = 300.0
    read_timeout_seconds: float = READ_TIMEOUT_SECONDS
    max_line_bytes: int = MAX_LINE_BYTES
    randomness: Callable[[], float] = random.random


async def watch(
    transport: Transport,
    resource: Resource,
    path: str,
    *,
    resource_version: str,
    query: Mapping[str, str] | None = None,
    options: WatchOptions | None = None,
    throttled: bool = True,
    on_contact: Callable[[], None] | None = None,
) -> AsyncGenerator[WatchEvent, None]:
    """Yield what happened after ``resource_version``, until the server ends the stream or is silent too long.

    ``on_contact`` is called when the server accepts the watch and for every event. Raises :class:`GoneError` when the
    version is too old, in any form of that answer, and other :class:`ApiError` for other failures, a broken stream
    included.
    """
    options = options or WatchOptions()
    timeout = int(options.server_seconds * (1 + options.randomness()))
    parameters = {
        **(query or {}),
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": resource_version,
        "timeoutSeconds": str(timeout),
    }
    request = Request("GET", path, "watch", resource.qualified_name, parameters)
    touch = on_contact or (lambda: None)
    opened = transport.stream(request, read_timeout_seconds=options.read_timeout_seconds, throttled=throttled)
    async with opened as stream:
        touch()
        async with aclosing(_lines(stream, options.max_line_bytes)) as lines:
            async for line in lines:
                touch()
                yield _decode(line)


async def _lines(stream: Stream, limit: int) -> AsyncGenerator[bytes, None]:
    """Yield each line; after those that have arrived, let others gather."""
    pending = bytearray()
    while chunk := await stream.read():
        pending += chunk
        if b"\n" in chunk:
            *lines, rest = bytes(pending).split(b"\n")
            for line in lines:
                _check_size(line, limit)
                yield line
            pending = bytearray(rest)
            await stream.gather(GATHER_SECONDS)
        # Before its end is seen: a line without one must not fill the memory.
        _check_size(pending, limit)
    # What is left is half an event, or a text of something else: reading it raises the error.
    if pending:
        yield bytes(pending)


def _check_size(line: bytes | bytearray, limit: int) -> None:
    if len(line) > limit:
        raise ServerError(_OK, "ResponseTooLarge", f"one watch event is larger than {limit} bytes")


def _decode(line: bytes) -> WatchEvent:
    value = decode_object(line, _OK)
    kind, subject = value.get("type"), value.get("object")
    if not isinstance(kind, str) or not isinstance(subject, dict):
        raise ServerError(_OK, "UnreadableBody", "a watch line without type and object")
    if kind == "ERROR":
        # Such as 410 for a version that is too old: the status of the answer itself is 200.
        raise error_from_status(subject)
    return WatchEvent(kind, subject)
