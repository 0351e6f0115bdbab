"""What it takes to be let in: where the server is, and the headers and certificates that prove who we are."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from typing import Protocol


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
    """Where a transport gets its :class:`Access`, and a newer one when the server says 401."""

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
