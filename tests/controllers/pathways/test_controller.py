"""From PathwaysJobs to JobSets and back to their statuses, against a sandbox: whole lives, and what ends them early."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from gangctl.api.meta import EXCLUSIVE_TOPOLOGY
from gangctl.pathways.options import PathwaysOptions
from gangctl.pathways.result import Setting
from gangctl.pathways.words import DIGEST
from tests.controllers.pathways.ground import JOBS, JOBSETS, LONG_SECONDS, Scene, play
from tests.controllers.stage import USER

UP = {"pathways-head": 1, "worker": 2}


def test_a_life_from_creation_to_completion() -> None:
    async def acts(scene: Scene) -> None:
        async with scene.running():
            job = await scene.submit()
            await asyncio.sleep(1)
            jobset = await scene.jobset()
            assert jobset is not None
            (owner,) = jobset["metadata"]["ownerReferences"]
            assert owner == {
                "apiVersion": "pathways-job.pathways.domain/v1",
                "kind": "PathwaysJob",
                "name": "pw",
                "uid": job["metadata"]["uid"],
                "controller": True,
                "blockOwnerDeletion": True,
            }
            assert jobset["metadata"]["annotations"][DIGEST]
            assert "suspend" not in jobset["spec"]
            assert await scene.phase() == "Pending: WaitingForHead"
            await scene.stands("StartupPolicyInProgress", up={"pathways-head": 1})
            await asyncio.sleep(1)
            assert await scene.phase() == "Pending: WaitingForWorkers"
            await scene.stands("StartupPolicyCompleted", up=UP)
            await asyncio.sleep(1)
            assert await scene.phase() == "Running: HeadAndWorkersReady"
            await scene.stands("StartupPolicyCompleted", "Completed", up=UP, terminalState="Completed")
            await asyncio.sleep(1)
            assert await scene.phase() == "COMPLETED Completed: BecauseCompleted"
            writes = ["create jobsets", *["patch pathwaysjobs/status"] * 4]
            assert scene.writes() == writes
            await scene.delete(kind=JOBSETS)
            await asyncio.sleep(LONG_SECONDS)
            assert await scene.jobset() is None
            assert await scene.phase() == "COMPLETED Completed: BecauseCompleted"
            assert scene.reads() == ["get pathwaysjobs", "get jobsets"]
        async with scene.running(LONG_SECONDS):
            assert scene.writes() == writes
            assert len(scene.reads()) == 2
        assert {"JobSetCreated", "Completed"} <= {*scene.reasons}
        assert len(scene.reasons) == len({*scene.reasons})
        assert scene.watcher.errors == []

    play(acts)


def test_a_restart_writes_nothing_and_says_nothing() -> None:
    async def acts(scene: Scene) -> None:
        for number in range(5):
            await scene.submit(f"pw-{number}")
        async with scene.running():
            await scene.stands("StartupPolicyCompleted", up=UP, name="pw-1")
            await scene.stands("Suspended", name="pw-2")
            await asyncio.sleep(LONG_SECONDS)
        writes, said = scene.writes(), list(scene.said)
        assert len(writes) == 5 + 5 + 2
        async with scene.running(LONG_SECONDS):
            assert scene.writes() == writes
            assert scene.said == said

    play(acts)


def test_suspended_and_resumed_by_a_queue() -> None:
    async def acts(scene: Scene) -> None:
        async with scene.running():
            await scene.submit(metadata={"labels": {"kueue.x-k8s.io/queue-name": "q"}})
            await asyncio.sleep(1)
            jobset = await scene.jobset()
            assert jobset is not None
            assert jobset["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "q"
            await scene.stands("Suspended")
            await asyncio.sleep(1)
            assert await scene.phase() == "Suspended: BecauseSuspended"
            await scene.stands("-Suspended", "StartupPolicyCompleted", up=UP)
            await asyncio.sleep(1)
            assert await scene.phase() == "Running: HeadAndWorkersReady"
        assert scene.reasons[-2:] == ["Suspended", "Resumed"]

    play(acts)


def test_restarts_are_copied_and_told() -> None:
    async def acts(scene: Scene) -> None:
        async with scene.running():
            await scene.submit(maxRestarts=3)
            await asyncio.sleep(1)
            await scene.stands("RestartingJobSet", "-StartupPolicyCompleted", restarts=2)
            await asyncio.sleep(1)
            assert await scene.phase() == "Pending: Restarting"
            assert (await scene.status())["restarts"] == 2
            assert scene.said[-1].message == "Restart 2 of 3"

    play(acts)


def test_nothing_is_created_for_what_is_being_deleted() -> None:
    async def acts(scene: Scene) -> None:
        await scene.submit(metadata={"finalizers": ["example.com/keep"]})
        await scene.delete()
        async with scene.running(LONG_SECONDS):
            assert await scene.jobset() is None
            assert scene.writes() == []
            assert scene.reads() == []
            assert scene.said == []

    play(acts)


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
def test_a_jobset_goes_with_its_job_and_is_not_created_again(propagation: str) -> None:
    async def acts(scene: Scene) -> None:
        async with scene.running():
            await scene.submit()
            await asyncio.sleep(1)
            await scene.delete(propagation=propagation)
            await asyncio.sleep(LONG_SECONDS)
            assert await scene.jobset() is None
            assert scene.writes().count("create jobsets") == 1
            assert scene.watcher.phases == {}

    play(acts)


def test_a_jobset_that_is_deleted_before_its_end_is_created_again() -> None:
    async def acts(scene: Scene) -> None:
        async with scene.running():
            await scene.submit()
            await asyncio.sleep(1)
            await scene.delete(kind=JOBSETS)
            await asyncio.sleep(5)
            assert await scene.jobset() is not None
            assert await scene.phase() == "Pending: WaitingForHead"
            assert [each for each in scene.reasons if each.startswith("JobSet")] == [
                "JobSetCreated",
                "JobSetGone",
                "JobSetCreated",
            ]

    play(acts)


def test_with_a_ttl_a_jobset_that_is_gone_may_have_finished() -> None:
    async def acts(scene: Scene) -> None:
        scene.options = PathwaysOptions(ttl_seconds_after_finished=60)
        async with scene.running():
            await scene.submit()
            await asyncio.sleep(1)
        await scene.delete(kind=JOBSETS)
        async with scene.running(LONG_SECONDS):
            assert await scene.jobset() is None
            assert await scene.phase() == "FAILED Failed: JobSetGone"
            assert scene.reasons[-1] == "JobSetGone"

    play(acts)


def test_an_end_is_seen_although_the_jobset_is_gone_a_moment_later() -> None:
    async def acts(scene: Scene) -> None:
        scene.options = PathwaysOptions(ttl_seconds_after_finished=0)
        async with scene.running():
            await scene.submit()
            await asyncio.sleep(1)
            await scene.stands("Completed", terminalState="Completed")
            await scene.delete(kind=JOBSETS)
            await asyncio.sleep(5)
            assert await scene.phase() == "COMPLETED Completed: BecauseCompleted"

    play(acts)


def test_a_change_that_comes_too_late_is_told_once() -> None:
    async def acts(scene: Scene) -> None:
        async with scene.running():
            await scene.submit()
            await asyncio.sleep(1)
            before = await scene.jobset()
            await scene.edit({"spec": {"controller": {"elasticSlices": 1}}})
            await asyncio.sleep(1)
            assert scene.reasons[-1] == "SpecChangeIgnored"
            assert await scene.jobset() == before
            await scene.edit({"spec": {"controller": {"mainContainerName": "other"}}})
            await asyncio.sleep(1)
        async with scene.running():
            assert scene.reasons.count("SpecChangeIgnored") == 1
            generations = {each["observedGeneration"] for each in (await scene.status())["conditions"]}
            assert generations == {(await scene.job())["metadata"]["generation"]}

    play(acts)


def test_a_replica_that_stops_leading_writes_nothing() -> None:
    async def acts(scene: Scene) -> None:
        scene.leads = False
        await scene.submit()
        controller = scene._make()
        with pytest.raises(Exception, match="another one leads"):
            await controller.run()
        assert scene.writes() == []
        scene.leads = True
        async with scene.running():
            assert await scene.phase() == "Pending: WaitingForHead"

    play(acts)


def test_without_the_definition_it_says_so_once_and_looks_again() -> None:
    async def acts(scene: Scene) -> None:
        with capture_logs() as logs:
            async with scene.running(LONG_SECONDS):
                told = [each for each in logs if "does not have their definition" in each["event"]]
                assert len(told) == 1
                await scene.define()
                await scene.submit()
                await asyncio.sleep(60)
                assert await scene.phase() == "Pending: WaitingForHead"

    play(acts, defined=False)


def test_where_there_are_no_gangs_it_renders_without() -> None:
    async def acts(scene: Scene) -> None:
        scene.setting = Setting(gangs=False, topology=False)
        async with scene.running():
            await scene.submit()
            await asyncio.sleep(1)
            jobset = await scene.jobset()
            assert jobset is not None
            _, worker = jobset["spec"]["replicatedJobs"]
            assert EXCLUSIVE_TOPOLOGY in worker["template"]["metadata"]["annotations"]
            # The cluster has learned it since: that is no change of the spec.
            scene.setting = Setting()
            await scene.edit({"spec": {"controller": {"elasticSlices": 0}}})
            await asyncio.sleep(1)
            assert "SpecChangeIgnored" not in scene.reasons

    play(acts)


def test_a_head_that_no_node_can_have_is_told_when_there_are_nodes_for_it() -> None:
    async def acts(scene: Scene) -> None:
        async with scene.running():
            await scene.submit("alone")
            await asyncio.sleep(1)
            assert "HeadDoesNotFit" not in scene.reasons
        await scene.node({"cpu": "1", "memory": "1Gi", "pods": "110"})
        async with scene.running():
            await scene.submit("pw")
            await asyncio.sleep(1)
            assert "HeadDoesNotFit" in scene.reasons

    play(acts)


def test_it_asks_for_nothing_else_while_nothing_changes() -> None:
    async def acts(scene: Scene) -> None:
        async with scene.running():
            await scene.submit()
            await asyncio.sleep(30)
            asked = scene.sandbox.audit.total
            await asyncio.sleep(30)
            assert scene.sandbox.audit.total - asked < 5
            reads = {each.resource for each in scene.sandbox.audit if each.user == USER}
            assert reads == {JOBS, JOBSETS, "leases.coordination.k8s.io", "nodes"}

    play(acts)
