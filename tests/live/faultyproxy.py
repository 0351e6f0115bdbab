"""An API server that fails at some requests, and takes its time for writes, as gangctl sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus

from aiohttp import web

from tests.controlplane.plane import ControlPlane
from tests.live.proxy import Proxy

Chosen = Callable[[str, str], bool]
"""Whether a request is meant, by its method and its path with the query."""


def nothing(_method: str, _path: str) -> bool:
    """No request."""
    return False


def everything(_method: str, _path: str) -> bool:
    """Any request."""
    return True


class FaultyProxy(Proxy):
    """As the plain proxy; what :attr:`fails` chooses gets :attr:`status`, and writes wait while they are held."""

    def __init__(self, plane: ControlPlane, user: str) -> None:
        """Pass everything on."""
        super().__init__(plane, user, self._wait)
        self.fails: Chosen = nothing
        self.status = HTTPStatus.INTERNAL_SERVER_ERROR
        self.failed: list[str] = []
        """Verb and path of what was chosen."""
        self._open = asyncio.Event()
        self._open.set()

    def hold_writes(self) -> None:
        """Carry writes out, and answer none of them."""
        self._open.clear()

    def release_writes(self) -> None:
        """Answer those that wait, and all that come."""
        self._open.set()

    async def _wait(self, _method: str, _path: str) -> None:
        await self._open.wait()

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        if self.fails(request.method, request.path_qs):
            self.failed.append(f"{request.method} {request.path}")
            status = {
                "kind": "Status",
                "apiVersion": "v1",
                "status": "Failure",
                "code": self.status,
                "message": "a fault",
            }
            headers = {"Retry-After": "1"} if self.status is HTTPStatus.TOO_MANY_REQUESTS else None
            return web.json_response(status, status=self.status, headers=headers)
        return await super()._forward(request)
