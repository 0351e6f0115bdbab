"""A fixed number of worker processes: started ahead, lent one at a time, replaced when they end.

A caller that takes a worker owns it until it calls :meth:`Workers.give_back` or :meth:`Workers.discard`. A worker that
ends by itself is replaced after a delay that grows up to ten seconds. Where one after the other does not work, callers
get an error at once, and :attr:`Workers.problem` has the reason, until one works again.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime
from types import TracebackType
from typing import Final, Self

import structlog

from gangctl.client.pacing import Backoff, Clock, Timer, micro_time
from gangctl.errors import GangctlError
from gangctl.runtime.workerprocess import Exit, WorkerDiedError, WorkerProcess, WorkerSpec

_log = structlog.get_logger(__name__)

_BACKOFF_BASE: Final = 0.1
_BACKOFF_CAP: Final = 10.0
_CALM_SECONDS: Final = 30.0
"""The delay starts again after this long without a death, and workers that did not work are used again."""
_SEVERAL: Final = 3
"""Failures in a row that are no accident."""

Prepare = Callable[[WorkerProcess], Awaitable[None]]
"""Sends a worker what it will need, before it is taken, and again after :meth:`Workers.refresh`."""


class WorkersObserver:
    """Receives what happens to workers; the default ignores it."""

    def died(self, why: str) -> None:
        """Record that a process ended by itself (memory, time, crash or start), or did not work (broken)."""

    def troubled(self, problem: str) -> None:
        """Record why workers do not work since now; empty: they work again."""


class WorkersClosedError(GangctlError):
    """There will be no more workers."""

    code = "WorkersClosed"


class WorkersBrokenError(GangctlError):
    """One worker after the other does not work."""

    code = "WorkersBroken"
    exit_code = os.EX_SOFTWARE


@dataclass(frozen=True, slots=True)
class _Trouble:
    """``failures`` of workers in a row, the last one because of ``why``.

    ``starting`` is whether none got as far as being lent: the next one that does shows that it is over.
    """

    why: str
    since: datetime
    starting: bool
    failures: int = 0


async def _unprepared(_: WorkerProcess) -> None:
    """Send nothing."""


class Workers:
    """An async context: on entry it starts processes in the background, on exit it ends all that it started."""

    def __init__(
        self,
        spec: WorkerSpec,
        *,
        size: int = 1,
        ahead: bool = True,
        prepare: Prepare = _unprepared,
        observer: WorkersObserver | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Keep ``size`` processes, from the beginning or, without ``ahead``, from when the first one is taken."""
        self._spec = spec
        self._size = size
        self._in_use = ahead
        self._prepare = prepare
        self._observer = observer or WorkersObserver()
        self._clock = clock or Clock()
        self._backoff = Backoff(_BACKOFF_BASE, _BACKOFF_CAP)
        self._last_death: float | None = None
        self._trouble: _Trouble | None = None
        self._calm: Timer | None = None
        self._version = 0
        self._ready: deque[WorkerProcess] = deque()
        self._stale: deque[WorkerProcess] = deque()
        self._lent: dict[WorkerProcess, int] = {}
        self._waiters: deque[tuple[asyncio.Future[WorkerProcess], int]] = deque()
        """Callers of :meth:`take`, and how many workers each leaves to others."""
        self._changed = asyncio.Event()
        self._offered = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._keeper = asyncio.create_task(self._keep(), name=f"{self._spec.name}-workers")
        self._keeper.add_done_callback(self._kept)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        keeper, self._keeper = self._keeper, None
        if self._calm is not None:
            self._calm.cancel()
        # First the keeper, which would replace the workers that end below.
        if keeper is not None:
            keeper.cancel()
            await asyncio.wait([keeper])
        # Idle ones end with their channel. One that is lent may be busy with a request, and would not notice.
        for process in self._lent:
            process.kill()
        await asyncio.shield(
            asyncio.gather(*(process.close() for process in (*self._ready, *self._stale, *self._lent)))
        )

    @property
    def idle(self) -> int:
        """How many are prepared and not lent."""
        return len(self._ready)

    @property
    def problem(self) -> str:
        """Why workers do not work, and since when; empty where they do, or nothing is known against it."""
        trouble = self._trouble
        if trouble is None or trouble.failures < _SEVERAL:
            return ""
        return f"no {self._spec.name} works since {micro_time(trouble.since)}: {trouble.why}"

    async def until_prepared(self, count: int) -> None:
        """Wait until so many, lent or not, are prepared since the last :meth:`refresh`.

        :class:`WorkersBrokenError` when that will not be soon, :class:`WorkersClosedError` when it never will.
        """
        while self.idle + sum(version == self._version for version in self._lent.values()) < min(count, self._size):
            self._refuse_if_closed()
            self._refuse_if_broken()
            self._offered.clear()
            await self._offered.wait()

    async def take(self, *, leave: int = 0) -> WorkerProcess:
        """Take one: a prepared one, or any idle one; :meth:`give_back` or :meth:`discard` must follow.

        It waits until there are ``leave`` others, lent or not: a caller whose work often ends its worker leaves some to
        the others. :class:`WorkersBrokenError` while none can be had.
        """
        self._refuse_if_closed()
        self._in_use = True
        # An outdated one goes out as version -1, so that it is prepared again on its return.
        for idle, version in ((self._ready, self._version), (self._stale, -1)):
            # Those that have ended stay here: the keeper counts them.
            process = next((worker for worker in idle if worker.alive), None)
            if process is not None and self._enough(leave):
                idle.remove(process)
                return self._lend(process, version)
        self._refuse_if_broken()
        waiter: asyncio.Future[WorkerProcess] = asyncio.get_running_loop().create_future()
        waiting = waiter, leave
        self._waiters.append(waiting)
        self._changed.set()
        try:
            return await waiter
        except asyncio.CancelledError:
            # The cancellation came after the worker had been lent.
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self.give_back(waiter.result(), worked=False)
            raise
        finally:
            if waiting in self._waiters:
                self._waiters.remove(waiting)

    async def discard(self, process: WorkerProcess) -> None:
        """End a worker that was taken: kill it, if it is not gone already."""
        ended = await self._end(process)
        if ended.fault:
            self._failed(ended.fault, "broken")
        # A kill without a fault is what the caller wanted, and no death.
        elif not ended.killed:
            self._died("memory" if ended.for_memory else "time" if ended.for_time else "crash")

    def give_back(self, process: WorkerProcess, *, worked: bool = True) -> None:
        """Return a worker that was taken and has answered everything; ``worked`` is whether it was asked anything."""
        if worked:
            self._recovered()
        version = self._lent.pop(process, -1)
        if self._keeper is None:
            process.kill()
        elif process.alive:
            self._offer(process, version)
        self._changed.set()

    async def _end(self, process: WorkerProcess) -> Exit:
        process.kill()
        return await asyncio.shield(process.exited)

    def refresh(self) -> None:
        """Prepare all of them again, lent ones on return: their input has changed."""
        self._version += 1
        self._stale.extend(self._ready)
        self._ready.clear()
        self._changed.set()

    def _lend(self, process: WorkerProcess, version: int) -> WorkerProcess:
        self._lent[process] = version
        self._changed.set()
        return process

    def _offer(self, process: WorkerProcess, version: int) -> None:
        """Give an idle worker to the caller that has waited longest, or keep it."""
        self._offered.set()
        idle = self._ready if version == self._version else self._stale
        idle.append(process)
        for waiting in self._waiters:
            waiter, leave = waiting
            if not waiter.done() and self._enough(leave):
                idle.pop()
                self._waiters.remove(waiting)
                waiter.set_result(self._lend(process, version))
                return

    def _enough(self, leave: int) -> bool:
        """Whether one can be taken so that this many are left, lent ones included."""
        return len(self._ready) + len(self._stale) + len(self._lent) > leave

    def _exited(self, process: WorkerProcess) -> None:
        """Free the slot: a worker that was taken counts until it is gone."""
        self._lent.pop(process, None)
        self._changed.set()

    def _died(self, why: str) -> None:
        now = self._clock.now()
        if self._last_death is not None and now - self._last_death > _CALM_SECONDS:
            self._backoff.reset()
        self._last_death = now
        self._observer.died(why)

    def _failed(self, why: str, death: str, *, starting: bool = False, failures: int = 1) -> None:
        """Note that a worker does not work; several in a row are logged once, and reported until one works."""
        self._died(death)
        known = self.problem
        trouble = self._trouble or _Trouble(why, self._clock.wall(), starting)
        starting = starting and trouble.starting
        self._trouble = replace(trouble, why=why, starting=starting, failures=trouble.failures + failures)
        if self._calm is not None:
            self._calm.cancel()
        # One that does not start is tried again. Whether one answers shows only when it is used.
        self._calm = None if starting else self._clock.call_later(_CALM_SECONDS, self._recovered)
        if self.problem and not known:
            _log.error("workers do not work", worker=self._spec.name, problem=self.problem)
            self._observer.troubled(self.problem)
        if self.problem and not self._enough(0):
            # Wakes ``until_prepared`` as well, which raises the same error.
            self._offered.set()
            self._fail_waiting(WorkersBrokenError(self.problem))

    def _recovered(self) -> None:
        """Note that workers are used again: one worked, or none has failed for a while."""
        known, self._trouble = self.problem, None
        if known:
            _log.info("workers are used again", worker=self._spec.name)
            self._observer.troubled("")

    def _refuse_if_broken(self) -> None:
        """WorkersBrokenError where there is no worker, and will not be soon."""
        if self.problem and not self._enough(0):
            raise WorkersBrokenError(self.problem)

    def _refuse_if_closed(self) -> None:
        if self._keeper is None or self._keeper.done():
            raise WorkersClosedError(f"worker {self._spec.name}: closed")

    def _fail_waiting(self, error: GangctlError) -> None:
        for waiter, _ in self._waiters:
            if not waiter.done():
                waiter.set_exception(error)

    def _kept(self, keeper: asyncio.Task[None]) -> None:
        """Fail waiting callers when no workers will come: closed, or a preparation failed unexpectedly."""
        self._offered.set()
        self._fail_waiting(WorkersClosedError(f"worker {self._spec.name}: closed"))
        if not keeper.cancelled() and (error := keeper.exception()) is not None:
            _log.error("no more workers are started", worker=self._spec.name, exc_info=error)
            self._failed(f"no more are started: {type(error).__name__}", "broken", starting=True, failures=_SEVERAL)

    async def _keep(self) -> None:
        """Start and prepare what is missing, one process at a time, until cancelled."""
        waited_for: float | None = None
        while True:
            self._changed.clear()
            # Before anything is started: workers that die at once must not be started in a loop.
            if self._last_death is not None and self._last_death != waited_for:
                waited_for = self._last_death
                await self._clock.sleep(self._backoff.next())
            await self._drop_ended()
            if self._stale:
                await self._prepared(self._stale.popleft())
            elif self._in_use and len(self._ready) + len(self._lent) < self._size:
                await self._start()
            else:
                await self._changed.wait()

    async def _drop_ended(self) -> None:
        """Drop idle ones that ended by themselves."""
        for idle in (self._ready, self._stale):
            for process in [worker for worker in idle if not worker.alive]:
                idle.remove(process)
                await self.discard(process)

    async def _start(self) -> None:
        try:
            process = await WorkerProcess.start(self._spec)
        except (WorkerDiedError, OSError) as error:
            # One that took all of its time, or greeted with nonsense, is as good as several.
            silent = isinstance(error, WorkerDiedError) and error.ended.killed
            why = str(error.ended if isinstance(error, WorkerDiedError) else error)
            self._failed(
                f"the worker does not start: {why}", "start", starting=True, failures=_SEVERAL if silent else 1
            )
            return
        process.exited.add_done_callback(lambda _: self._exited(process))
        await self._prepared(process)

    async def _prepared(self, process: WorkerProcess) -> None:
        # Before the preparation: with a refresh during it, the worker is stale at once.
        version = self._version
        try:
            await self._prepare(process)
        except (WorkerDiedError, TimeoutError) as error:
            ended = await self._end(process)
            why = "it took too long" if isinstance(error, TimeoutError) else ended
            self._failed(f"the worker cannot be prepared: {why}", "start", starting=True)
        except GangctlError as error:
            # Blamed on what it was sent, such as a policy that cannot be loaded, and not on workers in general.
            _log.warning("worker was not prepared", worker=self._spec.name, error=str(error))
            await self._end(process)
            self._died("start")
        # Cancelled, or unexpected: the process would have no owner.
        except BaseException:
            process.kill()
            await asyncio.shield(process.exited)
            raise
        else:
            if self._trouble is not None and self._trouble.starting:
                self._recovered()
            self._offer(process, version)
