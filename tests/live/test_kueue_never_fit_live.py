"""A gang that never fits by gangctl is not admitted by a real Kueue: random quotas, and a gang alone in each."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Awaitable, Iterable
from datetime import UTC, datetime

import pytest

from gangctl.fit.report import FitReport
from gangctl.fit.snapshot import Held, Snapshot
from gangctl.fit.verdict import FitRequest, fit
from gangctl.kueue.objects import QueuedWorkload
from gangctl.kueue.reading import read_cluster_queue, read_cohort, read_flavor, read_local_queue, read_workload
from tests.controlplane.api import path_of
from tests.controlplane.components.addon import create_namespace
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
from tests.fit.trees import API_VERSION, Tree, tree
from tests.live.accounts import Account, Accounts
from tests.live.cluster import JOBSETS

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.timeout(1800),
    pytest.mark.full("a search; that what is told is what Kueue does is shown in test_kueue_cli_live"),
]

TREES = 200
SEED = 20_260_300
NAMESPACE = "fits"
CHECK = "held-back"
NEVER = {"ExceedsMaxQuota", "NoMatchingFlavor", "Misconfigured"}


def path(plural: str, name: str | None = None, namespace: str | None = None) -> str:
    return path_of(API_VERSION, plural, namespace=namespace, name=name)


async def all_of(work: Iterable[Awaitable[object]]) -> None:
    """All of it, a few at a time."""
    turn = asyncio.Semaphore(24)

    async def one(each: Awaitable[object]) -> None:
        async with turn:
            await each

    await asyncio.gather(*(one(each) for each in work))


async def install(plane: ControlPlane, trees: list[Tree], accounts: Accounts) -> None:
    """The quotas, with a check that lets nothing start: what Kueue decides is who gets quota, and pods tell no more."""
    api = plane.api
    await create_namespace(api, NAMESPACE)
    check = {"metadata": {"name": CHECK}, "spec": {"controllerName": "test.example/check"}}
    await api.create(path("admissionchecks"), {"apiVersion": API_VERSION, "kind": "AdmissionCheck", **check})
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    active = {"type": "Active", "status": "True", "reason": "Active", "message": "", "lastTransitionTime": now}
    await api.patch(f"{path('admissionchecks', CHECK)}/status", {"status": {"conditions": [active]}})
    await all_of(api.create(path("resourceflavors"), each) for tree in trees for each in tree.flavors)
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


async def snapshot_of(plane: ControlPlane) -> Snapshot:
    """What gangctl would list, but for the Workloads: each JobSet is asked about as if it were not there yet."""
    api = plane.api
    held: list[Held] = [
        *map(read_cluster_queue, await api.list(path("clusterqueues"))),
        *map(read_cohort, await api.list(path("cohorts"))),
        *map(read_flavor, await api.list(path("resourceflavors"))),
        *map(read_local_queue, await api.list(path("localqueues"))),
    ]
    return Snapshot(
        held,
        runtime_classes=(),
        configuration=(plane.directory / "kueue.yaml").read_text(encoding="utf-8"),
        queue_limit=18,
    )


async def decided(plane: ControlPlane, accounts: Accounts) -> dict[str, QueuedWorkload]:
    """The Workloads by UID of their JobSet, once Kueue has looked at each of them and can decide none otherwise.

    Each is alone in its tree: it waits, or comes up in every round of a strict queue, or has quota; and no other is
    there whose end would change that.
    """

    async def counted() -> Account:
        now = await accounts.ask()
        if now.known != TREES or not now.idle:
            raise NotYet(f"Kueue knows {now.known:.0f} Workloads")
        return now

    before = await wait_for(counted, "Kueue to know every Workload", interval=0.5)

    async def settled() -> dict[str, QueuedWorkload]:
        now = await accounts.ask()
        # A round that had begun before may have been without some.
        if now.waiting and now.cycles < before.cycles + 2:
            raise NotYet(f"{now.waiting:.0f} are to be looked at")
        read = [read_workload(raw) for raw in await plane.api.list(path("workloads", namespace=NAMESPACE))]
        found = {each.owner_uid: each for each in read if "QuotaReserved" in each.conditions}
        reserving = sum(each.holds("QuotaReserved") for each in found.values())
        if len(found) != TREES or reserving != now.reserving or not now.idle:
            raise NotYet(f"{len(found)} Workloads decided, {reserving} of {now.reserving:.0f} have quota")
        return found

    return await wait_for(settled, "Kueue to have decided", interval=1)


@pytest.mark.parametrize(
    "observed",
    [
        pytest.param(False, marks=pytest.mark.xdist_group("never-older"), id="older"),
        pytest.param(True, marks=pytest.mark.xdist_group("never-newer"), id="newer"),
    ],
)
async def test_kueue_never_admits_a_gang_that_never_fits(observed: bool) -> None:
    trees = [tree(SEED + index, check=CHECK) for index in range(TREES)]
    gates = {"UnadmittedWorkloadsObservability": observed}
    beside = ("jobset", "kueue")
    async with ControlPlane.start("1.37", beside, scheduler=False, kueue_gates=gates, kueue_metrics=True) as plane:
        accounts = await Accounts.of(plane)
        await install(plane, trees, accounts)
        jobsets = path_of(JOBSETS, "jobsets", namespace=NAMESPACE)
        await all_of(plane.api.create(jobsets, each.jobset) for each in trees)
        workloads = await decided(plane, accounts)
        knowledge = await snapshot_of(plane)
        created = {raw["metadata"]["name"]: raw for raw in await plane.api.list(jobsets)}
    reported: dict[str, FitReport] = {}
    reserved: dict[str, bool] = {}
    reasons: dict[str, str] = {}
    for each in trees:
        raw = created[each.name]
        workload = workloads[raw["metadata"]["uid"]]
        reported[each.name] = fit(FitRequest(raw, NAMESPACE, {}, each.name, new=False), knowledge)
        reserved[each.name] = workload.holds("QuotaReserved")
        reasons[each.name] = workload.conditions["QuotaReserved"].reason
    count = Counter((report["reason"], reserved[name]) for name, report in reported.items())
    refused = [name for name, has in reserved.items() if not has]
    never = [name for name, report in reported.items() if report["verdict"] == "never"]
    lines = [
        f"seeds {SEED} to {SEED + TREES - 1}: Kueue gives quota to {TREES - len(refused)} of {TREES}",
        f"of the {len(refused)} it leaves waiting, gangctl says never of {len(set(never) & set(refused))}",
        *(f"  {why:24} {'quota' if has else 'waits':6} {number}" for (why, has), number in sorted(count.items())),
    ]
    sys.stdout.write("\n" + "\n".join(lines) + "\n")
    wrong = {name: reported[name]["message"] for name in never if reserved[name]}
    assert wrong == {}, "refused what Kueue admits"
    missed = {
        name: (reasons[name], reported[name]["message"]) for name in refused if reported[name]["verdict"] == "fits"
    }
    assert missed == {}, "promised what Kueue does not give"
    assert len(never) > TREES / 5, "the trees are too large to say anything"
    assert TREES - len(refused) > TREES / 5, "the trees are too small to say anything"
    if observed:
        assert {reasons[name] for name in never} <= NEVER
