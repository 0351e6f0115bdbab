"""A clock that only a test advances."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest

from gangctl.client.pacing import Clock, Timer

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class _Timer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class VirtualClock(Clock):
    """Starts at 1000 s; :meth:`advance` runs every timer that falls due, in order, and lets tasks react to each."""

    def __init__(self) -> None:
        self._now = 1000.0
        self._timers: list[tuple[float, int, _Timer]] = []
        self._order = count()

    def now(self) -> float:
        return self._now

    def wall(self) -> datetime:
        return EPOCH + timedelta(seconds=self._now - 1000)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        timer = _Timer(callback)
        heapq.heappush(self._timers, (self._now + seconds, next(self._order), timer))
        return timer

    @property
    def pending(self) -> list[float]:
        """Seconds from now at which live timers fall due."""
        return sorted(when - self._now for when, _, timer in self._timers if timer.callback is not None)

    def tick(self, seconds: float) -> None:
        """Move the clock and run what falls due, without an event loop."""
        end = self._now + seconds
        while self._timers and self._timers[0][0] <= end:
            self._fire()
        self._now = end

    async def advance(self, seconds: float) -> None:
        """Move the clock; between timers, tasks run until they wait again."""
        end = self._now + seconds
        await settle()
        while self._timers and self._timers[0][0] <= end:
            self._fire()
            await settle()
        self._now = end
        await settle()

    def _fire(self) -> None:
        when, _, timer = heapq.heappop(self._timers)
        self._now = max(self._now, when)
        callback, timer.callback = timer.callback, None
        if callback is not None:
            callback()


@contextmanager
def ahead(seconds: float) -> Iterator[None]:
    """The event loop's clock is so many seconds ahead: what has less time left than that times out."""
    loop = asyncio.get_running_loop()
    now = loop.time
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(loop, "time", lambda: now() + seconds)
        yield


async def settle(turns: int = 30) -> None:
    """Let every task that can run without time passing do so."""
    for _ in range(turns):
        await asyncio.sleep(0)


async def until(condition: Callable[[], object], seconds: float = 300.0) -> None:
    """Let everything run, real connections included, until ``condition`` holds."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 -- conditions of tests have no event to wait for
            await asyncio.sleep(0)
