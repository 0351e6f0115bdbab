"""What stands between a PathwaysJob and its JobSet: names that are taken, refusals, faults and old answers."""

from __future__ import annotations

import asyncio

import pytest

from gangctl.pathways.words import OPTIONS
from gangctl.sandbox import errors
from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.faults import CutAfter, Match, Refuse, Silence, Stale, conflict, error
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

DENIAL = StatusError(403, "Forbidden", 'admission webhook "w.example.com" denied the request: not on Sundays')


def test_a_foreign_jobset_is_left_alone_until_it_is_gone() -> None:
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
            # Not at the moment at which it would look anyway.
            await asyncio.sleep(10)
            await context.delete(kind=JOBSETS)
            context.controller.jobset_changed((NAMESPACE, "pw"))
            await asyncio.sleep(1)
            assert await context.phase() == "Pending: WaitingForHead"

    play(acts)


def test_a_foreign_jobset_that_goes_unseen_is_not_waited_for_for_ever() -> None:
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


def test_what_is_invalid_waits_for_something_else() -> None:
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


def test_a_denial_is_told_and_passes_with_its_cause() -> None:
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


def test_denials_in_other_words_each_time_are_no_reason_to_hurry() -> None:
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
def test_what_is_refused_otherwise_is_told_and_tried_again(answer: StatusError, phase: str) -> None:
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


@each("fault", [error(), error(503, "ServiceUnavailable"), CutAfter(), conflict()])
def test_what_passes_is_tried_again_and_is_no_failure(fault: Refuse | CutAfter) -> None:
    async def acts(context: Context) -> None:
        context.sandbox.faults.add(CREATES, fault, times=2)
        async with context.running():
            await context.submit()
            await asyncio.sleep(60)
            assert await context.phase() == "Pending: WaitingForHead"
            status = await context.status()
            assert {each["reason"] for each in status["conditions"]} == {"WaitingForHead"}
        assert context.reasons.count("JobSetCreated") == 1

    play(acts)


@each("resource", [JOBSETS, JOBS])
def test_what_cannot_be_read_is_not_taken_for_absent(resource: str) -> None:
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
def test_a_status_that_is_not_written_is_written_later(fault: Refuse | CutAfter) -> None:
    async def acts(context: Context) -> None:
        context.sandbox.faults.add(STATUSES, fault, times=3)
        async with context.running():
            await context.submit()
            await asyncio.sleep(60)
            assert await context.phase() == "Pending: WaitingForHead"
            assert context.writes().count("create jobsets") == 1
        assert context.reasons.count("JobSetCreated") == 1

    play(acts)


def test_a_gangctl_that_died_between_jobset_and_status_has_it_told_by_the_next() -> None:
    async def acts(context: Context) -> None:
        context.sandbox.faults.add(STATUSES, error(), times=10**6)
        async with context.running():
            await context.submit()
            await asyncio.sleep(1)
        said = list(context.said)
        assert await context.phase() == ""
        context.sandbox.faults.clear()
        async with context.running():
            assert await context.phase() == "Pending: WaitingForHead"
            assert context.said == said
        assert context.writes().count("create jobsets") == 1

    play(acts)


@pytest.mark.parametrize("resource", [JOBS, JOBSETS])
def test_an_old_answer_is_asked_for_again(resource: str) -> None:
    async def acts(context: Context) -> None:
        await context.namespace("older")
        await context.submit()
        context.sandbox.faults.add(Match(USER, frozenset({"get"}), resource), Stale(1), times=6)
        async with context.running(60):
            assert await context.phase() == "Pending: WaitingForHead"
            assert context.writes().count("create jobsets") == 1

    play(acts)


@each("way", ["is deleted", "is being deleted", "has ended"])
def test_what_its_watch_has_not_told_is_looked_at_before_a_jobset_is_created_again(way: str) -> None:
    """The JobSet's end is heard of first: it went with its PathwaysJob, or another replica knows how it ended."""

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


def test_nothing_is_told_in_a_namespace_that_is_going() -> None:
    async def acts(context: Context) -> None:
        going = errors.namespace_terminating(context.api.kind(JOBSETS), "pw", NAMESPACE)
        refusals = context.sandbox.faults.add(CREATES, Refuse(going), times=10**6)
        async with context.running():
            await context.submit()
            await asyncio.sleep(LONG_SECONDS)
            assert 0 < refusals.fired < 30
            assert await context.phase() == ""
            assert context.said == []

    play(acts)
