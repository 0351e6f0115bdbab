"""A proxy in front of the API server that can end gangctl right after any of its writes.

It speaks plain HTTP on loopback to gangctl and TLS with gangctl's own certificate to the API
server, so that audit and RBAC see the real user. The n-th write is carried out and its answer
withheld: the process is killed first, as a machine failure would have it.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import aiohttp
from aiohttp import web

from tests.controlplane.plane import ControlPlane

_HOP_BY_HOP: Final = {"connection", "content-length", "host", "keep-alive", "transfer-encoding"}
_WRITES: Final = {"POST", "PUT", "PATCH", "DELETE"}

WriteHook = Callable[[str, str], Awaitable[None]]
"""Awaited with method and path after a write was carried out and before it is answered."""


class Proxy:
    """Forwards everything to a plane's API server as one user; ``async with``."""

    def __init__(self, plane: ControlPlane, user: str, on_write: WriteHook) -> None:
        """Speak as ``user``, whose certificate the plane signs."""
        self._plane = plane
        self._on_write = on_write
        pair = plane.site.user(user)
        self._tls = ssl.create_default_context(cafile=str(plane.ca))
        self._tls.load_cert_chain(pair.certificate, pair.key)
        self._session: aiohttp.ClientSession | None = None
        self._runner: web.AppRunner | None = None
        self.port = 0

    async def __aenter__(self) -> Self:
        timeout = aiohttp.ClientTimeout(total=None)
        connector = aiohttp.TCPConnector(ssl=self._tls, limit=0)
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

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        if self._session is None:
            raise RuntimeError("the proxy is not open")
        headers = {k: v for k, v in request.headers.items() if k.lower() not in _HOP_BY_HOP}
        url = self._plane.url + request.raw_path
        # An empty body would get a content type that the API server refuses.
        body = await request.read() or None
        async with self._session.request(request.method, url, data=body, headers=headers) as answer:
            if request.method in _WRITES and answer.status < 400 and "dryRun" not in request.query_string:
                text = await answer.read()
                await self._on_write(request.method, request.path)
                return web.Response(status=answer.status, body=text, content_type="application/json")
            response = web.StreamResponse(status=answer.status)
            response.content_type = answer.content_type
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            return response
