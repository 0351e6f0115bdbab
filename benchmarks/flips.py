"""Pods that cease to be ready and become ready again, and when that is seen in metrics and in Gang objects."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from benchmarks import crowd
from benchmarks.meters import Scrape
from tests.controlplane import pod_status
from tests.controlplane.api import ApiClient, path_of

GANGS: Final = path_of("gangctl.dev/v1alpha1", "gangs")
ROW: Final = "gangctl_gang_status_phase"


@dataclass
class Flips:
    """Pods that cease to be ready, and become ready again: each a transition of its gang."""

    api: ApiClient
    ready: dict[tuple[str, str], bool] = field(default_factory=dict)
    done: list[tuple[tuple[str, str], float, str]] = field(default_factory=list)
    """Of which gang, when it was answered, and the phase it is in since then."""

    async def flip(self, key: crowd.Key) -> None:
        """Turn one pod's condition over."""
        gang = (key.namespace, key.name)
        ready = not self.ready.get(gang, True)
        reason = {} if ready else {"reason": "ContainersNotReady"}
        condition = {"status": str(ready), "lastTransitionTime": pod_status.now(), **reason}
        conditions = [{"type": kind, **condition} for kind in ("ContainersReady", "Ready")]
        path = path_of("v1", "pods", namespace=key.namespace, name=key.pod(0))
        await self.api.patch(f"{path}/status", {"status": {"conditions": conditions}}, kind="strategic")
        self.ready[gang] = ready
        self.done.append((gang, time.monotonic(), "ready" if ready else "degraded"))

    async def drive(self, keys: Sequence[crowd.Key], pace: float, seconds: float) -> None:
        """So many a second, whatever answers take, one gang after the other."""
        async with asyncio.TaskGroup() as group:
            began = time.monotonic()
            for number in range(round(pace * seconds)):
                await asyncio.sleep(max(0.0, began + number / pace - time.monotonic()))
                group.create_task(self.flip(keys[number % len(keys)]))


@dataclass
class Sightings:
    """When a watch showed a Gang in another phase."""

    seen: dict[tuple[str, str], list[tuple[float, str]]] = field(default_factory=dict)

    async def follow(self, api: ApiClient) -> None:
        """Watch until cancelled."""
        version = str((await api.get(GANGS, limit=1))["metadata"]["resourceVersion"])
        async for event in api.watch(GANGS, resourceVersion=version, timeoutSeconds=3600):
            metadata = event.object["metadata"]
            phase = str(event.object.get("status", {}).get("phase", "")).lower()
            self.seen.setdefault((metadata["namespace"], metadata["name"]), []).append((time.monotonic(), phase))

    def delays(self, flips: Flips) -> tuple[list[float], int]:
        """Seconds from each answer to its phase in the Gang, and how many were never seen there."""
        delays, missed = [], 0
        for gang, answered, phase in flips.done:
            # The watch may be quicker than the answer.
            sights = (at for at, said in self.seen.get(gang, ()) if said == phase and at > answered - 1)
            at = next(sights, None)
            if at is None:
                missed += 1
            else:
                delays.append(max(0.0, at - answered))
        return delays, missed


def visibility(scrapes: Iterable[Scrape], flips: Flips) -> tuple[float, float, int]:
    """Seconds after which half, and 99 of 100, of the changes are in what a scrape says; and of how many looks.

    Each change is looked up in each scrape that was asked for in the ten seconds after its answer and before its gang's
    next one; a scrape shows all changes that are older than the age that is wanted.
    """
    looks: list[tuple[float, bool]] = []
    moments: dict[tuple[str, str], list[tuple[float, str]]] = {}
    for gang, answered, phase in flips.done:
        moments.setdefault(gang, []).append((answered, phase))
    for each in scrapes:
        exposed = each.exposed
        phases = {(row["namespace"], row["jobset"]): row["phase"] for row, _ in exposed.rows(ROW)}
        for gang, changes in moments.items():
            last = next(((at, phase) for at, phase in reversed(changes) if at <= each.asked), None)
            if last is not None and each.asked - last[0] < 10 and gang in phases:
                looks.append((each.asked - last[0], phases[gang] == last[1]))
    return _age_of(looks, 0.5), _age_of(looks, 0.99), len(looks)


def _age_of(looks: Sequence[tuple[float, bool]], share: float) -> float:
    """The least age by tenths of a second from which on that share of changes is shown."""
    for tenth in range(100):
        older = [shown for age, shown in looks if tenth / 10 <= age < (tenth + 1) / 10]
        if older and sum(older) / len(older) >= share:
            return (tenth + 1) / 10
    return float("inf")
