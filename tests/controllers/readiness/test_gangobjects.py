"""Gang objects have the reported readiness and are rate-limited; all in virtual time, against a sandbox."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest
from structlog.testing import capture_logs

from gangctl.errors import LeadershipLostError
from gangctl.readiness.report import gang_status
from gangctl.readiness.result import GangPhase
from gangctl.runtime.informer import InformerOptions
from gangctl.sandbox.api import SYSTEM, DeleteOptions
from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.store import StoredChange
from tests.controllers.readiness.gangcontext import (
    DEFINITIONS,
    GANGS,
    LONG_SECONDS,
    Context,
    Object,
    at,
    because,
    play,
)
from tests.controllers.stage import NAMESPACE, USER
from tests.rows import each
from tests.sandbox.faults import Delay, ExpireWatch, Match, Refuse, Silence, conflict


def test_a_gang_object_is_created_and_deleted_with_its_jobset() -> None:
    async def acts(context: Context) -> None:
        first = await context.jobset()
        async with context.running() as objects:
            objects.on_status_change(None, first)
            await asyncio.sleep(5)
            gang = await context.gang()
            assert gang is not None
            assert gang["status"] == gang_status(first)
            (owner,) = gang["metadata"]["ownerReferences"]
            assert owner == {
                "apiVersion": "jobset.x-k8s.io/v1alpha2",
                "kind": "JobSet",
                "name": "js",
                "uid": first.uid,
                "controller": True,
                "blockOwnerDeletion": False,
            }
            assert context.writes() == ["create", "patch status"]
            await context.delete_jobset()
            objects.on_status_change(first, None)
            await asyncio.sleep(LONG_SECONDS)
            assert await context.gang() is None
        assert context.writes() == ["create", "patch status"], "the garbage collector has done the rest"

    play(acts)


def test_the_last_of_many_changes_is_written_once_a_second() -> None:
    async def acts(context: Context) -> None:
        before = await context.jobset()
        loop = asyncio.get_running_loop()
        written: list[float] = []

        def note(resource: str, change: StoredChange) -> None:
            del change
            if resource == GANGS:
                written.append(loop.time())

        context.api.store.listen(note)
        async with context.running() as objects:
            objects.on_status_change(None, before)
            await asyncio.sleep(2)
            written.clear()
            began = loop.time()
            for number in range(100):
                now = at(before, GangPhase.PARTIALLY_READY, ready=number % 7)
                objects.on_status_change(before, now)
                before = now
                await asyncio.sleep(0.1)
            await asyncio.sleep(LONG_SECONDS)
            gang = await context.gang()
            assert gang is not None
            assert gang["status"] == gang_status(before) | {"conditions": gang["status"]["conditions"]}
        # Ten seconds of changes, each write a second after the one before it was sent.
        assert 8 <= len(written) <= 12
        assert written[-1] - began <= 15

    play(acts)


def test_causes_alone_are_written_every_ten_seconds_and_a_phase_does_not_wait_for_them() -> None:
    async def acts(context: Context) -> None:
        first = at(await context.jobset(), GangPhase.UNSCHEDULABLE)
        async with context.running() as objects:
            objects.on_status_change(None, first)
            await asyncio.sleep(2)
            count = len(context.writes())
            for number in range(20):
                objects.on_status_change(first, because(first, f"look {number}"))
                await asyncio.sleep(0.25)
            assert len(context.writes()) == count
            await asyncio.sleep(5)
            assert len(context.writes()) == count + 1
            gang = await context.gang()
            assert gang is not None
            assert gang["status"]["message"] == "look 19"
            objects.on_status_change(first, because(first, "again"))
            await asyncio.sleep(2)
            assert len(context.writes()) == count + 1
            objects.on_status_change(first, at(first, GangPhase.READY, 8))
            await asyncio.sleep(0.5)
            assert await context.phase() == "Ready"

    play(acts)


def test_an_unchanged_status_is_not_written_again() -> None:
    async def acts(context: Context) -> None:
        stands = [at(await context.jobset(f"js-{n}"), GangPhase.PARTIALLY_READY, n) for n in range(5)]
        async with context.running() as objects:
            for each in stands:
                objects.on_status_change(None, each)
            await asyncio.sleep(5)
            count = len(context.writes())
            for each in stands:
                objects.on_status_change(each, dataclasses.replace(each, look_again=5.0))
            await asyncio.sleep(LONG_SECONDS)
            assert len(context.writes()) == count == 10
        async with context.running() as objects:
            # A gangctl that has just started may not know since when it is so.
            for each in stands:
                objects.on_status_change(None, dataclasses.replace(each, since=each.since + 1000))
            await asyncio.sleep(LONG_SECONDS)
            assert len(context.writes()) == count
            gang = await context.gang("js-1")
            assert gang is not None
            assert gang["status"]["since"] == gang_status(stands[1])["since"]
            objects.on_status_change(None, at(stands[1], GangPhase.READY, 8))
            await asyncio.sleep(2)
            assert len(context.writes()) == count + 1

    play(acts)


def test_a_replica_without_leadership_writes_nothing_and_continues_when_it_leads() -> None:
    async def acts(context: Context) -> None:
        first = await context.jobset()
        async with context.running() as objects:
            objects.on_status_change(None, first)
            await asyncio.sleep(5)
            objects.on_status_change(first, None)
            await asyncio.sleep(LONG_SECONDS)
        context.leads = False
        task = asyncio.create_task(objects.run())
        objects.on_status_change(None, at(first, GangPhase.READY, 8))
        with pytest.raises(LeadershipLostError):
            await task
        assert context.writes() == ["create", "patch status"]
        context.leads = True
        task = asyncio.create_task(objects.run())
        objects.on_status_change(None, at(first, GangPhase.DEGRADED, 7))
        await asyncio.sleep(5)
        assert await context.phase() == "Degraded"
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    play(acts)


def test_ready_keeps_the_time_of_its_transition() -> None:
    async def acts(context: Context) -> None:
        first = await context.jobset()
        times = []
        phases = (GangPhase.PENDING, GangPhase.STARTING, GangPhase.READY, GangPhase.DEGRADED)
        async with context.running() as objects:
            for number, phase in enumerate(phases):
                objects.on_status_change(None, dataclasses.replace(first, phase=phase, since=first.since + number))
                await asyncio.sleep(5)
                gang = await context.gang()
                assert gang is not None
                (condition,) = gang["status"]["conditions"]
                assert condition["reason"] == gang["status"]["phase"] == phase
                times.append((condition["status"], condition["lastTransitionTime"][-3:-1]))
        assert times == [("False", "20"), ("False", "20"), ("True", "22"), ("False", "23")]

    play(acts)


def test_changes_by_others_are_reverted() -> None:
    async def acts(context: Context) -> None:
        first = await context.jobset()
        kind = context.api.kind(GANGS)
        async with context.running() as objects:
            objects.on_status_change(None, first)
            await asyncio.sleep(5)
            lie = {"status": {"phase": "Ready"}}
            await context.api.patch(kind, NAMESPACE, "js", lie, "merge", SYSTEM, subresource="status")
            await asyncio.sleep(5)
            assert await context.phase() == "Pending"
            label = {"metadata": {"labels": {"team": "ml"}}}
            await context.api.patch(kind, NAMESPACE, "js", label, "merge", SYSTEM)
            objects.on_status_change(first, at(first, GangPhase.READY, 8))
            await asyncio.sleep(5)
            gang = await context.gang()
            assert gang is not None
            assert gang["status"]["phase"] == "Ready"
            assert gang["metadata"]["labels"]["team"] == "ml"
            await context.api.delete(kind, NAMESPACE, "js", SYSTEM, DeleteOptions())
            await asyncio.sleep(5)
            assert await context.phase() == "Ready"

    play(acts)


@pytest.mark.parametrize("owned", [False, True])
def test_a_foreign_object_is_left_alone_and_reported_once(owned: bool) -> None:
    async def acts(context: Context) -> None:
        first, other = await context.jobset(), await context.jobset("other")
        owner = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "other", "uid": other.uid}
        foreign: Object = {"metadata": {"name": "js", "labels": {"app.kubernetes.io/managed-by": "gangctl"}}}
        if owned:
            foreign["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
        foreign = {"apiVersion": "gangctl.dev/v1alpha1", "kind": "Gang", **foreign}
        made = await context.api.create(context.api.kind(GANGS), NAMESPACE, foreign, SYSTEM)
        async with context.running() as objects:
            for number in range(5):
                objects.on_status_change(None, at(first, GangPhase.PARTIALLY_READY, number))
                await asyncio.sleep(LONG_SECONDS)
            context.unfollowed.add("js")
            objects.on_status_change(first, None)
            await asyncio.sleep(LONG_SECONDS)
            assert await context.gang() == made
            assert context.writes() == []
            assert context.errors.kinds == ["OwnershipConflictError"]
            context.unfollowed.clear()
            objects.on_status_change(None, first)
            await context.api.delete(context.api.kind(GANGS), NAMESPACE, "js", SYSTEM, DeleteOptions())
            await asyncio.sleep(5)
            assert await context.phase() == "Pending"

    play(acts)


def test_a_foreign_object_that_replaced_ours_unseen_is_left_alone() -> None:
    async def acts(context: Context) -> None:
        first, kind = await context.jobset(), context.api.kind(GANGS)
        context.sandbox.faults.add(Match(USER, frozenset({"watch"}), GANGS), Silence())
        async with context.running() as objects:
            objects.on_status_change(None, first)
            await asyncio.sleep(5)
            await context.api.delete(kind, NAMESPACE, "js", SYSTEM, DeleteOptions())
            foreign: Object = {"apiVersion": "gangctl.dev/v1alpha1", "kind": "Gang", "metadata": {"name": "js"}}
            made = await context.api.create(kind, NAMESPACE, foreign, SYSTEM)
            objects.on_status_change(first, at(first, GangPhase.READY, 8))
            await asyncio.sleep(LONG_SECONDS)
            assert await context.gang() == made
            assert context.errors.kinds == ["OwnershipConflictError"]

    play(acts)


@pytest.mark.parametrize("unseen", [False, True])
def test_a_jobset_gets_its_object_after_that_of_an_earlier_one(unseen: bool) -> None:
    """A watch that stops, and has expired when it begins again, shows neither gangctl's write nor the deletion."""

    async def acts(context: Context) -> None:
        first, watches = await context.jobset(), Match(USER, frozenset({"watch"}), GANGS)
        if unseen:
            context.sandbox.faults.add(watches, Silence())
            context.sandbox.faults.add(watches, ExpireWatch(), first=2)
        async with context.running() as objects:
            objects.on_status_change(None, first)
            await asyncio.sleep(5)
            await context.delete_jobset()
            if unseen:
                objects.on_status_change(first, None)
                await asyncio.sleep(LONG_SECONDS)
                assert await context.gang() is None
            second = await context.jobset()
            objects.on_status_change(first, None)
            objects.on_status_change(None, second)
            await asyncio.sleep(30)
            gang = await context.gang()
            assert gang is not None
            assert gang["metadata"]["ownerReferences"][0]["uid"] == second.uid
            assert context.errors.kinds == []

    play(acts)


