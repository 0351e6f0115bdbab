"""One act: everybody arrives, nothing moves any more, whoever is whole may finish, nothing moves any more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from gangctl.demo.cluster import Stage
from gangctl.demo.display import Display
from gangctl.demo.scenario import JOBSETS
from gangctl.demo.sight import Result, Sight
from gangctl.errors import ClusterUnavailableError

_LOOK_SECONDS: Final = 0.1
_ARRIVAL_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Patience:
    """How long nothing may change before it counts as standing still, in seconds."""

    quiet: float
    gangs: float
    """The same once gangs may finish: a scheduler tries those that did not fit again only after a while."""


Attend = Callable[[bool], Awaitable[None]]
"""Awaited at every look: takes care of the pods, and ends those of whole JobSets if it is told that they may."""


class Act:
    """The scenario once, with or without gangs."""

    def __init__(self, stage: Stage, display: Display, patience: Patience, attend: Attend) -> None:
        """Play on ``stage``."""
        self._stage = stage
        self._display = display
        self._patience = patience
        self._attend = attend
        self._began = 0.0

    async def play(self, *, gangs: bool) -> Result:
        """Play it; the JobSets are left as they are."""
        self._began = _now()
        await self._stage.create_jobsets(gangs=gangs)
        full = await self._watch(self._patience.quiet, may_finish=False)
        last = await self._watch(self._patience.gangs if gangs else self._patience.quiet, may_finish=True)
        return Result(
            gangs=gangs,
            stranded=max(full.stranded, last.stranded),
            finished=last.finished,
            seconds=_now() - self._began,
            events=await self._stage.events(),
        )

    async def _watch(self, patience: float, *, may_finish: bool) -> Sight:
        """Look until all have finished or nothing has changed for so long; what was seen last."""
        last: Sight | None = None
        changed = _now()
        while True:
            await self._attend(may_finish)
            sight = await self._stage.look()
            moment = _now()
            if sight != last:
                last, changed = sight, moment
            self._display.show(sight, moment - self._began)
            if sight.finished == JOBSETS or (sight.arrived and moment - changed >= patience):
                return sight
            if not sight.arrived and moment - changed >= _ARRIVAL_SECONDS:
                raise ClusterUnavailableError(
                    f"the pods of the JobSets were not created within {_ARRIVAL_SECONDS:.0f} s",
                    hint="do JobSet's controller and the Job controller run?",
                )
            await asyncio.sleep(_LOOK_SECONDS)


def _now() -> float:
    return asyncio.get_running_loop().time()
