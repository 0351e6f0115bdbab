"""The oldest of many, while they come and go."""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)

_SLACK: Final = 16
"""How many entries of a heap may be stale before it is worth while to count."""


class Oldest(Generic[K]):
    """Keys with a time each, and the first of these times.

    Each change costs the logarithm of how many there are; what was taken out or moved stays in the heap until it comes
    up, or until it is half of it.
    """

    def __init__(self) -> None:
        """Start empty."""
        self._times: dict[K, int] = {}
        self._heap: list[tuple[int, K]] = []

    def __len__(self) -> int:
        """How many keys there are."""
        return len(self._times)

    def put(self, key: K, time: int) -> None:
        """Add a key, or give it another time."""
        if self._times.get(key) == time:
            return
        self._times[key] = time
        if len(self._heap) > 2 * len(self._times) + _SLACK:
            self._heap = [(since, each) for each, since in self._times.items()]
            heapq.heapify(self._heap)
        else:
            heapq.heappush(self._heap, (time, key))

    def remove(self, key: K) -> None:
        """Take a key out that is in it."""
        del self._times[key]

    def first(self) -> int:
        """The earliest time; ValueError when there is none."""
        if not self._times:
            raise ValueError("there is nothing that could be the oldest")
        while self._times.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0]
