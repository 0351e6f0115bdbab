from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from aiohttp.connector import NEEDS_CLEANUP_CLOSED

from gangctl import __version__
from gangctl.client.credentials import Access
from gangctl.client.transport import Request, Transport, TransportOptions, _keepalive_socket
from gangctl.errors import (
    ConfigError,
    ConflictError,
    ForbiddenError,
    InputError,
    NotFoundError,
    ServerError,
    TooManyRequestsError,
    UnauthorizedError,
    UnavailableError,
)
from gangctl.runtime.tls import ServerTls, client_context
from tests.client.clock import VirtualClock, settle
from tests.client.server import ScriptedServer, hang, obj, reset, status, text
from tests.credentials import StaticCredentials
from tests.runtime.authority import bundle, pair

GET = Request("GET", "/x", "get", "things", idempotent=True)
POST = Request("POST", "/x", "create", "things", body={"a": 1})


class HurriedClock(VirtualClock):
    """Sleeps take no time and are remembered."""

    def __init__(self) -> None:
        super().__init__()
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.tick(seconds)
        await asyncio.sleep(0)


@pytest.fixture
def clock() -> HurriedClock:
    return HurriedClock()


@pytest.fixture
async def hurried(server: ScriptedServer, clock: HurriedClock) -> AsyncIterator[Transport]:
    async with Transport(StaticCredentials(server.url), clock=clock) as opened:
        yield opened


async def test_a_request_carries_agent_token_and_body(server: ScriptedServer, transport: Transport) -> None:
    server.on("POST", "/x", obj({"ok": True}))
    response = await transport.send(POST)
    assert response.json() == {"ok": True}
    (seen,) = server.seen
    assert seen.headers["User-Agent"] == f"gangctl/{__version__}"
    assert seen.headers["Authorization"] == "Bearer t0"
    assert seen.headers["Content-Type"] == "application/json"
    assert seen.headers["Accept-Encoding"] == "identity"
    assert seen.body == {"a": 1}


async def test_a_missing_object_is_an_error(server: ScriptedServer, transport: Transport) -> None:
    with pytest.raises(NotFoundError):
        await transport.send(GET)
    assert server.count() == 1


@pytest.mark.parametrize(("code", "reason", "expected"), [(409, "Conflict", ConflictError), (403, "", ForbiddenError)])
async def test_a_refused_request_is_not_retried(
    server: ScriptedServer, transport: Transport, code: int, reason: str, expected: type[Exception]
) -> None:
    server.on("GET", "/x", status(code, reason))
    with pytest.raises(expected):
        await transport.send(GET)
    assert server.count() == 1


async def test_429_waits_as_long_as_the_server_asks(
    server: ScriptedServer, hurried: Transport, clock: HurriedClock
) -> None:
    server.on("POST", "/x", status(429, "TooManyRequests", headers={"Retry-After": "3"}), obj({}))
    await hurried.send(POST)
    assert server.count() == 2
    assert 3 < clock.slept[0] < 3.2


async def test_429_with_retry_after_beyond_the_timeout_is_raised(
    server: ScriptedServer, hurried: Transport, clock: HurriedClock
) -> None:
    server.on("GET", "/x", status(429, "TooManyRequests", headers={"Retry-After": "60"}))
    with pytest.raises(TooManyRequestsError) as caught:
        await hurried.send(GET)
    assert caught.value.retry_after == 60
    assert clock.slept == []


async def test_429_is_raised_where_the_rate_limit_allows_no_retry_within_the_timeout(
    server: ScriptedServer, clock: HurriedClock
) -> None:
    server.on("GET", "/x", status(429, "TooManyRequests", headers={"Retry-After": "1"}))
    options = TransportOptions(timeout_seconds=3, qps=0.1, burst=1)
    async with Transport(StaticCredentials(server.url), options, clock=clock) as transport:
        with pytest.raises(TooManyRequestsError):
            await transport.send(GET)
        server.on("GET", "/x", obj({}))
        clock.tick(9)
        await transport.send(GET)
    assert [seconds < 2 for seconds in clock.slept] == [True], "only as long as the server asked"


async def test_5xx_is_retried_for_reads_and_not_for_writes(
    server: ScriptedServer, hurried: Transport, clock: HurriedClock
) -> None:
    for method in ("GET", "POST"):
        server.on(method, "/x", text("bad gateway", code=502))
    with pytest.raises(ServerError):
        await hurried.send(GET)
    assert server.count("GET") == 4
    assert clock.slept == sorted(clock.slept)
    with pytest.raises(ServerError):
        await hurried.send(POST)
    assert server.count("POST") == 1


