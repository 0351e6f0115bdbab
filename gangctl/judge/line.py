"""A bounded waiting line that is fair between groups: nobody waits for another group's whole line."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from typing import Generic, Protocol, TypeVar


class Waiting(Protocol):
    """What stands in line."""

    @property
    def over(self) -> bool:
        """Whether nobody waits for it any more."""


T = TypeVar("T", bound=Waiting)


class Line(Generic[T]):
    """First come first served in each group; the groups take turns. For one event loop, any number of takers."""

    def __init__(self, most: int) -> None:
        """No more than ``most`` wait in each group."""
        self._most = most
        self._groups: OrderedDict[str, deque[T]] = OrderedDict()
        self._filled = asyncio.Event()

    def __len__(self) -> int:
        return sum(map(len, self._groups.values()))

    def put(self, item: T, group: str = "") -> bool:
        """Stand in line; False when too many of the group do."""
        line = self._groups.setdefault(group, deque())
        if len(line) >= self._most:
            self._groups[group] = line = deque(each for each in line if not each.over)
        if len(line) >= self._most:
            return False
        line.append(item)
        self._filled.set()
        return True

    def put_first(self, item: T, group: str = "") -> None:
        """Stand at the head of the group, however many wait."""
        self._groups.setdefault(group, deque()).appendleft(item)
        self._filled.set()

    async def get(self) -> T:
        """Wait for the next one that somebody waits for."""
        while True:
            while self._groups:
                group, line = self._groups.popitem(last=False)
                item = line.popleft()
                if line:
                    self._groups[group] = line
                if not item.over:
                    return item
            self._filled.clear()
            await self._filled.wait()
