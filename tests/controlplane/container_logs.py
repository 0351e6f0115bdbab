"""The part of a kubelet that kubectl logs asks through the API server, for nodes without machines: logs."""

import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web

from tests.controlplane.api import ApiClient
from tests.controlplane.nodes import NODES
from tests.controlplane.plane import ControlPlane

STEADY: Final = "steady"
_PATH: Final = re.compile(r"/containerLogs/[^/]+/(?P<pod>[^/]+)/(?P<container>[^/]+)")


@asynccontextmanager
async def container_logs(plane: ControlPlane) -> AsyncIterator[int]:
    """
    The port of an endpoint that has one line for each container: its pod, and its name.

    Containers called STEADY have never ended: a kubelet has no logs of an earlier one then.
    """

    async def answer(request: web.Request) -> web.Response:
        found = _PATH.fullmatch(request.path)
        if found is None:
            return web.Response(status=404)
        if found["container"] == STEADY and request.query.get("previous") == "true":
            return web.Response(status=400, text=f'previous terminated container "{STEADY}" not found')
        return web.Response(text=f"{found['pod']}/{found['container']}: out of memory\n")

    pair = plane.site.pki.cluster.server("container-logs")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    try:
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


async def serve_logs(api: ApiClient, node: str, port: int) -> None:
    """Have the API server ask that endpoint for the logs of a node's pods."""
    endpoint = {"kubeletEndpoint": {"Port": port}}
    status = {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}], "daemonEndpoints": endpoint}
    await api.patch(f"{NODES}/{node}/status", {"status": status}, kind="merge")
