"""JobSets created one after the other at a fixed pace, and what became of each."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from tests.controlplane.api import UNREACHABLE, ApiFailure
from tests.controlplane.wait import NotYet, wait_for
from tests.jobsets import jobset, rj
from tests.live.cluster import Cluster


@dataclass(frozen=True)
class Outcome:
    """One create: its name, when it began, how long it took, and what the API server said when it failed."""

    name: str
    began: float
    seconds: float
    failure: str = ""
    kept: bool = False


class Load:
    """Creates JobSets that ask for a gang, ``pace`` a second whether answered or not, while the block runs."""

    def __init__(self, cluster: Cluster, pace: float, keep: int = 10) -> None:
        """Every ``keep``-th JobSet is kept, the others are dry runs."""
        self._cluster = cluster
        self._pace = pace
        self._keep = keep
        self._requests: set[asyncio.Task[None]] = set()
        self._driver: asyncio.Task[None] | None = None
        self._count = 0
        self.outcomes: list[Outcome] = []

    @property
    def failures(self) -> list[Outcome]:
        """What did not go through."""
        return [outcome for outcome in self.outcomes if outcome.failure]

    @property
    def kept(self) -> list[str]:
        """JobSets that exist now."""
        return [outcome.name for outcome in self.outcomes if outcome.kept]

    @property
    def slowest(self) -> float:
        """Seconds that the slowest create took."""
        return max((outcome.seconds for outcome in self.outcomes), default=0.0)

    async def __aenter__(self) -> Self:
        await self._cluster.asked()
        self._driver = asyncio.create_task(self._drive(), name="load")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._driver is not None:
            self._driver.cancel()
            await asyncio.wait({self._driver})
        if self._requests:
            await asyncio.wait(self._requests)

    async def more(self, creates: int = 10) -> None:
        """Wait until so many more have been answered."""
        wanted = len(self.outcomes) + creates

        async def answered() -> bool:
            if len(self.outcomes) < wanted:
                raise NotYet(f"{len(self.outcomes)} of {wanted}")
            return True

        await wait_for(answered, f"{creates} more creates", interval=0.02)

    async def _drive(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            request = asyncio.create_task(self._create(self._count))
            self._requests.add(request)
            request.add_done_callback(self._requests.discard)
            self._count += 1
            due += 1 / self._pace
            await asyncio.sleep(due - loop.time())

    async def _create(self, number: int) -> None:
        name, kept = f"load-{number}", number % self._keep == 0
        began = time.monotonic()
        try:
            await self._cluster.create_jobset(jobset(name, rj("w", 1, 2, 2, mode="Gang")), dry_run=not kept)
        except (ApiFailure, *UNREACHABLE) as failure:
            said = f"{type(failure).__name__}: {failure}"
        else:
            said = ""
        seconds = time.monotonic() - began
        self.outcomes.append(Outcome(name, began, seconds, said, kept and not said))
