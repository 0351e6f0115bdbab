"""The TLS listener of ``/metrics``, for those whom the API server knows and who may get it."""

from __future__ import annotations

import ssl
from http import HTTPStatus
from typing import Final

from aiohttp import hdrs, web

from gangctl.runtime.accessreview import AccessReviewer
from gangctl.runtime.exposition import Registry, exposition
from gangctl.runtime.listener import Listener, ListenerOptions, Refusal

PATH: Final = "/metrics"


class MetricsServer(Listener):
    """Serves the metrics of ``registry``; whoever asks is reviewed first."""

    def __init__(
        self,
        address: tuple[str, int],
        tls: ssl.SSLContext,
        reviewer: AccessReviewer,
        registry: Registry,
        *,
        options: ListenerOptions | None = None,
    ) -> None:
        """Do nothing yet; see :class:`Listener` for starting and stopping."""
        super().__init__("metrics", self._serve, address, tls=tls, options=options)
        self._reviewer = reviewer
        self._registry = registry

    async def _serve(self, request: web.BaseRequest) -> web.Response:
        if request.path != PATH:
            raise Refusal(HTTPStatus.NOT_FOUND, f"nothing here: {PATH}")
        if request.method not in {hdrs.METH_GET, hdrs.METH_HEAD}:
            raise Refusal(HTTPStatus.METHOD_NOT_ALLOWED, "only GET, HEAD is answered here", Allow="GET, HEAD")
        given = request.headers.getall(hdrs.AUTHORIZATION, [])
        # Of two tokens nobody can say whose request it is.
        await self._reviewer.admit(given[0] if len(given) == 1 else "")
        return await exposition(self._registry, request)
