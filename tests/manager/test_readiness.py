"""What the readiness part hears of: JobSets, Kueue's Workloads, verdicts, queues; and what it looks at then."""

from __future__ import annotations

from typing import Any

import pytest

from gangctl.controllers.queues.view import Affected
from gangctl.manager.readiness import ReadinessPart
from gangctl.readiness.phases import GangPhase
from tests.client.clock import settle
from tests.manager.test_parts import composed
from tests.readiness.standings import standing

KEY = ("t", "js")


class Room:
    """A part whose controller is active, and the keys that it would look at."""

    def __init__(self, **flags: Any) -> None:
        self.parts = composed(**flags)
        assert self.parts.readiness is not None
        self.part: ReadinessPart = self.parts.readiness
        self.part.controller._active = True
        self.part.controller._set_status(KEY, standing("js", namespace="t", local_queue="q", phase=GangPhase.QUEUED))

    def marked(self) -> list[tuple[str, str]]:
        requeue_timers = self.part.controller._requeue_timers
        found = [*requeue_timers._changed, *requeue_timers._later]
        requeue_timers.clear()
        return found


@pytest.fixture
async def room() -> Room:
    return Room()


async def test_a_workload_of_kueue_concerns_its_jobset(room: Room) -> None:
    assert room.parts.queues is not None
    owner = {"controller": True, "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "js", "uid": "u"}
    for name, kind in (("wl", "JobSet"), ("other", "Job")):
        reference = {**owner, "kind": kind, "apiVersion": owner["apiVersion"] if kind == "JobSet" else "batch/v1"}
        metadata = {"name": name, "namespace": "t", "uid": name, "ownerReferences": [reference]}
        room.parts.queues.sources.workloads.informer._upsert({"metadata": metadata, "spec": {}, "status": {}})
        assert room.marked() == ([KEY] if kind == "JobSet" else [])


@pytest.mark.parametrize(
    ("affected", "concerned"),
    [
        (Affected(every_jobset=True), True),
        (Affected(jobsets=frozenset({KEY})), True),
        (Affected(local_queues=frozenset({("t", "q")})), True),
        (Affected(local_queues=frozenset({("t", "other")})), False),
        (Affected(namespaces=frozenset({"t"})), True),
        (Affected(cluster_queues=frozenset({"cq"})), False),
    ],
)
async def test_a_queue_concerns_those_at_its_door(room: Room, affected: Affected, concerned: bool) -> None:
    assert room.parts.queues is not None
    room.parts.queues.view._notify(affected)
    assert room.marked() == ([KEY] if concerned else [])


async def test_a_verdict_concerns_whom_it_is_about(room: Room) -> None:
    assert room.parts.queues is not None
    assert room.parts.queues.verdicts is not None
    room.parts.queues.verdicts._note_never(KEY, "9 of 4")
    assert room.marked() == [KEY]


async def test_kueue_that_comes_concerns_those_who_are_in_a_queue(room: Room) -> None:
    assert room.parts.queues is not None
    room.part.controller._set_status(("t", "alone"), standing("alone", namespace="t", local_queue=""))
    room.parts.queues._presence_changed()
    assert room.marked() == [KEY]


async def test_it_does_without_kueue() -> None:
    room = Room(kueue="off")
    metadata = {"name": "js", "namespace": "t", "uid": "u"}
    room.parts.gangs.caches.jobsets._upsert({"metadata": metadata, "spec": {"replicatedJobs": []}})
    assert room.marked() == [KEY]


async def test_a_standby_follows_nothing(room: Room) -> None:
    await room.part.watch()
    await settle()
    assert not any(source.known for source in room.part._sources.all)


async def test_gang_objects_are_written_where_they_are_asked_for() -> None:
    assert Room().part._objects is None
    assert Room(gang_objects=True).part._objects is not None
