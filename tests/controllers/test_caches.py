"""What the gang controller finds of a gang's objects, however many there are."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry

from gangctl.api.jobset import read_jobset
from gangctl.api.objects import Key
from gangctl.api.scheduling import NEWEST, ApiState, Generation, Observed, Scheduled
from gangctl.api.store import Entry
from gangctl.cli.gangs.state import GangState, StoredJobSet
from gangctl.client.client import Client
from gangctl.client.transport import Transport
from gangctl.controllers import caches
from gangctl.controllers.caches import GangCaches, changes_objects, same_object
from gangctl.controllers.gangs import RESYNC_SECONDS, Assessments, GangController, PodReader
from gangctl.controllers.reporter import GangMetrics, GangReporter
from gangctl.controllers.writer import Writer
from gangctl.gang.desired import Assessment, Desired, JobProgress, Lifecycle, assess
from gangctl.gang.diff import Delete, diff
from gangctl.gang.reasons import Reason
from gangctl.gang.resolve import ClusterRules
from gangctl.runtime.controller import await_change, requeue
from gangctl.runtime.informer import InformerObserver
from tests.credentials import StaticCredentials
from tests.gang.pipeline import stored
from tests.jobsets import FIXTURE_UID, jobset, rj
from tests.rows import each


async def test_many_groups_are_looked_up_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caches, "AT_ONCE", 2)
    raw = stored(jobset("js", rj("w", 6, 1, 1, mode="ReplicatedGang"), uid=FIXTURE_UID))
    plan = assess(read_jobset(raw)[0], ClusterRules()).plan
    assert plan is not None
    group = Observed(plan.jobset.namespace, "", "u", "1", plan.uid, "js", False, "", ())
    found = GangCaches(
        Client(Transport(StaticCredentials("http://127.0.0.1:1"))), lambda _key, _seconds: None, lambda: 0.0
    )
    names = [*(each.name for each in plan.groups[:4]), "js-w-of-an-earlier-attempt"]
    for name in names:
        found.overlay.wrote("PodGroup", replace(group, name=name, uid=name))
    found.overlay.wrote("Workload", replace(group, name=plan.workload.name, uid="w"))
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    existing = await found.existing(plan)
    task.cancel()
    assert list(existing.groups) == names
    assert existing.workload is not None
    assert turns == 3, "between four slices of seven names"


async def test_an_informer_of_a_generation_that_fails_ends_the_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing:
        informers: Mapping[str, object] = {}

        def __init__(self, *_: object) -> None: ...

        async def run(self) -> None:
            raise ZeroDivisionError

        async def settled(self) -> None: ...

    monkeypatch.setattr(caches, "SchedulingCache", Failing)
    transport = Transport(StaticCredentials("http://127.0.0.1:1"))
    gangs = GangCaches(Client(transport), lambda _key, _seconds: None, lambda: 0.0)
    running = asyncio.create_task(gangs.run())
    await gangs.follow(Generation.V1BETA1)
    with pytest.raises(ExceptionGroup) as raised:
        await running
    await transport.close()
    assert raised.group_contains(ZeroDivisionError)


async def test_informers_of_a_generation_that_is_not_followed_any_more_are_not_synced() -> None:
    """Metrics have them until there are others, and an alert is about those that are synced and receive nothing."""
    transport = Transport(StaticCredentials("http://127.0.0.1:1"))
    gangs = GangCaches(Client(transport), lambda _key, _seconds: None, lambda: 0.0)
    following = asyncio.create_task(gangs.follow(Generation.V1BETA1))
    await asyncio.sleep(0)
    left = [informer for name, informer in gangs.informers.items() if name not in {"jobsets", "jobs"}]
    for informer in left:
        informer.synced.set()
    await following
    await gangs.follow(None)
    await transport.close()
    assert [informer.synced.is_set() for informer in left] == [False, False]


async def test_its_own_workload_without_an_owner_is_an_orphan_of_its_jobset() -> None:
    """So that it is deleted and made again: its name has the JobSet's UID."""
    client = Client(Transport(StaticCredentials("http://127.0.0.1:1")))
    gangs = GangCaches(client, lambda *_: None, lambda: 0.0)
    plan = assess(read_jobset(stored(jobset("js", rj("w", mode="Gang"), uid=FIXTURE_UID)))[0], ClusterRules()).plan
    assert plan is not None
    name = plan.workload.name
    edited = Observed("t", name, "w", "1", "", "", False, "js", (("jobset", 1),), orphan_of="js")
    gangs._scheduling = caches.SchedulingCache(
        client, Generation.V1BETA1, "", lambda _: InformerObserver(), lambda: None
    )
    gangs.informers["workloads"].store.put(("t", name), Entry("w", "1", edited))
    existing = await gangs.existing(plan)
    assert (existing.workload, existing.orphans) == (edited, (("Workload", edited),))
    assert diff(Desired(Assessment(Lifecycle.PRESENT, plan), plan), existing, NEWEST.capabilities).changes == (
        Delete("Workload", edited),
    )


