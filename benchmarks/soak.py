"""Half an hour of churn on real Kubernetes: memory has to stay flat, nothing may be left over, idle means no write.

A pool of JobSets lives through what JobSets live through, at random but from a fixed seed: created, finished,
suspended, resumed, restarted after a failed pod, resized, deleted in the middle of anything. Each minute the resident
memory of the gangctl process is read. Then everything is deleted: no Workload or PodGroup may be left, and no write
may follow.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path

from benchmarks.budgets import limit_of
from benchmarks.chart import Axis, Chart, Line
from benchmarks.result import Figure, Findings
from benchmarks.table import Table
from tests.controlplane.api import ApiFailure, Object
from tests.controlplane.kubelet import Kubelet
from tests.controlplane.minors import NEWEST
from tests.controlplane.nodes import add_nodes
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
from tests.jobsets import jobset, rj
from tests.live.cluster import JOBSETS, Cluster
from tests.live.gangctl import USER, Gangctl, create_namespaces


@dataclass(frozen=True, slots=True)
class Size:
    """Samples and the seconds between them, samples at the beginning that do not count, and how long idle is."""

    samples: int
    sample_seconds: float
    warm_up: int
    idle_seconds: float


FULL, QUICK = Size(30, 60, 5, 60), Size(3, 2, 1, 2)
POOL = 40
PACE_SECONDS = 0.25
GROWTH_BUDGET = limit_of("soak-memory").limit
SEED = 20
_GONE = {404, 409, 422}
"""What a step may meet that came too late: the JobSet has been deleted, changed or finished meanwhile."""


def resident_megabytes(pid: int) -> float:
    """Resident memory of a process, from Linux' /proc."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"/proc/{pid}/status has no VmRSS")


class Churn:
    """The pool of JobSets, and one random step of life at a time."""

    def __init__(self, cluster: Cluster, kubelet: Kubelet) -> None:
        """Act in one namespace; the kubelet runs and ends its pods."""
        self.steps: Counter[str] = Counter()
        self.too_late = 0
        self._cluster = cluster
        self._kubelet = kubelet
        self._random = random.Random(SEED)
        self._number = 0
        self._alive: list[str] = []

    async def step(self) -> None:
        """Fill the pool, or let something happen to one of its JobSets."""
        if len(self._alive) < POOL:
            await self._create()
            return
        name = self._random.choice(self._alive)
        steps: list[tuple[Callable[[str], Coroutine[None, None, None]], int]] = [
            (self._finish, 4),
            (self._suspend, 2),
            (self._resume, 3),
            (self._fail, 2),
            (self._resize, 2),
            (self._delete, 3),
        ]
        act = self._random.choices([act for act, _ in steps], [weight for _, weight in steps])[0]
        self.steps[act.__name__.lstrip("_")] += 1
        try:
            await act(name)
        except ApiFailure as failure:
            if failure.status not in _GONE:
                raise
            self.too_late += 1

    async def _create(self) -> None:
        self.steps["create"] += 1
        self._number += 1
        name = f"soak-{self._number}"
        mode, pods = self._random.choice(["Gang", "ReplicatedGang"]), self._random.randint(1, 4)
        entries = [rj("driver", 1, 1, 1), rj("workers", self._random.randint(1, 2), pods, pods, mode=mode)]
        await self._cluster.create_jobset(jobset(name, *entries, failurePolicy={"maxRestarts": 2}))
        self._alive.append(name)

    def _pods_of(self, name: str) -> list[Object]:
        labelled = [p for p in self._kubelet.pods if _jobset_of(p) == name]
        return [p for p in labelled if p["status"].get("phase") == "Running"]

    async def _finish(self, name: str) -> None:
        for pod in self._pods_of(name):
            await self._kubelet.finish(pod)
        await self._forget_if_over(name)

    async def _fail(self, name: str) -> None:
        for pod in self._pods_of(name)[:1]:
            await self._kubelet.fail(pod)
        await self._forget_if_over(name)

    async def _forget_if_over(self, name: str) -> None:
        """A JobSet that has ended makes room in the pool; it is deleted, as its TTL would."""
        if (await self._cluster.jobset(name)).get("status", {}).get("terminalState"):
            await self._delete(name)

    async def _suspend(self, name: str) -> None:
        await self._cluster.patch_jobset(name, {"spec": {"suspend": True}})

    async def _resume(self, name: str) -> None:
        await self._cluster.patch_jobset(name, {"spec": {"suspend": False}})

    async def _resize(self, name: str) -> None:
        live = await self._cluster.jobset(name)
        pods = self._random.randint(1, 4)
        live["spec"]["replicatedJobs"][1]["template"]["spec"] |= {"parallelism": pods, "completions": pods}
        await self._cluster.patch_jobset(name, {"spec": {"replicatedJobs": live["spec"]["replicatedJobs"]}})

    async def _delete(self, name: str) -> None:
        self._alive.remove(name)
        await self._cluster.api.delete(self._cluster.path(JOBSETS, "jobsets", name), propagation="Background")

    async def end(self) -> None:
        """Delete what is left."""
        for name in [*self._alive]:
            await self._delete(name)


