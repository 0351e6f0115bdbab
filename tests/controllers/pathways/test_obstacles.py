"""Obstacles between a PathwaysJob and its JobSet: taken names, refusals, faults and stale reads."""

from __future__ import annotations

import asyncio

import pytest

from gangctl.pathways.words import OPTIONS
from gangctl.sandbox import errors
from gangctl.sandbox.errors import StatusError
from tests.controllers.pathways.ground import (
    CREATES,
    JOBS,
    JOBSETS,
    LONG_SECONDS,
    STATUSES,
    Context,
    play,
)
from tests.controllers.stage import NAMESPACE, USER
from tests.rows import each
from tests.sandbox.faults import CutAfter, Match, Refuse, Silence, Stale, conflict, error

DENIAL = StatusError(403, "Forbidden", 'admission webhook "w.example.com" denied the request: not on Sundays')


def test_a_foreign_jobset_of_the_name_is_left_alone_until_it_is_deleted() -> None:
    async def acts(context: Context) -> None:
        theirs = await context.foreign()
        async with context.running():
            await context.submit()
            await asyncio.sleep(LONG_SECONDS)
            assert await context.phase() == "Failed: NameConflict"
            assert "terminalState" not in await context.status()
            assert await context.jobset() == theirs
            assert context.reasons == ["NameConflict"]
            assert context.writes() == ["patch pathwaysjobs/status"]
            # Not at the moment of its regular check.
            await asyncio.sleep(10)
            await context.delete(kind=JOBSETS)
            context.controller.jobset_changed((NAMESPACE, "pw"))
            await asyncio.sleep(1)
            assert await context.phase() == "Pending: WaitingForHead"

    play(acts)


def test_a_foreign_jobset_whose_deletion_was_missed_does_not_block() -> None:
    async def acts(context: Context) -> None:
        await context.foreign()
        async with context.running():
            await context.submit()
            await asyncio.sleep(1)
            await context.delete(kind=JOBSETS)
            await asyncio.sleep(60)
            assert await context.phase() == "Pending: WaitingForHead"

    play(acts)


def test_the_jobset_of_an_earlier_job_of_this_name_is_no_conflict() -> None:
    async def acts(context: Context) -> None:
        async with context.running():
            await context.submit()
            await asyncio.sleep(1)
            await context.edit({"metadata": {"finalizers": ["example.com/keep"]}}, kind=JOBSETS)
            await context.delete()
            await asyncio.sleep(5)
            await context.submit()
            await asyncio.sleep(5)
            assert await context.phase() == ""
            await context.edit({"metadata": {"finalizers": []}}, kind=JOBSETS)
            await asyncio.sleep(5)
            assert await context.phase() == "Pending: WaitingForHead"
            assert "NameConflict" not in context.reasons

    play(acts)


def test_an_invalid_pathwaysjob_waits_for_a_change() -> None:
    async def acts(context: Context) -> None:
        async with context.running():
            await context.submit(controller={"elasticSlices": 2})
            await asyncio.sleep(LONG_SECONDS)
            assert await context.phase() == "Failed: InvalidElasticSlices"
            assert "terminalState" not in await context.status()
            assert context.reasons == ["InvalidSpec"]
            assert context.writes() == ["patch pathwaysjobs/status"]
            await context.edit(
                {"spec": {"controller": {"elasticSlices": 1}}, "metadata": {"annotations": {OPTIONS: "{"}}}
            )
            await asyncio.sleep(1)
            assert await context.phase() == "Failed: InvalidOptions"
            await context.edit({"metadata": {"annotations": {OPTIONS: None}}})
            await asyncio.sleep(1)
            assert await context.phase() == "Pending: WaitingForHead"

    play(acts)


def test_a_denial_is_reported_and_cleared_when_it_ends() -> None:
    async def acts(context: Context) -> None:
        denials = context.sandbox.faults.add(CREATES, Refuse(DENIAL), times=10**6)
        async with context.running():
            await context.submit()
            await asyncio.sleep(LONG_SECONDS)
            assert await context.phase() == "Failed: AdmissionDenied"
            status = await context.status()
            assert "terminalState" not in status
            assert any("not on Sundays" in each["message"] for each in status["conditions"])
            assert context.reasons == ["AdmissionDenied"]
            assert 10 < denials.fired < 30
            context.sandbox.faults.clear()
            await asyncio.sleep(150)
            assert await context.phase() == "Pending: WaitingForHead"
        assert context.writes().count("patch pathwaysjobs/status") == 2

    play(acts)


def test_denials_with_changing_messages_are_retried_with_growing_delays() -> None:
    async def acts(context: Context) -> None:
        for number in range(1000):
            words = StatusError(403, "Forbidden", f"exceeded quota: used {number}")
            context.sandbox.faults.add(CREATES, Refuse(words), first=number + 1)
        async with context.running():
            await context.submit()
            await asyncio.sleep(LONG_SECONDS)
            assert context.writes().count("create jobsets") < 30

    play(acts)


