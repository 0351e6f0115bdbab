"""Penalties with exponential backoff, for policies that took too much time or ended a worker."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from gangctl.client.pacing import backoff_delay

K = TypeVar("K", bound=Hashable)


@dataclass(slots=True)
class _Record:
    count: int
    until: float
    forgotten: float


class Penalties(Generic[K]):
    """The first penalty of a key lasts ``base`` seconds, each further one twice as long up to ``cap``.

    A key without a penalty for as long again as its last one lasted starts from the beginning.
    """

    def __init__(self, base: float, cap: float) -> None:
        """Start with no penalties."""
        self._base = base
        self._cap = cap
        self._records: dict[K, _Record] = {}

    def add(self, key: K, now: float) -> float:
        """Give a penalty; returns its length in seconds."""
        record = self._records.get(key)
        count = record.count if record is not None and now < record.forgotten else 0
        length = backoff_delay(count, self._base, self._cap)
        self._records[key] = _Record(count + 1, now + length, now + 2 * length)
        return length

    def holds(self, key: K, now: float) -> bool:
        """Whether the key has a penalty now."""
        record = self._records.get(key)
        if record is None:
            return False
        if now >= record.forgotten:
            del self._records[key]
        return now < record.until

    def retain(self, wanted: Callable[[K], bool]) -> None:
        """Forget all other keys."""
        self._records = {key: record for key, record in self._records.items() if wanted(key)}
