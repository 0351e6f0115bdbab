"""From PathwaysJobs to JobSets and back to their statuses, against a sandbox: whole lives, and what ends them early."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from gangctl.api.meta import EXCLUSIVE_TOPOLOGY
from gangctl.pathways.options import PathwaysOptions
from gangctl.pathways.result import RenderingInputs, Without
from gangctl.pathways.words import DIGEST, OPTIONS
from tests.controllers.pathways.ground import JOBS, JOBSETS, LONG_SECONDS, Context, play
from tests.controllers.stage import NAMESPACE, USER
from tests.pathways.samples import annotated

UP = {"pathways-head": 1, "worker": 2}


def test_a_pathwaysjob_runs_from_creation_to_completion() -> None:
    async def acts(context: Context) -> None:
        async with context.running():
            job = await context.submit()
            await asyncio.sleep(1)
            jobset = await context.jobset()
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
            assert await context.phase() == "Pending: WaitingForHead"
            await context.stands("StartupPolicyInProgress", up={"pathways-head": 1})
            await asyncio.sleep(1)
            assert await context.phase() == "Pending: WaitingForWorkers"
            await context.stands("StartupPolicyCompleted", up=UP)
            await asyncio.sleep(1)
            assert await context.phase() == "Running: HeadAndWorkersReady"
            await context.stands("StartupPolicyCompleted", "Completed", up=UP, terminalState="Completed")
            await asyncio.sleep(1)
            assert await context.phase() == "COMPLETED Completed: BecauseCompleted"
            writes = ["create jobsets", *["patch pathwaysjobs/status"] * 4]
            assert context.writes() == writes
            await context.delete(kind=JOBSETS)
            await asyncio.sleep(LONG_SECONDS)
            assert await context.jobset() is None
            assert await context.phase() == "COMPLETED Completed: BecauseCompleted"
            assert context.reads() == ["get pathwaysjobs", "get jobsets"]
        async with context.running(LONG_SECONDS):
            assert context.writes() == writes
            assert len(context.reads()) == 2
        assert {"JobSetCreated", "Completed"} <= {*context.reasons}
        assert len(context.reasons) == len({*context.reasons})
        assert context.watcher.errors == []

    play(acts)


def test_a_pathwaysjob_gets_no_jobset_where_gangctl_does_not_serve() -> None:
    """One that has a JobSet already has a status for as long as that runs."""

    async def acts(context: Context) -> None:
        async with context.running() as controller:
            await context.submit("before")
            await asyncio.sleep(1)
            context.serves = False
            await context.submit("pw")
            await asyncio.sleep(LONG_SECONDS)
            assert await context.jobset() is None
            assert (await context.status(), context.writes()) == ({}, ["create jobsets", "patch pathwaysjobs/status"])
            await context.stands("StartupPolicyCompleted", up=UP, name="before")
            await asyncio.sleep(1)
            assert await context.phase("before") == "Running: HeadAndWorkersReady"
            context.serves = True
            controller.recheck_in({"another"})
            await asyncio.sleep(1)
            assert await context.jobset() is None
            controller.recheck_in({NAMESPACE})
            await asyncio.sleep(1)
            assert await context.jobset() is not None

    play(acts)


def test_a_restart_of_gangctl_writes_nothing_and_records_no_event() -> None:
    async def acts(context: Context) -> None:
        for number in range(5):
            await context.submit(f"pw-{number}")
        async with context.running():
            await context.stands("StartupPolicyCompleted", up=UP, name="pw-1")
            await context.stands("Suspended", name="pw-2")
            await asyncio.sleep(LONG_SECONDS)
        writes, recorded = context.writes(), list(context.recorded)
        assert len(writes) == 5 + 5 + 2
        async with context.running(LONG_SECONDS):
            assert context.writes() == writes
            assert context.recorded == recorded

    play(acts)


def test_a_pathwaysjob_is_suspended_and_resumed_by_a_queue() -> None:
    async def acts(context: Context) -> None:
        async with context.running():
            await context.submit(metadata={"labels": {"kueue.x-k8s.io/queue-name": "q"}})
            await asyncio.sleep(1)
            jobset = await context.jobset()
            assert jobset is not None
            assert jobset["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "q"
            await context.stands("Suspended")
            await asyncio.sleep(1)
            assert await context.phase() == "Suspended: BecauseSuspended"
            await context.stands("-Suspended", "StartupPolicyCompleted", up=UP)
            await asyncio.sleep(1)
            assert await context.phase() == "Running: HeadAndWorkersReady"
        assert context.reasons[-2:] == ["Suspended", "Resumed"]

    play(acts)


def test_restarts_are_copied_to_the_status_and_recorded() -> None:
    async def acts(context: Context) -> None:
        async with context.running():
            await context.submit(maxRestarts=3)
            await asyncio.sleep(1)
            await context.stands("RestartingJobSet", "-StartupPolicyCompleted", restarts=2)
            await asyncio.sleep(1)
            assert await context.phase() == "Pending: Restarting"
            assert (await context.status())["restarts"] == 2
            assert context.recorded[-1].message == "Restart 2 of 3"

    play(acts)


def test_no_jobset_is_created_for_a_terminating_pathwaysjob() -> None:
    async def acts(context: Context) -> None:
        await context.submit(metadata={"finalizers": ["example.com/keep"]})
        await context.delete()
        async with context.running(LONG_SECONDS):
            assert await context.jobset() is None
            assert context.writes() == []
            assert context.reads() == []
            assert context.recorded == []

    play(acts)


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
def test_a_jobset_is_deleted_with_its_pathwaysjob(propagation: str) -> None:
    async def acts(context: Context) -> None:
        async with context.running():
            await context.submit()
            await asyncio.sleep(1)
            await context.delete(propagation=propagation)
            await asyncio.sleep(LONG_SECONDS)
            assert await context.jobset() is None
            assert context.writes().count("create jobsets") == 1
            assert context.watcher.phases == {}

    play(acts)


def test_a_jobset_deleted_before_its_end_is_recreated() -> None:
    async def acts(context: Context) -> None:
        async with context.running():
            await context.submit()
            await asyncio.sleep(1)
            await context.delete(kind=JOBSETS)
            await asyncio.sleep(5)
            assert await context.jobset() is not None
            assert await context.phase() == "Pending: WaitingForHead"
            assert [each for each in context.reasons if each.startswith("JobSet")] == [
                "JobSetCreated",
                "JobSetGone",
                "JobSetCreated",
            ]

    play(acts)


def test_a_missing_jobset_with_a_ttl_may_have_finished() -> None:
    async def acts(context: Context) -> None:
        context.options = PathwaysOptions(ttl_seconds_after_finished=60)
        async with context.running():
            await context.submit()
            await asyncio.sleep(1)
        await context.delete(kind=JOBSETS)
        async with context.running(LONG_SECONDS):
            assert await context.jobset() is None
            assert await context.phase() == "FAILED Failed: JobSetGone"
            assert context.reasons[-1] == "JobSetGone"

    play(acts)


def test_the_end_is_recorded_even_if_the_jobset_is_deleted_at_once() -> None:
    async def acts(context: Context) -> None:
        context.options = PathwaysOptions(ttl_seconds_after_finished=0)
        async with context.running():
            await context.submit()
            await asyncio.sleep(1)
            await context.stands("Completed", terminalState="Completed")
            await context.delete(kind=JOBSETS)
            await asyncio.sleep(5)
            assert await context.phase() == "COMPLETED Completed: BecauseCompleted"

    play(acts)


def test_a_change_after_the_creation_is_reported_once() -> None:
    async def acts(context: Context) -> None:
        async with context.running():
            await context.submit()
            await asyncio.sleep(1)
            before = await context.jobset()
            await context.edit({"spec": {"controller": {"elasticSlices": 1}}})
            await asyncio.sleep(1)
            assert context.reasons[-1] == "SpecChangeIgnored"
            assert await context.jobset() == before
            await context.edit({"spec": {"controller": {"mainContainerName": "other"}}})
            await asyncio.sleep(1)
        async with context.running():
            assert context.reasons.count("SpecChangeIgnored") == 1
            generations = {each["observedGeneration"] for each in (await context.status())["conditions"]}
            assert generations == {(await context.job())["metadata"]["generation"]}

    play(acts)


def test_a_replica_that_stops_leading_writes_nothing() -> None:
    async def acts(context: Context) -> None:
        context.leads = False
        await context.submit()
        controller = context._make()
        with pytest.raises(Exception, match="another one leads"):
            await controller.run()
        assert context.writes() == []
        context.leads = True
        async with context.running():
            assert await context.phase() == "Pending: WaitingForHead"

    play(acts)


def test_a_missing_definition_is_logged_once_and_checked_again() -> None:
    async def acts(context: Context) -> None:
        with capture_logs() as logs:
            async with context.running(LONG_SECONDS):
                reported = [each for each in logs if "does not have their definition" in each["event"]]
                assert len(reported) == 1
                await context.define()
                await context.submit()
                await asyncio.sleep(60)
                assert await context.phase() == "Pending: WaitingForHead"

    play(acts, defined=False)


def test_without_the_scheduling_api_the_jobset_has_no_gang() -> None:
    async def acts(context: Context) -> None:
        context.setting = RenderingInputs(gangs=False, topology=False)
        async with context.running():
            await context.submit()
            await asyncio.sleep(1)
            jobset = await context.jobset()
            assert jobset is not None
            _, worker = jobset["spec"]["replicatedJobs"]
            assert EXCLUSIVE_TOPOLOGY in worker["template"]["metadata"]["annotations"]
            # The cluster has learned it since: that is no change of the spec.
            context.setting = RenderingInputs()
            await context.edit({"spec": {"controller": {"elasticSlices": 0}}})
            await asyncio.sleep(1)
            assert "SpecChangeIgnored" not in context.reasons

    play(acts)


UPGRADING = RenderingInputs(gangs=False, topology=False, reason="upgrading", without=Without.NONE)


def test_a_jobset_is_created_only_when_its_gang_can_be_made() -> None:
    async def acts(context: Context) -> None:
        context.setting = UPGRADING
        async with context.running() as controller:
            await context.submit()
            await context.submit("off", metadata=annotated(gang_mode="Off"))
            await asyncio.sleep(LONG_SECONDS)
            assert await context.jobset("off") is not None
            assert await context.jobset() is None
            assert await context.phase() == "Pending: GangAPIUnavailable"
            waits = [each.message for each in context.recorded if each.reason == "GangAPIUnavailable"]
            assert len(waits) == 1
            assert "upgrading" in waits[0]
            context.setting = RenderingInputs()
            controller.recheck_all()
            await asyncio.sleep(1)
            jobset = await context.jobset()
            assert jobset is not None
            assert "gangctl.dev/gang-mode" in str(jobset["spec"])
            assert await context.phase() == "Pending: WaitingForHead"
            assert "JobSetGone" not in context.reasons

    play(acts)


def test_without_the_scheduling_api_only_a_gang_that_was_asked_for_is_waited_for() -> None:
    async def acts(context: Context) -> None:
        context.setting = replace(UPGRADING, without=Without.UNASKED)
        async with context.running():
            await context.submit()
            await context.submit("asked", metadata=annotated(pathways_worker_mode="ReplicatedGang"))
            head = '[{"name": "head", "replicatedJobs": ["pathways-head"]}]'
            await context.submit("head", metadata=annotated(gangs=head))
            await asyncio.sleep(1)
            assert await context.jobset() is not None
            for name in ("asked", "head"):
                assert await context.phase(name) == "Pending: GangAPIUnavailable"

    play(acts)


def test_a_jobset_that_ended_unseen_is_gone_while_no_gang_can_be_made() -> None:
    async def acts(context: Context) -> None:
        async with context.running():
            for name, options in (("pw", '{"ttlSecondsAfterFinished": 60}'), ("again", "{}")):
                await context.submit(name, metadata={"annotations": {OPTIONS: options}})
            await asyncio.sleep(1)
        for name in ("pw", "again"):
            await context.delete(name, kind=JOBSETS)
        context.setting = UPGRADING
        async with context.running(LONG_SECONDS) as controller:
            assert await context.phase() == "FAILED Failed: JobSetGone"
            assert await context.phase("again") == "Pending: GangAPIUnavailable"
            context.setting = RenderingInputs()
            controller.recheck_all()
            await asyncio.sleep(1)
            assert await context.phase("again") == "Pending: WaitingForHead"
            assert sum("it is created again" in each.message for each in context.recorded) == 1

    play(acts)


def test_a_head_that_fits_no_node_is_reported_once_there_are_nodes() -> None:
    async def acts(context: Context) -> None:
        async with context.running():
            await context.submit("alone")
            await asyncio.sleep(1)
            assert "HeadDoesNotFit" not in context.reasons
        await context.node({"cpu": "1", "memory": "1Gi", "pods": "110"})
        async with context.running():
            await context.submit("pw")
            await asyncio.sleep(1)
            assert "HeadDoesNotFit" in context.reasons

    play(acts)


def test_no_requests_are_sent_while_nothing_changes() -> None:
    async def acts(context: Context) -> None:
        async with context.running():
            await context.submit()
            await asyncio.sleep(30)
            asked = context.sandbox.audit.total
            await asyncio.sleep(30)
            assert context.sandbox.audit.total - asked < 5
            reads = {each.resource for each in context.sandbox.audit if each.user == USER}
            assert reads == {JOBS, JOBSETS, "leases.coordination.k8s.io", "nodes"}

    play(acts)
