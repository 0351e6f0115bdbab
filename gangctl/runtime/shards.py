"""Sharding: namespaces are divided among shards, and each shard has a Lease.

The API server could divide by a hash itself (``shardSelector``, KEP-5866, alpha since Kubernetes 1.36), but in ranges
of FNV-1a: namespaces whose names differ only in their last letters are all in one range. So the hash here is one that
spreads them, and per-shard collections are watched namespace by namespace.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, TypeVar

T = TypeVar("T")

MOST_SHARDS: Final = 64


@lru_cache(maxsize=8192)
def shard_of(namespace: str, total: int) -> int:
    """The number of a namespace's shard, from 0 to below ``total``: the same in every process and version."""
    digest = hashlib.blake2b(namespace.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % total


def lease_names(base: str, total: int) -> tuple[str, ...]:
    """Names of the shards' Leases. The first is that of a gangctl without shards: the two never lead at once.

    >>> lease_names("gangctl", 3)
    ('gangctl', 'gangctl-shard-1', 'gangctl-shard-2')
    """
    return (base, *(f"{base}-shard-{number}" for number in range(1, total)))


class Share:
    """The namespaces that this replica manages now: all without shards."""

    def __init__(self, total: int = 1) -> None:
        """Start without a shard, if there are several."""
        self.total = total
        self._number = 0 if total == 1 else None

    @property
    def divided(self) -> bool:
        """Whether there are several shards."""
        return self.total > 1

    @property
    def first(self) -> bool:
        """Whether this replica manages cluster-scoped objects."""
        return self._number == 0

    def holds(self, namespace: str) -> bool:
        """Whether this replica manages a namespace."""
        return not self.divided or self._number == shard_of(namespace, self.total)

    def admits(self, key: tuple[str, str]) -> bool:
        """The same for the namespace in a key."""
        return self.holds(key[0])

    def within(self, project: Callable[[dict[str, Any]], T]) -> Callable[[dict[str, Any]], T | None]:
        """A projection that ignores objects outside the share."""

        def projected(raw: dict[str, Any]) -> T | None:
            return project(raw) if self.holds((raw.get("metadata") or {}).get("namespace") or "") else None

        return projected if self.divided else project

    def take(self, number: int) -> None:
        """Manage this shard from now on."""
        self._number = number

    def release(self) -> None:
        """Manage none of several shards any more."""
        if self.divided:
            self._number = None
