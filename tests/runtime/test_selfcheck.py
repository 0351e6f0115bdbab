"""The self-check sees the listener as an API server would."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace

from gangctl.runtime.certsource import Serving
from gangctl.runtime.probes import self_check
from gangctl.runtime.server import WebhookServer
from gangctl.runtime.tls import KeyPair, ServerTls
from tests.rows import each
from tests.runtime.authority import bundle, pair

OURS = Serving(pair("ca", "one"), bundle("ca"))


@each("host", ["127.0.0.1", "0.0.0.0", ""])
async def test_a_listener_with_a_trusted_certificate_passes(host: str) -> None:
    async with WebhookServer({}, (host, 0), ServerTls(OURS.pair).context) as server:
        for _ in range(3):
            assert await self_check(server.address, OURS) is None
        rotating = Serving(OURS.pair, bundle("next", "ca"))
        assert await self_check(server.address, rotating) is None


async def test_a_listener_on_ipv6_passes() -> None:
    server = WebhookServer({}, ("::", 0), ServerTls(OURS.pair).context)
    with contextlib.suppress(OSError):
        await server.start()
        assert await self_check(server.address, OURS) is None
    await server.stop()


async def test_a_listener_with_an_untrusted_certificate_fails() -> None:
    async with WebhookServer({}, ("127.0.0.1", 0), ServerTls(OURS.pair).context) as server:
        problem = await self_check(server.address, Serving(OURS.pair, bundle("other")))
        assert problem is not None
        assert problem.startswith("its certificate is not trusted: ")
        assert await self_check(server.address, Serving(KeyPair(bundle("ca"), b""), bundle("ca"))) is not None


async def test_without_authorities_only_the_same_certificate_passes() -> None:
    async with WebhookServer({}, ("127.0.0.1", 0), ServerTls(OURS.pair).context) as server:
        assert await self_check(server.address, replace(OURS, authorities=b"")) is None
        assert await self_check(server.address, Serving(pair("ca", "two"), b"")) is not None


async def test_an_unreachable_listener_fails() -> None:
    async with WebhookServer({}, ("127.0.0.1", 0), ServerTls(OURS.pair).context) as server:
        address = server.address
    problem = await self_check(address, OURS)
    assert problem is not None
    assert problem.startswith("it cannot be reached: ")


async def test_another_server_at_the_address_fails() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"HTTP/1.1 503 Service Unavailable\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=ServerTls(OURS.pair).context) as server:
        host, port = server.sockets[0].getsockname()
        assert await self_check((host, port), OURS) == "it answers, but not that it is well"
