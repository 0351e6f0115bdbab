"""The Workload loop over an API server: what it writes, and what it leaves alone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gangctl.api.jobset import read_jobset
from gangctl.cluster.kinds import QUEUED_WORKLOADS
from gangctl.controllers.checks.workloads import FIELD_MANAGER, WorkloadChecks
from gangctl.kueue.checks import CheckProgress, Progress
from gangctl.runtime.controller import Action, await_change
from tests.controllers.checks.world import KUEUE, SINCE, World, admission, condition, entry, world_of
from tests.jobsets import FIXTURE_UID, jobset, rj

UNDER_WAY = CheckProgress(Progress.UNDER_WAY, "not yet")
DENIED = CheckProgress(Progress.DENIED, "no")


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with world_of() as found:
        await found.check()
        await found.check("other", controller="example.com/other")
        yield found


def without(workload: dict[str, Any], name: str) -> dict[str, Any]:
    status = workload["status"]
    return {**status, "admissionChecks": [each for each in status["admissionChecks"] if each["name"] != name]}


async def test_ready_is_written_only_into_the_state_of_the_own_check(world: World) -> None:
    update = {"name": "w", "labels": {"a": "b"}}
    before = await world.queued(entry("other", "Ready", "fine", podSetUpdates=[update]), entry("gang"))
    assert await world.look() == await_change()
    after = await world.workload()
    mine = await world.state()
    assert mine["state"] == "Ready"
    assert mine["lastTransitionTime"] != entry("gang")["lastTransitionTime"]
    assert without(after, "gang") == without(before, "gang")
    assert after["spec"] == before["spec"]
    managers = {each["manager"]: each["fieldsV1"] for each in after["metadata"]["managedFields"]}
    assert list(managers[FIELD_MANAGER]["f:status"]["f:admissionChecks"]) == ['k:{"name":"gang"}']
    assert KUEUE in managers
    assert world.events == [("js", "AdmissionCheckReady")]


async def test_an_unchanged_state_is_not_written_again(world: World) -> None:
    await world.queued(entry("gang"))
    await world.look()
    version = (await world.workload())["metadata"]["resourceVersion"]
    await world.look()
    world.process()
    await world.look()
    assert (await world.workload())["metadata"]["resourceVersion"] == version


async def test_a_new_admission_is_checked_again(world: World) -> None:
    await world.queued(entry("gang"))
    await world.look()
    await world.as_kueue(
        admissionChecks=(await world.workload())["status"]["admissionChecks"],
        admission=admission("reserved"),
        conditions=[condition("QuotaReserved")],
    )
    world.process()
    await world.look()
    assert (await world.state())["state"] == "Pending"
    await world.look()
    assert (await world.state())["state"] == "Ready"


@pytest.mark.parametrize(
    "status",
    [
        {"conditions": [condition("QuotaReserved"), condition("Evicted")]},
        {"conditions": [condition("QuotaReserved"), condition("Finished")]},
        {"conditions": [condition("QuotaReserved", status=False)], "admission": {}},
    ],
    ids=["evicted", "finished", "no quota"],
)
async def test_evicted_or_finished_workloads_are_left_alone(world: World, status: dict[str, Any]) -> None:
    await world.queued(entry("gang"), **status)
    written = world.writes()
    assert await world.look() == await_change()
    assert world.writes() == written
    assert world.statuses.asked == 0
    assert not world.loop.awaits(next(iter(world.jobsets.seen.values())))


async def test_deactivated_workloads_are_left_alone(world: World) -> None:
    await world.queued(entry("gang"))
    live = await world.client.merge_patch(QUEUED_WORKLOADS, "wl", {"spec": {"active": False}}, "t")
    await world.seen(live)
    assert await world.look() == await_change()
    assert (await world.state())["state"] == "Pending"


async def test_a_concurrent_eviction_wins(world: World) -> None:
    await world.queued(entry("gang"))
    world.statuses.now = DENIED
    stale = world.workloads.store.entry(("t", "wl"))
    assert stale is not None
    await world.as_kueue(conditions=[condition("QuotaReserved"), condition("Evicted")], admissionChecks=[entry("gang")])
    world.workloads.store.put(("t", "wl"), stale)
    action = await world.loop.reconcile(("t", "wl"))
    assert action.after_seconds is not None
    assert (await world.state())["state"] == "Pending"
    assert world.events == []


async def test_a_retry_has_a_delay_and_is_then_left_to_kueue(world: World) -> None:
    await world.queued(entry("gang"))
    world.statuses.now = DENIED
    await world.look()
    found = await world.state()
    assert (found["state"], found["requeueAfterSeconds"]) == ("Retry", 60)
    world.statuses.now = CheckProgress(Progress.DONE, "fine after all")
    await world.look()
    assert (await world.state())["state"] == "Retry"
    assert world.events == [("js", "AdmissionCheckRetry")]


async def test_the_delay_of_an_earlier_retry_is_removed(world: World) -> None:
    await world.queued(entry("gang", retryCount=2, requeueAfterSeconds=240))
    await world.look()
    found = await world.state()
    assert (found["state"], found["requeueAfterSeconds"], found["retryCount"]) == ("Ready", 0, 2)


async def test_two_own_checks_are_written_together(world: World) -> None:
    await world.check("again")
    await world.queued(entry("gang"), entry("again"), entry("other"))
    written = world.writes()
    await world.look()
    assert world.writes() == written + 1
    assert [(await world.state(name))["state"] for name in ("gang", "again", "other")] == ["Ready", "Ready", "Pending"]


async def test_a_workload_of_another_kind_is_ready_without_a_check(world: World) -> None:
    await world.queued(entry("gang"), kind="Job")
    await world.look()
    assert (await world.state())["state"] == "Ready"
    assert world.statuses.asked == 0
    assert world.events == []


async def test_a_variant_of_a_workload_is_decided_by_the_jobset_of_that(world: World) -> None:
    """Kueue has the checks of a queue with concurrentAdmissionPolicy on the variants alone, one for each flavor."""
    await world.queued(entry("gang"), variant=True)
    world.statuses.now = UNDER_WAY
    await world.look()
    assert (await world.state())["state"] == "Pending"
    assert world.loop.awaits(next(iter(world.jobsets.seen.values())))
    world.statuses.now = CheckProgress(Progress.DONE, "all there")
    await world.look()
    assert (await world.state())["state"] == "Ready"
    assert world.events == [("js", "AdmissionCheckReady")]


async def test_a_variant_whose_parent_is_not_known_is_not_approved(world: World) -> None:
    await world.queued(entry("gang"), variant=True)
    world.workloads.store.discard(("t", "parent"))
    assert await world.look() == await_change()
    assert ((await world.state())["state"], world.statuses.asked) == ("Pending", 0)


@pytest.mark.parametrize("earlier", [True, False])
async def test_a_workload_waits_for_its_jobset_to_be_seen(world: World, *, earlier: bool) -> None:
    await world.queued(entry("gang"), seen=False)
    if earlier:
        raw = jobset("js", rj("w", 1, 4, 4, mode="Gang"), uid=FIXTURE_UID)
        world.jobsets.seen["t", "js"] = read_jobset(raw)[0]
    assert await world.look() == await_change()
    assert (await world.state())["state"] == "Pending"


async def test_an_inactive_check_stays_pending(world: World) -> None:
    await world.check("broken", parameters={"apiGroup": "example.com", "kind": "X", "name": "x"})
    await world.queued(entry("broken"))
    assert await world.look() == await_change()
    assert (await world.state("broken"))["state"] == "Pending"
    assert world.loop.awaits(next(iter(world.jobsets.seen.values()))), "its gang is made all the same"


async def test_a_waiting_workload_is_checked_again_before_its_timeout(world: World) -> None:
    await world.queued(entry("gang"))
    world.statuses.now = UNDER_WAY
    action = await timed(world, [datetime.now(UTC)]).reconcile(("t", "wl"))
    assert action.after_seconds is not None
    assert 0 < action.after_seconds <= 5
    assert (await world.state())["message"] == ""


async def test_time_without_a_running_gangctl_does_not_count(world: World) -> None:
    await world.queued(entry("gang"))
    world.statuses.now = UNDER_WAY
    # The reservation is years old, and this process has just begun to lead.
    await seen_for(world, 0)
    assert (await world.state())["state"] == "Pending"
    await seen_for(world, 61)
    assert (await world.state())["state"] == "Retry"


async def test_a_clock_ahead_of_kueues_ends_no_timeout(world: World) -> None:
    await world.queued(entry("gang"))
    world.statuses.now = UNDER_WAY
    reserved = datetime.fromisoformat(SINCE)
    times = [reserved - timedelta(hours=1)]
    loop = timed(world, times)
    for seconds, state in ((600, "Pending"), (659, "Pending"), (660, "Retry")):
        times.append(reserved + timedelta(seconds=seconds))
        await loop.reconcile(("t", "wl"))
        found = await world.workload()
        await world.seen(found)
        assert (seconds, (await world.state())["state"]) == (seconds, state)


async def test_a_changed_message_is_no_transition(world: World) -> None:
    await world.queued(entry("gang"))
    world.statuses.now = UNDER_WAY
    await seen_for(world, 10)
    found = await world.state()
    assert (found["state"], found["lastTransitionTime"]) == ("Pending", entry("gang")["lastTransitionTime"])
    assert found["message"].startswith("not yet")


def timed(world: World, times: Sequence[datetime]) -> WorkloadChecks:
    """A loop that begins at the last of these times, which are its clock."""
    return WorkloadChecks(
        world.client,
        world.workloads.store,
        world.activity,
        world.jobsets,  # type: ignore[arg-type]  # finds one by its key
        statuses=world.statuses,  # type: ignore[arg-type]  # the one question that is asked
        record=lambda _jobset, _notice: None,
        now=lambda: times[-1],
        jitter=lambda: 0.0,
    )


async def seen_for(world: World, seconds: float) -> None:
    """A loop begins now, sees the Workload, and again after so many seconds."""
    times = [datetime.now(UTC)]
    loop = timed(world, times)
    await loop.reconcile(("t", "wl"))
    times.append(times[0] + timedelta(seconds=seconds))
    await loop.reconcile(("t", "wl"))


async def test_an_event_lost_in_a_crash_is_recorded_by_the_next_process(world: World) -> None:
    await world.queued(entry("gang"))
    await world.look()
    world.events.clear()
    await world.look()
    assert world.events == []
    world.process()
    await world.look()
    assert world.events == [("js", "AdmissionCheckReady")]


async def test_old_transitions_are_not_recorded_again(world: World) -> None:
    await world.queued(entry("gang"))
    await world.look()
    (reported,) = (await world.workload())["status"]["admissionChecks"]
    await world.as_kueue(admissionChecks=[{**reported, "lastTransitionTime": "2026-01-01T00:00:00Z"}])
    world.events.clear()
    world.process()
    await world.look()
    assert world.events == []


async def test_a_deleted_workload_is_ignored(world: World) -> None:
    assert await world.loop.reconcile(("t", "nobody")) == Action()
    await world.queued(entry("gang"))
    await world.client.delete(QUEUED_WORKLOADS, "wl", "t")
    assert (await world.loop.reconcile(("t", "wl"))).after_seconds is None
