"""A live server changes its certificate without losing a handshake, whatever pair it is given."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from cryptography import x509

from gangctl.errors import ConfigError
from gangctl.runtime.tls import KeyPair, ServerTls, check_pair, client_context
from tests.rows import each
from tests.runtime.authority import bundle, pair


@asynccontextmanager
async def echo(tls: ServerTls) -> AsyncIterator[int]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read(100))
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=tls.context) as server:
        yield server.sockets[0].getsockname()[1]


async def served(port: int, trusted: bytes, **limits: Any) -> str:
    """The common name of the certificate that a new, verified connection is shown."""
    context = client_context(trusted)
    for name, value in limits.items():
        setattr(context, name, value)
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    writer.write(b"ping")
    assert await reader.read(100) == b"ping"
    certificate = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    await writer.wait_closed()
    return str(x509.load_der_x509_certificate(certificate).subject.rdns[0].rfc4514_string())


async def test_a_new_pair_is_served_from_the_next_handshake_on() -> None:
    tls = ServerTls(pair("ca", "one"))
    async with echo(tls) as port:
        assert await served(port, bundle("ca")) == "CN=one"
        assert tls.load(pair("ca", "two"))
        assert await served(port, bundle("ca")) == "CN=two"


def test_the_same_pair_is_not_loaded_again() -> None:
    tls = ServerTls(pair("ca"))
    assert not tls.load(pair("ca"))


@each(
    "broken",
    [
        replace(pair("ca", "one"), key=pair("ca", "two").key),
        replace(pair("ca", "one"), key=b"garbage"),
        replace(pair("ca", "one"), chain=b"garbage"),
        replace(pair("ca", "one"), chain=b""),
        KeyPair(b"", b""),
        replace(pair("ca", "one"), key=pair("ca", "one").key[:100]),
    ],
)
async def test_a_broken_pair_leaves_the_old_one_serving(broken: KeyPair) -> None:
    tls = ServerTls(pair("ca", "old"))
    async with echo(tls) as port:
        with pytest.raises(ConfigError, match="cannot be served"):
            tls.load(broken)
        assert await served(port, bundle("ca")) == "CN=old"
        assert tls.load(pair("ca", "new"))
        assert await served(port, bundle("ca")) == "CN=new"


async def test_handshakes_succeed_during_a_hundred_changes() -> None:
    tls = ServerTls(pair("ca", "one"))
    done = asyncio.Event()
    shown: set[str] = set()

    async def connect() -> None:
        while not done.is_set():
            shown.add(await served(port, bundle("ca")))

    async with echo(tls) as port, asyncio.TaskGroup() as group:
        for _ in range(4):
            group.create_task(connect())
        for number in range(100):
            tls.load(pair("ca", ("two", "one")[number % 2]))
            await asyncio.sleep(0)
        while shown != {"CN=one", "CN=two"}:
            tls.load(pair("ca", "two" if "CN=one" in shown else "one"))
            await asyncio.sleep(0)
        done.set()


async def test_only_the_given_authority_is_trusted() -> None:
    async with echo(ServerTls(pair("ca"))) as port:
        with pytest.raises(ssl.SSLCertVerificationError):
            await served(port, bundle("other"))
        assert await served(port, bundle("other", "ca"))


async def test_tls_1_2_is_accepted_and_1_1_is_not() -> None:
    async with echo(ServerTls(pair("ca"))) as port:
        assert await served(port, bundle("ca"), maximum_version=ssl.TLSVersion.TLSv1_2)
    assert ServerTls(pair("ca")).context.minimum_version is ssl.TLSVersion.TLSv1_2


def test_a_bundle_without_certificates_is_refused() -> None:
    with pytest.raises(ConfigError):
        client_context(b"no")
    with pytest.raises(ConfigError):
        client_context(b"\xff")


def test_comments_of_a_bundle_may_be_in_any_language() -> None:
    authorities, tls = "# Főtanúsítvány\n".encode() + bundle("ca"), ServerTls()
    tls.accept(authorities)
    for context in (client_context(authorities), tls.context):
        assert len(context.get_ca_certs()) == 1


def test_a_key_is_never_shown() -> None:
    shown = repr(pair("ca"))
    assert "PRIVATE" not in shown
    assert "CERTIFICATE" in shown
    check_pair(pair("ca"))
