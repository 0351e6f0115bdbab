"""When a watch had shown all objects of a JobSet."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.live.cluster import Cluster


@dataclass
class Sightings:
    """When a watch had shown ``wanted`` objects of each JobSet."""

    wanted: int
    counts: dict[str, int] = field(default_factory=dict)
    complete: dict[str, float] = field(default_factory=dict)

    def saw(self, jobset: str) -> None:
        """Count one more object."""
        self.counts[jobset] = self.counts.get(jobset, 0) + 1
        if self.counts[jobset] == self.wanted:
            self.complete[jobset] = time.monotonic()


@asynccontextmanager
async def watching(cluster: Cluster, path: str, sightings: Sightings) -> AsyncIterator[None]:
    """Count what a watch adds, by the name of the controlling JobSet."""

    async def follow() -> None:
        async for event in cluster.api.watch(path, resourceVersion="0", timeoutSeconds=3600):
            if event.type == "ADDED":
                sightings.saw(event.object["metadata"]["ownerReferences"][0]["name"])

    task = asyncio.create_task(follow())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
