"""While the upstream controller leads nothing is written; when it ends, what it has made is taken over as it is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from gangctl.pathways.words import UPSTREAM_LEASE
from gangctl.sandbox.api import SYSTEM, DeleteOptions
from gangctl.sandbox.faults import Delay, Match, Silence, error
from tests.controllers.pathways.ground import CREATES, JOBS, JOBSETS, LEASES, LONG_SECONDS, Scene, play
from tests.controllers.stage import NAMESPACE, USER

OLD = {"status": "False", "reason": "R", "message": "m", "lastTransitionTime": "2025-01-01T00:00:00Z"}
RENEWED = {**OLD, "status": "True", "lastTransitionTime": "2025-01-02T00:00:00Z"}
LOOKS = Match(USER, frozenset({"get"}), JOBSETS)


async def left_by_upstream(scene: Scene) -> dict[str, Any]:
    """A PathwaysJob with the JobSet and the status that the upstream controller would have left."""
    job = await scene.submit()
    owner = {"apiVersion": job["apiVersion"], "kind": "PathwaysJob", "name": "pw", "uid": job["metadata"]["uid"]}
    jobset = await scene.foreign(owner={**owner, "controller": True})
    conditions = [{"type": "Pending", **OLD}, {"type": "Running", **OLD}, {"type": "Suspended", **OLD}]
    status = {"conditions": [*conditions, {"type": "Running", **RENEWED}]}
    await scene.api.patch(
        scene.api.kind(JOBS), NAMESPACE, "pw", {"status": status}, "merge", SYSTEM, subresource="status"
    )
    await scene.stands("StartupPolicyCompleted", up={"pathways-head": 1, "worker": 1}, restarts=1)
    return jobset


def test_nothing_is_written_or_said_while_it_leads() -> None:
    async def acts(scene: Scene) -> None:
        await scene.submit()
        with capture_logs() as logs:
            async with scene.upstream(), scene.running(LONG_SECONDS):
                assert scene.writes() == []
                assert scene.reads() == []
                assert scene.said == []
                assert scene.watcher.down == [True]
                assert await scene.jobset() is None
        told = [each for each in logs if "left to the upstream controller" in each["event"]]
        assert [each["namespaces"] for each in told] == [["upstream"]]

    play(acts)


@pytest.mark.parametrize("way", ["dies", "gives back", "is deleted"])
def test_when_it_ends_everything_is_looked_at(way: str) -> None:
    async def acts(scene: Scene) -> None:
        await scene.submit()
        async with scene.running(0):
            async with scene.upstream():
                await asyncio.sleep(60)
                assert scene.writes() == []
            if way == "gives back":
                await scene.lease("")
            elif way == "is deleted":
                kind = scene.api.kind(LEASES)
                await scene.api.delete(kind, "upstream", UPSTREAM_LEASE, SYSTEM, DeleteOptions())
            else:
                await asyncio.sleep(10)
                assert scene.writes() == [], "others may take the Lease after 15 s, and not before"
                await asyncio.sleep(10)
            await asyncio.sleep(2)
            assert await scene.phase() == "Pending: WaitingForHead"
            assert scene.watcher.down == [True, False]

    play(acts)


def test_what_it_has_made_is_taken_over_as_it_is() -> None:
    async def acts(scene: Scene) -> None:
        await left_by_upstream(scene)
        jobset = await scene.jobset()
        async with scene.running(0):
            async with scene.upstream():
                await asyncio.sleep(60)
            await asyncio.sleep(60)
            assert await scene.jobset() == jobset
            conditions = (await scene.status())["conditions"]
            assert [each["type"] for each in conditions] == ["Pending", "Running", "Suspended", "Completed", "Failed"]
            running = conditions[1]
            assert (running["status"], running["lastTransitionTime"]) == ("True", RENEWED["lastTransitionTime"])
            assert scene.writes() == ["patch pathwaysjobs/status"]
            assert scene.said == []
            await scene.edit({"spec": {"controller": {"elasticSlices": 1}}})
            await asyncio.sleep(5)
            assert scene.said == [], "nobody knows what it was rendered from"
        async with scene.running(60):
            assert scene.writes() == ["patch pathwaysjobs/status"] * 2

    play(acts)


def test_when_it_begins_to_lead_gangctl_stops_writing() -> None:
    async def acts(scene: Scene) -> None:
        async with scene.running():
            await scene.submit()
            await asyncio.sleep(1)
            writes = scene.writes()
            async with scene.upstream():
                await asyncio.sleep(1)
                await scene.submit("other")
                await scene.stands("Completed", terminalState="Completed")
                await asyncio.sleep(60)
                assert scene.writes() == writes
            await asyncio.sleep(60)
            assert await scene.phase() == "COMPLETED Completed: BecauseCompleted"
            assert await scene.phase("other") == "Pending: WaitingForHead"

    play(acts)


@pytest.mark.parametrize(("slow", "written"), [(LOOKS, []), (CREATES, ["create jobsets"])], ids=["looking", "creating"])
def test_what_is_under_way_when_it_begins_is_not_carried_on(slow: Match, written: list[str]) -> None:
    async def acts(scene: Scene) -> None:
        scene.sandbox.faults.add(slow, Delay(10))
        async with scene.running():
            await scene.submit()
            await asyncio.sleep(1)
            async with scene.upstream():
                await asyncio.sleep(60)
                assert scene.writes() == written
                assert scene.said == []

    play(acts)


def test_a_lease_that_nobody_renews_is_waited_out_on_our_own_clock() -> None:
    async def acts(scene: Scene) -> None:
        # By the wall clock it was renewed years ago, which may be a clock's fault.
        await scene.lease("upstream")
        await scene.submit()
        async with scene.running(10):
            assert scene.writes() == []
            await asyncio.sleep(10)
            assert await scene.phase() == "Pending: WaitingForHead"

    play(acts)


def test_a_watch_that_tells_nothing_is_not_taken_for_a_death() -> None:
    async def acts(scene: Scene) -> None:
        await scene.submit()
        scene.sandbox.faults.add(Match(USER, frozenset({"watch"}), LEASES), Silence(), times=10**6)
        async with scene.upstream(), scene.running(LONG_SECONDS):
            assert scene.writes() == []

    play(acts)


@pytest.mark.parametrize("verbs", [{"list"}, {"list", "watch"}])
def test_what_is_not_known_of_it_counts_as_leading(verbs: set[str]) -> None:
    async def acts(scene: Scene) -> None:
        await scene.submit()
        rule = scene.sandbox.faults.add(Match(USER, frozenset(verbs), LEASES), error(), times=10**6)
        async with scene.running(60):
            assert scene.writes() == []
            assert rule.fired
            scene.sandbox.faults.clear()
            await asyncio.sleep(60)
            assert await scene.phase() == "Pending: WaitingForHead"

    play(acts)


def test_other_leases_do_not_matter() -> None:
    async def acts(scene: Scene) -> None:
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "gangctl"}}
        spec = {"holderIdentity": "somebody", "leaseDurationSeconds": 15}
        await scene.api.create(scene.api.kind(LEASES), NAMESPACE, {**body, "spec": spec}, SYSTEM)
        await scene.submit()
        async with scene.running():
            assert await scene.phase() == "Pending: WaitingForHead"
        assert scene.watcher.down == [False]

    play(acts)
