"""In whatever order objects are seen, the gang of a waiting Workload is requested and the Workload checked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from itertools import permutations
from types import SimpleNamespace
from typing import Any

from gangctl.api.jobset import JobSet, read_jobset
from gangctl.api.meta import JOBSET_API_VERSION
from gangctl.api.store import Entry, Store
from gangctl.client.client import Client
from gangctl.client.transport import Transport
from gangctl.cluster.kinds import ADMISSION_CHECKS, QUEUED_WORKLOADS
from gangctl.controllers.checks.controller import CheckController
from gangctl.controllers.queues.sources import QueueSources
from gangctl.gang.resolve import ClusterRules
from gangctl.kueue.names import API_VERSION, CHECK_CONTROLLER
from gangctl.kueue.objects import AdmissionCheck, CheckState, Condition, QueuedWorkload
from gangctl.runtime.informer import Informer
from gangctl.runtime.manager import Manager
from tests.client.clock import VirtualClock, until
from tests.credentials import StaticCredentials
from tests.jobsets import FIXTURE_UID, jobset, rj
from tests.rows import each

KEY = ("t", "js")
JOBSET = read_jobset(jobset("js", rj("w", 1, 1, 1, mode="Gang"), uid=FIXTURE_UID, suspend=True))[0]
CHECK = AdmissionCheck("gang", CHECK_CONTROLLER)
WAITING = QueuedWorkload(
    "t",
    "wl",
    "u",
    owner_kind="JobSet",
    owner_api_version=JOBSET_API_VERSION,
    owner_name="js",
    owner_uid=FIXTURE_UID,
    cluster_queue="cq",
    conditions={"QuotaReserved": Condition(status=True)},
    checks=(CheckState("gang", "Pending"),),
)

PARENT = replace(WAITING, name="parent", uid="p", has_variants=True, cluster_queue="", conditions={}, checks=())
VARIANT = replace(WAITING, owner_kind="Workload", owner_api_version=API_VERSION, owner_name="parent", owner_uid="p")


class Context:
    """A controller whose informers are fed by hand; ``gangs`` are the JobSets whose gang was asked for."""

    def __init__(self) -> None:
        self.asked: list[bool | None] = []
        self.jobsets: dict[tuple[str, str], Any] = {}
        self.followers: list[Any] = []
        self.rechecked: list[Callable[[JobSet], bool]] = []
        synced = asyncio.Event()
        synced.set()
        caches = SimpleNamespace(
            jobset=self.jobsets.get,
            jobsets=SimpleNamespace(store=self.jobsets),
            informers=dict.fromkeys(("jobsets", "jobs"), SimpleNamespace(synced=synced)),
        )
        gangs = SimpleNamespace(
            caches=caches,
            state=None,
            rules=ClusterRules,
            record_event=lambda _jobset, _notice: None,
            followers=self.followers,
            controller=SimpleNamespace(enqueue=self._ask),
            synced=synced.wait,
            recheck=self.rechecked.append,
        )
        client = Client(Transport(StaticCredentials("http://127.0.0.1:1", token="none")))
        owners: Store[QueuedWorkload] = Store({"owner": lambda each: [each.owner_uid]})
        self.workloads = Informer(client, QUEUED_WORKLOADS, lambda _: None, store=owners)
        self.checks: Informer[AdmissionCheck] = Informer(client, ADMISSION_CHECKS, lambda _: None)
        sources = QueueSources(client)
        sources.workloads.informer, sources.checks.informer = self.workloads, self.checks
        self.controller = CheckController(
            Manager(client, client),
            gangs,  # type: ignore[arg-type]  # what is asked of it
            sources,
        )

    def _ask(self, key: tuple[str, str]) -> None:
        assert key == KEY
        found = self.jobsets.get(key)
        self.asked.append(found is not None and self.controller.awaits(found))

    def see(self, what: str) -> None:
        """Have one of the three be seen."""
        match what:
            case "workload":
                self.workloads._notify(self.workloads.store.put(("t", "wl"), Entry("u", "1", WAITING)))
            case "parent":
                self.workloads._notify(self.workloads.store.put(("t", "parent"), Entry("p", "1", PARENT)))
            case "variant":
                self.workloads._notify(self.workloads.store.put(("t", "wl"), Entry("u", "1", VARIANT)))
            case "check":
                self.checks._notify(self.checks.store.put(("", "gang"), Entry("c", "1", CHECK)))
            case _:
                self.jobsets[KEY] = JOBSET
                # The gang's own controller looks at whatever changes about a JobSet, and others follow.
                self._ask(KEY)
                for follow in self.followers:
                    follow(KEY)


@each("order", list(permutations(("workload", "check", "jobset"))), ids="-".join)
async def test_the_gang_is_requested_once_workload_check_and_jobset_are_seen(order: tuple[str, ...]) -> None:
    context = Context()
    for what in order:
        assert not any(context.asked)
        context.see(what)
    assert context.asked[-1], "its gang is waited for, and nobody was told"


async def test_before_workloads_and_checks_are_known_no_jobset_is_known_to_wait_for_none() -> None:
    """Its gang would be deleted, although the check that waits for it is Ready."""
    context = Context()
    context.workloads.synced.set()
    context.see("workload")
    assert context.controller.awaits(JOBSET) is None
    context.checks.synced.set()
    assert context.controller.awaits(JOBSET) is False
    context.see("check")
    assert context.controller.awaits(JOBSET) is True
    context.workloads.synced.clear()
    assert context.controller.awaits(replace(JOBSET, uid="another")) is None


async def test_what_waits_in_a_queue_is_reconciled_once_workloads_and_checks_are_known() -> None:
    """Until then it keeps groups whose ResourceClaims no check waits for."""
    context = Context()
    task = asyncio.create_task(context.controller._evaluate())
    context.workloads.synced.set()
    for _ in range(5):
        await asyncio.sleep(0)
    assert context.rechecked == []
    context.checks.synced.set()
    await until(lambda: len(context.rechecked) == 1)
    queued = replace(JOBSET, queue="q")
    concerned = [one for one in (JOBSET, queued, replace(queued, suspend=False)) if context.rechecked[0](one)]
    assert concerned == [queued]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@each("order", list(permutations(("variant", "check", "jobset"))), ids="-".join)
async def test_the_gang_is_requested_for_a_variant_of_its_workload(order: tuple[str, ...]) -> None:
    context = Context()
    context.see("parent")
    for what in order:
        assert not any(context.asked)
        context.see(what)
    assert context.asked[-1]


async def test_an_unrelated_change_of_a_workload_requests_nothing() -> None:
    context = Context()
    for what in ("jobset", "check", "workload"):
        context.see(what)
    before = len(context.asked)
    context.see("workload")
    assert len(context.asked) == before


async def test_while_a_large_gang_is_made_its_workload_is_checked_now_and_then() -> None:
    """Each of its groups is a change: evaluated at once, they would be most of what the process does."""
    context, clock = Context(), VirtualClock()
    context.controller._workloads.queue._clock = clock
    context.see("workload")
    context.jobsets[KEY] = replace(JOBSET, replicated_jobs=(replace(JOBSET.replicated_jobs[0], replicas=50_000),))
    for _ in range(2):
        context.followers[0](KEY)
        clock.tick(1)
    assert clock.pending == [3]
