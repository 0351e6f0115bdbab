from __future__ import annotations

import asyncio
import fcntl
import struct
import termios
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass

import pytest

from gangctl.client.client import Client, Selection
from gangctl.client.resources import PODS
from gangctl.client.transport import Request, Transport
from gangctl.client.transport import Stream as Opened
from gangctl.client.watch import GATHER_SECONDS, WatchEvent, WatchOptions
from gangctl.errors import ForbiddenError, GoneError, NotFoundError, ServerError, UnavailableError
from gangctl.runtime.tls import ServerTls, client_context
from tests.client.clock import VirtualClock, ahead, settle, until
from tests.client.server import ScriptedServer, Stream, obj, reset, status, status_object, text, thing
from tests.credentials import StaticCredentials
from tests.rows import each
from tests.runtime.authority import bundle, pair

PATH = "/api/v1/namespaces/ns/pods"


@pytest.fixture
def stream(server: ScriptedServer) -> Stream:
    opened = Stream()
    server.on("GET", PATH, opened)
    return opened


async def collect(client: Client) -> list[WatchEvent]:
    return [event async for event in client.watch(PODS, "ns", resource_version="5")]


async def test_events_arrive_in_order_until_the_server_closes(
    server: ScriptedServer, client: Client, stream: Stream
) -> None:
    for kind, version in (("ADDED", 6), ("MODIFIED", 7), ("DELETED", 8)):
        stream.send(kind, thing("a", version))
    stream.send("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": "9"}})
    stream.close()
    touched: list[int] = []
    selection = Selection(label_selector="a=b")
    watch = client.watch(
        PODS,
        "ns",
        resource_version="5",
        selection=selection,
        options=WatchOptions(randomness=lambda: 0.5),
        on_contact=lambda: touched.append(1),
    )
    events = [event async for event in watch]
    assert [(event.type, event.resource_version) for event in events] == [
        ("ADDED", "6"),
        ("MODIFIED", "7"),
        ("DELETED", "8"),
        ("BOOKMARK", "9"),
    ]
    assert len(touched) == 5
    assert server.seen[0].query == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "5",
        "timeoutSeconds": "450",
        "labelSelector": "a=b",
    }


async def test_an_expired_version_as_http_status_is_gone(server: ScriptedServer, client: Client) -> None:
    server.on("GET", PATH, status(410, "Expired", "too old"))
    with pytest.raises(GoneError):
        await collect(client)


async def test_an_expired_version_as_an_error_event_is_gone(client: Client, stream: Stream) -> None:
    stream.send("ADDED", thing("a", 6))
    stream.send("ERROR", status_object(410, "Expired", "too old"))
    with pytest.raises(GoneError):
        await collect(client)


async def test_other_error_events_raise_their_errors(client: Client, stream: Stream) -> None:
    stream.send("ERROR", status_object(500, "InternalError", "etcd"))
    with pytest.raises(ServerError, match="etcd"):
        await collect(client)


@pytest.mark.parametrize(
    ("code", "expected"), [(503, ServerError), (404, NotFoundError), (403, ForbiddenError), (200, ServerError)]
)
async def test_a_text_body_is_an_error_and_never_an_event(
    server: ScriptedServer, client: Client, code: int, expected: type[Exception]
) -> None:
    server.on("GET", PATH, text("no healthy upstream", code=code))
    with pytest.raises(expected):
        await collect(client)
    assert server.count() == 1


async def test_json_that_is_no_event_is_an_error(server: ScriptedServer, client: Client) -> None:
    server.on("GET", PATH, obj({"kind": "PodList", "items": []}))
    with pytest.raises(ServerError, match="without type"):
        await collect(client)


async def test_a_broken_stream_is_an_error(client: Client, stream: Stream) -> None:
    stream.send("ADDED", thing("a", 6))
    stream.break_off()
    with pytest.raises(UnavailableError):
        await collect(client)


async def test_a_connection_lost_before_the_answer_is_an_error(server: ScriptedServer, client: Client) -> None:
    server.on("GET", PATH, reset())
    with pytest.raises(UnavailableError):
        await collect(client)
    assert server.count() <= 2  # aiohttp itself asks once more, for it might have been an idle connection's end


