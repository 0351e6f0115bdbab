"""A burst of 300 JobSets on real Kubernetes: how long until their gangs and their Jobs exist.

Both are timed in the same run from the moment a create is answered to the moment a watch shows the
last PodGroup, or the last child Job, of that JobSet. A second run without gangctl tells what the
webhooks cost the JobSet controller. CPU is counted until everything exists: what gangctl took and what the JobSet
controller took are for the same work then, which they are not where creates go on and one of both is behind.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from benchmarks.budgets import limit_of
from benchmarks.chart import Axis, Chart, distribution
from benchmarks.meters import compared, cpu_seconds
from benchmarks.result import Figure, Findings, Observed, percentile
from benchmarks.sightings import Sightings, watching
from benchmarks.table import Table
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


async def burst(cluster: Cluster, size: Size, gangctl: Gangctl | None = None) -> Run:
    """Create all JobSets from several clients and wait until everything of all of them exists; gangs with gangctl."""
    gangs = gangctl is not None
    mode = "Gang" if gangs else None
    created: dict[str, float] = {}
    groups, jobs = Sightings(GROUPS), Sightings(JOBS)
    names = iter([f"b{i}" for i in range(size.jobsets)])

    async def client() -> None:
        for name in names:
            replicated = [rj("driver", 1, 1, 1), rj("ps", 1, 2, 2), rj("workers", 2, 4, 4)]
            raw = jobset(name, *replicated)
            if mode:
                for entry in raw["spec"]["replicatedJobs"]:
                    entry["template"]["metadata"] = {"annotations": {"gangctl.dev/gang-mode": mode}}
            await cluster.create_jobset(raw)
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


async def measure(minor: str, size: Size) -> tuple[Run, Run]:
    """One burst with gangctl and one without, each on a fresh control plane."""
    async with ControlPlane.start(minor, ("jobset",), audit=False) as plane:
        await create_namespaces(plane, ["burst"])
        without = await burst(Cluster(plane, "burst"), size)
    started = ControlPlane.start(minor, ("jobset",), audit=False)
    async with started as plane, Gangctl(plane, "--log-level", "info") as gangctl:
        await create_namespaces(plane, ["burst"])
        with_gangs = await burst(Cluster(plane, "burst"), size, gangctl)
    return with_gangs, without


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
        "without gangctl",
    ]
    table = Table("burst", [*heading, "ratio"])
    ratios, slowdowns, runs = [], [], []
    for number in range(1, size.runs + 1):
        done, bare = asyncio.run(measure(minor, size))
        runs.append((done, bare))
        ratios.append(percentile(done.groups, 0.99) / percentile(done.jobs, 0.99))
        slowdowns.append(done.until_all_jobs / bare.until_all_jobs)
        table.add(
            number,
            *(f"{percentile(done.groups, share):.2f} s" for share in (0.5, 0.99)),
            *(f"{percentile(done.jobs, share):.2f} s" for share in (0.5, 0.99)),
            f"{ratios[-1]:.2f}x",
            f"{done.until_all_jobs:.1f} s",
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
        f"Median time until every Job exists: {statistics.median(slowdowns):.2f}x of the run without gangctl "
        f"(budget {JOBS_BUDGET}x)."
    )
    cpu = compared([done.cpu for done, _ in runs], [bare.cpu for _, bare in runs], "seconds of a burst")
    figures = figures_of(runs, size.jobsets)
    shares = ", ".join(f"{each:.2f}x" for each in figures[-1].ratios)
    beside = f"CPU of gangctl to that of the JobSet controller, by run: {shares} (budget {CPU_BUDGET}x)."
    table.remarks = [setting, verdict, beside, cpu]
    return Findings(table, figures, [_chart(runs)])


def figures_of(runs: list[tuple[Run, Run]], jobsets: int) -> list[Figure]:
    """From runs with gangctl, and without it."""
    groups, jobs = (
        tuple(percentile(each, 0.99) for each in kind)
        for kind in ([done.groups for done, _ in runs], [done.jobs for done, _ in runs])
    )
    observed = Observed.of([value for done, _ in runs for value in done.groups])
    everything = tuple(done.until_all_jobs for done, _ in runs)
    cpu = {name: tuple(done.cpu[name] / jobsets * 1000 for done, _ in runs) for name in ("gangctl", "jobset")}
    return [
        Figure("burst-groups", groups, jobs, observed),
        Figure("burst-jobs", everything, tuple(bare.until_all_jobs for _, bare in runs)),
        Figure("burst-cpu", cpu["gangctl"], cpu["jobset"]),
    ]


def _chart(runs: list[tuple[Run, Run]]) -> Chart:
    drawn = Chart("burst", "From the answer to a create", Axis("s", logarithmic=True), Axis("% of JobSets"))
    kinds = {
        "all PodGroups seen": [done.groups for done, _ in runs],
        "all Jobs seen": [done.jobs for done, _ in runs],
        "all Jobs seen, without gangctl": [bare.jobs for _, bare in runs],
    }
    for label, each in kinds.items():
        drawn.lines.append(distribution(label, [max(value, LEAST_SECONDS) for values in each for value in values]))
    return drawn
