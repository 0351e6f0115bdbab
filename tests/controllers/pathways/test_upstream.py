"""While the upstream controller leads nothing is written; when it ends, what it has made is taken over as it is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from gangctl.pathways.words import UPSTREAM_LEASE
from gangctl.sandbox.api import SYSTEM, DeleteOptions
from tests.controllers.pathways.ground import CREATES, JOBS, JOBSETS, LEASES, LONG_SECONDS, Context, play
from tests.controllers.stage import NAMESPACE, USER
from tests.sandbox.faults import Delay, Match, Silence, error

OLD = {"status": "False", "reason": "R", "message": "m", "lastTransitionTime": "2025-01-01T00:00:00Z"}
RENEWED = {**OLD, "status": "True", "lastTransitionTime": "2025-01-02T00:00:00Z"}
LOOKS = Match(USER, frozenset({"get"}), JOBSETS)


async def left_by_upstream(context: Context) -> dict[str, Any]:
    """A PathwaysJob with the JobSet and the status that the upstream controller would have left."""
    job = await context.submit()
    owner = {"apiVersion": job["apiVersion"], "kind": "PathwaysJob", "name": "pw", "uid": job["metadata"]["uid"]}
    jobset = await context.foreign(owner={**owner, "controller": True})
    conditions = [{"type": "Pending", **OLD}, {"type": "Running", **OLD}, {"type": "Suspended", **OLD}]
    status = {"conditions": [*conditions, {"type": "Running", **RENEWED}]}
    await context.api.patch(
        context.api.kind(JOBS), NAMESPACE, "pw", {"status": status}, "merge", SYSTEM, subresource="status"
    )
    await context.stands("StartupPolicyCompleted", up={"pathways-head": 1, "worker": 1}, restarts=1)
    return jobset


def test_nothing_is_written_while_the_upstream_controller_leads() -> None:
    async def acts(context: Context) -> None:
        await context.submit()
        with capture_logs() as logs:
            async with context.upstream(), context.running(LONG_SECONDS):
                assert context.writes() == []
                assert context.reads() == []
                assert context.recorded == []
                assert context.watcher.down == [True]
                assert await context.jobset() is None
        reported = [each for each in logs if "left to the upstream controller" in each["event"]]
        assert [each["namespaces"] for each in reported] == [["upstream"]]

    play(acts)


@pytest.mark.parametrize("way", ["dies", "gives back", "is deleted"])
def test_all_pathwaysjobs_are_reconciled_when_the_upstream_controller_stops(way: str) -> None:
    async def acts(context: Context) -> None:
        await context.submit()
        async with context.running(0):
            async with context.upstream():
                await asyncio.sleep(60)
                assert context.writes() == []
            if way == "gives back":
                await context.lease("")
            elif way == "is deleted":
                kind = context.api.kind(LEASES)
                await context.api.delete(kind, "upstream", UPSTREAM_LEASE, SYSTEM, DeleteOptions())
            else:
                await asyncio.sleep(10)
                assert context.writes() == [], "others may take the Lease after 15 s, and not before"
                await asyncio.sleep(10)
            await asyncio.sleep(2)
            assert await context.phase() == "Pending: WaitingForHead"
            assert context.watcher.down == [True, False]

    play(acts)


def test_jobsets_of_the_upstream_controller_are_adopted_unchanged() -> None:
    async def acts(context: Context) -> None:
        await left_by_upstream(context)
        jobset = await context.jobset()
        async with context.running(0):
            async with context.upstream():
                await asyncio.sleep(60)
            await asyncio.sleep(60)
            assert await context.jobset() == jobset
            conditions = (await context.status())["conditions"]
            assert [each["type"] for each in conditions] == ["Pending", "Running", "Suspended", "Completed", "Failed"]
            running = conditions[1]
            assert (running["status"], running["lastTransitionTime"]) == ("True", RENEWED["lastTransitionTime"])
            assert context.writes() == ["patch pathwaysjobs/status"]
            assert context.recorded == []
            await context.edit({"spec": {"controller": {"elasticSlices": 1}}})
            await asyncio.sleep(5)
            assert context.recorded == [], "its source is unknown"
        async with context.running(60):
            assert context.writes() == ["patch pathwaysjobs/status"] * 2

    play(acts)


def test_gangctl_stops_writing_when_the_upstream_controller_leads() -> None:
    async def acts(context: Context) -> None:
        async with context.running():
            await context.submit()
            await asyncio.sleep(1)
            writes = context.writes()
            async with context.upstream():
                await asyncio.sleep(1)
                await context.submit("other")
                await context.stands("Completed", terminalState="Completed")
                await asyncio.sleep(60)
                assert context.writes() == writes
            await asyncio.sleep(60)
            assert await context.phase() == "COMPLETED Completed: BecauseCompleted"
            assert await context.phase("other") == "Pending: WaitingForHead"

    play(acts)


@pytest.mark.parametrize(("slow", "written"), [(LOOKS, []), (CREATES, ["create jobsets"])], ids=["looking", "creating"])
def test_a_reconcile_stops_when_the_upstream_controller_starts(slow: Match, written: list[str]) -> None:
    async def acts(context: Context) -> None:
        context.sandbox.faults.add(slow, Delay(10))
        async with context.running():
            await context.submit()
            await asyncio.sleep(1)
            async with context.upstream():
                await asyncio.sleep(60)
                assert context.writes() == written
                assert context.recorded == []

    play(acts)


def test_an_unrenewed_lease_expires_by_the_local_clock() -> None:
    async def acts(context: Context) -> None:
        # By the wall clock it was renewed years ago, which may be a clock's fault.
        await context.lease("upstream")
        await context.submit()
        async with context.running(10):
            assert context.writes() == []
            await asyncio.sleep(10)
            assert await context.phase() == "Pending: WaitingForHead"

    play(acts)


def test_a_silent_watch_does_not_mean_that_the_upstream_controller_stopped() -> None:
    async def acts(context: Context) -> None:
        await context.submit()
        context.sandbox.faults.add(Match(USER, frozenset({"watch"}), LEASES), Silence(), times=10**6)
        async with context.upstream(), context.running(LONG_SECONDS):
            assert context.writes() == []

    play(acts)


@pytest.mark.parametrize("verbs", [{"list"}, {"list", "watch"}])
def test_an_unreadable_lease_counts_as_held(verbs: set[str]) -> None:
    async def acts(context: Context) -> None:
        await context.submit()
        rule = context.sandbox.faults.add(Match(USER, frozenset(verbs), LEASES), error(), times=10**6)
        async with context.running(60):
            assert context.writes() == []
            assert rule.fired
            context.sandbox.faults.clear()
            await asyncio.sleep(60)
            assert await context.phase() == "Pending: WaitingForHead"

    play(acts)


def test_other_leases_are_ignored() -> None:
    async def acts(context: Context) -> None:
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "gangctl"}}
        spec = {"holderIdentity": "somebody", "leaseDurationSeconds": 15}
        await context.api.create(context.api.kind(LEASES), NAMESPACE, {**body, "spec": spec}, SYSTEM)
        await context.submit()
        async with context.running():
            assert await context.phase() == "Pending: WaitingForHead"
        assert context.watcher.down == [False]

    play(acts)
