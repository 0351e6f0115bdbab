"""The judge: what every policy in force says of a review, in bounded time, whatever the policies are.

Small reviews begin on the event loop, the cheapest policies first, and have a turn of some
milliseconds there. What is left goes to a worker in the fast lane, all policies at once, and
policies that are costly by their bound, or were seen to be, to the slow lane, each by itself.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Coroutine, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Final, Self

import structlog

from gangctl.client.pacing import Clock
from gangctl.judge.hearing import Hearing
from gangctl.judge.lane import TOO_LATE, UNTEACHABLE, Lane
from gangctl.judge.options import JudgeObserver, JudgeOptions
from gangctl.judge.options import Lane as LaneName
from gangctl.judge.pace import Pace, measure
from gangctl.judge.policyset import Docket, Entry, PolicySet, docket
from gangctl.judge.quarantine import Quarantine
from gangctl.judge.school import School, worker_spec
from gangctl.judge.service import fair_meter
from gangctl.judge.size import Size, size_of
from gangctl.judge.turn import Turn
from gangctl.policy.cel.faults import EvalKind
from gangctl.policy.cel.meter import StepMeter
from gangctl.policy.evaluate import Evaluation, refused_by_broken
from gangctl.policy.load import load_policy
from gangctl.policy.loaded import LoadedPolicy
from gangctl.policy.match import matches
from gangctl.policy.native import load_native
from gangctl.policy.review import Object, Review
from gangctl.policy.verdict import Outcome
from gangctl.runtime.workerprocess import WorkerProcess
from gangctl.runtime.workers import Workers

_log = structlog.get_logger(__name__)

_GRACE_SECONDS: Final = 0.1
"""Lanes have settled everything by then; what they have not is settled here."""

_OVERRUN: Final = 2.0
"""Looks at the clock are some tenths of a millisecond apart: whoever is that late took it in one piece."""

_REST: Final = 3.0
_REST_SECONDS: Final = 0.2
"""A worker in reserve learns for a quarter of the time, and rests no longer than this between two policies."""

_SPLITTERS: Final = frozenset({"findAll", "split"})
TOO_MANY: Final = "too many requests wait to be evaluated"


class Judge:
    """An async context; :meth:`install` gives it policies, :meth:`judge` asks them."""

    def __init__(
        self, options: JudgeOptions | None = None, *, observer: JudgeObserver | None = None, clock: Clock | None = None
    ) -> None:
        """Know no policies."""
        self._options = options or JudgeOptions()
        self._observer = observer or JudgeObserver()
        self._clock = clock or Clock()
        self._docket = docket(PolicySet())
        self._quarantine = Quarantine(self._options.quarantine_seconds, self._options.quarantine_cap_seconds)
        self._too_long = Quarantine(self._options.quarantine_seconds, self._options.quarantine_cap_seconds)
        self._school = School(self._options, self._clock)
        self._stack = AsyncExitStack()
        self._loader = ThreadPoolExecutor(max_workers=1, thread_name_prefix="policy-loader")
        self._pace = Pace(0.0, 0.0)
        self._workers = {name: self._supply(name) for name in ("fast", "slow")}
        self._fast = self._lane("fast")
        self._slow = self._lane("slow")

    def _supply(self, lane: LaneName) -> Workers:
        """Workers of a lane's own: what happens in one costs the other none."""
        workers = Workers(
            worker_spec(self._options, lane),
            spares=self._options.spares,
            ahead=self._options.ahead,
            prepare=lambda worker: self._prepare(worker, workers),
            observer=self._observer,
            clock=self._clock,
        )
        return workers

    def _lane(self, name: LaneName) -> Lane:
        return Lane(
            name,
            self._workers[name],
            self._school,
            self._options,
            strike=self._strike,
            appeal=self._appeal if name == "fast" else None,
            apart=self._is_apart,
            observer=self._observer,
            clock=self._clock,
        )

    async def __aenter__(self) -> Self:
        """Find out how fast expressions are here, off the event loop."""
        loop = asyncio.get_running_loop()
        async with AsyncExitStack() as stack:
            stack.callback(self._loader.shutdown, wait=False, cancel_futures=True)
            self._pace = await loop.run_in_executor(self._loader, measure)
            for workers in self._workers.values():
                await stack.enter_async_context(workers)
            for serving in (*[self._fast.run] * self._options.workers, self._fast.relieve, self._slow.run):
                _serve(stack, serving())
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    @property
    def policies(self) -> PolicySet:
        """What is in force."""
        return self._docket.policies

    async def load(self, document: Object) -> LoadedPolicy:
        """Load a GangPolicy, one at a time, beside the event loop; :class:`~gangctl.policy.loaded.PolicyError`."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._loader, load_policy, document)

    async def load_native(self, documents: Sequence[Object]) -> list[LoadedPolicy]:
        """Load ValidatingAdmissionPolicies with their bindings; :class:`~gangctl.policy.loaded.PolicyError`."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._loader, load_native, documents, self._options.minor)

    async def prepare(self, policies: PolicySet) -> None:
        """Have the workers learn a set that is to be installed next, so that nobody waits for that.

        It takes no longer than the options' ``ahead_seconds``, and nothing where workers are not started ahead.
        """
        found = docket(policies)
        if not self._options.ahead or found.keys <= self._docket.keys:
            return
        self._school.coming = found
        try:
            lessons = [
                self._fast.teach(found, lambda taught: taught is not self._school.coming)
                for _ in range(self._options.workers)
            ]
            async with asyncio.timeout(self._options.ahead_seconds):
                for lesson in lessons:
                    await lesson.done.wait()
        except TimeoutError:
            _log.warning("workers go on learning while policies are in force", policies=len(policies.policies))

    async def install(self, policies: PolicySet) -> None:
        """Put a set in force from the next review on; workers learn it in the background."""
        found = docket(policies)
        self._docket = self._school.current = found
        self._school.coming = None
        for kept_apart in (self._quarantine, self._too_long):
            kept_apart.retain(found.keys)
        for workers in self._workers.values():
            workers.refresh()
        if self._options.ahead:
            for _ in range(self._options.workers):
                self._fast.teach(found, self._replaced)

    async def judge(self, review: Review, policies: Collection[str] | None = None) -> tuple[Outcome, ...]:
        """What each policy of the set in force now says, in the set's order; only the named ones, if names are given.

        Never later than the options' ``request_seconds`` and a moment: what has no answer by then is an error.
        """
        current = self._docket
        exceptions = current.policies.exceptions
        broken = [each for each in current.policies.broken if policies is None or each.name in policies]
        entries = [entry for entry in current.entries if policies is None or entry.policy.name in policies]
        outcomes = await self._hear(review, current, entries)
        return (*outcomes, *(refused_by_broken(each, review, exceptions) for each in broken))

    async def _hear(self, review: Review, current: Docket, entries: Sequence[Entry]) -> list[Outcome]:
        hearing = Hearing(review, current, entries, self._clock.now() + self._options.request_seconds)
        evaluation = Evaluation(review)
        for entry in [*hearing.pending.values()]:
            if matches(entry.policy, review):
                hearing.settle(entry, evaluation.judge(entry.policy, self._meter()))
        if not hearing.over:
            self._place(hearing, evaluation)
        try:
            async with asyncio.timeout_at(hearing.deadline + _GRACE_SECONDS):
                await hearing.wait()
        except TimeoutError:
            for entry in [*hearing.pending.values()]:
                self._observer.refused(hearing.lanes[entry.key], "late")
                hearing.fail(entry, EvalKind.DEADLINE_EXCEEDED, TOO_LATE)
        finally:
            hearing.close()
        return [hearing.outcomes[entry.key] for entry in entries]

    def _place(self, hearing: Hearing, evaluation: Evaluation) -> None:
        """Evaluate a small review at once as far as its time slice goes, and put the rest where it belongs.

        A policy that is kept apart because it took too much of another review is tried here, too: what one user makes
        large delays no small review of another.
        """
        size = size_of(hearing.review)
        for entry in [each for each in hearing.pending.values() if not self._school.teachable(each)]:
            hearing.fail(entry, EvalKind.OTHER, UNTEACHABLE)
        pending = [*hearing.pending.values()]
        seconds = {entry.key: self._pace.evaluating(_steps(entry, hearing.review, size)) for entry in pending}
        if size.text <= self._options.inline_text and self._pace.reading(size) <= self._options.inline_seconds:
            # The cheapest first: one that needs the whole slice leaves none to the others.
            pending.sort(key=lambda entry: (self._is_apart(entry), seconds[entry.key]))
            pending = self._try_here(hearing, evaluation, pending)
        slow = [e for e in pending if self._is_apart(e) or seconds[e.key] > self._options.patience_seconds]
        fast = [entry for entry in pending if entry not in slow]
        hearing.lanes = {entry.key: "fast" for entry in fast}
        for entry in slow:
            self._appeal(hearing, entry)
        if fast and not self._fast.put(hearing, fast):
            self._refuse(hearing, fast, "fast")

    def _try_here(self, hearing: Hearing, evaluation: Evaluation, entries: Sequence[Entry]) -> list[Entry]:
        """Begin on the event loop, where most things take no time; returns what is left.

        A meter ends the turn when it is over, and the policy at hand is judged anew elsewhere. A policy that takes much
        more than the turn between two looks at the clock does not begin here again for a while.
        """
        turn = Turn(self._options.inline_seconds, time.thread_time)
        left: list[Entry] = []
        for entry in entries:
            if turn.over or self._too_long.holds(entry.key, self._clock.now()):
                left.append(entry)
                continue
            before = time.perf_counter()
            try:
                outcome = evaluation.judge(entry.policy, turn.meter(), hearing.docket.policies.exceptions)
            except Exception:  # noqa: BLE001 -- its turn is over, or it fails: whoever judges it next tells
                left.append(entry)
            else:
                self._observer.judged(entry.policy.name, "inline", time.perf_counter() - before)
                hearing.settle(entry, outcome)
            if turn.spent > _OVERRUN * self._options.inline_seconds:
                self._too_long.strike(entry.key, self._clock.now())
        return left

    def _meter(self) -> StepMeter:
        return fair_meter(self._options.policy_seconds, self._options.request_seconds)

    def _refuse(self, hearing: Hearing, entries: Iterable[Entry], lane: LaneName) -> None:
        for entry in entries:
            self._observer.refused(lane, "full")
            hearing.fail(entry, EvalKind.DEADLINE_EXCEEDED, TOO_MANY)

    def _strike(self, entry: Entry, lane: LaneName, why: str) -> None:
        """Keep a policy apart that took too much."""
        seconds = self._quarantine.strike(entry.key, self._clock.now())
        if why in {"memory", "crash"} or (lane, why) == ("slow", "time"):
            # Whatever is small: it may end this process, or cannot be stopped.
            self._too_long.strike(entry.key, self._clock.now())
        if why != "slow":
            self._observer.killed(entry.policy.name, lane, why)
        # In the slow lane it is apart already, and may have to be killed as often as it is asked.
        tell = _log.debug if lane == "slow" else _log.warning
        tell("policy is evaluated apart from others", policy=entry.policy.name, lane=lane, why=why, seconds=seconds)

    def _appeal(self, hearing: Hearing, entry: Entry) -> None:
        """Judge a policy in the slow lane."""
        hearing.lanes[entry.key] = "slow"
        if not self._slow.put(hearing, [entry], entry.key):
            self._refuse(hearing, [entry], "slow")

    def _is_apart(self, entry: Entry) -> bool:
        return self._quarantine.holds(entry.key, self._clock.now())

    def _replaced(self, taught: Docket) -> bool:
        return taught is not self._docket

    async def _prepare(self, worker: WorkerProcess, workers: Workers) -> None:
        """Teach a worker in reserve what is in force; one that was there before with rests, unless somebody waits.

        Then policies have just changed, and requests go on: all of the reserve learning at once would keep several
        cores. One that takes the place of another is needed soon.
        """
        anew = self._school.has(worker)
        await self._school.set_up(worker)
        docket = None
        while docket is not self._docket:
            docket = self._docket
            await self._school.teach(worker, docket, ())
            for entry in filter(self._school.teachable, docket.entries):
                began = self._clock.now()
                await self._school.teach(worker, docket, [entry])
                if docket is not self._docket:
                    break
                if anew and not workers.wanted:
                    await self._clock.sleep(min(_REST * (self._clock.now() - began), _REST_SECONDS))


def _steps(entry: Entry, review: Review, size: Size) -> int:
    """What a policy may take at most, once for each of its parameter objects."""
    # Loops may also be over what these make of a text.
    elements = max(size.elements, size.text) if entry.functions & _SPLITTERS else size.elements
    return entry.policy.bound(elements) * max(1, len(review.params.get(entry.policy.name, ())))


def _serve(stack: AsyncExitStack, serving: Coroutine[None, None, None]) -> None:
    """Have it run until the stack unwinds."""
    task = asyncio.create_task(serving, name="judge-lane")

    async def end() -> None:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()

    stack.push_async_callback(end)