@each("restarted", ["", "after the JobSets are known", "before the JobSets are known"])
def test_the_object_of_a_jobset_without_a_gang_is_deleted(restarted: str) -> None:
    async def acts(context: Context) -> None:
        first, stays = await context.jobset(), await context.jobset("stays")
        async with context.running() as objects:
            objects.on_status_change(None, first)
            objects.on_status_change(None, stays)
            await asyncio.sleep(5)
            if not restarted:
                context.unfollowed.add("js")
                objects.on_status_change(first, None)
                await asyncio.sleep(5)
        if restarted:
            context.unfollowed.add("js")
            known = dict(context.cache)
            if restarted.startswith("before"):
                context.cache.clear()
            async with context.running() as objects:
                await asyncio.sleep(5)
                for key, each in known.items():
                    context.cache[key] = each
                    objects.jobset_changed(key)
                await asyncio.sleep(5)
        assert await context.gang() is None
        assert await context.gang("stays") is not None
        assert context.writes().count("delete") == 1

    play(acts)


def test_the_object_of_a_jobset_without_a_gang_is_deleted_after_a_list_of_several_pages() -> None:
    """It is seen before the list is complete, and nothing is written until then."""

    async def acts(context: Context) -> None:
        async with context.running() as objects:
            for name in ("js", "stays"):
                objects.on_status_change(None, await context.jobset(name))
            await asyncio.sleep(5)
        context.unfollowed.add("js")
        context.sandbox.faults.add(Match(USER, frozenset({"list"}), GANGS), Delay(1.0), times=2)
        async with context.running() as objects:
            objects.informer._options = InformerOptions(page_size=1)
            await asyncio.sleep(5)
        assert await context.gang() is None
        assert await context.gang("stays") is not None

    play(acts)


