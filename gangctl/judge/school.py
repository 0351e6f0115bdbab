"""A worker and what it has been taught."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Final

from gangctl.client.pacing import Clock
from gangctl.errors import GangctlError
from gangctl.judge.messages import CLASSES, Lesson, Setup
from gangctl.judge.options import JudgeOptions, Lane
from gangctl.judge.policyset import Docket, Entry
from gangctl.judge.quarantine import Quarantine
from gangctl.runtime.workerprocess import WorkerDiedError, WorkerProcess, WorkerSpec

_REST_SECONDS: Final = 5.0
_REST_CAP_SECONDS: Final = 300.0
"""How long a policy that could not be taught is not tried again."""
_SLOW_NICENESS: Final = 5
SERVICE: Final = "gangctl.judge.service:Service"


def worker_spec(options: JudgeOptions, lane: Lane) -> WorkerSpec:
    """What a lane's workers run and may use; those of the slow lane go last."""
    return WorkerSpec(
        f"judge-{lane}",
        SERVICE,
        CLASSES,
        memory_bytes=options.memory_bytes,
        # By then it has been killed, unless this process is gone and the kernel does not tell its children.
        cpu_seconds=max(options.request_seconds, options.lesson_seconds) * 4,
        niceness=_SLOW_NICENESS if lane == "slow" else 0,
    )


class Unteachable(GangctlError):  # noqa: N818 - it states what happened
    """A policy that a worker cannot load; the worker is of no further use."""

    code = "PolicyNotLoaded"

    def __init__(self, entry: Entry) -> None:
        """Say which."""
        super().__init__(f"a worker cannot load policy {entry.policy.name}")
        self.entry = entry


class School:
    """Teaches workers what they will be asked about, each thing once."""

    def __init__(self, options: JudgeOptions, clock: Clock) -> None:
        """Nobody knows anything."""
        self._options = options
        self._clock = clock
        self._unteachable = Quarantine(_REST_SECONDS, _REST_CAP_SECONDS)
        self._known: dict[WorkerProcess, set[str]] = {}
        self.current: Docket | None = None
        """What is in force: nothing else is kept longer than it is needed."""
        self.coming: Docket | None = None
        """What will be in force next."""

    async def set_up(self, worker: WorkerProcess) -> None:
        """Prepare a new worker; the first time this takes as long as its imports."""
        if worker in self._known:
            return
        async with asyncio.timeout(self._options.lesson_seconds):
            await worker.send(Setup(self._options.minor))
            if await worker.receive() is not None:
                raise AssertionError("nothing was asked")
        self._known[worker] = set()
        worker.exited.add_done_callback(lambda _: self._known.pop(worker, None))

    def has(self, worker: WorkerProcess) -> bool:
        """Whether it has been taught before."""
        return worker in self._known

    def teachable(self, entry: Entry) -> bool:
        """Whether workers can, as far as is known, be taught a policy."""
        return not self._unteachable.holds(entry.key, self._clock.now())

    def ignorance(self, worker: WorkerProcess, entries: Collection[Entry]) -> list[Entry]:
        """Which policies the worker does not know yet."""
        known = self._known.get(worker, set())
        return [entry for entry in entries if entry.key not in known]

    async def teach(self, worker: WorkerProcess, docket: Docket, entries: Collection[Entry]) -> None:
        """Make sure that the worker knows the entries and the docket's exceptions.

        :class:`Unteachable` when one cannot be loaded or takes too long: only :meth:`WorkerProcess.kill` remains.
        """
        known = self._known[worker]
        missing = self.ignorance(worker, entries)
        exceptions = {} if docket.exceptions_key in known else {docket.exceptions_key: docket.policies.exceptions}
        if not missing and not exceptions:
            return
        kept = {entry.key for entry in entries} | {docket.exceptions_key}
        for each in (self.current, self.coming):
            kept |= each.keys if each is not None else frozenset()
        lesson = Lesson(
            {entry.key: (entry.policy.name, entry.source) for entry in missing}, exceptions, frozenset(known - kept)
        )
        await worker.send(lesson)
        for entry in missing:
            try:
                async with asyncio.timeout(self._options.lesson_seconds):
                    await worker.receive()
            except (WorkerDiedError, TimeoutError) as error:
                self._unteachable.strike(entry.key, self._clock.now())
                raise Unteachable(entry) from error
            known.add(entry.key)
        async with asyncio.timeout(self._options.lesson_seconds):
            await worker.receive()
        known &= kept
        known.add(docket.exceptions_key)
