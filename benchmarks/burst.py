"""A burst of 300 JobSets on real Kubernetes: how long until their gangs and their Jobs exist.

Both are timed in the same run from the moment a create is answered to the moment a watch shows the
last PodGroup, or the last child Job, of that JobSet. A second run without gangctl tells what the
webhooks cost the JobSet controller.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from benchmarks.table import Table
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
from tests.jobsets import jobset, rj
from tests.live.cluster import Cluster
from tests.live.gangctl import Gangctl, create_namespaces

JOBSETS = 300
CLIENTS = 10
GROUPS = 3
JOBS = 4
RUNS = 3
GROUPS_BUDGET = 0.25
JOBS_BUDGET = 1.15


@dataclass
class Sightings:
    """When a watch had shown ``wanted`` objects of each JobSet."""

    wanted: int
    counts: dict[str, int] = field(default_factory=dict)
    complete: dict[str, float] = field(default_factory=dict)

    def saw(self, jobset: str) -> None:
        """Count one more object."""
        self.counts[jobset] = self.counts.get(jobset, 0) + 1
        if self.counts[jobset] == self.wanted:
            self.complete[jobset] = time.monotonic()


@dataclass
class Run:
    """One burst: seconds from each create to all groups, and to all Jobs."""

    groups: list[float]
    jobs: list[float]
    until_all_jobs: float


def percentile(values: list[float], share: float) -> float:
    """The value that ``share`` of all do not exceed."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


@asynccontextmanager
async def watching(cluster: Cluster, path: str, sightings: Sightings) -> AsyncIterator[None]:
    """Count what a watch adds, by the name of the controlling JobSet."""

    async def follow() -> None:
        async for event in cluster.api.watch(path, resourceVersion="0", timeoutSeconds=3600):
            if event.type == "ADDED":
                sightings.saw(event.object["metadata"]["ownerReferences"][0]["name"])

    task = asyncio.create_task(follow())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def burst(cluster: Cluster, *, gangs: bool) -> Run:
    """Create all JobSets from several clients and wait until everything of all of them exists."""
    mode = "Gang" if gangs else None
    created: dict[str, float] = {}
    groups, jobs = Sightings(GROUPS), Sightings(JOBS)
    names = iter([f"b{i}" for i in range(JOBSETS)])

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
        began = time.monotonic()
        await asyncio.gather(*(client() for _ in range(CLIENTS)))

        async def everything() -> bool:
            seen = (len(groups.complete) if gangs else JOBSETS, len(jobs.complete))
            if min(seen) < JOBSETS:
                raise NotYet(f"groups and Jobs complete: {seen}")
            return True

        await wait_for(everything, timeout=300, what="everything to exist")
    return Run(_delays(groups, created), _delays(jobs, created), max(jobs.complete.values()) - began)


def _delays(sightings: Sightings, created: Mapping[str, float]) -> list[float]:
    return [max(0.0, at - created[name]) for name, at in sightings.complete.items()]


async def measure(minor: str) -> tuple[Run, Run]:
    """One burst with gangctl and one without, each on a fresh control plane."""
    async with ControlPlane.start(minor, ("jobset",), audit=False) as plane:
        await create_namespaces(plane, ["burst"])
        without = await burst(Cluster(plane, "burst"), gangs=False)
    async with ControlPlane.start(minor, ("jobset",), audit=False) as plane, Gangctl(plane):
        await create_namespaces(plane, ["burst"])
        with_gangs = await burst(Cluster(plane, "burst"), gangs=True)
    return with_gangs, without


def main(minor: str = "1.37", runs: int = RUNS) -> Table:
    """Run it, print each run, and keep the median."""
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
    ratios, slowdowns = [], []
    for number in range(1, runs + 1):
        done, bare = asyncio.run(measure(minor))
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
        f"{JOBSETS} JobSets of 3 ReplicatedJobs ({JOBS} Jobs, {GROUPS} PodGroups each), {CLIENTS} clients, "
        f"Kubernetes {minor} with JobSet, everything on this machine."
    )
    verdict = (
        f"Median groups/Jobs p99: {statistics.median(ratios):.2f}x (budget {GROUPS_BUDGET}x). "
        f"Median time until every Job exists: {statistics.median(slowdowns):.2f}x of the run without gangctl "
        f"(budget {JOBS_BUDGET}x)."
    )
    table.remarks = [setting, verdict]
    return table
