"""Many random trees of quotas in one real Kueue, each with a JobSet in a queue of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from datetime import UTC, datetime
from typing import Final

from gangctl.fit.clusterstate import ClusterSnapshot, Held
from gangctl.kueue.objects import QueuedWorkload
from gangctl.kueue.reading import (
    read_cluster_queue,
    read_cohort,
    read_flavor,
    read_local_queue,
    read_priority_class,
    read_workload,
)
from tests.controlplane.api import ApiClient, path_of
from tests.controlplane.components.addon import create_namespace
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
from tests.fit.trees import API_VERSION, PRIORITIES, Tree, priority_class
from tests.live.accounts import Account, Accounts

NAMESPACE: Final = "fits"
CHECK: Final = "held-back"
ROUNDS: Final = 12
"""More than the tries after which Kueue repeats itself, with three podsets and three flavors."""


def path(plural: str, name: str | None = None, namespace: str | None = None) -> str:
    return path_of(API_VERSION, plural, namespace=namespace, name=name)


async def all_of(work: Iterable[Awaitable[object]]) -> None:
    """All of it, a few at a time."""
    turn = asyncio.Semaphore(24)

    async def one(each: Awaitable[object]) -> None:
        async with turn:
            await each

    await asyncio.gather(*(one(each) for each in work))


async def hold_back(api: ApiClient) -> None:
    """The namespace, and a check that lets nothing start that has quota."""
    await create_namespace(api, NAMESPACE)
    check = {"metadata": {"name": CHECK}, "spec": {"controllerName": "test.example/check"}}
    await api.create(path("admissionchecks"), {"apiVersion": API_VERSION, "kind": "AdmissionCheck", **check})
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    active = {"type": "Active", "status": "True", "reason": "Active", "message": "", "lastTransitionTime": now}
    await api.patch(f"{path('admissionchecks', CHECK)}/status", {"status": {"conditions": [active]}})


async def install(plane: ControlPlane, trees: list[Tree], accounts: Accounts) -> None:
    """The quotas, with a check that lets nothing start: what Kueue decides is who gets quota, and pods tell no more."""
    api = plane.api
    await hold_back(api)
    await all_of(api.create(path("resourceflavors"), each) for tree in trees for each in tree.flavors)
    classes = [priority_class(value) for value in PRIORITIES]
    await all_of(api.create(path("workloadpriorityclasses"), each) for each in classes)
    cohorts = [each for tree in trees for each in tree.cohorts]
    await all_of(api.create(path("cohorts"), each) for each in cohorts)

    async def known() -> bool:
        now = await accounts.ask()
        done = now.total("controller_runtime_reconcile_total", controller="cohort_controller")
        if done < len(cohorts) or not now.idle:
            raise NotYet(f"{done:.0f} of {len(cohorts)} looked at")
        return True

    await wait_for(known, "Kueue to know the cohorts", interval=0.5)
    await all_of(api.create(path("clusterqueues"), each) for tree in trees for each in tree.queues)
    doors = [
        {
            "apiVersion": API_VERSION,
            "kind": "LocalQueue",
            "metadata": {"name": tree.name},
            "spec": {"clusterQueue": tree.queues[0]["metadata"]["name"]},
        }
        for tree in trees
    ]
    await all_of(api.create(path("localqueues", namespace=NAMESPACE), each) for each in doors)

    async def active_all() -> bool:
        queues = [read_cluster_queue(raw) for raw in await api.list(path("clusterqueues"))]
        closed = [(q.name, q.active) for q in queues if q.active is None or not q.active.status]
        if closed:
            raise NotYet(f"{len(closed)} of {len(queues)} queues are not active: {closed[:2]}")
        return True

    await wait_for(active_all, "all ClusterQueues to be active", interval=0.5)


async def run(plane: ControlPlane, trees: list[Tree], accounts: Accounts) -> None:
    """The running workloads of the trees, as Kueue would have admitted them.

    Their LocalQueue does not exist, so that Kueue admits none by itself, before it is written here or after it is
    preempted; and they have no owner that would release the quota then.
    """
    api, place = plane.api, path("workloads", namespace=NAMESPACE)
    every = [each for tree in trees for each in tree.running]
    await all_of(api.create(place, each.raw) for each in every)
    await all_of(api.patch(f"{place}/{each.name}/status", {"status": each.status(CHECK)}) for each in every)

    async def known() -> bool:
        now = await accounts.ask()
        if now.reserving != len(every) or not now.idle:
            raise NotYet(f"{now.reserving:.0f} of {len(every)} have quota")
        return True

    await wait_for(known, "Kueue to count the running workloads", interval=0.5)


async def snapshot_of(plane: ControlPlane) -> ClusterSnapshot:
    """What gangctl would list before the JobSets are there."""
    api = plane.api
    held: list[Held] = [
        *map(read_workload, await api.list(path("workloads", namespace=NAMESPACE))),
        *map(read_priority_class, await api.list(path("workloadpriorityclasses"))),
        *map(read_cluster_queue, await api.list(path("clusterqueues"))),
        *map(read_cohort, await api.list(path("cohorts"))),
        *map(read_flavor, await api.list(path("resourceflavors"))),
        *map(read_local_queue, await api.list(path("localqueues"))),
    ]
    return ClusterSnapshot(
        held,
        runtime_classes=(),
        configuration=(plane.directory / "kueue.yaml").read_text(encoding="utf-8"),
        queue_limit=18,
    )


async def decided(plane: ControlPlane, accounts: Accounts, trees: list[Tree]) -> dict[str, QueuedWorkload]:
    """The Workloads by UID of their JobSet, once Kueue has looked at each of them and can decide none otherwise.

    Each is the only one of its tree that is in a queue: it waits, or comes up in every round of a strict queue or while
    others are preempted for it, or has quota; and none ends, which would change that.
    """
    running = sum(len(tree.running) for tree in trees)

    async def counted() -> Account:
        now = await accounts.ask()
        if now.known < len(trees) + running or not now.idle:
            raise NotYet(f"Kueue knows {now.known:.0f} Workloads")
        return now

    before = await wait_for(counted, "Kueue to know every Workload", interval=0.5)

    async def settled() -> dict[str, QueuedWorkload]:
        now = await accounts.ask()
        # A round that had begun before may have been without some, and each round tries one flavor of each more.
        if now.waiting and now.cycles < before.cycles + ROUNDS:
            raise NotYet(f"{now.waiting:.0f} are to be looked at")
        read = [read_workload(raw) for raw in await plane.api.list(path("workloads", namespace=NAMESPACE))]
        found = {each.owner_uid: each for each in read if each.owner_uid and "QuotaReserved" in each.conditions}
        reserving = running + sum(each.holds("QuotaReserved") for each in found.values())
        if len(found) != len(trees) or reserving != now.reserving or not now.idle:
            raise NotYet(f"{len(found)} Workloads decided, {reserving} of {now.reserving:.0f} have quota")
        return found

    return await wait_for(settled, "Kueue to have decided", interval=1)
