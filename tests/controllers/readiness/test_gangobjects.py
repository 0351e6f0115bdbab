"""Gang objects say what was told, not more often than they may; all in virtual time, against a sandbox."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from gangctl.api.jobset import JobSet
from gangctl.client.client import Client, Settings
from gangctl.client.credentials import StaticCredentials
from gangctl.client.transport import Transport, TransportOptions
from gangctl.controllers.projections import project_jobset
from gangctl.controllers.readiness.definition import definitions
from gangctl.controllers.readiness.gangcopies import digest
from gangctl.controllers.readiness.gangobjects import GangObjects
from gangctl.errors import LeadershipLostError
from gangctl.gang.reasons import Reason
from gangctl.readiness.phases import GangPhase
from gangctl.readiness.report import gang_status
from gangctl.readiness.result import Cause, Counts, Readiness
from gangctl.runtime.controller import ControllerObserver
from gangctl.sandbox.api import SYSTEM, DeleteOptions
from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.faults import Match, Refuse, Silence, conflict
from gangctl.sandbox.server import Sandbox, SandboxOptions
from gangctl.sandbox.store import Change
from tests.faults import virtual_time
from tests.jobsets import jobset, rj

Object = dict[str, Any]
USER = "gangctl"
NAMESPACE = "t"
GANGS = "gangs.gangctl.dev"
DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
NAMESPACES = "namespaces"
JOBSETS = "jobsets.jobset.x-k8s.io"
LONG_SECONDS = 600.0
"""Longer than every back-off."""


class Errors(ControllerObserver):
    """Counts errors by their class."""

    def __init__(self) -> None:
        self.kinds: list[str] = []

    def failed(self, kind: str) -> None:
        self.kinds.append(kind)


class Scene:
    """A sandbox, JobSets in it, and Gang objects that are written by whoever leads."""

    def __init__(self, sandbox: Sandbox, client: Client) -> None:
        self.sandbox = sandbox
        self.api = sandbox.api
        self.client = client
        self.cache: dict[tuple[str, str], JobSet] = {}
        self.unfollowed: set[str] = set()
        self.errors = Errors()
        self.leads = True
        self.objects = self._make()

    def _make(self) -> GangObjects:
        def guard() -> None:
            if not self.leads:
                raise LeadershipLostError("another one leads")

        return GangObjects(
            self.client,
            Client(self.client._transport, Settings(guard=guard)),
            jobset=self.cache.get,
            follows=lambda each: each.name not in self.unfollowed,
            controller_observer=self.errors,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[GangObjects]:
        """A gangctl that has just begun to lead, and one that knows nothing of those before it."""
        self.objects = self._make()
        task = asyncio.create_task(self.objects.run())
        try:
            yield self.objects
            await asyncio.sleep(0)
            assert not task.done()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def define(self) -> None:
        (body,) = definitions().values()
        await self.api.create(self.api.kind(DEFINITIONS), "", body, SYSTEM)

    async def jobset(self, name: str = "js") -> Readiness:
        """Create a JobSet; where it stands at first."""
        raw = jobset(name, rj("w", 1, 8, 8, mode="Gang"), namespace=NAMESPACE)
        raw["metadata"].pop("uid", None)
        created = await self.api.create(self.api.kind(JOBSETS), NAMESPACE, raw, SYSTEM)
        self.cache[NAMESPACE, name] = project_jobset(created)
        uid = str(created["metadata"]["uid"])
        return Readiness(NAMESPACE, name, uid, GangPhase.PENDING, 1_700_000_000, Counts(8, 8, 8), ())

    async def delete_jobset(self, name: str = "js") -> None:
        self.cache.pop((NAMESPACE, name), None)
        await self.api.delete(self.api.kind(JOBSETS), NAMESPACE, name, SYSTEM, DeleteOptions(propagation="Background"))

    async def gang(self, name: str = "js") -> Object | None:
        try:
            return await self.api.get(self.api.kind(GANGS), NAMESPACE, name)
        except StatusError:
            return None

    async def phase(self, name: str = "js") -> str:
        gang = await self.gang(name)
        return str((gang or {}).get("status", {}).get("phase", ""))

    def writes(self) -> list[str]:
        """What gangctl wrote: ``create``, ``patch status``, ``delete``."""
        return [f"{each.verb} {each.subresource}".strip() for each in self.sandbox.audit.writes_by(USER)]


Play = Callable[[Scene], Awaitable[None]]


def play(acts: Play, *, defined: bool = True) -> None:
    """Run a test in virtual time."""

    async def main() -> None:
        async with Sandbox(SandboxOptions(tls=False)) as sandbox:
            credentials = StaticCredentials(sandbox.url, token=sandbox.token(USER))
            async with Transport(credentials, TransportOptions(attempts=1)) as transport:
                scene = Scene(sandbox, Client(transport))
                namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
                await scene.api.create(scene.api.kind(NAMESPACES), "", namespace, SYSTEM)
                if defined:
                    await scene.define()
                    await asyncio.sleep(1)
                await acts(scene)

    virtual_time.run(main())


def at(before: Readiness, phase: GangPhase, ready: int = 0, **changes: Any) -> Readiness:
    """The same a second later, in another phase."""
    counts = Counts(8, 8, 8, 8, 8, ready)
    return dataclasses.replace(before, phase=phase, since=before.since + 1, counts=counts, **changes)


def because(before: Readiness, message: str) -> Readiness:
    return dataclasses.replace(before, causes=(Cause(Reason.UNSCHEDULABLE, message, since=before.since),))


def test_one_is_made_for_a_jobset_and_goes_with_it() -> None:
    async def acts(scene: Scene) -> None:
        first = await scene.jobset()
        async with scene.running() as objects:
            objects.stands(None, first)
            await asyncio.sleep(5)
            gang = await scene.gang()
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
            assert scene.writes() == ["create", "patch status"]
            await scene.delete_jobset()
            objects.stands(first, None)
            await asyncio.sleep(LONG_SECONDS)
            assert await scene.gang() is None
        assert scene.writes() == ["create", "patch status"], "the garbage collector has done the rest"

    play(acts)


def test_the_last_of_many_changes_is_written_once_a_second() -> None:
    async def acts(scene: Scene) -> None:
        before = await scene.jobset()
        loop = asyncio.get_running_loop()
        written: list[float] = []

        def note(resource: str, change: Change) -> None:
            del change
            if resource == GANGS:
                written.append(loop.time())

        scene.api.store.listen(note)
        async with scene.running() as objects:
            objects.stands(None, before)
            await asyncio.sleep(2)
            written.clear()
            began = loop.time()
            for number in range(100):
                now = at(before, GangPhase.PARTIALLY_READY, ready=number % 7)
                objects.stands(before, now)
                before = now
                await asyncio.sleep(0.1)
            await asyncio.sleep(LONG_SECONDS)
            gang = await scene.gang()
            assert gang is not None
            assert gang["status"] == gang_status(before) | {"conditions": gang["status"]["conditions"]}
        # Ten seconds of changes, each write a second after the one before it was sent.
        assert 8 <= len(written) <= 12
        assert written[-1] - began <= 15

    play(acts)


def test_causes_alone_are_written_every_ten_seconds_and_a_phase_does_not_wait_for_them() -> None:
    async def acts(scene: Scene) -> None:
        first = at(await scene.jobset(), GangPhase.UNSCHEDULABLE)
        async with scene.running() as objects:
            objects.stands(None, first)
            await asyncio.sleep(2)
            count = len(scene.writes())
            for number in range(20):
                objects.stands(first, because(first, f"look {number}"))
                await asyncio.sleep(0.25)
            assert len(scene.writes()) == count
            await asyncio.sleep(5)
            assert len(scene.writes()) == count + 1
            gang = await scene.gang()
            assert gang is not None
            assert gang["status"]["message"] == "look 19"
            objects.stands(first, because(first, "again"))
            await asyncio.sleep(2)
            assert len(scene.writes()) == count + 1
            objects.stands(first, at(first, GangPhase.READY, 8))
            await asyncio.sleep(0.5)
            assert await scene.phase() == "Ready"

    play(acts)


def test_what_stands_there_is_not_written_again() -> None:
    async def acts(scene: Scene) -> None:
        stands = [at(await scene.jobset(f"js-{n}"), GangPhase.PARTIALLY_READY, n) for n in range(5)]
        async with scene.running() as objects:
            for each in stands:
                objects.stands(None, each)
            await asyncio.sleep(5)
            count = len(scene.writes())
            for each in stands:
                objects.stands(each, dataclasses.replace(each, look_again=5.0))
            await asyncio.sleep(LONG_SECONDS)
            assert len(scene.writes()) == count == 10
        async with scene.running() as objects:
            # A gangctl that has just started may not know since when it is so.
            for each in stands:
                objects.stands(None, dataclasses.replace(each, since=each.since + 1000))
            await asyncio.sleep(LONG_SECONDS)
            assert len(scene.writes()) == count
            gang = await scene.gang("js-1")
            assert gang is not None
            assert gang["status"]["since"] == gang_status(stands[1])["since"]
            objects.stands(None, at(stands[1], GangPhase.READY, 8))
            await asyncio.sleep(2)
            assert len(scene.writes()) == count + 1

    play(acts)


def test_a_replica_that_stops_leading_writes_and_deletes_nothing_and_goes_on_later() -> None:
    async def acts(scene: Scene) -> None:
        first = await scene.jobset()
        async with scene.running() as objects:
            objects.stands(None, first)
            await asyncio.sleep(5)
            objects.stands(first, None)
            await asyncio.sleep(LONG_SECONDS)
        scene.leads = False
        task = asyncio.create_task(objects.run())
        objects.stands(None, at(first, GangPhase.READY, 8))
        with pytest.raises(LeadershipLostError):
            await task
        assert scene.writes() == ["create", "patch status"]
        scene.leads = True
        task = asyncio.create_task(objects.run())
        objects.stands(None, at(first, GangPhase.DEGRADED, 7))
        await asyncio.sleep(5)
        assert await scene.phase() == "Degraded"
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    play(acts)


def test_ready_keeps_the_time_of_its_transition() -> None:
    async def acts(scene: Scene) -> None:
        first = await scene.jobset()
        times = []
        phases = (GangPhase.PENDING, GangPhase.STARTING, GangPhase.READY, GangPhase.DEGRADED)
        async with scene.running() as objects:
            for number, phase in enumerate(phases):
                objects.stands(None, dataclasses.replace(first, phase=phase, since=first.since + number))
                await asyncio.sleep(5)
                gang = await scene.gang()
                assert gang is not None
                (condition,) = gang["status"]["conditions"]
                assert condition["reason"] == gang["status"]["phase"] == phase
                times.append((condition["status"], condition["lastTransitionTime"][-3:-1]))
        assert times == [("False", "20"), ("False", "20"), ("True", "22"), ("False", "23")]

    play(acts)


def test_what_others_do_to_it_is_undone() -> None:
    async def acts(scene: Scene) -> None:
        first = await scene.jobset()
        kind = scene.api.kind(GANGS)
        async with scene.running() as objects:
            objects.stands(None, first)
            await asyncio.sleep(5)
            lie = {"status": {"phase": "Ready"}}
            await scene.api.patch(kind, NAMESPACE, "js", lie, "merge", SYSTEM, subresource="status")
            await asyncio.sleep(5)
            assert await scene.phase() == "Pending"
            label = {"metadata": {"labels": {"team": "ml"}}}
            await scene.api.patch(kind, NAMESPACE, "js", label, "merge", SYSTEM)
            objects.stands(first, at(first, GangPhase.READY, 8))
            await asyncio.sleep(5)
            gang = await scene.gang()
            assert gang is not None
            assert gang["status"]["phase"] == "Ready"
            assert gang["metadata"]["labels"]["team"] == "ml"
            await scene.api.delete(kind, NAMESPACE, "js", SYSTEM, DeleteOptions())
            await asyncio.sleep(5)
            assert await scene.phase() == "Ready"

    play(acts)


@pytest.mark.parametrize("owned", [False, True])
def test_an_object_of_somebody_else_is_left_alone_and_told_of_once(owned: bool) -> None:
    async def acts(scene: Scene) -> None:
        first, other = await scene.jobset(), await scene.jobset("other")
        owner = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "other", "uid": other.uid}
        foreign: Object = {"metadata": {"name": "js", "labels": {"app.kubernetes.io/managed-by": "gangctl"}}}
        if owned:
            foreign["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
        foreign = {"apiVersion": "gangctl.dev/v1alpha1", "kind": "Gang", **foreign}
        made = await scene.api.create(scene.api.kind(GANGS), NAMESPACE, foreign, SYSTEM)
        async with scene.running() as objects:
            for number in range(5):
                objects.stands(None, at(first, GangPhase.PARTIALLY_READY, number))
                await asyncio.sleep(LONG_SECONDS)
            scene.unfollowed.add("js")
            objects.stands(first, None)
            await asyncio.sleep(LONG_SECONDS)
            assert await scene.gang() == made
            assert scene.writes() == []
            assert scene.errors.kinds == ["OwnershipConflictError"]
            scene.unfollowed.clear()
            objects.stands(None, first)
            await scene.api.delete(scene.api.kind(GANGS), NAMESPACE, "js", SYSTEM, DeleteOptions())
            await asyncio.sleep(5)
            assert await scene.phase() == "Pending"

    play(acts)


def test_one_that_took_the_place_of_ours_unseen_is_left_alone() -> None:
    async def acts(scene: Scene) -> None:
        first, kind = await scene.jobset(), scene.api.kind(GANGS)
        scene.sandbox.faults.add(Match(USER, frozenset({"watch"}), GANGS), Silence())
        async with scene.running() as objects:
            objects.stands(None, first)
            await asyncio.sleep(5)
            await scene.api.delete(kind, NAMESPACE, "js", SYSTEM, DeleteOptions())
            foreign: Object = {"apiVersion": "gangctl.dev/v1alpha1", "kind": "Gang", "metadata": {"name": "js"}}
            made = await scene.api.create(kind, NAMESPACE, foreign, SYSTEM)
            objects.stands(first, at(first, GangPhase.READY, 8))
            await asyncio.sleep(LONG_SECONDS)
            assert await scene.gang() == made
            assert scene.errors.kinds == ["OwnershipConflictError"]

    play(acts)


def test_one_of_an_earlier_jobset_is_waited_out() -> None:
    async def acts(scene: Scene) -> None:
        first = await scene.jobset()
        async with scene.running() as objects:
            objects.stands(None, first)
            await asyncio.sleep(5)
            await scene.delete_jobset()
            second = await scene.jobset()
            objects.stands(first, None)
            objects.stands(None, second)
            await asyncio.sleep(30)
            gang = await scene.gang()
            assert gang is not None
            assert gang["metadata"]["ownerReferences"][0]["uid"] == second.uid
            assert scene.errors.kinds == []

    play(acts)


@pytest.mark.parametrize("restarted", ["", "after the JobSets are known", "before the JobSets are known"])
def test_one_of_a_jobset_that_does_not_ask_any_more_is_deleted(restarted: str) -> None:
    async def acts(scene: Scene) -> None:
        first, stays = await scene.jobset(), await scene.jobset("stays")
        async with scene.running() as objects:
            objects.stands(None, first)
            objects.stands(None, stays)
            await asyncio.sleep(5)
            if not restarted:
                scene.unfollowed.add("js")
                objects.stands(first, None)
                await asyncio.sleep(5)
        if restarted:
            scene.unfollowed.add("js")
            known = dict(scene.cache)
            if restarted.startswith("before"):
                scene.cache.clear()
            async with scene.running() as objects:
                await asyncio.sleep(5)
                for key, each in known.items():
                    scene.cache[key] = each
                    objects.look(key)
                await asyncio.sleep(5)
        assert await scene.gang() is None
        assert await scene.gang("stays") is not None
        assert scene.writes().count("delete") == 1

    play(acts)


def test_without_the_definition_it_is_said_once_and_looked_for_again() -> None:
    async def acts(scene: Scene) -> None:
        first = await scene.jobset()
        with capture_logs() as said:
            async with scene.running() as objects:
                objects.stands(None, first)
                await asyncio.sleep(LONG_SECONDS)
                assert scene.writes() == []
                await scene.define()
                await asyncio.sleep(60)
                assert await scene.phase() == "Pending"
                await scene.api.delete(scene.api.kind(DEFINITIONS), "", "gangs.gangctl.dev", SYSTEM, DeleteOptions())
                objects.stands(first, at(first, GangPhase.READY, 8))
                await asyncio.sleep(LONG_SECONDS)
                await scene.define()
                await asyncio.sleep(60)
                assert await scene.phase() == "Ready"
        told = [each for each in said if each["event"].startswith("no Gang objects")]
        assert len(told) == 2, "once each time that it is not there"

    play(acts, defined=False)


def refuse(code: int, reason: str) -> Refuse:
    return Refuse(StatusError(code, reason, f"no: {reason}"))


@pytest.mark.parametrize("verb", ["create", "patch"])
@pytest.mark.parametrize(
    "fault",
    [conflict(), refuse(403, "Forbidden"), refuse(404, "NotFound"), refuse(422, "Invalid"), refuse(503, "Unavailable")],
    ids=lambda fault: fault.error.reason,
)
def test_refusals_end_nothing_and_are_tried_again(verb: str, fault: Refuse) -> None:
    async def acts(scene: Scene) -> None:
        scene.sandbox.faults.add(Match(USER, frozenset({verb}), GANGS), fault, times=20)
        stands = [await scene.jobset(f"js-{n}") for n in range(10)]
        with capture_logs() as said:
            async with scene.running() as objects:
                for each in stands:
                    objects.stands(None, each)
                await asyncio.sleep(LONG_SECONDS)
                assert {await scene.phase(each.name) for each in stands} == {"Pending"}
        told = [each for each in said if each["event"] == "Gang objects cannot be written"]
        assert len(told) == (1 if fault.error.code in {403, 422} else 0)
        assert len(scene.writes()) <= 20 + 30

    play(acts)


def test_a_namespace_that_ends_takes_no_more() -> None:
    async def acts(scene: Scene) -> None:
        first = await scene.jobset()
        error = StatusError(403, "Forbidden", "it ends", details={"causes": [{"reason": "NamespaceTerminating"}]})
        scene.sandbox.faults.add(Match(USER, frozenset({"create"}), GANGS), Refuse(error), times=100)
        async with scene.running() as objects:
            objects.stands(None, first)
            await asyncio.sleep(LONG_SECONDS)
            assert scene.writes() == ["create"]

    play(acts)


statuses = st.recursive(
    st.one_of(st.integers(), st.text(), st.booleans()),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.sampled_from(["a", "since", "phase"]), inner)),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from(["phase", "ready", "groups"]), statuses), statuses)
def test_a_digest_sees_everything_but_moments(status: Object, other: Any) -> None:
    assert digest(status) == digest(dict(reversed(status.items()))) == digest({**status, "since": other})
    assert (digest(status) == digest({**status, "reason": other})) is False
