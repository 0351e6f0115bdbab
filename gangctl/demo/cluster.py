"""The demo's access to a cluster, through gangctl's own client."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from gangctl.client.client import Client, Selection
from gangctl.client.resources import EVENTS, JOBSETS, PODS
from gangctl.demo.scenario import NAMES, Placement, jobset
from gangctl.demo.sight import Sight, see
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
    placement: Placement
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
        own.sort(key=lambda event: str(event.get("eventTime") or ""))
        return [
            (str((event.get("regarding") or {}).get("name", "")), str(event["reason"]), str(event.get("note", "")))
            for event in own
        ]
