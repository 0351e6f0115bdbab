"""The nodes on which the head of a JobSet might run, read when one is created."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing
from typing import Any, Final

import structlog

from gangctl.client.client import Client, Selection
from gangctl.client.pacing import Clock
from gangctl.client.resources import NODES
from gangctl.errors import ApiError
from gangctl.fit.floor import NodeShape, read_node

MOST_NODES: Final = 5000
"""Read for one query; beyond this many, nothing is known."""
FRESH_SECONDS: Final = 30.0
"""How long an answer is cached: many PathwaysJobs may be created at once."""
_MOST_ANSWERS: Final = 100

_log = structlog.get_logger(__name__)


class HeadNodes:
    """Reads nodes, and caches answers for a moment."""

    def __init__(self, client: Client, *, clock: Clock | None = None) -> None:
        """Start with an empty cache."""
        self._client = client
        self._clock = clock or Clock()
        self._answers: dict[str, tuple[float, list[NodeShape]]] = {}

    async def of(self, pod_spec: Mapping[str, Any]) -> list[NodeShape]:
        """Nodes with the labels that a pod selects; none where they may not be read, or are too many."""
        selector = ",".join(f"{key}={value}" for key, value in sorted((pod_spec.get("nodeSelector") or {}).items()))
        found = self._answers.get(selector)
        if found is not None and self._clock.now() - found[0] < FRESH_SECONDS:
            return found[1]
        nodes = await self._ask(selector)
        if len(self._answers) >= _MOST_ANSWERS:
            self._answers.clear()
        self._answers[selector] = self._clock.now(), nodes
        return nodes

    async def _ask(self, selector: str) -> list[NodeShape]:
        nodes: list[NodeShape] = []
        try:
            async with aclosing(self._client.pages(NODES, selection=Selection(selector or None))) as pages:
                async for page in pages:
                    nodes += map(read_node, page.items)
                    if len(nodes) > MOST_NODES or len(nodes) + page.remaining > MOST_NODES:
                        return []
        except ApiError as error:
            _log.debug("nodes for heads not read", error=str(error))
            return []
        return nodes
