"""A pool of worker processes with one fair queue: evaluates slow policies, and kills those that exceed their limit.

A task is some policies of one review. Small reviews, large ones, and policies with a penalty are separate classes of
the queue. The first worker serves small reviews only, the last one serves all classes, so that small reviews never
wait for others. The end of a worker, killed or not, is blamed on the policy it was evaluating; the other policies of
the task continue with another worker.

:class:`concurrent.futures.ProcessPoolExecutor` would be less code, but the end of one of its processes ends all: in a
trial with an expression that never ends every two seconds, other reviews took 8.7 s in the median there, and 13 ms here
(8 ms and 12 ms without that expression).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import structlog

from gangctl.cel.faults import EvalKind
from gangctl.client.pacing import Clock
from gangctl.errors import GangctlError
from gangctl.evaluation import messages
from gangctl.evaluation.loader import PolicyLoadError, WorkerLoader, worker_spec
from gangctl.evaluation.options import POOLED, EvaluatorObserver, EvaluatorOptions, Queue, Size
from gangctl.evaluation.queue import FairQueue, Penalties, TaskGroup
from gangctl.policy.evaluate import unanswered
from gangctl.policy.loaded import KeyedPolicy, KeyedSet
from gangctl.policy.review import Review
from gangctl.policy.verdict import Outcome
from gangctl.runtime.workerchild import FrameError
from gangctl.runtime.workerprocess import Exit, WorkerDiedError, WorkerProcess, no_answer
from gangctl.runtime.workers import Workers, WorkersBrokenError, WorkersClosedError


class EvaluationRequest:
    """``deadline`` is a time of the event loop's clock. The snapshot stays the same when another one is installed."""

    def __init__(self, review: Review, snapshot: KeyedSet, entries: Iterable[KeyedPolicy], deadline: float) -> None:
        """Expect an outcome of each entry."""
        self.review = review
        self.snapshot = snapshot
        self.deadline = deadline
        self.size: Size = "large"
        self.outcomes: dict[str, Outcome] = {}
        self.queues: dict[str, Queue] = {}
        """The last queue of each policy."""
        self.pending: dict[str, KeyedPolicy] = {entry.key: entry for entry in entries}
        self._done = asyncio.Event()
        self._closed = False

    @property
    def namespace(self) -> str:
        """Namespace of the object."""
        return str(self.review.request.get("namespace") or "")

    @property
    def over(self) -> bool:
        """Whether no more outcomes are needed."""
        return self._closed or not self.pending

    def settle(self, entry: KeyedPolicy, outcome: Outcome) -> None:
        """Take the outcome of a policy; only the first one counts."""
        if not self._closed and self.pending.pop(entry.key, None) is not None:
            self.outcomes[entry.key] = outcome
        if self.over:
            self._done.set()

    def fail(self, entry: KeyedPolicy, kind: EvalKind, message: str) -> None:
        """Settle a policy without an outcome, by its failurePolicy."""
        exceptions = self.snapshot.policies.exceptions
        self.settle(entry, unanswered(entry.policy, self.review, kind, message, exceptions))

    def close(self) -> None:
        """Take no more outcomes."""
        self._closed = True
        self._done.set()

    async def wait(self) -> None:
        """Wait until all policies are settled."""
        if not self.over:
            await self._done.wait()


_log = structlog.get_logger(__name__)

_GRACE_SECONDS: Final = 0.05
"""A worker checks the clock itself; it is killed when it is this much later."""
_POLL_SECONDS: Final = 0.005
"""The least time between two checks of a worker's CPU time."""
_MINIMUM_SECONDS: Final = 0.03
"""A policy that was killed at the end of its review gets no penalty for less CPU time than this."""
_ATTEMPTS: Final = 3
"""How often a task is sent when workers end before they have read it."""

