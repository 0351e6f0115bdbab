"""Credentials of a server: its URL, and the headers and certificates that authenticate the client.

No private key is left in a file.
"""

from __future__ import annotations

import hashlib
import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from gangctl.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Access:
    """One set of credentials for one server; never printed.

    ``server`` is a base URL without a trailing slash. ``headers`` carry the bearer
    token and impersonation. ``tls_server_name`` is the name in the server's
    certificate where it differs from the URL's host.
    """

    server: str
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    tls_server_name: str | None = None
    proxy: str | None = field(default=None, repr=False)


class Credentials(Protocol):
    """Where a transport gets its :class:`Access`, and a newer one after a 401."""

    async def access(self) -> Access:
        """Return the credentials to use now."""

    async def refresh(self, refused: Access) -> bool:
        """Replace credentials the server ``refused``; False when there is nothing else to try."""


class StaticCredentials:
    """Credentials that never change: a URL, perhaps with a token. For tests and servers without authentication."""

    def __init__(self, server: str, *, token: str | None = None, tls: ssl.SSLContext | None = None) -> None:
        """Keep them."""
        headers = (("Authorization", f"Bearer {token}"),) if token else ()
        self._access = Access(server.rstrip("/"), headers, tls)

    async def access(self) -> Access:
        """Return them."""
        return self._access

    async def refresh(self, refused: Access) -> bool:  # noqa: ARG002 -- the protocol's argument
        """Nothing else to try."""
        return False


class TlsCache:
    """The TLS context of some certificates, made again only when they change: a new context means new connections."""

    def __init__(self) -> None:
        """Hold nothing yet."""
        self._digest = b""
        self._context: ssl.SSLContext | None = None

    def context(
        self,
        *,
        authority: bytes | None = None,
        certificate: bytes | None = None,
        key: bytes | None = None,
        verify: bool = True,
    ) -> ssl.SSLContext:
        """Return a context for PEM ``certificate`` and ``key`` that trusts ``authority``, or the system without one."""
        digest = hashlib.sha256(repr((authority, certificate, key, verify)).encode()).digest()
        if self._context is None or digest != self._digest:
            self._context = _make_tls(authority, certificate, key, verify=verify)
            self._digest = digest
        return self._context


def _make_tls(authority: bytes | None, certificate: bytes | None, key: bytes | None, *, verify: bool) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cadata=authority.decode("ascii") if authority else None)
    except (ssl.SSLError, ValueError):
        raise ConfigError("certificate-authority: not PEM certificates") from None
    # Cluster authorities often lack the key identifiers that strict mode requires; Go clients do not require them.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate is not None and key is not None:
        try:
            load_pair(context, certificate, key)
        except ValueError as error:
            raise ConfigError(f"client-certificate and client-key: unusable: {error}") from None
    return context


def load_pair(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Load the first of these PEM certificates; ValueError explains why a pair cannot be used."""
    with _private_file(certificate.rstrip() + b"\n" + key) as path:
        try:
            # The empty password keeps OpenSSL from asking the terminal about an encrypted key.
            context.load_cert_chain(path, password=b"")
        except (ssl.SSLError, ValueError) as error:
            raise ValueError(getattr(error, "reason", None) or "not PEM, or the key is encrypted") from error


@contextmanager
def _private_file(content: bytes) -> Iterator[str]:
    """A path under which OpenSSL, which reads keys from files only, finds ``content`` for a moment.

    Memory, where the system has it: the key never reaches a disk, and a read-only
    root file system is enough.
    """
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("gangctl-tls")
        try:
            os.write(descriptor, content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile(prefix="gangctl-") as file:
        file.write(content)
        file.flush()
        yield file.name