async def test_a_group_that_is_shown_as_an_orphan_after_its_workload_has_gone_is_found() -> None:
    """The garbage collector takes one owner reference after the other, and each kind has a watch of its own."""
    client = Client(Transport(StaticCredentials("http://127.0.0.1:1")))
    gangs = GangCaches(client, lambda *_: None, lambda: 0.0)
    plan = assess(read_jobset(stored(jobset("js", rj("w", mode="Gang"), uid=FIXTURE_UID)))[0], ClusterRules()).plan
    assert plan is not None
    gangs._scheduling = caches.SchedulingCache(
        client, Generation.V1BETA1, "", lambda _: InformerObserver(), lambda: None
    )
    groups = gangs.informers["podgroups"].store
    first = Observed("t", "js-w-1", "g", "1", "", "", False, "", (("", 1),), orphan_of="js-12345678-1234")
    other = replace(first, name="jt-w-1", orphan_of="jt-12345678-1234")
    for group in (first, other, replace(first, name="js-w-2", deleting=True)):
        groups.put(("t", group.name), Entry(group.name, "1", group))
    assert (await gangs.existing(plan)).orphans == (("PodGroup", first),)


async def test_a_configuration_that_was_stored_unchecked_is_reported_again() -> None:
    """An API server keeps an event for an hour."""
    transport = Transport(StaticCredentials("http://127.0.0.1:1"))
    gangs = GangCaches(Client(transport), lambda *_: None, lambda: 0.0)
    raw = jobset("js", rj("w", mode="gang"), uid=FIXTURE_UID)
    raw["metadata"]["creationTimestamp"] = "2020-01-01T00:00:00Z"
    running = read_jobset(raw)[0]
    gangs.jobsets.store.put(running.key, Entry(FIXTURE_UID, "1", running))
    notices = list[Reason]()
    reporter = GangReporter(lambda _, notice: notices.append(notice.reason), GangMetrics(CollectorRegistry()))
    assessments = Assessments(lambda: ApiState(Generation.V1BETA1), ClusterRules)

    def write(_: Generation) -> Writer:
        raise AssertionError("there is no gang")

    pods = PodReader(Client(transport))
    controller = GangController(
        gangs, write, pods, reporter, assessments, concerns=lambda _: True, randomness=lambda: 0.0
    )
    assert await controller.reconcile(running.key) == requeue(RESYNC_SECONDS)
    assert notices == [Reason.INVALID_GANG_CONFIG]
    await transport.close()


