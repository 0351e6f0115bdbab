"""Penalties with an expiry, for policies that took too much time or ended a worker."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Penalties(Generic[K]):
    """A key has its penalty for so many seconds since the last time it was added."""

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        """Start with none."""
        self._seconds = seconds
        self._clock = clock
        self._until: dict[K, float] = {}

    def add(self, key: K) -> None:
        """Give a penalty, or prolong it."""
        self._until[key] = self._clock() + self._seconds

    def __contains__(self, key: K) -> bool:
        return self._until.get(key, 0.0) > self._clock()

    def retain(self, wanted: Callable[[K], bool]) -> None:
        """Forget all other keys."""
        self._until = {key: until for key, until in self._until.items() if wanted(key)}
