"""Shares of the work: namespaces are divided among shards, and each shard has a Lease.

The API server could divide by a hash itself (``shardSelector``, KEP-5866, alpha since Kubernetes 1.36), but in ranges
of FNV-1a: namespaces whose names differ in their last letters only are all in one range. So the hash is one that
spreads them, and what is followed for a shard alone is followed namespace by namespace.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from typing import Any, Final, TypeVar

from gangctl.client.pacing import Clock
from gangctl.errors import LeadershipLostError
from gangctl.runtime.election import LeaseElection

T = TypeVar("T")

MOST_SHARDS: Final = 64


@lru_cache(maxsize=8192)
def shard_of(namespace: str, total: int) -> int:
    """The number of a namespace's shard, from 0 to below ``total``: the same in every process and version."""
    digest = hashlib.blake2b(namespace.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % total


def lease_names(base: str, total: int) -> tuple[str, ...]:
    """Names of the shards' Leases. The first is that of a gangctl without shards: both never lead at once.

    >>> lease_names("gangctl", 3)
    ('gangctl', 'gangctl-shard-1', 'gangctl-shard-2')
    """
    return (base, *(f"{base}-shard-{number}" for number in range(1, total)))


class Share:
    """The namespaces that this replica looks after at the moment: all where there are no shards."""

    def __init__(self, total: int = 1) -> None:
        """Of several shards, none yet."""
        self.total = total
        self._number = 0 if total == 1 else None

    @property
    def divided(self) -> bool:
        """Whether there are several shards."""
        return self.total > 1

    @property
    def first(self) -> bool:
        """Whether what belongs to no namespace is looked after here."""
        return self._number == 0

    def holds(self, namespace: str) -> bool:
        """Whether a namespace is looked after here."""
        return not self.divided or self._number == shard_of(namespace, self.total)

    def admits(self, key: tuple[str, str]) -> bool:
        """The same of the namespace in a key."""
        return self.holds(key[0])

    def within(self, project: Callable[[dict[str, Any]], T]) -> Callable[[dict[str, Any]], T | None]:
        """A projection to which objects elsewhere are of no interest."""

        def projected(raw: dict[str, Any]) -> T | None:
            return project(raw) if self.holds((raw.get("metadata") or {}).get("namespace") or "") else None

        return projected if self.divided else project

    def take(self, number: int) -> None:
        """Look after this shard from now on."""
        self._number = number

    def leave(self) -> None:
        """Look after none of several any more."""
        if self.divided:
            self._number = None


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
