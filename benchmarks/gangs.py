"""Gangs a second, as scheduler_perf measures them: many gangs at once on simulated nodes, until all pods have a node.

Three ways, each on a control plane of its own: JobSets through gangctl; bare, PodGroups and pods by a client, which is
the least that gangs cost the scheduler; and JobSets without gangs, which is what JobSet and the Job controller take.
Shapes are those of kube-scheduler's own ``podgroup/gangscheduling``, and one of many small gangs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from benchmarks.burst import Way, fresh, turns
from benchmarks.floor import prepare
from benchmarks.meters import compared, cpu_seconds, percentiles
from benchmarks.result import Figure, Findings
from benchmarks.table import Table
from tests.controlplane.api import Object
from tests.controlplane.kubelet import JOBSET_NAME
from tests.controlplane.minors import NEWEST
from tests.controlplane.nodes import add_nodes
from tests.controlplane.wait import NotYet, wait_for
from tests.jobsets import jobset, rj
from tests.live.cluster import Cluster
from tests.live.gangctl import Gangctl

NAMESPACE: Final = "gangs"
CLIENTS: Final = 10
HUNG_SECONDS: Final = 900.0
TITLES: Final = {Way.GANGCTL: "JobSets, gangctl", Way.FLOOR: "bare PodGroups and pods", Way.NONE: "JobSets, no gangs"}
_OF_TEMPLATES: Final = ("workloadRef", "podGroupTemplateRef")


@dataclass(frozen=True, slots=True)
class Shape:
    """So many gangs of so many pods on so many nodes."""

    gangs: int
    pods: int
    nodes: int

    def __str__(self) -> str:
        """As a row of the table names it."""
        return f"{self.gangs} x {self.pods:,} on {self.nodes:,}"


FULL: Final = (Shape(3, 10, 500), Shape(300, 4, 1_000), Shape(9, 100, 5_000), Shape(9, 1_000, 5_000))
QUICK: Final = (Shape(3, 4, 5),)


@dataclass(frozen=True, slots=True)
class Run:
    """Seconds from the first request for each gang to its last bind, seconds for all, and CPU seconds by process."""

    delays: list[float]
    seconds: float
    cpu: Mapping[str, float]


@dataclass
class Binds:
    """When a watch had shown all pods of a gang on nodes."""

    pods: int
    bound: dict[str, set[str]] = field(default_factory=dict)
    complete: dict[str, float] = field(default_factory=dict)

    def saw(self, pod: Object) -> None:
        """A pod has a node."""
        gang = pod["metadata"]["labels"][JOBSET_NAME]
        names = self.bound.setdefault(gang, set())
        names.add(pod["metadata"]["name"])
        if len(names) == self.pods:
            self.complete.setdefault(gang, time.monotonic())


@asynccontextmanager
async def _watching(cluster: Cluster, binds: Binds) -> AsyncIterator[None]:
    """Count each pod of the namespace once, when it has a node."""
    path = cluster.path("v1", "pods")

    async def follow() -> None:
        # An API server ends the watch of a reader that was too slow. The next one begins with all that are there.
        while True:
            async for event in cluster.api.watch(path, fieldSelector="spec.nodeName!=", resourceVersion="0"):
                if event.type == "ADDED":
                    binds.saw(event.object)

    task = asyncio.create_task(follow())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def measure(shape: Shape, way: Way) -> Run:
    """All gangs at once, from several clients."""
    async with fresh(NEWEST, NAMESPACE, way) as (cluster, gangctl):
        await add_nodes(cluster.api, shape.nodes)
        return await _burst(cluster, shape, way, gangctl)


async def _burst(cluster: Cluster, shape: Shape, way: Way, gangctl: Gangctl | None) -> Run:
    mode = "Gang" if way is not Way.NONE else None
    raws = {
        name: jobset(name, rj("workers", 1, shape.pods, shape.pods, cpu="1"), mode=mode)
        for name in (f"gang-{number}" for number in range(shape.gangs))
    }
    binds, created = Binds(shape.pods), dict[str, float]()
    names = iter(raws)

    async def client() -> None:
        for name in names:
            created[name] = time.monotonic()
            if way is Way.FLOOR:
                await _create_bare(cluster, raws[name], shape.pods)
            else:
                await cluster.create_jobset(raws[name])

    async def everything() -> bool:
        if len(binds.complete) < shape.gangs:
            raise NotYet(f"{len(binds.complete)} gangs, {sum(map(len, binds.bound.values()))} pods have nodes")
        return True

    async with _watching(cluster, binds):
        began, used = time.monotonic(), cpu_seconds(cluster.plane, gangctl)
        await asyncio.gather(*(client() for _ in range(CLIENTS)))
        await wait_for(everything, what="every pod to have a node", hung=HUNG_SECONDS)
        taken = cpu_seconds(cluster.plane, gangctl, since=used)
    delays = [binds.complete[name] - at for name, at in created.items()]
    return Run(delays, max(binds.complete.values()) - began, taken)


async def _create_bare(cluster: Cluster, raw: Object, pods: int) -> None:
    """The PodGroup that gangctl would write, without owner and Workload, and its pods."""
    prepared = prepare(raw, cluster.namespace, cluster.minor)
    (group,) = (each for each in prepared.objects if each["kind"] == "PodGroup")
    del group["metadata"]["ownerReferences"]
    for name in _OF_TEMPLATES:
        group["spec"].pop(name, None)
    await cluster.api.create(cluster.scheduling("podgroups"), group)
    spec = prepared.jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    gang = raw["metadata"]["name"]

    async def create(number: int) -> None:
        meta = {"name": f"{gang}-{number}", "labels": {JOBSET_NAME: gang}}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
        await cluster.api.create(cluster.path("v1", "pods"), body)

    await asyncio.gather(*(create(number) for number in range(pods)))


def main(quick: bool = False) -> Findings:
    """Each shape in each way; which way is the first takes turns."""
    shapes = QUICK if quick else FULL
    table = Table("gangs", ["shape", "way", "gangs a second", "pods a second", "p50 / p99 to the last bind", "took"])
    runs: list[Mapping[Way, Run]] = []
    for number, shape in enumerate(shapes, 1):
        runs.append({way: asyncio.run(measure(shape, way)) for way in turns(number)})
        for way, title in TITLES.items():
            run = runs[-1][way]
            rates = (f"{count / run.seconds:.1f}" for count in (shape.gangs, shape.gangs * shape.pods))
            table.add(shape, title, *rates, percentiles(run.delays), f"{run.seconds:.1f} s")
        print("\n".join(table.markdown().splitlines()[-len(TITLES) :]), flush=True)
    table.remarks.append(
        f"Gangs x pods on nodes; {CLIENTS} clients create all at once, Kubernetes {NEWEST}. Times are from the first "
        "request for a gang until a watch has shown its last pod with a node. Bare pods need no JobSet and Job "
        "controller: what these take is what JobSets without gangs take longer."
    )
    for shape, ways in zip(shapes, runs, strict=True):
        cpu = compared({title: [ways[way].cpu] for way, title in TITLES.items()}, "seconds")
        table.remarks.append(f"{shape}: {cpu}")
    return Findings(table, [figure_of(shapes, runs)])


def figure_of(shapes: Sequence[Shape], runs: Sequence[Mapping[Way, Run]]) -> Figure:
    """Gangs a second by shape, and bare ones beside them."""
    own, bare = (
        tuple(shape.gangs / run[way].seconds for shape, run in zip(shapes, runs, strict=True))
        for way in (Way.GANGCTL, Way.FLOOR)
    )
    return Figure("gangs-rate", own, bare)