async def test_a_jobset_has_the_restarts_that_its_jobs_have() -> None:
    """Of the controller and of the commands: JobSet may have forgotten that it restarted a Job alone."""
    transport = Transport(StaticCredentials("http://127.0.0.1:1"))
    raw = stored(jobset("js", rj("w", mode="ReplicatedGang"), uid=FIXTURE_UID))
    running = read_jobset(raw)[0]
    job = JobProgress("t", "js-w-0", "js", FIXTURE_UID, "w", 0, 0, 0, complete=False, deleting=False, job_attempt=2)
    gangs, state = GangCaches(Client(transport), lambda *_: None, lambda: 0.0), GangState()
    gangs.jobsets.store.put(running.key, Entry(FIXTURE_UID, "1", running))
    gangs.informers["jobs"].store.put(("t", job.name), Entry("j", "1", job))
    state.jobsets.put(running.key, Entry(FIXTURE_UID, "1", StoredJobSet(running, raw)))
    state.jobs.put(("t", job.name), Entry("j", "1", job))
    snapshot = state.snapshot(running.key, 0.0)
    assert snapshot is not None
    for seen in (gangs.restarted_jobset(running.key), snapshot.jobset):
        assert seen is not None
        assert seen.replicated_jobs[0].job_restarts(0) == 2
    plan = snapshot.assessment.plan
    assert plan is not None
    assert [group.name for group in plan.groups] == [f"js-w-{FIXTURE_UID[:13]}-0-0.2"]
    await transport.close()


async def test_no_gang_is_compared_with_objects_that_are_still_read() -> None:
    """As where a feature gate is switched under running gangs: each would be created again, and reported so."""
    transport = Transport(StaticCredentials("http://127.0.0.1:1"))
    enqueued: list[Key] = []
    gangs = GangCaches(Client(transport), lambda key, _: enqueued.append(key), lambda: 0.0)
    running = read_jobset(stored(jobset("js", rj("w", mode="Gang"), uid=FIXTURE_UID)))[0]
    gangs.jobsets.store.put(running.key, Entry(FIXTURE_UID, "1", running))

    def write(_: Generation) -> Writer:
        raise AssertionError("nothing is known of what exists")

    state, reporter = ApiState(Generation.V1BETA1), GangReporter(lambda *_: None, GangMetrics(CollectorRegistry()))
    assessments = Assessments(lambda: state, ClusterRules)
    pods = PodReader(Client(transport))
    controller = GangController(gangs, write, pods, reporter, assessments, concerns=lambda _: True)
    following = asyncio.create_task(gangs.follow(Generation.V1BETA1))
    await asyncio.sleep(0)
    assert await controller.reconcile(running.key) == await_change()
    assert not enqueued
    for name in ("workloads", "podgroups"):
        gangs.informers[name].synced.set()
    await following
    assert enqueued == [running.key]
    with pytest.raises(AssertionError, match="nothing is known"):
        await controller.reconcile(running.key)
    await gangs.follow(None)
    await transport.close()


GROUP = Observed("ns", "js-w-1", "g", "1", FIXTURE_UID, "js", False, "", (("", 2),))
JOB = JobProgress("ns", "js-w-0", "js", FIXTURE_UID, "w", 0, 0, 0, False, False)


@each(
    ("old", "new", "expected"),
    [
        (JOB, replace(JOB, active=True), False),
        (replace(JOB, active=True), JOB, True),
        (JOB, replace(JOB, active=True, succeeded=1), True),
        (replace(JOB, failed=1), replace(JOB, failed=1, active=True), True),
    ],
)
def test_first_pods_of_a_job_need_no_reconcile_and_their_end_does(
    old: JobProgress, new: JobProgress, expected: bool
) -> None:
    assert changes_objects(old, new) is expected


@each(
    ("known", "new", "expected"),
    [
        (GROUP, GROUP, True),
        (GROUP, replace(GROUP, resource_version="2", scheduled=Scheduled(False, "Unschedulable")), True),
        (GROUP, replace(GROUP, resource_version="2", scheduled=Scheduled(True)), False),
        (GROUP, replace(GROUP, resource_version="2", min_counts=(("", 1),)), False),
        (GROUP, replace(GROUP, resource_version="2", deleting=True), False),
        (GROUP, replace(GROUP, uid="another"), False),
        (None, GROUP, False),
        (GROUP, None, False),
    ],
)
def test_own_writes_and_conditions_need_no_reconcile(
    known: Observed | None, new: Observed | None, expected: bool
) -> None:
    assert same_object(known, new) is expected
