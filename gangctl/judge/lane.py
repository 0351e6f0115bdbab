"""A lane: reviews that wait, and the workers that judge one after the other.

A policy that keeps the lane too long, or ends its worker, is the one that the worker was
at: it alone answers for that. The others go on with the next worker.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

import structlog

from gangctl.client.pacing import Clock
from gangctl.errors import GangctlError
from gangctl.judge.desk import Desk
from gangctl.judge.hearing import Hearing
from gangctl.judge.line import Line
from gangctl.judge.messages import BOUND, LATE, MEMORY, Question, Statement
from gangctl.judge.options import JudgeObserver, JudgeOptions
from gangctl.judge.options import Lane as LaneName
from gangctl.judge.policyset import Docket, Entry
from gangctl.judge.school import School, Unteachable
from gangctl.judge.work import Ended, Teaching, Turn, Work
from gangctl.policy.cel.faults import EvalKind
from gangctl.policy.verdict import Outcome
from gangctl.runtime.frames import FrameError
from gangctl.runtime.workerprocess import Answer, WorkerDiedError, WorkerProcess
from gangctl.runtime.workers import Workers

_log = structlog.get_logger(__name__)

_GRACE_SECONDS: Final = 0.05
"""How much later than a worker, which looks at the clock itself, its judge loses patience."""
_LOOK_SECONDS: Final = 0.005
"""Looks at a policy that keeps its worker are no closer together."""
_LESSON: Final = 8
"""Policies that are taught at once while reviews may wait."""
_ATTEMPTS: Final = 3
"""How often a review is sent when workers end before they have read it."""

TOO_LATE: Final = "it was not evaluated in the time that a request may take"
TIMED_OUT: Final = "it took longer than it may"
OUT_OF_MEMORY: Final = "it used more memory than it may"
CRASHED: Final = "it ended the process that evaluated it"
UNREADABLE: Final = "the request could not be read in the memory and time there is"
UNTEACHABLE: Final = "it could not be loaded for evaluation"


Strike = Callable[[Entry, LaneName, str], None]
"""Told that a policy had to be killed, in which lane and why."""
Appeal = Callable[[Hearing, Entry], None]
"""Takes a policy that the lane has no patience for."""
Apart = Callable[[Entry], bool]
"""Whether a policy is kept apart by now."""


class Lane:
    """:meth:`run` judges until it is cancelled; several may run at once, each with a worker of its own."""

    def __init__(
        self,
        name: LaneName,
        workers: Workers,
        school: School,
        options: JudgeOptions,
        *,
        strike: Strike,
        appeal: Appeal | None = None,
        apart: Apart = lambda _: False,
        observer: JudgeObserver,
        clock: Clock,
    ) -> None:
        """Without ``appeal`` a policy may take all of its time here, with it no more than the options' patience."""
        self.name: LaneName = name
        self._workers = workers
        self._school = school
        self._options = options
        self._strike = strike
        self._appeal = appeal
        self._apart = apart
        self._observer = observer
        self._clock = clock
        self._keeping: set[str] = set()
        self._stuck_count = 0
        self._stuck = asyncio.Event()
        self._eased = asyncio.Event()
        self._line: Line[Work | Teaching] = Line(options.waiting if appeal else options.waiting_each)

    def put(self, hearing: Hearing, entries: Iterable[Entry], group: str = "") -> bool:
        """Have policies judged; False when too many wait."""
        taken = self._line.put(Work(hearing, deque(entries)), group)
        self._observer.waiting(self.name, len(self._line))
        return taken

    def teach(self, docket: Docket, replaced: Callable[[Docket], bool]) -> Teaching:
        """Have the workers learn a docket, between reviews."""
        teaching = Teaching(docket, replaced)
        self._line.put(teaching, "lessons")
        return teaching

    async def run(self) -> None:
        """Judge what comes, with one worker after the other."""
        desk = Desk(self._workers, self._school)
        try:
            while True:
                await self._do(desk, await self._line.get())
        finally:
            await desk.leave()

    async def relieve(self) -> None:
        """Do the same whenever one policy keeps another worker of this lane, and only as long as it does."""
        while True:
            await self._stuck.wait()
            desk = Desk(self._workers, self._school)
            try:
                await desk.worker()
                while (item := await self._next_while_stuck()) is not None:
                    await self._do(desk, item)
                desk.give_back()
            except (GangctlError, TimeoutError) as error:
                _log.warning("no worker helps out", lane=self.name, error=str(error) or "it took too long")
                self._stuck.clear()
            finally:
                await desk.leave()

    async def _next_while_stuck(self) -> Work | Teaching | None:
        getting, eased = asyncio.create_task(self._line.get()), asyncio.create_task(self._eased.wait())
        try:
            await asyncio.wait({getting, eased}, return_when=asyncio.FIRST_COMPLETED)
            return getting.result() if getting.done() else None
        finally:
            getting.cancel()
            eased.cancel()

    def _relieve(self, work: Work) -> None:
        """Let a worker of the reserve do what is behind the policy that keeps this one."""
        if self._appeal is None:
            return
        # The next review does not bring the same policy to the next worker.
        self._keeping.add(work.left[0].key)
        if work.relieved or not self._workers.idle:
            return
        work.relieved = True
        self._stuck_count += 1
        self._eased.clear()
        self._stuck.set()
        if len(work.left) > 1:
            self._line.put_first(Work(work.hearing, deque([*work.left][1:])))

    def _ease(self, work: Work) -> None:
        if work.relieved:
            self._stuck_count -= 1
        if not self._stuck_count:
            self._stuck.clear()
            self._eased.set()

    async def _do(self, desk: Desk, item: Work | Teaching) -> None:
        self._observer.waiting(self.name, len(self._line))
        try:
            await (self._learn(desk, item) if isinstance(item, Teaching) else self._judge(desk, item))
        except Exception as error:  # noqa: BLE001 -- one review that nobody understands must not stop all later ones
            _log.error("lane failed unexpectedly", lane=self.name, exc_info=error)
            await desk.leave()

    async def _learn(self, desk: Desk, teaching: Teaching) -> None:
        docket = teaching.docket
        try:
            worker = await desk.worker()
            missing = [*filter(self._school.teachable, self._school.ignorance(worker, docket.entries))]
            await self._school.teach(worker, docket, missing[:_LESSON])
        except (GangctlError, TimeoutError) as error:
            # Reviews that need it are told when they come.
            _log.warning("worker was not taught ahead", lane=self.name, error=str(error) or "it took too long")
            await desk.leave()
            # The others are not to be missing for one that cannot be loaded.
            goes_on = isinstance(error, Unteachable)
        else:
            goes_on = len(missing) > _LESSON
        if not goes_on or not self._line.put(teaching, "lessons"):
            teaching.done.set()

    async def _judge(self, desk: Desk, work: Work) -> None:
        try:
            for _ in range(_ATTEMPTS + len(work.left)):
                self._sort_out(work)
                if not work.left or work.over:
                    return
                try:
                    await self._ask(desk, work)
                except Ended as ended:
                    # At once: nobody else may be given the same policy meanwhile.
                    self._blame(work, ended)
                    await desk.leave()
            self._fail_all(work, EvalKind.OTHER, CRASHED)
        finally:
            self._ease(work)

    def _sort_out(self, work: Work) -> None:
        """Keep what still has to be asked here: others may have been quicker, and some are kept apart by now."""
        pending = [entry for entry in work.left if entry.key in work.hearing.pending]
        apart = [entry for entry in pending if self._appeal is not None and self._is_apart(entry)]
        work.left = deque(entry for entry in pending if entry not in apart)
        for entry in apart:
            if self._appeal is not None:
                self._appeal(work.hearing, entry)

    def _is_apart(self, entry: Entry) -> bool:
        return entry.key in self._keeping or self._apart(entry)

    async def _ask(self, desk: Desk, work: Work) -> None:
        """Ask one worker about what is left."""
        hearing = work.hearing
        worker = await self._prepared(desk, work)
        if work.over:
            return
        seconds = hearing.deadline - self._clock.now()
        question = Question(
            hearing.review,
            tuple(entry.key for entry in work.left),
            hearing.docket.exceptions_key,
            self._options.policy_seconds,
            seconds,
        )
        try:
            await worker.send(question)
            answer = await self._answer(worker, max(hearing.deadline, self._clock.now() + self._options.fair_seconds))
        except FrameError:
            self._fail_all(work, EvalKind.BUDGET_EXCEEDED, UNREADABLE)
            return
        except WorkerDiedError as error:
            raise Ended(None, error.ended, 0.0) from error
        if answer is None or answer.value != BOUND:
            raise AssertionError("a worker answered something else")
        while work.left:
            await self._hear(worker, work)
        try:
            await self._answer(worker, self._clock.now() + self._options.lesson_seconds)
        except WorkerDiedError as error:
            raise Ended(None, error.ended, 0.0) from error

    async def _prepared(self, desk: Desk, work: Work) -> WorkerProcess:
        """A worker that knows what it will be asked."""
        try:
            worker = await desk.worker()
            await self._school.teach(worker, work.hearing.docket, work.left)
        except Unteachable as error:
            raise Ended(error.entry, None, 0.0) from error
        except (GangctlError, TimeoutError) as error:
            raise Ended(None, None, 0.0) from error
        return worker

    async def _hear(self, worker: WorkerProcess, work: Work) -> None:
        """Hear the next policy out, as long as it may take."""
        turn = Turn(work.left[0], self._clock.now(), worker.cpu_seconds())
        self._look_later(self._options.impatience_seconds, worker, work, turn)
        try:
            answer = await worker.receive()
        except WorkerDiedError as error:
            raise Ended(turn.entry, error.ended, turn.spent) from error
        finally:
            turn.over()
            self._keeping.discard(turn.entry.key)
        if answer is None or not isinstance(answer.value, Statement):
            raise AssertionError("a worker answered something else")
        work.left.popleft()
        self._settle(work.hearing, turn, answer.value)

    def _look_later(self, seconds: float, worker: WorkerProcess, work: Work, turn: Turn) -> None:
        turn.timer = self._clock.call_later(max(_LOOK_SECONDS, seconds), lambda: self._look(worker, work, turn))

    def _look(self, worker: WorkerProcess, work: Work, turn: Turn) -> None:
        """See whether a policy keeps its worker, or only waits for a busy machine as everybody does.

        It is killed when it has used up its CPU time, or else that of the review on the wall.
        """
        options, now = self._options, self._clock.now()
        turn.spent = worker.cpu_seconds() - turn.cpu
        most = _GRACE_SECONDS + (options.policy_seconds if self._appeal is None else options.patience_seconds)
        # At the review's end a policy that has only just begun is let go on: killing it costs everybody more.
        end = _GRACE_SECONDS + max(work.hearing.deadline, turn.began + options.fair_seconds)
        if turn.spent >= most or now >= end:
            worker.kill()
            return
        if turn.spent >= options.impatience_seconds:
            self._relieve(work)
        # Until there is somebody in reserve to help out, look often.
        rest = most - turn.spent if work.relieved else min(most - turn.spent, options.impatience_seconds)
        self._look_later(min(rest, end - now), worker, work, turn)

    def _settle(self, hearing: Hearing, turn: Turn, statement: Statement) -> None:
        entry = turn.entry
        if statement.outcome == LATE:
            hearing.fail(entry, EvalKind.DEADLINE_EXCEEDED, TOO_LATE)
            return
        self._observer.judged(entry.policy.name, self.name, self._clock.now() - turn.began)
        if statement.outcome == MEMORY:
            self._strike(entry, self.name, "memory")
            hearing.fail(entry, EvalKind.BUDGET_EXCEEDED, OUT_OF_MEMORY)
        elif isinstance(statement.outcome, Outcome):
            if self._appeal is not None and statement.seconds >= self._options.fair_seconds:
                self._strike(entry, self.name, "slow")
            hearing.settle(entry, statement.outcome)

    async def _answer(self, worker: WorkerProcess, until: float) -> Answer | None:
        """What the worker says next; one that says nothing until then is killed."""
        try:
            async with asyncio.timeout_at(until + _GRACE_SECONDS):
                return await worker.receive()
        except TimeoutError:
            worker.kill()
            raise WorkerDiedError(worker.spec.name, await asyncio.shield(worker.exited)) from None

    def _blame(self, work: Work, ended: Ended) -> None:
        """Settle the policy that a worker ended with."""
        hearing, entry = work.hearing, ended.entry
        if entry is None:
            self._unread(work, ended)
            return
        work.left.remove(entry)
        if ended.exit is None:
            self._strike(entry, self.name, "lesson")
            hearing.fail(entry, EvalKind.OTHER, UNTEACHABLE)
        elif ended.exit.killed or ended.exit.for_time:
            # One that had only just begun when the review's time was over has done nothing wrong.
            if ended.seconds >= self._options.impatience_seconds:
                self._strike(entry, self.name, "time")
            if self._appeal is None or self._clock.now() >= hearing.deadline:
                hearing.fail(entry, EvalKind.DEADLINE_EXCEEDED, TIMED_OUT)
            else:
                self._appeal(hearing, entry)
        elif ended.exit.for_memory:
            self._strike(entry, self.name, "memory")
            hearing.fail(entry, EvalKind.BUDGET_EXCEEDED, OUT_OF_MEMORY)
        else:
            self._strike(entry, self.name, "crash")
            hearing.fail(entry, EvalKind.OTHER, CRASHED)

    def _unread(self, work: Work, ended: Ended) -> None:
        """Settle a review that no worker could read; the first may have ended for its own reasons, unnoticed."""
        work.unread += 1
        if ended.exit is None or not (ended.exit.killed or (ended.exit.for_memory and work.unread > 1)):
            return
        kind = EvalKind.DEADLINE_EXCEEDED if ended.exit.killed else EvalKind.BUDGET_EXCEEDED
        self._fail_all(work, kind, UNREADABLE)

    def _fail_all(self, work: Work, kind: EvalKind, message: str) -> None:
        for entry in work.left:
            work.hearing.fail(entry, kind, message)
        work.left.clear()
