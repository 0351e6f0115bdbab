"""A queue that is fair between groups of work, and within a group between sources; and penalties with an expiry."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Hashable
from typing import Generic, NamedTuple, Protocol, TypeVar

from gangctl.evaluation.options import Queue

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


class TaskGroup(NamedTuple):
    """Tasks of one class; of penalized policies, those of one policy and size."""

    queue: Queue
    policy: str = ""


class Queueable(Protocol):
    """What can be queued."""

    @property
    def over(self) -> bool:
        """Whether its result is not needed any more."""


T = TypeVar("T", bound=Queueable)


class FairQueue(Generic[T]):
    """Groups alternate; in a group its sources alternate; each source is first in, first out.

    For one event loop, with any number of consumers.
    """

    def __init__(self, limit: int) -> None:
        """At most ``limit`` items of one source wait in each group."""
        self._limit = limit
        self._groups: OrderedDict[TaskGroup, OrderedDict[str, deque[T]]] = OrderedDict()
        self._changed = asyncio.Event()

    def count(self, queue: Queue) -> int:
        """How many items of a class wait."""
        return sum(
            len(items) for group, sources in self._groups.items() if group.queue == queue for items in sources.values()
        )

    def put(self, item: T, group: TaskGroup, source: str) -> bool:
        """Add an item; False when too many of its source wait."""
        sources = self._groups.setdefault(group, OrderedDict())
        items = sources.setdefault(source, deque())
        if len(items) >= self._limit:
            # Only where it is full: requests that are over make room.
            sources[source] = items = deque(item for item in items if not item.over)
        if len(items) >= self._limit:
            return False
        items.append(item)
        self._changed.set()
        return True

    async def get(self, queues: Collection[Queue]) -> tuple[TaskGroup, T]:
        """Wait for the next item of one of these classes."""
        while True:
            while (group := next((group for group in self._groups if group.queue in queues), None)) is not None:
                item = self._pop(group)
                if not item.over:
                    return group, item
            # Nothing was awaited since the search: no item can have come in between.
            self._changed.clear()
            await self._changed.wait()

    def _pop(self, group: TaskGroup) -> T:
        # Taken out and added at the end again: groups take turns, and so do the sources of a group.
        sources = self._groups.pop(group)
        source, items = sources.popitem(last=False)
        item = items.popleft()
        if items:
            sources[source] = items
        if sources:
            self._groups[group] = sources
        return item
