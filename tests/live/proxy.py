"""A proxy in front of the API server that does what networks and API servers do to gangctl.

It speaks plain HTTP on loopback to gangctl and TLS with gangctl's own certificate to the API
server, so that audit and RBAC see the real user. It can end gangctl right after any of its
writes: the n-th is carried out and its answer withheld, the process is killed first, as a machine
failure would have it. It can cut every connection, fall silent on them, or refuse requests.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from weakref import WeakSet

import aiohttp
from aiohttp import web
from aiohttp.connector import NEEDS_CLEANUP_CLOSED

from tests.controlplane.plane import ControlPlane

_HOP_BY_HOP: Final = {"connection", "content-length", "host", "keep-alive", "transfer-encoding"}
_TOO_MANY_REQUESTS: Final = 429
_WRITES: Final = {"POST", "PUT", "PATCH", "DELETE"}

WriteHook = Callable[[str, str], Awaitable[None]]
"""Awaited with method and path after a write was carried out and before it is answered."""


async def _nothing(_method: str, _path: str) -> None:
    return


class Proxy:
    """Forwards everything to a plane's API server as one user; ``async with``."""

    def __init__(self, plane: ControlPlane, user: str, on_write: WriteHook = _nothing) -> None:
        """Speak as ``user``, whose certificate the plane signs."""
        self._plane = plane
        self._on_write = on_write
        self._dead: WeakSet[asyncio.Transport] = WeakSet()
        self._silent = False
        self.refusal: int | None = None
        """A status with which every request is refused, as by an API server that is overloaded (429) or broken."""
        self.requests: list[str] = []
        """Verb and path of every request that came in."""
        self.writes_under_way = 0
        """Writes that have come in and are not answered: their effect may be visible before the hook is called."""
        pair = plane.site.user(user)
        self._tls = ssl.create_default_context(cafile=str(plane.ca))
        self._tls.load_cert_chain(pair.certificate, pair.key)
        self._session: aiohttp.ClientSession | None = None
        self._runner: web.AppRunner | None = None
        self.port = 0

    async def __aenter__(self) -> Self:
        timeout = aiohttp.ClientTimeout(total=None)
        connector = aiohttp.TCPConnector(ssl=self._tls, limit=0, enable_cleanup_closed=NEEDS_CLEANUP_CLOSED)
        self._session = aiohttp.ClientSession(
            connector=connector, timeout=timeout, auto_decompress=False, trust_env=False
        )
        app = web.Application(client_max_size=2**24)
        app.router.add_route("*", "/{path:.*}", self._forward)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
        if self._session is not None:
            await self._session.close()

    def kubeconfig(self, path: Path) -> Path:
        """A kubeconfig that leads through this proxy."""
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "proxy",
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}],
            "clusters": [{"name": "proxy", "cluster": {"server": f"http://127.0.0.1:{self.port}"}}],
            "users": [{"name": "proxy", "user": {}}],
        }
        path.write_text(json.dumps(config))
        return path

    def cut(self) -> None:
        """End every connection at once, without a word."""
        for transport in self._connections():
            transport.abort()

    def fall_silent(self) -> None:
        """Accept requests and answer nothing, on every connection, new ones included: they look alive."""
        self._silent = True
        self._dead.update(self._connections())

    def speak(self) -> None:
        """Serve new connections again; what fell silent stays so, as when a router has forgotten them."""
        self._silent = False

    def _connections(self) -> list[asyncio.Transport]:
        server = self._runner.server if self._runner is not None else None
        handlers = server.connections if server is not None else []
        return [each.transport for each in handlers if isinstance(each.transport, asyncio.Transport)]

    async def _audible(self, request: web.Request) -> None:
        """Return if the connection lives; otherwise never."""
        transport = request.transport
        if self._silent and isinstance(transport, asyncio.Transport):
            self._dead.add(transport)
        if transport in self._dead:
            await asyncio.Event().wait()

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        await self._audible(request)
        self.requests.append(f"{request.method} {request.path}")
        if self.refusal is not None:
            status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": self.refusal}
            # As the real one answers when it is overloaded.
            headers = {"Retry-After": "1"} if self.refusal == _TOO_MANY_REQUESTS else None
            return web.json_response(status, status=self.refusal, headers=headers)
        writes = request.method in _WRITES
        self.writes_under_way += writes
        try:
            return await self._pass_on(request, writes=writes)
        finally:
            self.writes_under_way -= writes

    async def _pass_on(self, request: web.Request, *, writes: bool) -> web.StreamResponse:
        if self._session is None:
            raise RuntimeError("the proxy is not open")
        headers = {k: v for k, v in request.headers.items() if k.lower() not in _HOP_BY_HOP}
        url = self._plane.url + request.raw_path
        # An empty body would get a content type that the API server refuses.
        body = await request.read() or None
        async with self._session.request(request.method, url, data=body, headers=headers) as answer:
            if writes and answer.status < 400 and "dryRun" not in request.query_string:
                text = await answer.read()
                await self._on_write(request.method, request.path)
                return web.Response(status=answer.status, body=text, content_type="application/json")
            response = web.StreamResponse(status=answer.status)
            response.content_type = answer.content_type
            await response.prepare(request)
            with suppress(ConnectionError):
                async for chunk in answer.content.iter_any():
                    await self._audible(request)
                    await response.write(chunk)
            return response
