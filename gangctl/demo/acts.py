"""One act, through gangctl's own client.

Create all JobSets, wait until nothing changes, let complete JobSets finish, wait again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from gangctl.client.client import Client, Selection
from gangctl.client.resources import EVENTS, JOBSETS, PODS
from gangctl.demo.display import ActResult, Display, Sight, see
from gangctl.demo.scenario import NAMES, PodNeeds, jobset
from gangctl.errors import ClusterUnavailableError, NotFoundError

CONTROLLER: Final = "gangctl.dev/gangctl"
"""``reportingController`` of gangctl's events."""

DEMO: Final = "gangctl.dev/demo"
"""Label of objects that the demo creates on a cluster."""

_LOOK_SECONDS: Final = 0.1
_CLEAR_SECONDS: Final = 60.0


@dataclass(slots=True)
class Stage:
    """A namespace of a cluster, which exists, and its places: the number of demo pods that fit on each node."""

    client: Client
    namespace: str
    places: Mapping[str, int]
    placement: PodNeeds
    _ended: set[str] = field(default_factory=set)

    async def create_jobsets(self, *, gangs: bool) -> None:
        """Create all JobSets at once."""
        self._ended.clear()
        bodies = [jobset(name, self.placement, gangs=gangs) for name in NAMES]
        await asyncio.gather(*(self.client.create(JOBSETS, body, self.namespace) for body in bodies))

    async def pods(self) -> list[dict[str, Any]]:
        """All pods of the namespace."""
        return (await self.client.list(PODS, self.namespace)).items

    async def look(self) -> Sight:
        """Read the present state."""
        pods, jobsets, said = await asyncio.gather(self.pods(), self.client.list(JOBSETS, self.namespace), self._said())
        finished = [
            jobset["metadata"]["name"] for jobset in jobsets.items if (jobset.get("status") or {}).get("terminalState")
        ]
        # Those that finish() has deleted are in no list any more.
        return see(
            pods, [*finished, *self._ended], self.places, [f"{name}: {reason}: {note}" for name, reason, note in said]
        )

    async def events(self) -> dict[str, int]:
        """Number of gangctl's events by reason."""
        counts: dict[str, int] = {}
        for _, reason, _ in await self._said():
            counts[reason] = counts.get(reason, 0) + 1
        return dict(sorted(counts.items()))

    async def finish(self, name: str) -> None:
        """Count a JobSet as finished and delete it, because nothing else ends its pods."""
        self._ended.add(name)
        with suppress(NotFoundError):
            await self.client.delete(JOBSETS, name, self.namespace, propagation="Background")

    async def clear(self) -> None:
        """Delete the JobSets, and wait until their pods are gone."""
        for name in NAMES:
            with suppress(NotFoundError):
                await self.client.delete(JOBSETS, name, self.namespace, propagation="Background")
        deadline = asyncio.get_running_loop().time() + _CLEAR_SECONDS
        while left := await self.pods():
            if asyncio.get_running_loop().time() > deadline:
                raise ClusterUnavailableError(
                    f"{_CLEAR_SECONDS:.0f} s after they were deleted, {len(left)} pods are left in {self.namespace}"
                )
            await asyncio.sleep(_LOOK_SECONDS)

    async def _said(self) -> list[tuple[str, str, str]]:
        """JobSet, reason and note of gangctl's events, oldest first."""
        events = (await self.client.list(EVENTS, self.namespace, selection=Selection())).items
        own = [event for event in events if event.get("reportingController") == CONTROLLER]
        # API servers list by name, not by time.
        own.sort(key=lambda event: str(event.get("eventTime") or ""))
        return [
            (str((event.get("regarding") or {}).get("name", "")), str(event["reason"]), str(event.get("note", "")))
            for event in own
        ]


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

    async def play(self, *, gangs: bool) -> ActResult:
        """Run it; the JobSets are not deleted."""
        self._began = _now()
        await self.stage.create_jobsets(gangs=gangs)
        full = await self._watch(self.patience.quiet, may_finish=False)
        last = await self._watch(self.patience.gangs if gangs else self.patience.quiet, may_finish=True)
        return ActResult(
            gangs=gangs,
            stranded=max(full.stranded, last.stranded),
            finished=last.finished,
            seconds=_now() - self._began,
            events=await self.stage.events(),
        )

    async def play_both(
        self, without: str, with_gangs: str, gangctl: AbstractAsyncContextManager[object], *, if_full: str = ""
    ) -> tuple[ActResult, ActResult]:
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
            if sight.finished == len(NAMES) or (sight.arrived and quiet >= patience):
                return sight
            if not sight.arrived and quiet >= _ARRIVAL_SECONDS:
                raise ClusterUnavailableError(
                    f"the pods of the JobSets were not created within {_ARRIVAL_SECONDS:.0f} s",
                    hint="do JobSet's controller and the Job controller run?",
                )
            await asyncio.sleep(_LOOK_SECONDS)


def _now() -> float:
    return asyncio.get_running_loop().time()
