"""What one more JobSet costs where there are 100, 1,000 and 10,000: it must not depend on how many there are.

Beside etcd and an API server without controllers, filled as in :mod:`benchmarks.crowd`. What gangctl takes while
nothing is created is measured first, for as long, and is not the new JobSets' cost; it is told apart.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from dataclasses import dataclass, field
from typing import Final

from benchmarks import crowd
from benchmarks.chart import Axis, Chart, Line
from benchmarks.exposed import Exposed, since
from benchmarks.meters import Usage, scrape
from benchmarks.result import Figure, Findings
from benchmarks.sightings import Sightings, watching
from benchmarks.table import Table
from tests.controlplane import manifests
from tests.controlplane.build import ensure_manifests
from tests.controlplane.minors import NEWEST
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
from tests.jobsets import jobset, rj
from tests.live.cluster import Cluster
from tests.live.gangctl import Gangctl, create_namespaces, prepare

NAMESPACE: Final = "growth"
GROUPS: Final = 3
CALM_SECONDS: Final = 5.0
EVENT_SECONDS: Final = 1.0
_RECONCILE: Final = "gangctl_reconcile_duration_seconds"
_REQUESTS: Final = "gangctl_rest_client_requests_total"


@dataclass(frozen=True, slots=True)
class Size:
    """How many JobSets are there, how many come a round and how fast, and rounds at each."""

    crowds: tuple[int, ...]
    creates: int
    pace: float
    rounds: int


FULL, QUICK = Size((100, 1_000, 10_000), 300, 20, 3), Size((10, 20, 30), 5, 5, 1)


@dataclass
class Cost:
    """At one size: seconds of CPU of the start for each JobSet, a value a round of the others."""

    crowd: int
    start: float
    memory: float
    idle: list[float] = field(default_factory=list)
    """Seconds of CPU in a second in which nothing is created."""
    cpu: list[float] = field(default_factory=list)
    """Milliseconds for each new JobSet, beyond what is taken when nothing is created."""
    reconcile: list[float] = field(default_factory=list)
    """Mean milliseconds."""


async def at(minor: str, jobsets: int, size: Size) -> Cost:
    """Fill, start, create."""
    definition = manifests.crds(ensure_manifests("jobset") / "crd")
    started = ControlPlane.start(minor, (), scheduler=False, controller_manager=False, crds=definition, audit=False)
    async with started as plane:
        await crowd.fill(plane, jobsets)
        await prepare(plane)
        await create_namespaces(plane, [NAMESPACE])
        gangctl = Gangctl(plane, "--log-level", "info")
        try:
            await gangctl.process.start()
            await _calm(gangctl, jobsets)
            usage = Usage.of(gangctl.process.pid)
            cost = Cost(jobsets, usage.cpu_seconds / jobsets, usage.most_megabytes)
            cluster, groups = Cluster(plane, NAMESPACE), Sightings(GROUPS)
            async with watching(cluster, cluster.scheduling("podgroups"), groups):
                for number in range(size.rounds):
                    await _round(cluster, gangctl, groups, size=size, cost=cost, number=number)
            return cost
        finally:
            await gangctl.close()


async def _calm(gangctl: Gangctl, jobsets: int) -> None:
    """Wait until all gangs are published and no request is sent for a while: events of the start take their time."""
    before = -1.0

    async def calm() -> bool:
        nonlocal before
        exposed = (await scrape(gangctl)).exposed
        published, requests = exposed.sum("gangctl_gangs"), _changes(exposed)
        still, before = requests == before, requests
        if published < jobsets or not still:
            raise NotYet(f"{published:.0f} gangs, {requests:.0f} writes")
        return True

    await wait_for(calm, interval=CALM_SECONDS, what="gangctl to be calm", hung=900)


def _changes(exposed: Exposed) -> float:
    """Requests that write; Leases are not written without election."""
    return sum(
        count for row, count in exposed.rows(_REQUESTS) if row["verb"] in {"create", "patch", "update", "delete"}
    )


async def _round(cluster: Cluster, gangctl: Gangctl, groups: Sightings, *, size: Size, cost: Cost, number: int) -> None:
    pid, seconds = gangctl.process.pid, size.creates / size.pace
    used = Usage.of(pid).cpu_seconds
    await asyncio.sleep(seconds)
    idle = (Usage.of(pid).cpu_seconds - used) / seconds
    before = (await scrape(gangctl)).exposed
    used, began = Usage.of(pid).cpu_seconds, time.monotonic()
    names = [f"new-{number}-{turn}" for turn in range(size.creates)]
    async with asyncio.TaskGroup() as group:
        for turn, name in enumerate(names):
            await asyncio.sleep(max(0.0, began + turn / size.pace - time.monotonic()))
            replicated = [rj(entry, 1, 2, 2, mode="Gang") for entry in ("a", "b", "c")]
            group.create_task(_created(cluster, name, replicated))

    async def whole() -> bool:
        if missing := sum(name not in groups.complete for name in names):
            raise NotYet(f"{missing} without all groups")
        return True

    await wait_for(whole, what="new JobSets to be whole")
    # Their events, too. Nothing is scraped until the CPU has been read: a scrape costs more where there are more.
    await asyncio.sleep(EVENT_SECONDS)
    took, spent = time.monotonic() - began, Usage.of(pid).cpu_seconds - used
    done = since(before, (await scrape(gangctl)).exposed)
    reconciles = [
        sum(value for row, value in done.rows(f"{_RECONCILE}_{part}") if row["controller"] == "gangs")
        for part in ("sum", "count")
    ]
    cost.idle.append(idle)
    cost.cpu.append(max(0.0, spent - idle * took) / size.creates * 1000)
    cost.reconcile.append(reconciles[0] / reconciles[1] * 1000)


async def _created(cluster: Cluster, name: str, replicated: list[dict[str, object]]) -> None:
    await cluster.create_jobset(jobset(name, *replicated))


def main(quick: bool = False, minor: str = NEWEST) -> Findings:
    """Each size on a control plane of its own, the smallest first."""
    size = QUICK if quick else FULL
    table = Table(
        "growth", ["JobSets", "CPU of one more", "reconcile, mean", "idle CPU", "start, CPU of each", "memory"]
    )
    costs = []
    for jobsets in size.crowds:
        cost = asyncio.run(at(minor, jobsets, size))
        costs.append(cost)
        table.add(
            f"{jobsets:,}",
            *(f"{statistics.median(each):.2f} ms" for each in (cost.cpu, cost.reconcile)),
            f"{statistics.median(cost.idle) * 100:.1f}% of a core",
            f"{cost.start * 1000:.1f} ms",
            f"{cost.memory:.0f} MB",
        )
        print(table.markdown().splitlines()[-1], flush=True)
    table.remarks.append(
        f"Each JobSet that is there has {crowd.PODS} pods and one PodGroup; {size.creates} come at {size.pace:g}/s, "
        f"each with {GROUPS} PodGroups, {size.rounds} rounds; etcd and kube-apiserver of Kubernetes {minor} without "
        "controllers. CPU of one more: beyond idle CPU. The start's CPU includes what starting costs by itself."
    )
    return Findings(table, _figures(costs), [chart(costs)])


def _figures(costs: list[Cost]) -> list[Figure]:
    few, many = costs[0], costs[-1]
    return [
        Figure("growth-cpu", tuple(many.cpu), tuple(few.cpu)),
        Figure("growth-reconcile", tuple(many.reconcile), tuple(few.reconcile)),
    ]


def chart(costs: list[Cost]) -> Chart:
    """Cost of one more by how many there are."""
    drawn = Chart("growth", "One more JobSet", Axis("JobSets that are there", logarithmic=True), Axis("ms"))
    for label, values in (
        ("CPU of gangctl", {each.crowd: each.cpu for each in costs}),
        ("a reconcile", {each.crowd: each.reconcile for each in costs}),
    ):
        drawn.lines.append(Line(label, tuple((float(n), statistics.median(each)) for n, each in values.items())))
    return drawn
