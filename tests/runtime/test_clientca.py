"""The client certificate of API servers: without one of a trusted authority, a client is refused before its body."""

from __future__ import annotations

import asyncio
import ssl
import tempfile
from contextlib import suppress
from pathlib import Path

import aiohttp
import pytest

from gangctl.client.kubeconfig import MATERIAL_BYTES
from gangctl.errors import ConfigError
from gangctl.runtime.certsource import ClientAuthorities, Serving
from gangctl.runtime.probes import self_check
from gangctl.runtime.server import WebhookServer
from gangctl.runtime.tls import ServerTls, client_context
from tests.client.clock import VirtualClock
from tests.controlplane.wait import wait_for
from tests.rows import each
from tests.runtime.authority import bundle, pair

LOCAL = ("127.0.0.1", 0)


def known(*authorities: str) -> ServerTls:
    tls = ServerTls(pair("serving"))
    tls.accept(bundle(*authorities))
    return tls


def serving(tls: ServerTls, seen: list[bytes]) -> WebhookServer:
    async def echo(body: bytes) -> bytes:
        seen.append(body)
        return body

    return WebhookServer({"/echo": echo}, LOCAL, tls.context, known_clients=True)


def shows(issuer: str | None, *, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> ssl.SSLContext:
    """A client that shows a certificate of this authority, or none."""
    context = client_context(bundle("serving"))
    context.maximum_version = version
    if issuer is not None:
        shown = pair(issuer, "kube-apiserver")
        with tempfile.NamedTemporaryFile() as file:
            file.write(shown.chain + shown.key)
            file.flush()
            context.load_cert_chain(file.name)
    return context


async def post(server: WebhookServer, context: ssl.SSLContext) -> tuple[int, str]:
    headers = {"Content-Type": "application/json"}
    url = "https://{}:{}/echo".format(*server.address)
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(300)) as session,
        session.post(url, data=b"{}", headers=headers, ssl=context) as response,
    ):
        return response.status, await response.text()


@each("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_only_clients_with_a_trusted_certificate_are_answered(version: ssl.TLSVersion) -> None:
    seen: list[bytes] = []
    async with serving(known("clients"), seen) as server:
        assert await post(server, shows("clients", version=version)) == (200, "{}")
        refused = await post(server, shows(None, version=version))
        assert refused == (403, "a client certificate is required here\n")
        with pytest.raises((aiohttp.ClientError, OSError)):
            await post(server, shows("others", version=version))
    assert seen == [b"{}"]


async def test_no_client_certificate_is_required_by_default() -> None:
    async def echo(body: bytes) -> bytes:
        return body

    async with WebhookServer({"/echo": echo}, LOCAL, ServerTls(pair("serving")).context) as server:
        assert (await post(server, shows(None)))[0] == 200
        assert (await post(server, shows("anybody")))[0] == 200


async def test_the_self_check_passes_with_client_certificates_required() -> None:
    async with serving(known("clients"), []) as server:
        assert await self_check(server.address, Serving(pair("serving"), bundle("serving"))) is None


async def test_a_new_client_authority_is_trusted_from_the_next_handshake_on() -> None:
    tls = known("clients")
    async with serving(tls, []) as server:
        with pytest.raises((aiohttp.ClientError, OSError)):
            await post(server, shows("next"))
        tls.accept(bundle("next"))
        assert (await post(server, shows("next")))[0] == 200
        assert (await post(server, shows("clients")))[0] == 200


@pytest.mark.parametrize(
    "content", [b"", b"words", b"\xff", b"-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"]
)
async def test_a_file_without_certificates_is_refused_by_name(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(content)
    with pytest.raises(ConfigError, match=r"ca\.crt: holds no PEM"):
        await ClientAuthorities(tmp_path / "ca.crt").load()
    with pytest.raises(ConfigError, match="no PEM"):
        ServerTls(pair("serving")).accept(content)


async def test_a_missing_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="absent: No such file"):
        await ClientAuthorities(tmp_path / "absent").load()


async def test_a_file_above_the_limit_is_refused_and_not_cut(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(bundle("one") + b"#" * MATERIAL_BYTES + bundle("two"))
    with pytest.raises(ConfigError, match=r"ca\.crt: larger than 1048576 bytes"):
        await ClientAuthorities(tmp_path / "ca.crt").load()


async def test_a_changed_file_is_delivered_and_an_unreadable_one_is_not(tmp_path: Path) -> None:
    file, clock, delivered = tmp_path / "ca.crt", VirtualClock(), list[bytes]()
    file.write_bytes(bundle("one"))
    running = asyncio.create_task(ClientAuthorities(file, clock=clock).run(delivered.append))

    async def after_a_look(content: bytes | None, wanted: list[bytes]) -> None:
        if content is not None:
            file.write_bytes(content)

        async def seen() -> bool:
            clock.tick(11)
            return delivered == wanted

        await wait_for(seen, what="the file to be read")

    try:
        await after_a_look(None, [bundle("one")])
        await after_a_look(b"words", [bundle("one")])
        await after_a_look(bundle("one", "two"), [bundle("one"), bundle("one", "two")])
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