async def test_a_silent_watch_ends_at_the_read_timeout_without_an_error(client: Client, stream: Stream) -> None:
    stream.send("ADDED", thing("a", 6))
    options = WatchOptions(read_timeout_seconds=600)
    async with aclosing(client.watch(PODS, "ns", resource_version="5", options=options)) as events:
        assert (await anext(events)).resource_version == "6"
        with ahead(600):
            assert [event async for event in events] == []
    await stream.closed.wait()


async def test_an_event_up_to_the_limit_is_accepted_and_a_larger_one_is_an_error(
    client: Client, stream: Stream
) -> None:
    stream.send("ADDED", thing("a", 6, data="x" * 3_000_000))
    stream.send("ADDED", thing("b", 7, data="x" * 5_000_000))
    seen = []
    with pytest.raises(ServerError, match="larger than"):  # noqa: PT012 -- the first event must have passed
        async for event in client.watch(PODS, "ns", resource_version="5"):
            seen.append(event.resource_version)
    assert seen == ["6"]


async def test_leaving_the_loop_closes_the_connection(client: Client, stream: Stream) -> None:
    stream.send("ADDED", thing("a", 6))
    async with aclosing(client.watch(PODS, "ns", resource_version="5")) as events:
        async for _ in events:
            break
    await stream.closed.wait()


async def test_events_that_follow_quickly_are_read_together(server: ScriptedServer, stream: Stream) -> None:
    clock = VirtualClock()
    seen: list[str] = []

    async def follow() -> None:
        async with Transport(StaticCredentials(server.url), clock=clock) as transport:
            async for event in Client(transport).watch(PODS, "ns", resource_version="5"):
                seen.append(event.resource_version)

    stream.send("ADDED", thing("a", 6))
    task = asyncio.create_task(follow())
    await until(lambda: seen and clock.pending)
    stream.send("ADDED", thing("b", 7))
    stream.send("ADDED", thing("c", 8))
    stream.close()
    await stream.closed.wait()
    await settle()
    assert seen == ["6"]
    await clock.advance(GATHER_SECONDS)
    await until(lambda: len(seen) == 3)
    await clock.advance(GATHER_SECONDS)
    await task


@dataclass
class Gathering:
    """A stream that lets events gather for a second, after one event."""

    clock: VirtualClock
    server: Stream
    transport: Transport
    stream: Opened
    task: asyncio.Task[None]


@asynccontextmanager
async def gathering(*, tls: bool) -> AsyncIterator[Gathering]:
    contexts = (ServerTls(pair("ca")).context, client_context(bundle("ca")))
    clock, stream = VirtualClock(), Stream()
    async with ScriptedServer(tls=contexts[0] if tls else None) as server:
        server.on("GET", PATH, stream)
        credentials = StaticCredentials(server.url, tls=contexts[1] if tls else None)
        async with (
            Transport(credentials, clock=clock) as transport,
            transport.stream(Request("GET", PATH, "watch", "pods"), read_timeout_seconds=600) as opened,
        ):
            stream.send("ADDED", thing("a", 6))
            assert b"uid-a" in await opened.read()
            task = asyncio.create_task(opened.gather(1))
            await settle()
            yield Gathering(clock, stream, transport, opened, task)
            stream.close()


@each("tls", [False, True])
async def test_the_socket_is_not_read_while_events_gather(tls: bool) -> None:
    async with gathering(tls=tls) as one:
        connection = one.stream._response.connection
        assert connection is not None
        assert connection.transport is not None
        socket = connection.transport.get_extra_info("socket")

        def unread() -> int:
            (waiting,) = struct.unpack("i", fcntl.ioctl(socket.fileno(), termios.FIONREAD, bytes(4)))
            return int(waiting)

        one.server.send("ADDED", thing("b", 7))
        await until(unread, seconds=30)
        await settle()
        assert unread()
        await one.clock.advance(1)
        await one.task
        assert b"uid-b" in await one.stream.read()


@each("tls", [False, True])
async def test_a_connection_may_be_closed_while_events_gather(tls: bool) -> None:
    async with gathering(tls=tls) as one:
        await one.transport.close()
        await settle()
        await one.clock.advance(1)
        await one.task
