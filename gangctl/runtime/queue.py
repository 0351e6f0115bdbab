"""The work queue: each key is queued at most once, and never processed by two workers at the same time.

While no worker takes them, keys are parked: a standby learns of all the work of a leader.

It is not thread-safe: everything happens on one event loop, and nothing here waits except :meth:`WorkQueue.get` and
:meth:`WorkQueue.resume`.
"""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from gangctl.client.pacing import Clock, Timer, backoff_delay
from gangctl.runtime.threads import in_parts

K = TypeVar("K", bound=Hashable)


class ControllerObserver:
    """Notified by a controller and its queue; the default ignores it all."""

    def made(self, queue: WorkQueue[Any]) -> None:
        """Receive the queue, before anything else."""

    def added(self, depth: int) -> None:
        """Record that a key was queued; the queue now has ``depth`` keys."""

    def taken(self, depth: int, waited_seconds: float) -> None:
        """Record that a worker took a key that had waited so long."""

    def retried(self) -> None:
        """Record that a key failed and will be retried."""

    def finished(self, worked_seconds: float) -> None:
        """Record that the processing of a key ended, after so long."""

    def dropped(self) -> None:
        """Record that the queue is empty: its keys were parked."""

    def reconciled(self, result: str, seconds: float) -> None:
        """Record one reconcile: ``result`` is done, requeued, retried or failed."""

    def failed(self, kind: str) -> None:
        """Record one error, by :func:`~gangctl.runtime.controller.error_kind`."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Delays after failures of one key: doubling from ``base_seconds`` to ``cap_seconds``, up to ``jitter`` shorter."""

    base_seconds: float = 0.1
    cap_seconds: float = 120.0
    jitter: float = 0.5


class WorkQueue(Generic[K]):
    """A key is queued, delayed, being processed, or any of these at once; adding it again never duplicates it.

    A key added while it is processed is queued when the worker is :meth:`done`: what it read may be stale.
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
        """Start empty; keys that are not admitted at the moment are dropped."""
        self._admits = admits
        self._policy = policy or RetryPolicy()
        self._observer = observer or ControllerObserver()
        self._clock = clock or Clock()
        self._randomness = randomness
        self._queued: OrderedDict[K, float] = OrderedDict()  # when each was queued
        self._parked: dict[K, None] = {}  # queued in this order on resume
        self._attended = True
        self._processing: dict[K, float] = {}  # when each was taken
        self._again: set[K] = set()
        self._delayed: dict[K, tuple[float, Timer]] = {}
        self._failures: dict[K, int] = {}
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._observer.made(self)

    def __len__(self) -> int:
        """How many keys are queued now, without delayed and parked ones."""
        return len(self._queued)

    def working(self) -> list[float]:
        """For how many seconds each key that was taken has been processed."""
        return [self._clock.now() - since for since in self._processing.values()]

    def pause(self) -> None:
        """No worker takes keys any more: queued and new keys are parked until :meth:`resume`.

        A standby has no work, and keys that other replicas process have not waited here.
        """
        self._attended = False
        self._parked |= dict.fromkeys(self._queued)
        self._queued.clear()
        self._observer.dropped()

    async def resume(self) -> None:
        """Workers take keys again: queue the parked ones. Those that are left when it is cancelled stay parked."""
        self._attended = True
        await in_parts(self._parked, self._unpark)

    def _unpark(self, key: K) -> None:
        del self._parked[key]
        self.add(key)

    def add(self, key: K) -> None:
        """Queue ``key``, or do so after its present processing."""
        if not self._admits(key):
            self.forget(key)
            return
        if key in self._processing:
            self._again.add(key)
        elif not self._attended:
            self._parked[key] = None
        elif key not in self._queued:
            self._queued[key] = self._clock.now()
            self._observer.added(len(self._queued))
            self._wake()

    def add_after(self, key: K, seconds: float) -> None:
        """Queue ``key`` after ``seconds``; of several requests for one key the earliest counts."""
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
        """Queue ``key`` again after a delay that grows with each failure; returns the delay in seconds."""
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
        while not self._queued:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                self._pass_on(waiter)
                raise
        return self._take()

    def done(self, key: K) -> None:
        """Mark the processing of ``key`` as ended, by success or failure."""
        since = self._processing.pop(key, None)
        if since is not None:
            self._observer.finished(self._clock.now() - since)
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def _take(self) -> K:
        key, since = self._queued.popitem(last=False)
        now = self._clock.now()
        self._processing[key] = now
        self._observer.taken(len(self._queued), now - since)
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
        elif self._queued:
            self._wake()
