"""The policy evaluator: outcomes of all policies in force for a review, in bounded time whatever the policies are.

Small reviews get a time slice on the event loop, the cheapest policies first. What is left of them, and large
reviews, go to a pool of worker processes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Final, Self

import structlog

from gangctl.api.objects import Object
from gangctl.cel.faults import EvalKind
from gangctl.cel.meter import REQUEST_STEPS, StepMeter
from gangctl.evaluation.options import EvaluatorObserver, EvaluatorOptions, Size
from gangctl.evaluation.pool import TOO_LATE, UNLOADABLE, EvaluationRequest, Pool
from gangctl.evaluation.worker import meter_of
from gangctl.policy.evaluate import Evaluation, refused_by_broken
from gangctl.policy.load import load_policy
from gangctl.policy.loaded import KeyedPolicy, LoadedException, LoadedPolicy, PolicySet, snapshot_of
from gangctl.policy.review import Review, matches
from gangctl.policy.verdict import Outcome
from gangctl.runtime.workers import WorkersBrokenError, WorkersClosedError

STEPS_PER_CLOCK_CHECK: Final = 128
"""A tenth of a millisecond between two clock checks."""


class SliceOverError(Exception):
    """The time slice is used up; this is no verdict."""


class TimeSlice:
    """``seconds`` of CPU time of this thread, shared by all policies of a review."""

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        """Start now."""
        self._clock = clock
        self._began = clock()
        self._end = self._began + seconds

    @property
    def over(self) -> bool:
        """Whether no further policy may begin."""
        return self._clock() >= self._end

    @property
    def spent(self) -> float:
        """Seconds since the start."""
        return self._clock() - self._began

    def meter(self) -> StepMeter:
        """A meter for one policy; raises :class:`SliceOverError` where another meter would report an error."""
        return _SliceMeter(REQUEST_STEPS, self._end, self._clock)


class _SliceMeter(StepMeter):
    __slots__ = ()

    def _spend(self, count: int) -> None:
        self.spent += count
        self._unlooked += count
        if self._unlooked >= STEPS_PER_CLOCK_CHECK:
            self._unlooked = 0
            if self._clock() >= self._deadline or self.spent > self._steps:
                raise SliceOverError


def size_of(review: Review, options: EvaluatorOptions) -> Size:
    """Whether a review is small: counted over all its objects, up to the limits of the options."""
    computed = (review.gang, review.fit)
    parts: tuple[Any, ...] = (review.object, review.old_object, review.namespace, review.request, *computed)
    left: list[Any] = [*parts, *(item for param in review.params.values() for item in param)]
    values = 0
    while left:
        value = left.pop()
        values += 1
        if isinstance(value, str):
            if len(value) > options.local_text:
                return "large"
        elif isinstance(value, dict):
            left.extend(value.values())
        elif isinstance(value, list | tuple):
            left.extend(value)
        # With those that wait: a long list ends the loop at once.
        if values + len(left) > options.local_values:
            return "large"
    return "small"


_log = structlog.get_logger(__name__)

_GRACE_SECONDS: Final = 0.1
"""The pool has settled everything by then; the rest is settled here."""
_OVERRUN: Final = 2.0
"""Clock checks are a tenth of a millisecond apart: a policy that is this much later spent it in one call."""


class PolicyEvaluator:
    """An async context; :meth:`install` puts policies in force, :meth:`evaluate` evaluates them."""

    def __init__(self, options: EvaluatorOptions | None = None, *, observer: EvaluatorObserver | None = None) -> None:
        """Start without policies."""
        self._options = options or EvaluatorOptions()
        self._observer = observer or EvaluatorObserver()
        self._snapshot = snapshot_of(PolicySet())
        self._seconds: dict[str, float] = {}
        self._stack = AsyncExitStack()
        self._load_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="policy-loader")
        self.pool = Pool(self._options, self._observer)

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            # Not awaited: to load a policy may take seconds.
            stack.callback(self._load_thread.shutdown, wait=False, cancel_futures=True)
            await stack.enter_async_context(self.pool)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    @property
    def policies(self) -> PolicySet:
        """The set in force."""
        return self._snapshot.policies

    @property
    def problem(self) -> str:
        """Why no worker works, and since when; empty otherwise."""
        return self.pool.workers.problem

    async def load(self, document: Object) -> LoadedPolicy:
        """Load a GangPolicy, one at a time, in a thread; :class:`~gangctl.policy.loaded.PolicyError`."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._load_thread, load_policy, document)

    async def prepare(self, policies: PolicySet) -> None:
        """Have the workers load a set that is to be installed next, so that no review waits for that.

        It takes at most the options' ``ahead_seconds``, and returns at once where workers are not started ahead, or do
        not work.
        """
        coming = snapshot_of(policies)
        # The workers have all of it: only what is new takes time.
        if not self._options.ahead or coming.keys <= self._snapshot.keys:
            return
        self.pool.loader.coming = coming
        self.pool.workers.refresh()
        try:
            async with asyncio.timeout(self._options.ahead_seconds):
                await self.pool.workers.until_prepared(self._options.workers)
        except TimeoutError:
            _log.warning("workers go on loading policies that are in force", policies=len(policies.policies))
        except (WorkersBrokenError, WorkersClosedError):
            return  # the log, readiness and the policies' status have the reason

    async def install(self, policies: PolicySet) -> None:
        """Put a set in force from the next review on; workers load it in the background."""
        loader = self.pool.loader
        coming, loader.coming = loader.coming, None
        # By identity: another set may have been prepared last.
        prepared = coming is not None and coming.policies is policies
        snapshot = coming if coming is not None and prepared else snapshot_of(policies)
        self._snapshot = loader.current = snapshot
        self._seconds = {key: self._seconds[key] for key in snapshot.keys & self._seconds.keys()}
        self.pool.retain(snapshot.keys)
        if not prepared:
            self.pool.workers.refresh()

    async def evaluate(self, review: Review, policies: Collection[str] | None = None) -> tuple[Outcome, ...]:
        """The outcome of each policy in force at admission, in the set's order; of the named ones, if there are names.

        Returns shortly after the options' ``request_seconds`` at the latest: a policy without an outcome by then is an
        error.
        """
        snapshot = self._snapshot
        exceptions = snapshot.policies.exceptions
        chosen = {policy.name for policy in snapshot.policies.at_admission} if policies is None else policies
        entries = [entry for entry in snapshot.entries if entry.policy.name in chosen]
        deadline = asyncio.get_running_loop().time() + self._options.request_seconds
        request = EvaluationRequest(review, snapshot, entries, deadline)
        try:
            self._begin(request)
            async with asyncio.timeout_at(deadline + _GRACE_SECONDS):
                await request.wait()
        except TimeoutError:
            # A copy, because each failure removes one.
            for entry in [*request.pending.values()]:
                self._observer.unanswered(request.queues[entry.key], "late")
                request.fail(entry, EvalKind.DEADLINE_EXCEEDED, TOO_LATE)
        finally:
            request.close()
        broken = [policy for policy in snapshot.policies.broken if policies is None or policy.name in policies]
        refused = [refused_by_broken(policy, review, exceptions) for policy in broken]
        return (*(request.outcomes[entry.key] for entry in entries), *refused)

    def _begin(self, request: EvaluationRequest) -> None:
        """Settle what takes no time, evaluate a small review within its time slice, and submit the rest."""
        review, exceptions = request.review, request.snapshot.policies.exceptions
        evaluation = Evaluation(review)
        for entry in [*request.pending.values()]:
            if matches(entry.policy, review):
                meter = meter_of(self._options.policy_seconds, self._options.request_seconds)
                request.settle(entry, evaluation.evaluate(entry.policy, meter, exceptions))
            elif not self.pool.loader.loadable(entry):
                request.fail(entry, EvalKind.OTHER, UNLOADABLE)
        if request.over:
            return
        # Only for what is left, because it walks the objects.
        request.size = size_of(review, self._options)
        if request.size == "small":
            self._evaluate_locally(request, evaluation)
        self.pool.submit(request, [*request.pending.values()])

    def _evaluate_locally(self, request: EvaluationRequest, evaluation: Evaluation) -> None:
        """Evaluate policies on the event loop until the time slice is over.

        The interrupted policy is then evaluated from its beginning in the pool. One with a penalty is tried, too, after
        all others: the penalty may come from another object of the same size.
        """
        # CPU time of this thread: what else runs in the process, or on the machine, does not count.
        time_slice = TimeSlice(self._options.slice_seconds, time.thread_time)
        exceptions = request.snapshot.policies.exceptions
        # One that needs the whole slice would leave none to those behind it.
        order = sorted(
            request.pending.values(),
            key=lambda entry: ((entry.key, "small") in self.pool.slow, self._seconds.get(entry.key, 0.0)),
        )
        for entry in order:
            if time_slice.over:
                return
            if entry.key in self.pool.harmful:
                continue
            before = time_slice.spent
            outcome = self._within(time_slice, evaluation, entry, exceptions)
            spent = time_slice.spent
            if outcome is not None:
                request.settle(entry, outcome)
                self._observer.evaluated(entry.policy.name, "local", spent - before)
            # Of an interrupted one as well: next time it begins after the others.
            self._seconds[entry.key] = spent - before
            if spent > _OVERRUN * self._options.slice_seconds:
                self.pool.harmful.add(entry.key)

    def _within(
        self, time_slice: TimeSlice, evaluation: Evaluation, entry: KeyedPolicy, exceptions: tuple[LoadedException, ...]
    ) -> Outcome | None:
        """The outcome of one policy on the event loop; None where the pool has to evaluate it."""
        try:
            return evaluation.evaluate(entry.policy, time_slice.meter(), exceptions)
        except SliceOverError:
            return None
        except Exception as error:  # noqa: BLE001 -- the pool evaluates it, in a process that may end
            # Without its message, which may hold whole objects.
            _log.error("policy failed on the event loop", policy=entry.policy.name, error=type(error).__name__)
            self.pool.harmful.add(entry.key)
            return None
