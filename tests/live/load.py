"""JobSets created one after the other at a fixed pace, and what became of each."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from tests.controlplane.api import UNREACHABLE, ApiFailure
from tests.controlplane.wait import NotYet, wait_for, wait_until
from tests.jobsets import jobset, rj
from tests.live.cluster import Cluster

MOST_AT_ONCE = 8
"""Not more requests of a load are under way."""


@dataclass(frozen=True)
class Outcome:
    """One create: its name, and the error of the API server if it failed."""

    name: str
    failure: str = ""
    kept: bool = False


class Load:
    """Creates JobSets that ask for a gang while the block runs, ``pace`` a second unless MOST_AT_ONCE are not answered.

    So a machine that is slow gets fewer, and not more than it can do.
    """

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
    def refusals(self) -> list[Outcome]:
        """What did not go through because of gangctl: the API server names its webhook.

        On a machine that is far too slow anything else may take too long.
        """
        return [outcome for outcome in self.failures if "gangctl.dev" in outcome.failure]

    @property
    def kept(self) -> list[str]:
        """JobSets that exist now."""
        return [outcome.name for outcome in self.outcomes if outcome.kept]

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

        await wait_until(lambda: len(self.outcomes) >= wanted, f"{creates} more creates", interval=0.02)

    async def well(self, creates: int = 10) -> None:
        """Wait until so many more have been answered and none of the last ones failed."""
        begun = len(self.outcomes)

        async def accepted() -> bool:
            last = self.outcomes[begun:][-creates:]
            failed = [each.failure for each in last if each.failure]
            if len(last) < creates or failed:
                raise NotYet(f"{len(last)} of {creates}, failed {failed[-1:]}")
            return True

        await wait_for(accepted, f"{creates} creates that are accepted", interval=0.02)

    async def burst(self) -> None:
        """More dry runs all at once, which use the connections that the API server has from earlier ones."""
        await asyncio.gather(*(self._ask(f"burst-{number}", kept=False) for number in range(2 * MOST_AT_ONCE)))

    async def _drive(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            if len(self._requests) >= MOST_AT_ONCE:
                await asyncio.wait(self._requests, return_when=asyncio.FIRST_COMPLETED)
                # What was not asked meanwhile is not made up for.
                due = loop.time()
            request = asyncio.create_task(self._create(self._count))
            self._requests.add(request)
            request.add_done_callback(self._requests.discard)
            self._count += 1
            due += 1 / self._pace
            await asyncio.sleep(due - loop.time())

    async def _create(self, number: int) -> None:
        await self._ask(f"load-{number}", kept=number % self._keep == 0)

    async def _ask(self, name: str, *, kept: bool) -> None:
        try:
            await self._cluster.create_jobset(jobset(name, rj("w", 1, 2, 2, mode="Gang")), dry_run=not kept)
        except (ApiFailure, *UNREACHABLE) as failure:
            said = f"{type(failure).__name__}: {failure}"
        else:
            said = ""
        self.outcomes.append(Outcome(name, said, kept and not said))
