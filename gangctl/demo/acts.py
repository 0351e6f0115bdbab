"""One act: create all JobSets, wait until nothing changes, let complete JobSets finish, wait again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Final

from gangctl.demo.cluster import Stage
from gangctl.demo.display import Display
from gangctl.demo.scenario import JOBSETS
from gangctl.demo.sight import Result, Sight
from gangctl.errors import ClusterUnavailableError

_LOOK_SECONDS: Final = 0.1
_ARRIVAL_SECONDS: Final = 60.0
_COUNTED_SECONDS: Final = 1.0
"""Most that counts between two polls: a suspended machine shows no change, and makes none."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds without a change after which a phase of the act ends."""

    quiet: float
    gangs: float
    """The same when gangs may finish: the scheduler retries unschedulable ones only after a backoff."""


Attend = Callable[[bool], Awaitable[None]]
"""Awaited at every poll: runs the pods, and ends those of complete JobSets if allowed."""


@dataclass(slots=True)
class Act:
    """The scenario, with or without gangs."""

    stage: Stage
    display: Display
    patience: Patience
    attend: Attend
    _began: float = 0.0

    async def play(self, *, gangs: bool) -> Result:
        """Run it; the JobSets are not deleted."""
        self._began = _now()
        await self.stage.create_jobsets(gangs=gangs)
        full = await self._watch(self.patience.quiet, may_finish=False)
        last = await self._watch(self.patience.gangs if gangs else self.patience.quiet, may_finish=True)
        return Result(
            gangs=gangs,
            stranded=max(full.stranded, last.stranded),
            finished=last.finished,
            seconds=_now() - self._began,
            events=await self.stage.events(),
        )

    async def play_both(
        self, without: str, with_gangs: str, gangctl: AbstractAsyncContextManager[object], *, if_full: str = ""
    ) -> tuple[Result, Result]:
        """Run it under these two titles, the second time while ``gangctl`` runs; each time the JobSets are deleted.

        ``if_full`` is said when the first act ends with every place held.
        """
        self.display.begin(without)
        first = await self.play(gangs=False)
        self.display.end(str(first))
        if if_full and first.stranded == sum(self.stage.places.values()):
            self.display.say(if_full)
        await self.stage.clear()
        self.display.begin(with_gangs)
        async with gangctl:
            second = await self.play(gangs=True)
            self.display.end(str(second))
            # gangctl deletes its own objects afterwards.
            await self.stage.clear()
        return first, second

    async def _watch(self, patience: float, *, may_finish: bool) -> Sight:
        """Poll until all have finished or nothing has changed for this time; returns the last state."""
        last: Sight | None = None
        quiet, looked = 0.0, _now()
        while True:
            await self.attend(may_finish)
            sight = await self.stage.look()
            moment = _now()
            quiet = quiet + min(moment - looked, _COUNTED_SECONDS) if sight == last else 0.0
            last, looked = sight, moment
            self.display.show(sight, moment - self._began)
            if sight.finished == JOBSETS or (sight.arrived and quiet >= patience):
                return sight
            if not sight.arrived and quiet >= _ARRIVAL_SECONDS:
                raise ClusterUnavailableError(
                    f"the pods of the JobSets were not created within {_ARRIVAL_SECONDS:.0f} s",
                    hint="do JobSet's controller and the Job controller run?",
                )
            await asyncio.sleep(_LOOK_SECONDS)


def _now() -> float:
    return asyncio.get_running_loop().time()
