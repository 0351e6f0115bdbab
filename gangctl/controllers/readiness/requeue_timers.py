"""When to look at what: changes of one key are looked at together, and however many there are, others get their turn.

A gang of a thousand pods starts in a thousand steps, and after a change of leaders all gangs are new; the same event
loop answers webhooks meanwhile. What has changed itself goes before what may be concerned by a change elsewhere: a
queue that opens concerns ten thousand gangs, and a pod that fails meanwhile one.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

from gangctl.client.pacing import Clock, Timer

K = TypeVar("K", bound=Hashable)

TOGETHER_SECONDS: Final = 0.1
"""Changes within this time are looked at once."""
SLICE_SECONDS: Final = 0.002
"""After so much work others get as much time."""
REST_SECONDS: Final = 0.5
"""After a look a key is left alone for so long: a JobSet begins with thirty changes, one soon after the other."""
SHARE: Final = 0.1
"""How much of the time one key may take: what takes long to look at is looked at more rarely."""
SOONEST_SECONDS: Final = 1.0
"""A wish to look again is granted no sooner, whatever is wished."""


class RequeueTimers(Generic[K]):
    """Calls ``look(key, since)`` for each key that has changed, ``since`` being when the first of its changes came.

    No key is looked at twice within ``rest_seconds``. ``since`` is a time of the clock's monotonic seconds.
    """

    def __init__(
        self,
        look: Callable[[K, float], None],
        *,
        together_seconds: float = TOGETHER_SECONDS,
        rest_seconds: float = REST_SECONDS,
        slice_seconds: float = SLICE_SECONDS,
        clock: Clock | None = None,
    ) -> None:
        """Look at nothing yet; ``look`` must not raise."""
        self._look = look
        self._together = together_seconds
        self._rest = rest_seconds
        self._slice = slice_seconds
        self._clock = clock or Clock()
        self._changed: dict[K, float] = {}
        self._batch: OrderedDict[K, float] = OrderedDict()
        self._later: OrderedDict[K, float] = OrderedDict()
        """What is looked at when there is nothing else to look at."""
        self._resting: dict[K, float] = {}
        """Until when those that were looked at are left alone."""
        self._alarms: dict[K, Timer] = {}
        """Of those that are looked at although nothing changes: time passes."""
        self._wake = asyncio.Event()

    def mark(self, key: K) -> None:
        """Look at it soon: something about it has changed."""
        if key not in self._batch and key not in self._changed:
            self._changed[key] = self._later.pop(key, self._clock.now())
            self._wake.set()

    def mark_later(self, key: K) -> None:
        """Look at it once those that were marked, and those marked meanwhile, have had their turn."""
        if not any(key in kept for kept in (self._batch, self._changed, self._later)):
            self._later[key] = self._clock.now()
            self._wake.set()

    def again(self, key: K, seconds: float | None) -> None:
        """Look at it after so long even if nothing changes, instead of when was wished before; None is never."""
        if (alarm := self._alarms.pop(key, None)) is not None:
            alarm.cancel()
        if seconds is not None:
            self._alarms[key] = self._clock.call_later(max(SOONEST_SECONDS, seconds), lambda: self._ring(key))

    def clear(self) -> None:
        """Forget everything that was to be looked at; not while it runs."""
        for alarm in self._alarms.values():
            alarm.cancel()
        for kept in (self._changed, self._batch, self._later, self._resting, self._alarms):
            kept.clear()

    async def run(self) -> None:
        """Look at what there is to be looked at, until cancelled."""
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
        """Everything that has changed, so long ago at least, and does not rest is the next batch."""
        now = self._clock.now()
        self._resting = {key: until for key, until in self._resting.items() if until > now}
        changed, self._changed = self._changed, {}
        for key, since in changed.items():
            waits = key in self._resting or now - since < age
            (self._changed if waits else self._batch)[key] = since

    async def _work(self) -> None:
        """Look at the batch, and then at what can wait; at what has changed meanwhile between the two."""
        taken = began = self._clock.now()
        while self._batch or self._later:
            key, since = (self._batch or self._later).popitem(last=False)
            if self._resting.get(key, 0.0) > began:
                self._changed[key] = since
                continue
            before = self._clock.now()
            self._look(key, since)
            now = self._clock.now()
            self._resting[key] = now + max(self._rest, (now - before) / SHARE)
            if now - began >= self._slice:
                await self._clock.sleep(now - began)
                began = self._clock.now()
            if began - taken >= self._together:
                taken = began
                self._take(self._together)
