"""Controllers: a work queue of keys, and workers that reconcile them.

A reconcile reads the current state and does what is missing. It returns an :class:`Action` or raises:
:func:`~gangctl.errors.is_transient` decides whether the key is retried.

Each key is queued at most once, and never processed by two workers at the same time. While no worker takes them, keys
are parked if they are admitted: what a leader enqueues anew, a standby does not keep. The queue is not thread-safe:
everything happens on one event loop, which answers webhooks, too; nothing waits except :meth:`WorkQueue.get` and
:meth:`WorkQueue.resume`. Long work is done in a thread, or a part at a time.
"""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Generic, ParamSpec, TypeVar

import structlog

from gangctl.client.pacing import Clock, Timer, backoff_delay
from gangctl.errors import ApiError, GangctlError, LeadershipLostError, is_transient
from gangctl.runtime.election import unwrapped_leadership_loss

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

AT_ONCE: Final = 1000
"""Up to this many items are processed inline: some ten microseconds each."""


async def computed(items: int, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """``function(*args)``, in a thread where there are more items than :data:`AT_ONCE`.

    Meanwhile Python switches to the event loop every five milliseconds (``sys.getswitchinterval``). The function must
    not read data that others change.
    """
    if items <= AT_ONCE:
        return function(*args, **kwargs)
    return await asyncio.to_thread(function, *args, **kwargs)


async def in_parts(items: Iterable[T], function: Callable[[T], object]) -> None:
    """``function(item)`` for all items; other tasks run after each :data:`AT_ONCE` of them.

    What they change meanwhile does not change the items.
    """
    for number, item in enumerate(list(items), 1):
        function(item)
        if number % AT_ONCE == 0:
            await asyncio.sleep(0)


K = TypeVar("K", bound=Hashable)


class ControllerObserver:
    """Notified by a controller and its queue; the default ignores it all."""

    def made(self, queue: WorkQueue[Any]) -> None:
        """Receive the queue, before anything else."""

    def added(self) -> None:
        """Record that a key was queued."""

    def taken(self, waited_seconds: float) -> None:
        """Record that a worker took a key that had waited so long."""

    def retried(self) -> None:
        """Record that a key failed and will be retried."""

    def finished(self, worked_seconds: float) -> None:
        """Record that the processing of a key ended, after so long."""

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
        self._filled = asyncio.Event()
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
        # Delayed keys stay delayed: ``add`` parks them when they are due.
        self._attended = False
        self._parked |= dict.fromkeys(self._queued)
        self._queued.clear()

    async def resume(self) -> None:
        """Workers take keys again: queue the parked ones. Those that are left when it is cancelled stay parked."""
        # First: while paused, ``add`` would park each key again.
        self._attended = True
        await in_parts(self._parked, self._unpark)

    def _unpark(self, key: K) -> None:
        del self._parked[key]
        self.add(key)

    def add(self, key: K) -> None:
        """Queue ``key``, or do so after its present processing."""
        if not self._admits(key):
            # Another replica processes it: failures that were counted here must not delay it when it comes back.
            self.forget(key)
            return
        if key in self._processing:
            self._again.add(key)
        elif not self._attended:
            self._parked[key] = None
        elif key not in self._queued:
            self._queued[key] = self._clock.now()
            self._observer.added()
            self._filled.set()

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
        # Jitter shortens the queue's own delay only, never the time that the server asked for.
        delay = max(at_least, delay * (1 - self._policy.jitter * self._randomness()))
        self._observer.retried()
        self.add_after(key, delay)
        return delay

    def forget(self, key: K) -> None:
        """Forget the failures of ``key``: it succeeded, or will not be tried again."""
        self._failures.pop(key, None)

    async def get(self) -> K:
        """Wait for a key and take it; :meth:`done` must follow."""
        # All that wait are woken: another worker may have taken the key.
        while not self._queued:
            self._filled.clear()
            await self._filled.wait()
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
        self._observer.taken(now - since)
        return key

    def _due(self, key: K) -> None:
        self._delayed.pop(key, None)
        self.add(key)


_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Action:
    """What to do with a key after a reconcile.

    With ``after_seconds`` None it waits for a change. ``backoff`` makes the delay grow each time, with
    ``after_seconds`` as its minimum.
    """

    after_seconds: float | None = None
    backoff: bool = False


def await_change() -> Action:
    """Done until something changes."""
    return Action()


def requeue(after_seconds: float) -> Action:
    """Reconcile again after a delay, because something depends on time."""
    return Action(after_seconds)


def retry(at_least_seconds: float = 0.0) -> Action:
    """Try again with the key's growing delay."""
    return Action(at_least_seconds, backoff=True)


ErrorPolicy = Callable[[Hashable, Exception], Action]


def default_error_policy(key: Hashable, error: Exception) -> Action:  # noqa: ARG001 -- other policies use the key
    """Terminal errors wait for a change; all others are retried, not before the server's ``Retry-After``."""
    if not is_transient(error):
        return await_change()
    delay = error.retry_after if isinstance(error, ApiError) else None
    return retry(delay or 0.0)


def error_kind(error: BaseException) -> str:
    """Name an error for metrics: the class of ours, ``deadline``, or ``panic`` for an unexpected one."""
    if isinstance(error, GangctlError):
        return type(error).__name__
    return "deadline" if isinstance(error, DeadlineExceededError) else "panic"


class DeadlineExceededError(Exception):
    """A reconcile took longer than it may."""


@dataclass(frozen=True, slots=True)
class ControllerOptions:
    """Options of a controller.

    ``deadline_seconds`` bounds one reconcile. The same kind of error of the same key is logged once per
    ``log_window_seconds``.
    """

    workers: int = 4
    deadline_seconds: float = 120.0
    log_window_seconds: float = 300.0


class Controller(Generic[K]):
    """Calls ``reconcile`` for every key of its queue, with several workers, but never two at once for one key."""

    def __init__(
        self,
        name: str,
        reconcile: Callable[[K], Awaitable[Action]],
        *,
        admits: Callable[[K], bool] = lambda _: True,
        options: ControllerOptions | None = None,
        error_policy: ErrorPolicy = default_error_policy,
        observer: ControllerObserver | None = None,
        clock: Clock | None = None,
        randomness: Callable[[], float] = random.random,
    ) -> None:
        """Keys may be added before :meth:`run`; the queue keeps those that it ``admits`` until then."""
        self.name = name
        self._clock = clock or Clock()
        self._observer = observer or ControllerObserver()
        self.queue: WorkQueue[K] = WorkQueue(
            observer=self._observer, clock=self._clock, randomness=randomness, admits=admits
        )
        self._reconcile = reconcile
        self._options = options or ControllerOptions()
        self._error_policy = error_policy
        self._reported: OrderedDict[tuple[K, str], float] = OrderedDict()
        # Keys are parked until :meth:`run`, so that the depth of a standby's queue is 0.
        self.queue.pause()

    def enqueue(self, key: K, after_seconds: float = 0.0) -> None:
        """Ask for a reconcile of ``key``."""
        self.queue.add_after(key, after_seconds)

    async def run(self) -> None:
        """Work until cancelled; a cancelled reconcile's key is kept for a later run.

        Raises :class:`LeadershipLostError` when a reconcile does: all workers must end.
        """
        try:
            await self.queue.resume()
            with unwrapped_leadership_loss():
                async with asyncio.TaskGroup() as group:
                    for number in range(self._options.workers):
                        group.create_task(self._work(), name=f"{self.name}-{number}")
        finally:
            self.queue.pause()

    async def _work(self) -> None:
        while True:
            key = await self.queue.get()
            try:
                await self._process(key)
            except (asyncio.CancelledError, LeadershipLostError):
                # Before ``done``, which then queues or parks it: a later run continues with it.
                self.queue.add(key)
                raise
            finally:
                self.queue.done(key)
            if len(self.queue):
                # A reconcile with nothing to write never waits, and a new leader has thousands: webhooks go on.
                await asyncio.sleep(0)

    async def _process(self, key: K) -> None:
        started = self._clock.now()
        failed = False
        try:
            action = await self._bounded(key)
        except LeadershipLostError:
            raise
        except Exception as error:  # noqa: BLE001 -- reported below, and retried unless it is terminal
            failed = True
            action = self._error_policy(key, error)
            self._log_error(key, error, action)
        result = self._follow(key, action, failed=failed)
        self._observer.reconciled(result, self._clock.now() - started)

    async def _bounded(self, key: K) -> Action:
        deadline = asyncio.timeout(self._options.deadline_seconds)
        try:
            async with deadline:
                return await self._reconcile(key)
        except asyncio.CancelledError as error:
            # Something that the reconcile awaits is cancelled, unless the worker is. A CancelledError would end the
            # worker, and a TaskGroup takes such an end for intended.
            if (worker := asyncio.current_task()) is None or worker.cancelling():
                raise
            raise RuntimeError("the reconcile awaited a task that was cancelled") from error
        except TimeoutError as error:
            # A TimeoutError of the reconcile's own is an error like any other.
            if not deadline.expired():
                raise
            raise DeadlineExceededError(f"longer than {self._options.deadline_seconds:g} s") from error

    def _follow(self, key: K, action: Action, *, failed: bool) -> str:
        if action.backoff:
            self.queue.add_failed(key, at_least=action.after_seconds or 0.0)
            return "retried"
        self.queue.forget(key)
        if action.after_seconds is not None:
            self.queue.add_after(key, action.after_seconds)
            return "requeued"
        return "failed" if failed else "done"

    def _log_error(self, key: K, error: Exception, action: Action) -> None:
        kind = error_kind(error)
        self._observer.failed(kind)
        what = {"controller": self.name, "key": str(key), "kind": kind, "error": str(error), "again": action.backoff}
        if not self._first_in_window((key, kind)):
            _log.debug("reconcile failed again", **what)
        elif kind == "panic":
            _log.error("reconcile failed unexpectedly", **what, exc_info=error)
        else:
            _log.warning("reconcile failed", **what)

    def _first_in_window(self, what: tuple[K, str]) -> bool:
        now = self._clock.now()
        oldest = now - self._options.log_window_seconds
        # Entries are in the order of their times: the first one that is young enough ends the search.
        while self._reported and next(iter(self._reported.values())) <= oldest:
            self._reported.popitem(last=False)
        if what in self._reported:
            return False
        self._reported[what] = now
        return True
