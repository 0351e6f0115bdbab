"""What anybody would take on this machine, beside which a number means something on another one, too."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Protocol

import orjson

from tests.controlplane.api import Object, list_items

PAGE = 500


def json_round_trip(raw: Mapping[str, Any], times: int) -> float:
    """Seconds of writing an object as JSON and reading it back, on average, as gangctl does it on the wire."""
    began = time.perf_counter()
    for _ in range(times):
        orjson.loads(orjson.dumps(raw))
    return (time.perf_counter() - began) / times


class Readable(Protocol):
    """What reads from an API server."""

    async def get(self, path: str, **parameters: str | int | bool) -> Object:
        """One answer."""


async def listing(api: Readable, paths: list[str]) -> float:
    """Seconds of listing collections once, in pages, one after the other; everything is read and thrown away."""
    began = time.perf_counter()
    for path in paths:
        token: str | None = ""
        while token is not None:
            page: Object = await api.get(path, limit=PAGE, **({"continue": token} if token else {}))
            list_items(page)
            token = page["metadata"].get("continue") or None
    return time.perf_counter() - began
