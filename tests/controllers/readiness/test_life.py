"""gangctl beside a sandbox, in virtual time: which events a JobSet gets about its readiness, and no others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from gangctl.api.scheduling import ApiState
from gangctl.controllers import gangs
from gangctl.controllers.reporter import GangMetrics
from gangctl.sandbox import errors
from tests.faults.virtual_time import run
from tests.faults.world import NAMESPACE, USER, World, world
from tests.jobsets import jobset, rj
from tests.sandbox.faults import CutBefore, Match, Refuse


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


def test_a_creation_that_was_interrupted_is_reported_although_the_first_write_after_it_fails(tmp_path: Path) -> None:
    async def life(there: World) -> None:
        groups = Match(USER, frozenset({"create"}), "podgroups.scheduling.k8s.io")
        refused = there.sandbox.faults.add(groups, CutBefore(), times=1_000)
        await there.create(jobset("js", rj("w", 1, 2, 2, mode="Gang")))
        await there.rest(1)
        await there.crash_gangctl()
        there.sandbox.faults.rules.remove(refused)
        there.sandbox.faults.add(groups, Refuse(errors.internal("etcd is busy")))
        await there.start_gangctl()
        await there.rest()

    assert lived(tmp_path, life)["js WorkloadCreated"] == 1


def test_what_a_namespace_that_ends_refuses_is_no_repair_and_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[GangMetrics] = []

    class Kept(GangMetrics):
        def __init__(self, registry: CollectorRegistry, state: Callable[[], ApiState]) -> None:
            super().__init__(registry, state)
            made.append(self)

    monkeypatch.setattr(gangs, "GangMetrics", Kept)

    async def life(there: World) -> None:
        await there.create(jobset("js", rj("w", 1, 2, 2, mode="Gang")))
        await there.rest(5)
        workloads = there.api.kind("workloads.scheduling.k8s.io")
        refusal = Refuse(errors.namespace_terminating(workloads, "js", NAMESPACE))
        creations = Match(USER, frozenset({"create"}), "workloads.scheduling.k8s.io")
        there.sandbox.faults.add(creations, refusal, times=1_000)
        await there.damage()
        await there.rest(5)
        assert not next(iter(made[0].repairs.collect())).samples

    assert lived(tmp_path, life) == {"js WorkloadCreated": 1, "js GangReady": 1}