@each(
    ("answer", "phase"),
    [
        (StatusError(403, "Forbidden", 'User "u" cannot create resource "jobsets"'), "Pending: JobSetCreateFailed"),
        (StatusError(422, "Invalid", "JobSet is invalid: spec.x: Invalid value"), "Failed: JobSetCreateFailed"),
    ],
)
def test_other_refusals_are_reported_and_retried(answer: StatusError, phase: str) -> None:
    async def acts(context: Context) -> None:
        context.sandbox.faults.add(CREATES, Refuse(answer), times=5)
        async with context.running(0):
            await context.submit()
            await asyncio.sleep(0.3)
            assert await context.phase() == phase
            assert context.reasons == ["JobSetCreateFailed"]
            await asyncio.sleep(60)
            assert await context.phase() == "Pending: WaitingForHead"

    play(acts)


# As gangctl's own webhook answers right after its start.
UNREADY = StatusError(503, "ServiceUnavailable", 'admission webhook "w" denied the request: try again in a few seconds')


@each("fault", [error(), error(503, "ServiceUnavailable"), Refuse(UNREADY), CutAfter(), conflict()])
def test_transient_errors_are_retried_and_not_reported(fault: Refuse | CutAfter) -> None:
    async def acts(context: Context) -> None:
        context.sandbox.faults.add(CREATES, fault, times=2)
        async with context.running():
            await context.submit()
            await asyncio.sleep(60)
            assert await context.phase() == "Pending: WaitingForHead"
            status = await context.status()
            assert {each["reason"] for each in status["conditions"]} == {"WaitingForHead"}
        assert context.reasons.count("JobSetCreated") == 1
        assert "AdmissionDenied" not in context.reasons

    play(acts)


@each("resource", [JOBSETS, JOBS])
def test_a_jobset_that_cannot_be_read_is_not_treated_as_absent(resource: str) -> None:
    async def acts(context: Context) -> None:
        context.sandbox.faults.add(Match(USER, frozenset({"get"}), resource), error(), times=4)
        async with context.running(0):
            await context.submit()
            await asyncio.sleep(0.3)
            assert await context.jobset() is None
            assert "create jobsets" not in context.writes()
            await asyncio.sleep(60)
            assert await context.jobset() is not None

    play(acts)


@pytest.mark.parametrize("fault", [conflict(), error(), CutAfter()])
def test_a_failed_status_write_is_repeated(fault: Refuse | CutAfter) -> None:
    async def acts(context: Context) -> None:
        context.sandbox.faults.add(STATUSES, fault, times=3)
        async with context.running():
            await context.submit()
            await asyncio.sleep(60)
            assert await context.phase() == "Pending: WaitingForHead"
            assert context.writes().count("create jobsets") == 1
        assert context.reasons.count("JobSetCreated") == 1

    play(acts)


def test_a_status_lost_in_a_crash_is_written_by_the_next_process() -> None:
    async def acts(context: Context) -> None:
        context.sandbox.faults.add(STATUSES, error(), times=10**6)
        async with context.running():
            await context.submit()
            await asyncio.sleep(1)
        recorded = list(context.recorded)
        assert await context.phase() == ""
        context.sandbox.faults.clear()
        async with context.running():
            assert await context.phase() == "Pending: WaitingForHead"
            assert context.recorded == recorded
        assert context.writes().count("create jobsets") == 1

    play(acts)


@pytest.mark.parametrize("resource", [JOBS, JOBSETS])
def test_a_stale_read_is_repeated(resource: str) -> None:
    async def acts(context: Context) -> None:
        await context.namespace("older")
        await context.submit()
        context.sandbox.faults.add(Match(USER, frozenset({"get"}), resource), Stale(1), times=6)
        async with context.running(60):
            assert await context.phase() == "Pending: WaitingForHead"
            assert context.writes().count("create jobsets") == 1

    play(acts)


@each("way", ["is deleted", "is being deleted", "has ended"])
def test_the_api_server_is_read_before_a_jobset_is_recreated(way: str) -> None:
    """The deletion of the JobSet arrives first: it went with its PathwaysJob, or another replica recorded its end."""

    async def acts(context: Context) -> None:
        watches = Match(USER, frozenset({"watch"}), JOBS)
        context.sandbox.faults.add(watches, Silence(2))
        async with context.running():
            await context.submit(metadata={"finalizers": ["example.com/keep"]} if way == "is being deleted" else {})
            await asyncio.sleep(1)
            if way == "has ended":
                await context.edit({"status": {"terminalState": "Completed"}}, subresource="status")
                await context.delete(kind=JOBSETS)
            else:
                await context.delete()
                await context.delete(kind=JOBSETS)
            await asyncio.sleep(LONG_SECONDS)
            assert context.writes().count("create jobsets") == 1

    play(acts)


def test_no_event_is_recorded_in_a_terminating_namespace() -> None:
    async def acts(context: Context) -> None:
        going = errors.namespace_terminating(context.api.kind(JOBSETS), "pw", NAMESPACE)
        refusals = context.sandbox.faults.add(CREATES, Refuse(going), times=10**6)
        async with context.running():
            await context.submit()
            await asyncio.sleep(LONG_SECONDS)
            assert 0 < refusals.fired < 30
            assert await context.phase() == ""
            assert context.recorded == []

    play(acts)
