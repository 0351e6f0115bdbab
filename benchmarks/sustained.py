"""JobSets created for a minute without a pause: whether gangctl keeps up, what it takes from others, what it costs.

First beside etcd and the API server only, at a fixed pace: how many JobSets are due by the pace and not yet whole,
each second. Then with everything running, with gangctl, without gangs, and as the floor (:mod:`benchmarks.floor`): as
many creates as ten clients get through, one after the other each. What that costs is counted for each create that is
accepted, and not beside the JobSet controller, which is behind by then: benchmark ``burst`` has that ratio.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from benchmarks.burst import GROUPS, JOBS, Way, fresh, manifest, turns
from benchmarks.chart import Axis, Chart, Line
from benchmarks.floor import prepare
from benchmarks.meters import compared, cpu_seconds
from benchmarks.result import Figure, Findings
from benchmarks.sightings import Sightings, watching
from benchmarks.table import Table
from tests.controlplane import manifests
from tests.controlplane.build import ensure_manifests
from tests.controlplane.minors import NEWEST
from tests.controlplane.plane import ControlPlane
from tests.live.cluster import Cluster
from tests.live.gangctl import Gangctl, create_namespaces

NAMESPACE: Final = "sustained"
LOOK_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Size:
    """Seconds of each part, creates a second at the fixed pace, clients without a pace, and rounds of all."""

    seconds: float
    pace: float
    clients: int
    rounds: int


FULL, QUICK = Size(60, 50, 10, 2), Size(3, 5, 2, 1)


@dataclass(frozen=True, slots=True)
class Paced:
    """Creates at the pace: what was due and not whole at each second, and how many creates were answered by the end."""

    backlog: list[tuple[float, float]]
    answered: int
    due: int

    @property
    def growth(self) -> float:
        """Percent of the creates by which the backlog grows, over the second half: the first one warms up."""
        half = self.backlog[len(self.backlog) // 2 :]
        pace = self.due / self.backlog[-1][0]
        return 100 * slope(half) / pace


@dataclass(frozen=True, slots=True)
class Unpaced:
    """Creates accepted a second, and what they cost."""

    accepted: float
    cpu: Mapping[str, float]
    """Milliseconds by process for each create that was accepted."""


def slope(points: list[tuple[float, float]]) -> float:
    """Of the straight line with the least squares; 0 where there are too few points for one."""
    return statistics.linear_regression(*zip(*points, strict=True)).slope if len(points) > 1 else 0.0


async def paced(minor: str, size: Size) -> Paced:
    """Beside an API server without controllers."""
    definition = manifests.crds(ensure_manifests("jobset") / "crd")
    started = ControlPlane.start(minor, (), scheduler=False, controller_manager=False, crds=definition, audit=False)
    async with started as plane, Gangctl(plane, "--log-level", "info"):
        await create_namespaces(plane, [NAMESPACE])
        cluster, groups = Cluster(plane, NAMESPACE), Sightings(GROUPS)
        async with watching(cluster, cluster.scheduling("podgroups"), groups):
            return await _drive(cluster, groups, size)


async def _drive(cluster: Cluster, groups: Sightings, size: Size) -> Paced:
    backlog: list[tuple[float, float]] = []
    total, answered = round(size.pace * size.seconds), 0
    began = time.monotonic()

    async def create(number: int) -> None:
        nonlocal answered
        await cluster.create_jobset(manifest(f"paced-{number}", gangs=True))
        answered += 1

    async def look() -> None:
        while (elapsed := time.monotonic() - began) < size.seconds:
            backlog.append((elapsed, min(total, int(elapsed * size.pace) + 1) - len(groups.complete)))
            await asyncio.sleep(LOOK_SECONDS)

    looking = asyncio.create_task(look())
    async with asyncio.TaskGroup() as group:
        for number in range(total):
            await asyncio.sleep(max(0.0, began + number / size.pace - time.monotonic()))
            group.create_task(create(number))
        await looking
        in_time = answered
    return Paced(backlog, in_time, total)


async def unpaced(minor: str, size: Size, way: Way) -> Unpaced:
    """With everything running."""
    async with fresh(minor, NAMESPACE, way) as (cluster, gangctl):
        used = cpu_seconds(cluster.plane, gangctl)
        accepted = await _clients(cluster, size, way)
        cpu = cpu_seconds(cluster.plane, gangctl, since=used)
    return Unpaced(
        accepted / size.seconds,
        {name: seconds / max(1, accepted) * 1000 for name, seconds in cpu.items()},
    )


async def _clients(cluster: Cluster, size: Size, way: Way) -> int:
    until, accepted = time.monotonic() + size.seconds, 0

    async def client(number: int) -> None:
        nonlocal accepted
        turn = 0
        while time.monotonic() < until:
            raw = manifest(f"c{number}-{turn}", gangs=way is not Way.NONE)
            if way is Way.FLOOR:
                await prepare(raw, cluster.namespace, cluster.minor).create(cluster)
            else:
                await cluster.create_jobset(raw)
            accepted += time.monotonic() < until
            turn += 1

    await asyncio.gather(*(client(number) for number in range(size.clients)))
    return accepted


def main(quick: bool = False, minor: str = NEWEST) -> Findings:
    """Each round on control planes of its own."""
    size = QUICK if quick else FULL
    due = f"answered of due at {size.pace:g}/s"
    headings = ["round", due, "backlog grows", "accepted", "floor", "without gangs", "accepted/floor"]
    table = Table("sustained", headings)
    chart = Chart("sustained", f"Backlog at {size.pace:g} creates/s", Axis("s"), Axis("JobSets due and not whole"))
    slow: list[Paced] = []
    fast: list[dict[Way, Unpaced]] = []
    for number in range(1, size.rounds + 1):
        slow.append(asyncio.run(paced(minor, size)))
        fast.append({way: asyncio.run(unpaced(minor, size, way)) for way in turns(number)})
        beside, floor, bare = (fast[-1][way] for way in Way)
        table.add(
            number,
            f"{slow[-1].answered:,} of {slow[-1].due:,}",
            f"{slow[-1].growth:.2f}%",
            f"{beside.accepted:.1f}/s",
            f"{floor.accepted:.1f}/s",
            f"{bare.accepted:.1f}/s",
            f"{beside.accepted / floor.accepted:.2f}x",
        )
        print(table.markdown().splitlines()[-1], flush=True)
        chart.lines.append(Line(f"round {number}", tuple((at, max(0.0, behind)) for at, behind in slow[-1].backlog)))
    table.remarks.append(
        f"JobSets of 3 ReplicatedJobs ({JOBS} Jobs, {GROUPS} PodGroups each), {size.seconds:g} s each, Kubernetes "
        f"{minor}. Backlog: due by the pace and not all PodGroups seen by a watch; it grows by that share of the "
        f"creates over the second half. Accepted: {size.clients} clients without a pace, everything running."
    )
    table.remarks.append(
        compared({way: [each[way].cpu for each in fast] for way in Way}, "ms for each create accepted")
    )
    figures = [
        Figure("sustained-backlog", tuple(each.growth for each in slow)),
        Figure(
            "sustained-accepted",
            tuple(each[Way.GANGCTL].accepted for each in fast),
            tuple(each[Way.FLOOR].accepted for each in fast),
        ),
    ]
    return Findings(table, figures, [chart])