TOO_MANY: Final = "too many requests wait to be evaluated"
TOO_LATE: Final = "it was not evaluated in the time that a request may take"
TIMED_OUT: Final = "it took longer than it may"
OUT_OF_MEMORY: Final = "it used more memory than it may"
CRASHED: Final = "it ended the process that evaluated it"
UNREADABLE: Final = "the request could not be read in the memory and time there is"
UNLOADABLE: Final = "it could not be loaded for evaluation"
UNSENDABLE: Final = "the request cannot be evaluated"
BROKEN: Final = "no process can evaluate it"

T = TypeVar("T")


@dataclass(eq=False)
class Task:
    """Policies of a review that are evaluated together; ``unread`` counts workers that ended before they read it."""

    request: EvaluationRequest
    entries: deque[KeyedPolicy]
    unread: int = 0

    @property
    def over(self) -> bool:
        """Whether its outcomes are not needed any more."""
        return self.request.over


class _Ended(Exception):  # noqa: N818 - it states what happened
    """A worker ended: at which policy (None: before any), how (None: it cannot load it), after how many CPU seconds."""

    def __init__(self, entry: KeyedPolicy | None, ended: Exit | None, seconds: float = 0.0) -> None:
        super().__init__("a worker ended")
        self.entry = entry
        self.exit = ended
        self.seconds = seconds