async def test_503_with_retry_after_is_retried_for_writes(server: ScriptedServer, hurried: Transport) -> None:
    server.on("POST", "/x", text("starting", code=503, headers={"Retry-After": "1"}), obj({}))
    await hurried.send(POST)
    assert server.count() == 2


async def test_a_broken_connection_is_retried_for_reads_only(server: ScriptedServer, hurried: Transport) -> None:
    server.on("GET", "/x", reset(), reset(), obj({}))
    await hurried.send(GET)
    server.on("POST", "/x", reset())
    with pytest.raises(UnavailableError) as caught:
        await hurried.send(POST)
    assert caught.value.reason == "ConnectionLost"
    assert server.count("POST") == 1


async def test_a_refused_connection_is_retried_for_writes_too(clock: HurriedClock) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        calls: list[tuple[str, str, int]] = []
        hook = lambda verb, resource, code, _: calls.append((verb, resource, code))  # noqa: E731
        async with Transport(StaticCredentials(url), clock=clock, on_request=hook) as transport:
            with pytest.raises(UnavailableError) as caught:
                await transport.send(POST)
    assert caught.value.reason == "ConnectFailed"
    assert caught.value.status == 0
    assert str(caught.value).startswith(f"create things: Cannot connect to host {url.removeprefix('http://')} [")
    assert calls == [("create", "things", 0)] * 4


async def test_a_request_to_a_hanging_server_ends_at_the_timeout(server: ScriptedServer) -> None:
    server.on("GET", "/x", hang())
    async with Transport(StaticCredentials(server.url), TransportOptions(timeout_seconds=0.5)) as transport:
        with pytest.raises(UnavailableError, match=r"no answer within 0\.(5|[0-4]\d*) s") as caught:
            await transport.send(GET)
    assert caught.value.reason == "Timeout"
    # Never asked again. On a machine that stood still it was over before the server had read it even once.
    assert server.count() <= 1


async def test_a_call_has_its_own_timeout(server: ScriptedServer, transport: Transport) -> None:
    server.on("GET", "/x", hang())
    # What an attempt may take is what the call has left: a busy machine has used up some of it.
    with pytest.raises(UnavailableError, match=r"within 0\.(1|0\d+) s"):
        await transport.send(Request("GET", "/x", "get", "things", timeout_seconds=0.1))


async def test_an_incomplete_response_times_out(server: ScriptedServer, transport: Transport) -> None:
    async def half(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "100"})
        await response.prepare(request)
        await response.write(b"{")
        await asyncio.Event().wait()
        return response

    server.on("GET", "/x", half)
    with pytest.raises(UnavailableError) as caught:
        await transport.send(Request("GET", "/x", "get", "things", timeout_seconds=0.5))
    assert caught.value.reason == "Timeout"


async def test_a_response_above_the_limit_is_an_error(server: ScriptedServer) -> None:
    server.on("GET", "/x", obj({"a": "x" * 5000}))
    async with Transport(StaticCredentials(server.url), TransportOptions(max_response_bytes=1000)) as transport:
        with pytest.raises(ServerError, match="larger than 1000 bytes"):
            await transport.send(GET)
    assert server.count() == 1


async def test_a_redirect_is_not_followed(server: ScriptedServer, transport: Transport) -> None:
    server.on("GET", "/x", text("", code=302, headers={"Location": "/y"}))
    with pytest.raises(Exception, match="redirect"):
        await transport.send(GET)
    assert server.count("GET", "/y") == 0


async def test_a_body_that_json_cannot_represent_is_an_input_error(
    transport: Transport, server: ScriptedServer
) -> None:
    with pytest.raises(InputError, match="create things"):
        await transport.send(Request("POST", "/x", "create", "things", body={"a": 2**70}))
    assert server.count() == 0


class Renewable:
    """Credentials whose token counts up at each refresh, and then may fail."""

    def __init__(self, url: str, failure: ConfigError | None = None, *, changes: bool = True) -> None:
        self._url = url
        self._failure = failure
        self._changes = changes
        self.version = 0

    async def access(self) -> Access:
        return Access(self._url, (("Authorization", f"Bearer t{self.version}"),))

    async def refresh(self, refused: Access) -> bool:
        assert refused == await self.access()
        if self._failure is not None:
            raise self._failure
        self.version += 1
        return self._changes


