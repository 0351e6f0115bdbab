"""When to check which key: changes of one key are checked together, and many changes do not starve other keys.

A gang of a thousand pods starts in a thousand steps, and after a change of leaders all gangs are new; the same event
loop answers webhooks meanwhile. Direct changes precede indirect ones: a queue that opens concerns ten thousand gangs,
and a pod that fails meanwhile one.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

from gangctl.client.pacing import Clock, Timer

K = TypeVar("K", bound=Hashable)

TOGETHER_SECONDS: Final = 0.1
"""Changes within this time are checked together."""
SLICE_SECONDS: Final = 0.002
"""After this much work, other tasks get as much time."""
REST_SECONDS: Final = 0.5
"""The least time between two checks of a key: a new JobSet has thirty changes in quick succession."""
SHARE: Final = 0.1
"""How much of the time one key may take: a key whose check is slow is checked less often."""
SOONEST_SECONDS: Final = 1.0
"""The least delay of a requested check."""


class RequeueTimers(Generic[K]):
    """Calls ``check(key, since)`` for each changed key; ``since`` is the time of the first of its changes.

    No key is checked twice within ``rest_seconds``. ``since`` is a time of the clock's monotonic seconds.
    """

    def __init__(
        self,
        check: Callable[[K, float], None],
        *,
        together_seconds: float = TOGETHER_SECONDS,
        rest_seconds: float = REST_SECONDS,
        slice_seconds: float = SLICE_SECONDS,
        clock: Clock | None = None,
    ) -> None:
        """Start empty; ``check`` must not raise."""
        self._check = check
        self._together = together_seconds
        self._rest = rest_seconds
        self._slice = slice_seconds
        self._clock = clock or Clock()
        self._changed: dict[K, float] = {}
        self._batch: OrderedDict[K, float] = OrderedDict()
        self._later: OrderedDict[K, float] = OrderedDict()
        """Keys to check when there is nothing else to check."""
        self._resting: dict[K, float] = {}
        """Keys that were just checked, and until when they rest."""
        self._alarms: dict[K, Timer] = {}
        """Checks that are due at a time, without a change."""
        self._wake = asyncio.Event()

    def mark(self, key: K) -> None:
        """Check it soon: something about it has changed."""
        if key not in self._batch and key not in self._changed:
            self._changed[key] = self._later.pop(key, self._clock.now())
            self._wake.set()

    def mark_later(self, key: K) -> None:
        """Check it after the keys that are marked now or meanwhile."""
        if not any(key in kept for kept in (self._batch, self._changed, self._later)):
            self._later[key] = self._clock.now()
            self._wake.set()

    def again(self, key: K, seconds: float | None) -> None:
        """Check it after this delay even without a change, instead of an earlier request; None is never."""
        if (alarm := self._alarms.pop(key, None)) is not None:
            alarm.cancel()
        if seconds is not None:
            self._alarms[key] = self._clock.call_later(max(SOONEST_SECONDS, seconds), lambda: self._ring(key))

    def clear(self) -> None:
        """Forget all pending checks; not while it runs."""
        for alarm in self._alarms.values():
            alarm.cancel()
        for kept in (self._changed, self._batch, self._later, self._resting, self._alarms):
            kept.clear()

    async def run(self) -> None:
        """Check pending keys until cancelled."""
        while True:
            self._wake.clear()
            if not (self._changed or self._later):
                await self._wake.wait()
            await self._clock.sleep(self._together)
            self._take()
            await self._work()

    def _ring(self, key: K) -> None:
        del self._alarms[key]
        self.mark(key)

    def _take(self, age: float = 0.0) -> None:
        """The next batch is everything that changed at least this long ago and does not rest."""
        now = self._clock.now()
        self._resting = {key: until for key, until in self._resting.items() if until > now}
        changed, self._changed = self._changed, {}
        for key, since in changed.items():
            waits = key in self._resting or now - since < age
            (self._changed if waits else self._batch)[key] = since

    async def _work(self) -> None:
        """Check the batch, then the keys that can wait; new changes are checked in between."""
        taken = began = self._clock.now()
        while self._batch or self._later:
            key, since = (self._batch or self._later).popitem(last=False)
            if self._resting.get(key, 0.0) > began:
                self._changed[key] = since
                continue
            before = self._clock.now()
            self._check(key, since)
            now = self._clock.now()
            self._resting[key] = now + max(self._rest, (now - before) / SHARE)
            if now - began >= self._slice:
                await self._clock.sleep(now - began)
                began = self._clock.now()
            if began - taken >= self._together:
                taken = began
                self._take(self._together)
