"""The work queue: each key at most once in line, and never with two workers at the same time.

Without anybody to take them, keys are put aside: a replica that stands by learns of all that a leader would do.

It is not thread-safe: everything happens on one event loop, and nothing here waits
except :meth:`WorkQueue.get`.
"""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from gangctl.client.pacing import Clock, Timer, backoff_delay

K = TypeVar("K", bound=Hashable)


class ControllerObserver:
    """Told what a controller and its queue do; the default ignores it all."""

    def made(self, queue: WorkQueue[Any]) -> None:
        """Tell which queue it is, before anything else."""

    def added(self, depth: int) -> None:
        """Tell that a key came into line, which is now ``depth`` long."""

    def taken(self, depth: int, waited_seconds: float) -> None:
        """Tell that a worker took a key that had waited so long."""

    def retried(self) -> None:
        """Tell that a key failed and will come again."""

    def finished(self, worked_seconds: float) -> None:
        """Tell that the processing of a key ended, after so long."""

    def dropped(self) -> None:
        """Tell that there is no line any more: it was put aside."""

    def reconciled(self, result: str, seconds: float) -> None:
        """Tell of one reconcile: ``result`` is done, requeued, retried or failed."""

    def failed(self, kind: str) -> None:
        """Tell of one error, by :func:`~gangctl.runtime.controller.error_kind`."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Delays after failures of one key: doubling from ``base_seconds`` to ``cap_seconds``, up to ``jitter`` shorter."""

    base_seconds: float = 0.1
    cap_seconds: float = 120.0
    jitter: float = 0.5


class WorkQueue(Generic[K]):
    """A key is in line, delayed, being processed, or any of these at once; adding it again never duplicates it.

    A key added while it is processed comes into line when the worker is
    :meth:`done`: what it saw may be stale.
    """

    def __init__(
        self,
        *,
        policy: RetryPolicy | None = None,
        observer: ControllerObserver | None = None,
        clock: Clock | None = None,
        randomness: Callable[[], float] = random.random,
        admits: Callable[[K], bool] = lambda _: True,
    ) -> None:
        """Start empty; keys that it does not admit at the moment are not kept."""
        self._admits = admits
        self._policy = policy or RetryPolicy()
        self._observer = observer or ControllerObserver()
        self._clock = clock or Clock()
        self._randomness = randomness
        self._line: OrderedDict[K, float] = OrderedDict()  # when each came into line
        self._aside: dict[K, None] = {}  # in this order into line when somebody attends
        self._attended = True
        self._processing: dict[K, float] = {}  # when each was taken
        self._again: set[K] = set()
        self._delayed: dict[K, tuple[float, Timer]] = {}
        self._failures: dict[K, int] = {}
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._observer.made(self)

    def __len__(self) -> int:
        """How many keys are in line now; delayed ones are not, nor those put aside."""
        return len(self._line)

    def working(self) -> list[float]:
        """For how many seconds each key that was taken has been processed."""
        return [self._clock.now() - since for since in self._processing.values()]

    def leave(self) -> None:
        """Nobody takes keys any more: those in line, and all that come, are put aside until somebody attends.

        A replica that stands by has no work, and what others do meanwhile has waited for nobody.
        """
        self._attended = False
        self._aside |= dict.fromkeys(self._line)
        self._line.clear()
        self._observer.dropped()

    def attend(self) -> None:
        """Somebody takes keys: those put aside come into line."""
        self._attended = True
        aside, self._aside = self._aside, {}
        for key in aside:
            self.add(key)

    def add(self, key: K) -> None:
        """Bring ``key`` into line, or after its present processing."""
        if not self._admits(key):
            self.forget(key)
            return
        if key in self._processing:
            self._again.add(key)
        elif not self._attended:
            self._aside[key] = None
        elif key not in self._line:
            self._line[key] = self._clock.now()
            self._observer.added(len(self._line))
            self._wake()

    def add_after(self, key: K, seconds: float) -> None:
        """Bring ``key`` into line after ``seconds``; of several wishes for one key the earliest counts."""
        if seconds <= 0:
            self.add(key)
            return
        if not self._admits(key):
            return
        when = self._clock.now() + seconds
        waiting = self._delayed.get(key)
        if waiting is not None:
            if waiting[0] <= when:
                return
            waiting[1].cancel()
        self._delayed[key] = when, self._clock.call_later(seconds, lambda: self._due(key))

    def add_failed(self, key: K, *, at_least: float = 0.0) -> float:
        """Bring ``key`` into line again after a delay that grows with each failure; returns the delay in seconds."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay = backoff_delay(failures, self._policy.base_seconds, self._policy.cap_seconds)
        delay = max(at_least, delay * (1 - self._policy.jitter * self._randomness()))
        self._observer.retried()
        self.add_after(key, delay)
        return delay

    def forget(self, key: K) -> None:
        """Forget the failures of ``key``: it succeeded, or will not be tried again."""
        self._failures.pop(key, None)

    async def get(self) -> K:
        """Wait for a key and take it; :meth:`done` must follow."""
        while not self._line:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                self._pass_on(waiter)
                raise
        return self._take()

    def done(self, key: K) -> None:
        """Say that the processing of ``key`` ended, however it ended."""
        since = self._processing.pop(key, None)
        if since is not None:
            self._observer.finished(self._clock.now() - since)
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def _take(self) -> K:
        key, since = self._line.popitem(last=False)
        now = self._clock.now()
        self._processing[key] = now
        self._observer.taken(len(self._line), now - since)
        return key

    def _due(self, key: K) -> None:
        self._delayed.pop(key, None)
        self.add(key)

    def _wake(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _pass_on(self, waiter: asyncio.Future[None]) -> None:
        """Wake another worker in place of one that was cancelled just when it was woken."""
        if waiter.cancelled() or not waiter.done():
            if waiter in self._waiters:
                self._waiters.remove(waiter)
        elif self._line:
            self._wake()