class Pool:
    """An async context; :meth:`submit` queues the policies of a request, which settles as they are evaluated."""

    def __init__(self, options: EvaluatorOptions, observer: EvaluatorObserver) -> None:
        """Start nothing yet."""
        self._options = options
        self._observer = observer
        self._clock = clock = Clock()
        self.loader = WorkerLoader(options, clock)
        self._queue: FairQueue[Task] = FairQueue(options.waiting)
        self.slow: Penalties[tuple[str, Size]] = Penalties(options.penalty_seconds, clock.now)
        """Policies, by key, that recently took too much of a review of that size."""
        self.harmful: Penalties[str] = Penalties(options.penalty_seconds, clock.now)
        """Policies that must not run on the event loop: they cannot be stopped there, or ended their process."""
        self.workers = Workers(
            worker_spec(options),
            size=options.workers + options.spares,
            ahead=options.ahead,
            prepare=self.loader.load_all,
            observer=observer,
        )
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.workers)
            for number in range(self._options.workers):
                last = number == self._options.workers - 1
                serving = self._serve(POOLED if last else POOLED[: number + 1])
                task = asyncio.create_task(serving, name="policy-pool")
                stack.push_async_callback(_cancel, task)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    def retain(self, keys: frozenset[str]) -> None:
        """Forget the penalties of all other policies."""
        self.slow.retain(lambda key: key[0] in keys)
        self.harmful.retain(lambda key: key in keys)

    def submit(self, request: EvaluationRequest, entries: Iterable[KeyedPolicy]) -> None:
        """Queue policies: each with a penalty by itself, the others together."""
        together: deque[KeyedPolicy] = deque()
        for entry in entries:
            if (entry.key, request.size) in self.slow:
                # A group for each policy and size: groups take turns, so that one slow policy does not delay another.
                self._put(Task(request, deque([entry])), TaskGroup("penalized", f"{entry.key}/{request.size}"))
            else:
                together.append(entry)
        if together:
            self._put(Task(request, together), TaskGroup(request.size))

    def _put(self, task: Task, group: TaskGroup) -> None:
        request = task.request
        request.queues |= {entry.key: group.queue for entry in task.entries}
        if not self._queue.put(task, group, request.namespace):
            for entry in task.entries:
                self._observer.unanswered(group.queue, "full")
                request.fail(entry, EvalKind.DEADLINE_EXCEEDED, TOO_MANY)
        self._observer.waiting(group.queue, self._queue.count(group.queue))

    async def _serve(self, classes: tuple[Queue, ...]) -> None:
        """Run tasks of these classes until cancelled."""
        while True:
            group, task = await self._queue.get(classes)
            self._observer.waiting(group.queue, self._queue.count(group.queue))
            try:
                await self._run(group.queue, task)
            except Exception as error:  # noqa: BLE001 -- one task must not stop all later ones
                _log.error("policy pool failed unexpectedly", exc_info=error)

    async def _run(self, queue: Queue, task: Task) -> None:
        """Run one task, with the next worker each time one ends."""
        # Each turn settles a policy, or is one of the attempts to have the task read.
        for _ in range(_ATTEMPTS + len(task.entries)):
            # Some policies may have got a penalty since the task was queued.
            request = task.request
            pending = [entry for entry in task.entries if entry.key in request.pending]
            slow = {
                waiting.key for waiting in pending if queue != "penalized" and (waiting.key, request.size) in self.slow
            }
            task.entries = deque(entry for entry in pending if entry.key not in slow)
            self.submit(request, [entry for entry in pending if entry.key in slow])
            if not task.entries or task.over:
                return
            # Most of these end their worker, and a new one takes a second: small reviews must not wait for that.
            try:
                worker = await self.workers.take(leave=self._options.workers - 1 if queue == "penalized" else 0)
            except (WorkersBrokenError, WorkersClosedError) as error:
                self._abandon(queue, task, error.message)
                return
            try:
                worked = await self._evaluate(worker, queue, task)
            except _Ended as ended:
                # Before the worker is gone: no other may get the same policy meanwhile.
                self._blame(queue, task, ended)
                await self.workers.discard(worker)
            except BaseException:
                await self.workers.discard(worker)
                raise
            else:
                self.workers.give_back(worker, worked=worked)
        self._fail_all(task, EvalKind.OTHER, CRASHED)

    async def _evaluate(self, worker: WorkerProcess, queue: Queue, task: Task) -> bool:
        """Have one worker evaluate what is left of a task; False where nothing is to be evaluated any more."""
        request = task.request
        try:
            await self.loader.load(worker, request.snapshot, task.entries)
        except PolicyLoadError as error:
            raise _Ended(error.entry, None) from error
        except WorkerDiedError as error:
            raise _Ended(None, error.ended) from error
        except (GangctlError, TimeoutError) as error:
            raise _Ended(None, None) from error
        if request.over:
            return False
        keys = tuple(entry.key for entry in task.entries)
        options, seconds = self._options, request.deadline - self._clock.now()
        try:
            message = messages.Evaluate(
                request.review, keys, request.snapshot.exceptions_key, options.policy_seconds, seconds
            )
            await worker.send(messages.plain_request(message))
        except FrameError as error:
            # Nothing has been sent, so the worker can be used again.
            self._fail_all(task, EvalKind.BUDGET_EXCEEDED, f"{UNSENDABLE}: {error.message}")
            return False
        except WorkerDiedError as error:
            raise _Ended(None, error.ended) from error
        await self._receive(
            worker, partial(messages.read_text, messages.READ), None, options.policy_seconds, request.deadline
        )
        limit = options.policy_seconds if queue == "penalized" else options.slow_seconds
        while task.entries:
            began = self._clock.now()
            entry = task.entries[0]
            read = partial(messages.read_evaluated, entry.policy.name)
            answer = await self._receive(worker, read, entry, limit, request.deadline)
            self._settle(queue, request, task.entries.popleft(), answer, self._clock.now() - began)
        await self._receive(worker, no_answer, None, options.policy_seconds, request.deadline)
        return True

    async def _receive(
        self, worker: WorkerProcess, read: Callable[[Any], T], entry: KeyedPolicy | None, limit: float, deadline: float
    ) -> T:
        """The next answer; the worker is killed when it has used ``limit`` CPU seconds, or at the deadline.

        A policy that began just before the deadline may continue for a moment: killing a worker delays all reviews
        more.
        """
        now = self._clock.now()
        cpu, end, spent = worker.cpu_seconds(), max(deadline, now + self._options.slow_seconds), 0.0
        receiving = asyncio.ensure_future(worker.receive(read))
        try:
            while not receiving.done():
                rest = _GRACE_SECONDS + min(limit - spent, end - self._clock.now())
                if rest <= 0:
                    # A worker that has not even used CPU time does not work: that is no fault of a policy.
                    idle = entry is None and spent < _MINIMUM_SECONDS
                    worker.kill(f"the worker did not answer within {self._clock.now() - now:.3g} s" if idle else "")
                    # ``receiving`` ends when the process has.
                    rest = _POLL_SECONDS
                await asyncio.wait({receiving}, timeout=max(_POLL_SECONDS, rest))
                spent = worker.cpu_seconds() - cpu if worker.alive else spent
            return receiving.result()
        except WorkerDiedError as error:
            raise _Ended(entry, error.ended, spent) from error
        finally:
            receiving.cancel()

    def _settle(
        self, queue: Queue, request: EvaluationRequest, entry: KeyedPolicy, answer: messages.Evaluated, seconds: float
    ) -> None:
        if answer.outcome == messages.LATE:
            request.fail(entry, EvalKind.DEADLINE_EXCEEDED, TOO_LATE)
            return
        self._observer.evaluated(entry.policy.name, queue, seconds)
        if answer.outcome == messages.MEMORY:
            self._penalize(queue, request, entry, "memory")
            request.fail(entry, EvalKind.BUDGET_EXCEEDED, OUT_OF_MEMORY)
        elif isinstance(answer.outcome, Outcome):
            if queue != "penalized" and answer.seconds >= self._options.slow_seconds:
                self._penalize(queue, request, entry, "slow")
            request.settle(entry, answer.outcome)

    def _penalize(self, queue: Queue, request: EvaluationRequest, entry: KeyedPolicy, why: str) -> None:
        self.slow.add((entry.key, request.size))
        if why in {"memory", "crash"} or (queue, why) == ("penalized", "time"):
            self.harmful.add(entry.key)
        if why != "slow":
            self._observer.killed(entry.policy.name, why)
        log = _log.debug if queue == "penalized" else _log.warning
        log("policy is evaluated by itself", policy=entry.policy.name, reviews=request.size, why=why)

    def _blame(self, queue: Queue, task: Task, ended: _Ended) -> None:
        """Settle the policy that a worker ended with."""
        request, entry, exited = task.request, ended.entry, ended.exit
        if exited is not None and exited.fault:
            # Whatever it was to evaluate: another worker may do better.
            task.unread += 1
            if task.unread == _ATTEMPTS or self._clock.now() >= request.deadline:
                self._abandon(queue, task, exited.fault)
            return
        if entry is None:
            self._unread(task, exited)
            return
        task.entries.remove(entry)
        if exited is None:
            request.fail(entry, EvalKind.OTHER, UNLOADABLE)
        elif exited.killed or exited.for_time:
            if ended.seconds >= _MINIMUM_SECONDS:
                self._penalize(queue, request, entry, "time")
            if queue == "penalized" or self._clock.now() >= request.deadline:
                request.fail(entry, EvalKind.DEADLINE_EXCEEDED, TIMED_OUT)
            else:
                self.submit(request, [entry])
        elif exited.for_memory:
            self._penalize(queue, request, entry, "memory")
            request.fail(entry, EvalKind.BUDGET_EXCEEDED, OUT_OF_MEMORY)
        else:
            self._penalize(queue, request, entry, "crash")
            request.fail(entry, EvalKind.OTHER, CRASHED)

    def _unread(self, task: Task, exited: Exit | None) -> None:
        """Settle a review that no worker could read; the first worker may have ended for another reason."""
        task.unread += 1
        if exited is None or not (exited.killed or (exited.for_memory and task.unread > 1)):
            return
        kind = EvalKind.DEADLINE_EXCEEDED if exited.killed else EvalKind.BUDGET_EXCEEDED
        self._fail_all(task, kind, UNREADABLE)

    def _abandon(self, queue: Queue, task: Task, why: str) -> None:
        """Settle what no worker evaluates, because they do not work."""
        for _ in task.entries:
            self._observer.unanswered(queue, "broken")
        self._fail_all(task, EvalKind.OTHER, f"{BROKEN}: {why}")

    def _fail_all(self, task: Task, kind: EvalKind, message: str) -> None:
        for entry in task.entries:
            task.request.fail(entry, kind, message)
        task.entries.clear()


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        task.result()
