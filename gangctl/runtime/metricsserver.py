"""The TLS listener of ``/metrics``, for those whom the API server knows and who may get it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable
from http import HTTPStatus
from typing import Final, Protocol

from aiohttp import hdrs, web
from prometheus_client import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from gangctl.runtime.accessreview import AccessReviewer
from gangctl.runtime.listener import Listener, ListenerOptions, Refusal


class Registry(Protocol):
    """What metrics are collected from: a ``prometheus_client.CollectorRegistry``."""

    def collect(self) -> Iterable[Metric]:
        """All metric families as they are now."""


class _Collected(Collector):
    """Families that were collected before."""

    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


async def exposition(registry: Registry, request: web.BaseRequest) -> web.Response:
    """Write all metrics in the format that the request prefers."""
    encode, content_type = choose_encoder(",".join(request.headers.getall(hdrs.ACCEPT, [])))
    # Collected here, because collectors read what this thread changes; written elsewhere, because thirty thousand
    # lines would keep admission waiting.
    families = list(registry.collect())
    text = await asyncio.to_thread(encode, _Collected(families))
    # Compressed elsewhere too, when it is long.
    response = web.Response(body=text, headers={hdrs.CONTENT_TYPE: content_type}, zlib_executor_size=2**16)
    response.enable_compression()
    return response


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
