"""Workers that reconcile keys: what follows success and failure, and how failures are reported.

A reconcile reads the current state and does what is missing. It returns an :class:`Action` or raises:
:func:`~gangctl.errors.is_transient` decides whether the key is retried.
"""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

import structlog

from gangctl.client.pacing import Clock
from gangctl.errors import ApiError, GangctlError, LeadershipLostError, is_transient
from gangctl.runtime.election import unwrapped_leadership_loss
from gangctl.runtime.queue import ControllerObserver, WorkQueue

K = TypeVar("K", bound=Hashable)

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
        except TimeoutError as error:
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
        while self._reported and next(iter(self._reported.values())) <= oldest:
            self._reported.popitem(last=False)
        if what in self._reported:
            return False
        self._reported[what] = now
        return True
