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
    """As the plain proxy; what :attr:`fails` chooses is answered with 500, and writes wait while they are held."""

    def __init__(self, plane: ControlPlane, user: str) -> None:
        """Pass everything on."""
        super().__init__(plane, user, self._wait)
        self.fails: Chosen = nothing
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
            status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 500, "message": "a fault"}
            return web.json_response(status, status=HTTPStatus.INTERNAL_SERVER_ERROR)
        return await super()._forward(request)
