"""Leader election among replicas of which each leads one shard at most."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from gangctl.client.pacing import Clock
from gangctl.errors import LeadershipLostError
from gangctl.runtime.election import LeaseElection
from gangctl.runtime.shards import Share


class ShardElection:
    """Stands for the Lease of every shard, the first first, until one is won; then for no other."""

    def __init__(self, elections: Sequence[LeaseElection], share: Share, *, clock: Clock | None = None) -> None:
        """``elections`` has one for each shard, in order; ``share`` is told which is led."""
        self._elections = tuple(elections)
        self._share = share
        self._clock = clock or Clock()

    @property
    def total(self) -> int:
        """How many shards there are."""
        return len(self._elections)

    @property
    def is_leader(self) -> bool:
        """Whether this replica may act at this very moment, for some shard."""
        return any(each.is_leader for each in self._elections)

    def leads(self, number: int) -> bool:
        """Whether it may act for this shard."""
        return self._elections[number].is_leader

    def ensure_leading(self) -> None:
        """Raise :class:`LeadershipLostError` unless this replica may act: the guard of a client's writes."""
        if not self.is_leader:
            raise LeadershipLostError("this replica leads no shard, or could not renew its lease in time")

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait until elected for a shard, then run ``lead`` for as long as it is led; see :meth:`LeaseElection.run`."""
        number = await self._elected()
        self._share.take(number)
        try:
            await self._elections[number].hold(lead)
        finally:
            self._share.leave()

    async def _elected(self) -> int:
        """Win one. Whatever else is looked after, the first shard must be: so all try that first."""
        while True:
            for number, each in enumerate(self._elections):
                if await each.attempt():
                    return number
            await self._clock.sleep(min(each.pause() for each in self._elections))