def _jobset_of(pod: Object) -> str:
    return str(pod["metadata"].get("labels", {}).get("jobset.sigs.k8s.io/jobset-name", ""))


async def _leftovers(cluster: Cluster) -> list[str]:
    """Workloads and PodGroups that are still there two minutes after the last JobSet was deleted."""
    names: set[str] = set()

    async def gone() -> bool:
        nonlocal names
        names = (await cluster.gangs()).names
        if names:
            raise NotYet(f"{len(names)} objects")
        return True

    try:
        await wait_for(gone, what="all gangs to be gone", interval=1)
    except TimeoutError:
        return sorted(names)
    return []


async def soak(minor: str, size: Size) -> Findings:
    """Churn, sample, delete, look; one row a sample."""
    table = Table("soak", ["minute", "resident memory", "steps so far", "Workloads and PodGroups"])
    async with ControlPlane.start(minor, ("jobset",)) as plane, Gangctl(plane, "--log-level", "info") as gangctl:
        await create_namespaces(plane, ["soak"])
        cluster = Cluster(plane, "soak")
        await add_nodes(plane.api, 8, cpu="64", memory="256Gi", pods=500)
        memory: list[float] = []
        async with Kubelet(plane.api) as kubelet:
            churn = Churn(cluster, kubelet)
            began, pid = time.monotonic(), gangctl.process.pid
            for sample in range(1, size.samples + 1):
                while time.monotonic() < began + sample * size.sample_seconds:
                    await churn.step()
                    await asyncio.sleep(PACE_SECONDS)
                memory.append(resident_megabytes(pid))
                gangs = await cluster.gangs()
                minute = f"{sample * size.sample_seconds / 60:.3g}"
                table.add(minute, f"{memory[-1]:.1f} MB", sum(churn.steps.values()), len(gangs.names))
                print(table.markdown().splitlines()[-1], flush=True)
            await churn.end()
            left = await _leftovers(cluster)
        await gangctl.settle()
        position = plane.audit_position
        await asyncio.sleep(size.idle_seconds)
        idle = plane.writes_by(USER, position)
    table.remarks = [
        _setting(minor, churn),
        f"Left over: {len(left)} objects{': ' + ', '.join(left) if left else ''} (budget 0).",
        (
            f"Writes in {size.idle_seconds:g} idle seconds afterwards: {len(idle.objects)}, "
            f"events {len(idle.events)} (budget 0)."
        ),
    ]
    settled = memory[size.warm_up :]
    first, last = statistics.median(settled[: size.warm_up]), statistics.median(settled[-size.warm_up :])
    table.remarks.append(
        f"Resident memory of gangctl: median {first:.1f} MB in the {size.warm_up} minutes after a warm-up of "
        f"{size.warm_up}, {last:.1f} MB in the last {size.warm_up}: {last / first:.3f}x (budget {GROWTH_BUDGET}x)."
    )
    figures = [
        Figure("soak-memory", (last,), (first,)),
        Figure("soak-left", (float(len(left)),)),
        Figure("soak-idle", (float(len(idle.objects)),)),
    ]
    return Findings(table, figures, [_chart(memory, size)])


def _setting(minor: str, churn: Churn) -> str:
    done = ", ".join(f"{count} {step}" for step, count in sorted(churn.steps.items()))
    return (
        f"Kubernetes {minor} with JobSet, a pool of {POOL} JobSets of one to three Jobs, seed {SEED}. Steps: {done}; "
        f"{churn.too_late} came too late (the JobSet had finished or could not be changed any more)."
    )


def _chart(memory: list[float], size: Size) -> Chart:
    points = tuple((place * size.sample_seconds / 60, value) for place, value in enumerate(memory, 1))
    return Chart("soak", "Resident memory of gangctl", Axis("minutes"), Axis("MB"), [Line("churn", points)])


def main(quick: bool = False, minor: str = NEWEST) -> Findings:
    """Run it and print a row each minute."""
    return asyncio.run(soak(minor, QUICK if quick else FULL))
