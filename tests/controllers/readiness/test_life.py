"""gangctl beside a sandbox, in virtual time: which events a JobSet gets about its readiness, and no others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.faults.virtual_time import run
from tests.faults.world import NAMESPACE, World, world
from tests.jobsets import jobset, rj


def lived(directory: Path, life: Callable[[World], Awaitable[None]], minor: str = "1.37") -> dict[str, int]:
    """Events of gangctl by JobSet and reason, after a life."""

    async def main() -> dict[str, int]:
        async with world(minor, directory) as there:
            await there.start_gangctl()
            await life(there)
            return await recorded(there)

    return run(main())


async def recorded(there: World) -> dict[str, int]:
    found: dict[str, int] = {}
    for event in (await there.api.list(there.api.kind("events.events.k8s.io"), NAMESPACE)).items:
        if event.get("reportingController") == "gangctl.dev/gangctl":
            reported = f"{event['regarding']['name']} {event['reason']}"
            found[reported] = found.get(reported, 0) + 1
    return found


def test_a_gang_that_starts_at_once_gets_two_events(tmp_path: Path) -> None:
    async def life(there: World) -> None:
        await there.create(jobset("js", rj("w", 2, 2, 2, mode="Gang")))
        await there.create(jobset("plain", rj("w", 1, 1, 1)))
        await there.rest()
        await there.restart_gangctl()
        await there.rest()

    assert lived(tmp_path, life) == {"js WorkloadCreated": 1, "js GangReady": 1}


def test_a_gang_gets_the_same_events_on_every_minor(tmp_path: Path) -> None:
    async def life(there: World) -> None:
        await there.create(jobset("js", rj("w", 1, 2, 2, mode="Gang"), rj("r", 2, 1, 1, mode="ReplicatedGang")))
        await there.rest()

    for minor in ("1.35", "1.36"):
        directory = tmp_path / minor
        directory.mkdir()
        assert lived(directory, life, minor) == {"js WorkloadCreated": 1, "js GangReady": 1}


def test_a_gang_that_does_not_fit_gets_an_event_with_the_cause(tmp_path: Path) -> None:
    async def life(there: World) -> None:
        await there.create(jobset("js", rj("w", 1, 9, 9, mode="Gang", cpu="4")))
        await there.rest()
        await there.rest()

    assert lived(tmp_path, life) == {"js WorkloadCreated": 1, "js Unschedulable": 1}


def test_a_deleted_jobset_is_forgotten(tmp_path: Path) -> None:
    async def life(there: World) -> None:
        await there.create(jobset("js", rj("w", 1, 9, 9, mode="Gang", cpu="4")))
        await there.rest(5)
        await there.delete("js")
        await there.rest()

    assert lived(tmp_path, life) == {"js WorkloadCreated": 1}
