"""Whom the webhooks' listener knows: the authority of the API server's client certificate, a file that may change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

import structlog

from gangctl.client.pacing import Clock
from gangctl.errors import ConfigError
from gangctl.runtime.tls import client_context

_log = structlog.get_logger(__name__)

POLL_SECONDS: Final = 10.0
FILE_BYTES: Final = 2**20


class ClientAuthorities:
    """A PEM file of authorities that is looked at every ``poll_seconds``."""

    def __init__(self, path: Path, *, poll_seconds: float = POLL_SECONDS, clock: Clock | None = None) -> None:
        """Read nothing yet."""
        self._path = path
        self._poll_seconds = poll_seconds
        self._clock = clock or Clock()

    async def load(self) -> bytes:
        """Read the file; ConfigError when it cannot be read or holds no certificates."""
        return await asyncio.to_thread(self._read)

    async def run(self, deliver: Callable[[bytes], None]) -> None:
        """Call ``deliver`` with every new content, until cancelled; what cannot be used changes nothing."""
        delivered, trouble = b"", ""
        while True:
            try:
                authorities = await self.load()
            except ConfigError as error:
                if error.message != trouble:
                    _log.warning("client authorities not read, the old ones count", error=error.message)
                trouble = error.message
            else:
                trouble = ""
                if authorities != delivered:
                    deliver(authorities)
                    delivered = authorities
            await self._clock.sleep(self._poll_seconds)

    def _read(self) -> bytes:
        try:
            with self._path.open("rb") as file:
                authorities = file.read(FILE_BYTES)
        except OSError as error:
            raise ConfigError(f"{self._path}: {error.strerror}") from error
        try:
            client_context(authorities)
        except ConfigError as error:
            raise ConfigError(f"{self._path}: holds no PEM certificates") from error
        return authorities
