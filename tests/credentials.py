"""Credentials of tests that have no kubeconfig."""

from __future__ import annotations

import ssl

from gangctl.client.credentials import Access


class StaticCredentials:
    """Credentials that never change: a URL, perhaps with a token."""

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
