"""What triggers an evaluation of readiness: changes of JobSets, Kueue's Workloads, verdicts and queues."""

from __future__ import annotations

from typing import Any

import pytest

from gangctl.controllers.queues.view import Affected
from gangctl.controllers.readiness.controller import ReadinessController
from gangctl.controllers.readiness.gangobjects import GangObjects
from gangctl.kueue.queues import Never
from gangctl.readiness.result import GangPhase
from tests.manager.test_wiring import managed, wired
from tests.readiness.standings import standing

KEY = ("t", "js")


class Context:
    """A controller that is active, and the keys that it would look at."""

    def __init__(self, **flags: Any) -> None:
        self.manager = managed()
        self.wiring = wired(self.manager, **flags)
        assert self.wiring.readiness is not None
        self.controller: ReadinessController = self.wiring.readiness
        self.controller._active = True
        self.controller._set_status(KEY, standing("js", namespace="t", local_queue="q", phase=GangPhase.QUEUED))

    def marked(self) -> list[tuple[str, str]]:
        requeue_timers = self.controller._requeue_timers
        found = [*requeue_timers._changed, *requeue_timers._later]
        requeue_timers.clear()
        return found


@pytest.fixture
async def context() -> Context:
    return Context()


async def test_a_changed_workload_of_kueue_affects_its_jobset(context: Context) -> None:
    assert context.wiring.queues is not None
    owner = {"controller": True, "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "js", "uid": "u"}
    for name, kind in (("wl", "JobSet"), ("other", "Job")):
        reference = {**owner, "kind": kind, "apiVersion": owner["apiVersion"] if kind == "JobSet" else "batch/v1"}
        metadata = {"name": name, "namespace": "t", "uid": name, "ownerReferences": [reference]}
        context.wiring.queues.sources.workloads.informer._upsert({"metadata": metadata, "spec": {}, "status": {}})
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
    assert context.wiring.queues is not None
    context.wiring.queues.view._notify(affected)
    assert context.marked() == ([KEY] if concerned else [])


async def test_a_changed_verdict_affects_its_jobset(context: Context) -> None:
    assert context.wiring.queues is not None
    assert context.wiring.queues.verdicts is not None
    context.wiring.queues.verdicts._note_never(KEY, Never("NeverExceedsQuota", "9 of 4"))
    assert context.marked() == [KEY]


async def test_the_appearance_of_kueue_affects_jobsets_with_a_queue_and_without(context: Context) -> None:
    """Kueue may hold those without a queue, too (manageJobsWithoutQueueName)."""
    assert context.wiring.queues is not None
    for name, phase in (("held", GangPhase.SUSPENDED), ("runs", GangPhase.READY)):
        context.controller._set_status(("t", name), standing(name, namespace="t", local_queue="", phase=phase))
    context.wiring.queues._presence_changed()
    assert context.marked() == [KEY, ("t", "held")]


async def test_readiness_works_without_kueue() -> None:
    context = Context(kueue="off")
    metadata = {"name": "js", "namespace": "t", "uid": "u"}
    context.wiring.gangs.caches.jobsets._upsert({"metadata": metadata, "spec": {"replicatedJobs": []}})
    assert context.marked() == [KEY]


async def test_a_standby_does_not_follow_readiness(context: Context) -> None:
    watching = {"caches", "discovery", "queues", "policy-sources", "exported-policies", "policies"}
    assert set(context.manager.watching) == watching
    assert not any(source.known for source in context.controller._sources.all)


async def test_gang_objects_are_written_if_switched_on() -> None:
    for gang_objects in (False, True):
        context = Context(gang_objects=gang_objects)
        assert any(isinstance(each, GangObjects) for each in context.controller._observers) is gang_objects
        assert ("gangobjects" in context.manager.leading) is gang_objects
