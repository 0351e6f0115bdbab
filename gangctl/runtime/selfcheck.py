"""Checks that our own TLS listener answers as an API server would see it, from inside, without the network between."""

from __future__ import annotations

import asyncio
import ssl
from ipaddress import ip_address

from gangctl.errors import ConfigError
from gangctl.runtime.authority import covered
from gangctl.runtime.certsource import Serving
from gangctl.runtime.server import HEALTH_PATH
from gangctl.runtime.tls import client_context


async def self_check(address: tuple[str, int], serving: Serving) -> str | None:
    """Call the listener at ``address`` once; None when it answers and is trusted, else the problem.

    It is verified with the authorities in the caBundle, or, when another component manages that, by being exactly the
    certificate that should be served. Takes as long as the connection does: the caller must bound it.
    """
    try:
        return await _ask(_reachable(address), _trust(serving), _name(serving))
    except ssl.SSLCertVerificationError as error:
        return f"its certificate is not trusted: {error.verify_message}"
    except OSError as error:
        return f"it cannot be reached: {error}"
    except ConfigError as error:
        return error.message


async def _ask(address: tuple[str, int], context: ssl.SSLContext, name: str) -> str | None:
    reader, writer = await asyncio.open_connection(*address, ssl=context, server_hostname=name)
    try:
        writer.write(f"GET {HEALTH_PATH} HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n".encode())
        status = (await reader.read()).split(b" ")
    finally:
        writer.close()
        await writer.wait_closed()
    return None if status[1:2] == [b"200"] else "it answers, but not that it is well"


def _reachable(address: tuple[str, int]) -> tuple[str, int]:
    """Where to connect to a listener: all addresses means loopback too."""
    host, port = address
    found = ip_address(host)
    if found.is_unspecified:
        return ("127.0.0.1" if found.version == 4 else "::1"), port  # noqa: PLR2004 - IPv4
    return host, port


def _trust(serving: Serving) -> ssl.SSLContext:
    context = client_context(serving.authorities or serving.pair.chain)
    if not serving.authorities:
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def _name(serving: Serving) -> str:
    """Any one of the names that the certificate is for: the choice does not affect the check."""
    names = sorted(covered(serving.pair.chain))
    if not names:
        raise ConfigError("the certificate is for no host")
    return names[0]
