"""Metrics as the body of an HTTP answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Protocol

from aiohttp import hdrs, web
from prometheus_client import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector


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
