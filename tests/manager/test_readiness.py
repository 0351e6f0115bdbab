"""What triggers an evaluation of readiness: changes of JobSets, Kueue's Workloads, verdicts and queues."""

from __future__ import annotations

from typing import Any

import pytest

from gangctl.controllers.queues.view import Affected
from gangctl.manager.readiness import ReadinessPart
from gangctl.readiness.result import GangPhase
from tests.manager.test_parts import composed
from tests.readiness.standings import standing

KEY = ("t", "js")


class Context:
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
async def context() -> Context:
    return Context()


async def test_a_changed_workload_of_kueue_affects_its_jobset(context: Context) -> None:
    assert context.parts.queues is not None
    owner = {"controller": True, "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "js", "uid": "u"}
    for name, kind in (("wl", "JobSet"), ("other", "Job")):
        reference = {**owner, "kind": kind, "apiVersion": owner["apiVersion"] if kind == "JobSet" else "batch/v1"}
        metadata = {"name": name, "namespace": "t", "uid": name, "ownerReferences": [reference]}
        context.parts.queues.sources.workloads.informer._upsert({"metadata": metadata, "spec": {}, "status": {}})
        assert context.marked() == ([KEY] if kind == "JobSet" else [])


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
async def test_a_changed_queue_affects_its_waiting_jobsets(
    context: Context, affected: Affected, concerned: bool
) -> None:
    assert context.parts.queues is not None
    context.parts.queues.view._notify(affected)
    assert context.marked() == ([KEY] if concerned else [])


async def test_a_changed_verdict_affects_its_jobset(context: Context) -> None:
    assert context.parts.queues is not None
    assert context.parts.queues.verdicts is not None
    context.parts.queues.verdicts._note_never(KEY, "9 of 4")
    assert context.marked() == [KEY]


async def test_the_appearance_of_kueue_affects_queued_jobsets(context: Context) -> None:
    assert context.parts.queues is not None
    context.part.controller._set_status(("t", "alone"), standing("alone", namespace="t", local_queue=""))
    context.parts.queues._presence_changed()
    assert context.marked() == [KEY]


async def test_readiness_works_without_kueue() -> None:
    context = Context(kueue="off")
    metadata = {"name": "js", "namespace": "t", "uid": "u"}
    context.parts.gangs.caches.jobsets._upsert({"metadata": metadata, "spec": {"replicatedJobs": []}})
    assert context.marked() == [KEY]


async def test_a_standby_does_not_follow_readiness(context: Context) -> None:
    parts = context.parts
    assert parts.queues is not None
    assert parts.policies is not None
    assert parts.watching() == [parts.gangs.watch, parts.queues.watch, parts.policies.watch]
    assert not any(source.known for source in context.part._sources.all)


async def test_gang_objects_are_written_if_switched_on() -> None:
    assert Context().part._objects is None
    assert Context(gang_objects=True).part._objects is not None
