"""The webhook listener: one answer to any request, and none lost when it stops."""

from __future__ import annotations

import asyncio
import gzip
import io
import socket
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from structlog.testing import capture_logs

from gangctl.errors import InputError
from gangctl.manager.settings import split_address
from gangctl.runtime.server import ListenerOptions, WebhookLimits, WebhookServer, _Bodies
from gangctl.runtime.tls import ServerTls, client_context
from tests.rows import each
from tests.runtime.authority import bundle, pair

HEADERS = {"Content-Type": "application/json"}
LOCAL = ("127.0.0.1", 0)
SECRET = "the-object-itself"
BRIEF = ListenerOptions(linger_seconds=0.1)
FAST = ListenerOptions(idle_seconds=0.1, drain_seconds=0.1, linger_seconds=0.1)
"""For what is about silence itself: a busy machine is silent for as long."""


class Hooks:
    """Handlers of a test, and what they received."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.release = asyncio.Event()
        self.running = 0
        self.most = 0

    async def echo(self, body: bytes) -> bytes:
        return body

    async def wait(self, body: bytes) -> bytes:
        self.running += 1
        self.most = max(self.most, self.running)
        self.entered.set()
        await self.release.wait()
        self.running -= 1
        return body

    async def refuse(self, _: bytes) -> bytes:
        raise InputError("request.uid is missing")

    async def crash(self, _: bytes) -> bytes:
        raise RuntimeError("boom")

    def server(self, **changes: Any) -> WebhookServer:
        routes = {"/echo": self.echo, "/wait": self.wait, "/refuse": self.refuse, "/crash": self.crash}
        options: dict[str, Any] = {"tls": None, **changes}
        return WebhookServer(routes, LOCAL, **options)


@pytest.fixture
def hooks() -> Hooks:
    return Hooks()


@asynccontextmanager
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(headers=HEADERS, timeout=aiohttp.ClientTimeout(300)) as opened:
        yield opened


async def post(url: str, body: bytes | io.BytesIO = b"{}", **options: Any) -> tuple[int, str, aiohttp.ClientResponse]:
    async with session() as client, client.post(url, data=body, **options) as response:
        return response.status, await response.text(), response


def url(server: WebhookServer, path: str = "/echo") -> str:
    return "http://{}:{}{}".format(*server.address, path)


async def raw(server: WebhookServer, text: bytes) -> bytes:
    """Send bytes, and read until the server closes the connection."""
    reader, writer = await asyncio.open_connection(*server.address)
    try:
        writer.write(text)
        await writer.drain()
        async with asyncio.timeout(300):
            return await reader.read()
    finally:
        writer.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(300):
        while not condition():  # noqa: ASYNC110 - the server has no event for this
            await asyncio.sleep(0)


async def test_a_webhook_answers_over_tls(hooks: Hooks) -> None:
    tls = ServerTls(pair("ca"))
    async with hooks.server(tls=tls.context) as server, session() as client:
        host, port = server.address
        trust = client_context(bundle("ca"))
        async with client.post(f"https://{host}:{port}/echo?timeout=10s", data=b'{"a":1}', ssl=trust) as response:
            assert (response.status, response.content_type) == (200, "application/json")
            assert await response.read() == b'{"a":1}'
        async with client.get(f"https://localhost:{port}/healthz", ssl=trust) as response:
            assert (response.status, await response.text()) == (200, "ok\n")


async def test_connections_survive_a_change_of_certificates(hooks: Hooks) -> None:
    tls = ServerTls(pair("ca", "one"))
    async with hooks.server(tls=tls.context) as server, session() as client:
        target = "https://{}:{}/echo".format(*server.address)
        for number in range(50):
            tls.load(pair("ca", ("one", "two")[number % 2]))
            headers = {"Connection": ("close", "keep-alive")[number % 3 == 0]}
            async with client.post(target, data=b"{}", ssl=client_context(bundle("ca")), headers=headers) as response:
                assert response.status == 200


@each(
    ("call", "changes", "status", "text"),
    [
        ("POST /nowhere", {}, 404, "no webhook at this path"),
        ("POST /echo/", {}, 404, "no webhook at this path"),
        ("GET /echo", {}, 405, "only POST is answered here"),
        ("POST /healthz", {}, 405, "only GET, HEAD is answered here"),
        ("POST /echo", {"headers": {"Content-Type": "text/plain"}}, 415, "the body must be application/json"),
        ("POST /echo", {"headers": {"Content-Encoding": "gzip"}}, 415, "the body must not be compressed"),
        ("POST /echo", {"data": b"x" * 1025}, 413, "the body is larger than 0.000976562 MiB"),
        ("POST /refuse", {}, 400, "request.uid is missing"),
        ("POST /crash", {}, 500, "internal error: the log of gangctl has the details"),
    ],
)
async def test_invalid_requests_are_refused_with_a_reason(
    hooks: Hooks, call: str, changes: dict[str, Any], status: int, text: str
) -> None:
    method, path = call.split(" ")
    async with hooks.server(limits=WebhookLimits(max_bytes=1024)) as server, session() as client:
        body = {"data": b"" if method == "GET" else b"{}", **changes}
        async with client.request(method, url(server, path), **body) as response:
            assert (response.status, await response.text()) == (status, text + "\n")
            assert response.headers["Content-Type"] == "text/plain; charset=utf-8"
            if status == 405:
                assert response.headers["Allow"] in {"POST", "GET, HEAD"}


async def test_a_content_type_with_a_charset_is_accepted(hooks: Hooks) -> None:
    async with hooks.server() as server:
        status, _, _ = await post(url(server), headers={"Content-Type": "application/json; charset=utf-8"})
    assert status == 200


async def chunks(count: int, size: int) -> AsyncIterator[bytes]:
    for _ in range(count):
        yield b"x" * size


async def test_a_chunked_body_above_the_limit_is_refused(hooks: Hooks) -> None:
    async with hooks.server(limits=WebhookLimits(max_bytes=100_000)) as server, session() as client:
        async with client.post(url(server), data=chunks(2000, 1000)) as response:
            assert response.status == 413
        async with client.post(url(server), data=chunks(100, 1000)) as response:
            assert len(await response.read()) == 100_000


async def test_eight_megabytes_are_refused_by_default_and_six_are_not(hooks: Hooks) -> None:
    async with hooks.server() as server:
        assert (await post(url(server), io.BytesIO(b"x" * (8 * 2**20))))[0] == 413
        assert (await post(url(server), io.BytesIO(b"x" * (6 * 2**20))))[0] == 200


async def test_a_compressed_body_is_refused(hooks: Hooks) -> None:
    bomb = gzip.compress(b"x" * 10_000_000)
    async with hooks.server() as server:
        status, text, _ = await post(url(server), bomb, headers={"Content-Encoding": "gzip"}, compress=False)
        assert (status, text) == (415, "the body must not be compressed\n")
        assert (await post(url(server), zlib.compress(b"x"), headers={"Content-Encoding": "deflate"}))[0] == 415


async def test_expect_100_continue_is_supported(hooks: Hooks) -> None:
    async with hooks.server() as server:
        assert (await post(url(server), b"{}", expect100=True))[:2] == (200, "{}")


async def test_a_handler_ends_at_its_timeout(hooks: Hooks) -> None:
    async with hooks.server(limits=WebhookLimits(handler_seconds=0.05)) as server:
        for query in ("", "?timeout=10s", "?timeout=soon", "?timeout=0s"):
            status, text, _ = await post(url(server, f"/wait{query}"))
            assert status == 504
            assert text.startswith("no answer within 0")


async def test_a_slow_body_times_out(hooks: Hooks) -> None:
    head = b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
    async with hooks.server(limits=WebhookLimits(read_seconds=0.05), options=BRIEF) as server:
        answer = await raw(server, head)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert answer.endswith(b"the body did not arrive within 0.05 s\n")


@each("start", [b"", b"POST /echo HTT", b"POST /echo HTTP/1.1\r\nHost: x\r\nX-Slow"])
async def test_an_incomplete_request_head_times_out(hooks: Hooks, start: bytes) -> None:
    async with hooks.server(options=FAST) as server:
        assert await raw(server, start) == b""


@each(
    "garbage",
    [
        b"\x16\x03\x01 this is no HTTP\r\n\r\n",
        b"POST /echo HTTP/9.9\r\n\r\n",
        b"POST /echo HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /echo HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST /" + b"x" * 20_000 + b" HTTP/1.1\r\n\r\n",
        b"POST /echo HTTP/1.1\r\n" + b"X: y\r\n" * 1000 + b"\r\n",
        b"GET /" + SECRET.encode() + b"\x00 HTTP/1.1\r\n\r\n",
    ],
)
async def test_malformed_http_is_refused_and_not_logged(
    hooks: Hooks, garbage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with capture_logs() as logs:
        async with hooks.server(options=BRIEF) as server:
            assert (await raw(server, garbage)).startswith(b"HTTP/1.0 400 ")
            assert (await post(url(server)))[0] == 200
    assert SECRET not in f"{logs}{caplog.text}"


async def test_a_client_that_disconnects_does_no_harm(hooks: Hooks) -> None:
    head = b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
    async with hooks.server() as server:
        _, writer = await asyncio.open_connection(*server.address)
        writer.write(head)
        await until(lambda: server._in_flight == 1)
        writer.close()
        await until(lambda: server._in_flight == 0)
        assert (await post(url(server)))[0] == 200


async def test_one_unfinished_body_is_aborted_where_that_is_enough() -> None:
    bodies, aborted = _Bodies(10), list[int]()
    deadlines = [asyncio.timeout(300) for _ in range(3)]

    async def receive(number: int) -> None:
        try:
            async with deadlines[number]:
                await asyncio.Event().wait()
        except TimeoutError:
            aborted.append(number)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(receive(number)) for number in range(3)]
        await asyncio.sleep(0)
        for deadline, count in zip(deadlines, (6, 5, 1), strict=True):
            bodies.grew(deadline, count)
        await until(lambda: bool(aborted))
        for task in tasks:
            task.cancel()
    assert aborted == [0]


async def test_the_number_of_concurrent_handlers_is_limited(hooks: Hooks) -> None:
    async with hooks.server(limits=WebhookLimits(max_at_once=2)) as server:
        calls = [asyncio.create_task(post(url(server, "/wait"))) for _ in range(5)]
        await until(lambda: server._in_flight == 5)
        await hooks.entered.wait()
        hooks.release.set()
        assert [(await call)[0] for call in calls] == [200] * 5
    assert hooks.most <= 2


async def test_a_failed_request_is_logged_without_its_body(hooks: Hooks) -> None:
    with capture_logs() as logs:
        async with hooks.server() as server:
            for path in ("/refuse", "/crash", "/nowhere" + "x" * 300):
                await post(url(server, path), f'{{"x": "{SECRET}"}}'.encode())
    refused, crashed, missing = (log for log in logs if log["log_level"] != "info")
    assert (refused["event"], refused["status"], refused["path"]) == ("request refused", 400, "/refuse")
    assert (crashed["event"], crashed["log_level"], crashed["exc_info"]) == ("request failed", "error", True)
    assert len(missing["path"]) == 100
    assert SECRET not in repr(logs)


# Stopping


async def test_stopping_waits_for_requests_in_flight(hooks: Hooks) -> None:
    server = hooks.server()
    listening = [server.listening]
    await server.start()
    listening.append(server.listening)
    address = server.address
    call = asyncio.create_task(post(url(server, "/wait"), b'{"last": 1}'))
    await hooks.entered.wait()
    stopping = asyncio.create_task(server.stop())
    with pytest.raises(ConnectionError):
        await until_refused(address)
    listening.append(server.listening)
    assert listening == [False, True, False]
    assert not stopping.done()
    hooks.release.set()
    status, text, response = await call
    assert (status, text, response.headers["Connection"]) == (200, '{"last": 1}', "close")
    await stopping
    await server.stop()


async def until_refused(address: tuple[str, int]) -> None:
    async with asyncio.timeout(300):
        while True:
            _, writer = await asyncio.open_connection(*address)
            writer.close()


async def test_stopping_reads_the_rest_of_a_body(hooks: Hooks) -> None:
    head = b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 4\r\n\r\n{}"
    server = hooks.server()
    await server.start()
    reader, writer = await asyncio.open_connection(*server.address)
    writer.write(head)
    await until(lambda: server._in_flight == 1)
    stopping = asyncio.create_task(server.stop())
    await asyncio.sleep(0)
    writer.write(b"  ")
    assert (await reader.read()).endswith(b"{}  ")
    writer.close()
    await stopping


async def test_stopping_ends_after_the_drain_period(hooks: Hooks) -> None:
    server = hooks.server(options=ListenerOptions(drain_seconds=0.1))
    await server.start()
    call = asyncio.create_task(post(url(server, "/wait")))
    await hooks.entered.wait()
    with capture_logs() as logs:
        async with asyncio.timeout(300):
            await server.stop()
    with pytest.raises(aiohttp.ClientError):
        await call
    assert [log["event"] for log in logs] == ["requests were cut off at shutdown"]


async def test_stopping_closes_idle_connections(hooks: Hooks) -> None:
    server = hooks.server()
    await server.start()
    reader, writer = await asyncio.open_connection(*server.address)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    assert b"200 OK" in await reader.readuntil(b"ok\n")
    await server.stop()
    assert await reader.read() == b""
    writer.close()


async def test_draining_closes_connections_after_each_response(hooks: Hooks) -> None:
    async with hooks.server() as server:
        assert "Connection" not in (await post(url(server)))[2].headers
        server.begin_drain()
        status, _, response = await post(url(server))
        assert (status, response.headers["Connection"]) == (200, "close")


async def test_without_a_host_it_listens_on_ipv4_and_ipv6(hooks: Hooks) -> None:
    """The kubelet and API servers call a pod by its first address: of IPv6 in a cluster of IPv6 alone."""
    try:
        socket.socket(socket.AF_INET6).close()
    except OSError:
        pytest.skip("no IPv6 here")
    async with WebhookServer({"/echo": hooks.echo}, split_address(":0"), None) as server:
        assert server._server is not None
        names = {one.family: one.getsockname() for one in server._server.sockets}
        assert names.keys() == {socket.AF_INET, socket.AF_INET6}
        for host, family in (("127.0.0.1", socket.AF_INET), ("[::1]", socket.AF_INET6)):
            assert (await post(f"http://{host}:{names[family][1]}/echo"))[0] == 200
        assert server.address == names[socket.AF_INET]


async def test_the_address_is_known_only_while_listening(hooks: Hooks) -> None:
    server = hooks.server()
    with pytest.raises(RuntimeError, match="not listening"):
        assert server.address
    async with server:
        host, port = server.address
        assert (host, port > 0) == ("127.0.0.1", True)
        taken = WebhookServer({}, server.address, None)
        with pytest.raises(OSError, match="in use"):
            await taken.start()
        await taken.stop()
