"""A burst of 300 JobSets on real Kubernetes: how long until their gangs and their Jobs exist.

Both are timed in the same run from the moment a create is answered to the moment a watch shows the
last PodGroup, or the last child Job, of that JobSet. Two more bursts are beside it: the floor, in which a plain client
creates the same objects (:mod:`benchmarks.floor`), and one without gangs. They take turns at being the first. CPU is
counted until everything exists: what gangctl took and what the JobSet controller took are for the same work then, which
they are not where creates go on and one of both is behind.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from benchmarks.budgets import limit_of
from benchmarks.chart import Axis, Chart, distribution
from benchmarks.floor import prepare
from benchmarks.meters import compared, cpu_seconds
from benchmarks.result import Figure, Findings, Observed, percentile
from benchmarks.sightings import Sightings, watching
from benchmarks.table import Table
from tests.controlplane.api import Object
from tests.controlplane.minors import NEWEST
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
from tests.jobsets import jobset, rj
from tests.live.cluster import Cluster
from tests.live.gangctl import Gangctl, create_namespaces

GROUPS = 3
JOBS = 4


@dataclass(frozen=True, slots=True)
class Size:
    """JobSets of one burst, clients that create them, and runs."""

    jobsets: int
    clients: int
    runs: int


FULL, QUICK = Size(300, 10, 3), Size(6, 2, 1)
LEAST_SECONDS: Final = 0.001
"""A watch may be quicker than the answer; the chart begins here."""
GROUPS_BUDGET: Final = limit_of("burst-groups").limit
JOBS_BUDGET: Final = limit_of("burst-jobs").limit
CPU_BUDGET: Final = limit_of("burst-cpu").limit


@dataclass
class Run:
    """One burst: seconds from each create to all groups, and to all Jobs."""

    groups: list[float]
    jobs: list[float]
    until_all_jobs: float
    cpu: Mapping[str, float]
    """Seconds by process."""


class Way(StrEnum):
    """Who writes the objects of gangs."""

    GANGCTL = "with gangctl"
    FLOOR = "floor"
    NONE = "without gangs"


def manifest(name: str, *, gangs: bool) -> Object:
    """A JobSet of four Jobs and, as gangs, three groups."""
    raw = jobset(name, rj("driver", 1, 1, 1), rj("ps", 1, 2, 2), rj("workers", 2, 4, 4))
    for entry in raw["spec"]["replicatedJobs"] if gangs else ():
        entry["template"]["metadata"] = {"annotations": {"gangctl.dev/gang-mode": "Gang"}}
    return raw


async def burst(cluster: Cluster, size: Size, way: Way, gangctl: Gangctl | None = None) -> Run:
    """Create all JobSets from several clients and wait until everything of all of them exists."""
    gangs = way is not Way.NONE
    created: dict[str, float] = {}
    groups, jobs = Sightings(GROUPS), Sightings(JOBS)
    raws = {f"b{number}": manifest(f"b{number}", gangs=gangs) for number in range(size.jobsets)}
    floor = {name: prepare(raw, cluster.namespace, cluster.minor) for name, raw in raws.items() if way is Way.FLOOR}
    names = iter(raws)

    async def client() -> None:
        for name in names:
            if name in floor:
                await floor[name].create(cluster)
            else:
                await cluster.create_jobset(raws[name])
            created[name] = time.monotonic()

    async with (
        watching(cluster, cluster.scheduling("podgroups"), groups),
        watching(cluster, cluster.path("batch/v1", "jobs"), jobs),
    ):
        began, used = time.monotonic(), cpu_seconds(cluster.plane, gangctl)
        await asyncio.gather(*(client() for _ in range(size.clients)))

        async def everything() -> bool:
            seen = (len(groups.complete) if gangs else size.jobsets, len(jobs.complete))
            if min(seen) < size.jobsets:
                raise NotYet(f"groups and Jobs complete: {seen}")
            return True

        await wait_for(everything, what="everything to exist")
        taken = cpu_seconds(cluster.plane, gangctl, since=used)
    return Run(_delays(groups, created), _delays(jobs, created), max(jobs.complete.values()) - began, taken)


def _delays(sightings: Sightings, created: Mapping[str, float]) -> list[float]:
    return [max(0.0, at - created[name]) for name, at in sightings.complete.items()]


@asynccontextmanager
async def fresh(minor: str, namespace: str, way: Way) -> AsyncGenerator[tuple[Cluster, Gangctl | None]]:
    """A namespace where JobSet, the scheduler and Kubernetes' controllers run, and gangctl if it writes."""
    async with AsyncExitStack() as stack:
        plane = await stack.enter_async_context(ControlPlane.start(minor, ("jobset",), audit=False))
        gangctl = None
        if way is Way.GANGCTL:
            gangctl = await stack.enter_async_context(Gangctl(plane, "--log-level", "info"))
        await create_namespaces(plane, [namespace])
        yield Cluster(plane, namespace), gangctl