def test_a_missing_definition_is_logged_once_and_checked_again() -> None:
    async def acts(context: Context) -> None:
        first = await context.jobset()
        with capture_logs() as recorded:
            async with context.running() as objects:
                objects.on_status_change(None, first)
                await asyncio.sleep(LONG_SECONDS)
                assert context.writes() == []
                await context.define()
                await asyncio.sleep(60)
                assert await context.phase() == "Pending"
                await context.api.delete(
                    context.api.kind(DEFINITIONS), "", "gangs.gangctl.dev", SYSTEM, DeleteOptions()
                )
                objects.on_status_change(first, at(first, GangPhase.READY, 8))
                await asyncio.sleep(LONG_SECONDS)
                await context.define()
                await asyncio.sleep(60)
                assert await context.phase() == "Ready"
        reported = [each for each in recorded if each["event"].startswith("no Gang objects")]
        assert len(reported) == 2, "once each time that it is not there"

    play(acts, defined=False)


def refuse(code: int, reason: str) -> Refuse:
    return Refuse(StatusError(code, reason, f"no: {reason}"))


@each("verb", ["create", "patch"])
@each(
    "fault",
    [conflict(), refuse(403, "Forbidden"), refuse(404, "NotFound"), refuse(422, "Invalid"), refuse(503, "Unavailable")],
    ids=lambda fault: fault.error.reason,
)
def test_refused_writes_are_retried(verb: str, fault: Refuse) -> None:
    async def acts(context: Context) -> None:
        context.sandbox.faults.add(Match(USER, frozenset({verb}), GANGS), fault, times=20)
        stands = [await context.jobset(f"js-{n}") for n in range(10)]
        with capture_logs() as recorded:
            async with context.running() as objects:
                for each in stands:
                    objects.on_status_change(None, each)
                await asyncio.sleep(LONG_SECONDS)
                assert {await context.phase(each.name) for each in stands} == {"Pending"}
        reported = [each for each in recorded if each["event"] == "Gang objects cannot be written"]
        assert len(reported) == (1 if fault.error.code in {403, 422} else 0)
        assert len(context.writes()) <= 20 + 30

    play(acts)


def test_nothing_is_written_into_a_terminating_namespace() -> None:
    async def acts(context: Context) -> None:
        first = await context.jobset()
        error = StatusError(403, "Forbidden", "it ends", details={"causes": [{"reason": "NamespaceTerminating"}]})
        context.sandbox.faults.add(Match(USER, frozenset({"create"}), GANGS), Refuse(error), times=100)
        async with context.running() as objects:
            objects.on_status_change(None, first)
            await asyncio.sleep(LONG_SECONDS)
            assert context.writes() == ["create"]

    play(acts)