async def test_401_renews_the_credentials_once(server: ScriptedServer) -> None:
    server.on("POST", "/x", status(401, "Unauthorized"), obj({}))
    async with Transport(Renewable(server.url)) as transport:
        await transport.send(POST)
        assert [seen.headers["Authorization"] for seen in server.seen] == ["Bearer t0", "Bearer t1"]
        server.on("POST", "/x", status(401, "Unauthorized"))
        with pytest.raises(UnauthorizedError):
            await transport.send(POST)
    assert server.count() == 4


async def test_401_without_newer_credentials_is_final(server: ScriptedServer, transport: Transport) -> None:
    server.on("GET", "/x", status(401, "Unauthorized"))
    with pytest.raises(UnauthorizedError):
        await transport.send(GET)
    assert server.count() == 1


async def test_401_names_the_error_of_the_renewal(server: ScriptedServer) -> None:
    server.on("GET", "/x", status(401, "Unauthorized", "no"))
    async with Transport(Renewable(server.url, ConfigError("plugin missing"))) as transport:
        with pytest.raises(UnauthorizedError, match="no; the credentials could not be renewed: plugin missing"):
            await transport.send(GET)


async def test_the_rate_limit_is_fair_and_can_be_skipped(server: ScriptedServer) -> None:
    server.on("GET", "/x", obj({}))
    clock = VirtualClock()
    options = TransportOptions(qps=2, burst=1)
    async with Transport(StaticCredentials(server.url), options, clock=clock) as transport:
        await transport.send(GET)
        second, third = asyncio.create_task(transport.send(GET)), asyncio.create_task(transport.send(GET))
        await transport.send(GET, throttled=False)
        await settle()
        assert clock.pending == [0.5, 1.0]
        clock.tick(0.5)
        await second
        assert not third.done()
        clock.tick(0.5)
        await third
    assert server.count() == 4


async def test_a_cancelled_request_returns_its_rate_limit_token(server: ScriptedServer) -> None:
    server.on("GET", "/x", obj({}))
    clock = VirtualClock()
    async with Transport(StaticCredentials(server.url), TransportOptions(qps=1, burst=1), clock=clock) as transport:
        await transport.send(GET)
        waiting = asyncio.create_task(transport.send(GET))
        await settle()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        clock.tick(1)
        await transport.send(GET)


async def test_environment_proxies_are_not_used(
    server: ScriptedServer, transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    server.on("GET", "/x", obj({}))
    await transport.send(GET)


async def test_a_closed_transport_can_be_opened_again(server: ScriptedServer, transport: Transport) -> None:
    server.on("GET", "/x", obj({}))
    await transport.send(GET)
    await transport.close()
    await transport.send(GET)
    assert server.count() == 2


@pytest.mark.skipif(not NEEDS_CLEANUP_CLOSED, reason="this Python lets go of TLS connections by itself")
async def test_no_connection_of_a_cancelled_request_outlives_the_transport(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[socket.socket] = []
    accepted: list[asyncio.Transport] = []

    def recorded(address: tuple[Any, ...]) -> socket.socket:
        opened.append(_keepalive_socket(address))
        return opened[-1]

    async def deaf(request: web.Request) -> web.StreamResponse:
        assert isinstance(request.transport, asyncio.Transport)
        # It will not see that the client wants to end TLS, and will not answer that.
        request.transport.pause_reading()
        accepted.append(request.transport)
        return await hang()(request)

    monkeypatch.setattr("gangctl.client.transport._keepalive_socket", recorded)
    async with ScriptedServer(tls=ServerTls(pair("ca")).context) as server:
        server.on("GET", "/deaf", deaf)
        async with Transport(StaticCredentials(server.url, tls=client_context(bundle("ca")))) as transport:
            request = asyncio.create_task(transport.send(Request("GET", "/deaf", "list", "pods")))
            await server.until(lambda: server.count("GET", "/deaf") == 1)
            request.cancel()
            await asyncio.wait({request})
        await settle()
        assert [connection.fileno() for connection in opened] == [-1]
        accepted[0].abort()


def test_credentials_are_not_in_the_repr() -> None:
    access = Access("https://x", (("Authorization", "Bearer s3cret"),), proxy="http://u:s3cret@p")
    assert "s3cret" not in repr(access)