async def measure(minor: str, size: Size, way: Way) -> Run:
    """One burst."""
    async with fresh(minor, "burst", way) as (cluster, gangctl):
        return await burst(cluster, size, way, gangctl)


def turns(number: int) -> list[Way]:
    """All ways, each round another one first."""
    ways = list(Way)
    return ways[number % len(ways) :] + ways[: number % len(ways)]


def main(quick: bool = False, minor: str = NEWEST) -> Findings:
    """Run it, print each run, and keep all."""
    size = QUICK if quick else FULL
    heading = [
        "run",
        "groups p50",
        "groups p99",
        "Jobs p50",
        "Jobs p99",
        "groups/Jobs p99",
        "all Jobs",
        "floor",
        "without gangs",
    ]
    table = Table("burst", [*heading, "all Jobs/floor"])
    ratios, slowdowns = [], []
    runs: list[dict[Way, Run]] = []
    for number in range(1, size.runs + 1):
        run = {way: asyncio.run(measure(minor, size, way)) for way in turns(number)}
        done, floor, bare = (run[way] for way in Way)
        runs.append(run)
        ratios.append(percentile(done.groups, 0.99) / percentile(done.jobs, 0.99))
        slowdowns.append(done.until_all_jobs / floor.until_all_jobs)
        table.add(
            number,
            *(f"{percentile(done.groups, share):.2f} s" for share in (0.5, 0.99)),
            *(f"{percentile(done.jobs, share):.2f} s" for share in (0.5, 0.99)),
            f"{ratios[-1]:.2f}x",
            f"{done.until_all_jobs:.1f} s",
            f"{floor.until_all_jobs:.1f} s",
            f"{bare.until_all_jobs:.1f} s",
            f"{slowdowns[-1]:.2f}x",
        )
        print(table.markdown().splitlines()[-1], flush=True)
    setting = (
        f"{size.jobsets} JobSets of 3 ReplicatedJobs ({JOBS} Jobs, {GROUPS} PodGroups each), {size.clients} clients, "
        f"Kubernetes {minor} with JobSet, everything on this machine."
    )
    verdict = (
        f"Median groups/Jobs p99: {statistics.median(ratios):.2f}x (budget {GROUPS_BUDGET}x). "
        f"Median time until every Job exists: {statistics.median(slowdowns):.2f}x of the floor "
        f"(budget {JOBS_BUDGET}x)."
    )
    cpu = compared({way: [run[way].cpu for run in runs] for way in Way}, "seconds of a burst")
    figures = figures_of(runs, size.jobsets)
    shares = ", ".join(f"{each:.2f}x" for each in figures[-1].ratios)
    beside = f"CPU of gangctl to that of the JobSet controller, by run: {shares} (budget {CPU_BUDGET}x)."
    table.remarks = [setting, verdict, beside, cpu]
    return Findings(table, figures, [_chart(runs)])


def figures_of(runs: Sequence[Mapping[Way, Run]], jobsets: int) -> list[Figure]:
    """From runs of each way."""
    own, floor = ([run[way] for run in runs] for way in (Way.GANGCTL, Way.FLOOR))
    groups, jobs = (
        tuple(percentile(each, 0.99) for each in kind)
        for kind in ([done.groups for done in own], [done.jobs for done in own])
    )
    observed = Observed.of([value for done in own for value in done.groups])
    everything = tuple(done.until_all_jobs for done in own)
    cpu = {name: tuple(done.cpu[name] / jobsets * 1000 for done in own) for name in ("gangctl", "jobset")}
    return [
        Figure("burst-groups", groups, jobs, observed),
        Figure("burst-jobs", everything, tuple(each.until_all_jobs for each in floor)),
        Figure("burst-cpu", cpu["gangctl"], cpu["jobset"]),
    ]


def _chart(runs: Sequence[Mapping[Way, Run]]) -> Chart:
    drawn = Chart("burst", "From the answer to a create", Axis("s", logarithmic=True), Axis("% of JobSets"))
    kinds = {
        "all PodGroups seen": [run[Way.GANGCTL].groups for run in runs],
        "all Jobs seen": [run[Way.GANGCTL].jobs for run in runs],
        "all Jobs seen, floor": [run[Way.FLOOR].jobs for run in runs],
        "all Jobs seen, without gangs": [run[Way.NONE].jobs for run in runs],
    }
    for label, each in kinds.items():
        drawn.lines.append(distribution(label, [max(value, LEAST_SECONDS) for values in each for value in values]))
    return drawn
