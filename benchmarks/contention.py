"""JobSets that together need more than there is, with the real scheduler: pods stranded without gangctl and with it.

One run of each act, which shows what can happen and not how often.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from benchmarks.result import Figure, Findings
from benchmarks.table import Table
from tests.controlplane.minors import MINORS, NEWEST
from tests.controlplane.plane import ControlPlane
from tests.live.cluster import Cluster
from tests.live.contention import CPUS, JOBSETS, PODS, Result, contend
from tests.live.gangctl import Gangctl, create_namespaces


async def both_acts(minor: str) -> tuple[Result, Result]:
    """Without gangctl, then with it, on one control plane."""
    async with ControlPlane.start(minor, ("jobset",), audit=False) as plane:
        await create_namespaces(plane, ["without", "with"])
        without = await contend(Cluster(plane, "without"), gangs=False)
        async with Gangctl(plane, "--log-level", "info"):
            return without, await contend(Cluster(plane, "with"), gangs=True)


def main(quick: bool = False) -> Findings:
    """The newest minor."""
    del quick
    table, stranded, without = measure("contention", [NEWEST])
    return Findings(table, [Figure("stranded", stranded), Figure("stranded-without", without)])


def older(quick: bool = False) -> Findings:
    """The others at once, because it is mostly waiting: an act on 1.35 can take ten minutes."""
    minors = [minor for minor in MINORS if minor != NEWEST]
    table, stranded, without = measure("contention-older", minors[:1] if quick else minors)
    return Findings(table, [Figure("stranded-older", stranded), Figure("stranded-older-without", without)])


async def at_once(minors: Sequence[str]) -> list[tuple[Result, Result]]:
    """Both acts on a control plane for each minor."""
    return await asyncio.gather(*map(both_acts, minors))


def measure(name: str, minors: Sequence[str]) -> tuple[Table, tuple[float, ...], tuple[float, ...]]:
    """What there is to tell, and by minor the pods that were stranded with gangctl and without."""
    table = Table(name, ["Kubernetes", "act", "most pods stranded", "JobSets finished", "took"])
    results = asyncio.run(at_once(minors))
    for minor, (without, with_gangs) in zip(minors, results, strict=True):
        for act, result in (("without gangctl", without), ("with gangctl", with_gangs)):
            table.add(minor, act, result.stranded, f"{result.finished} of {JOBSETS}", f"{result.seconds:.0f} s")
            print(table.markdown().splitlines()[-1], flush=True)
    table.remarks.append(
        f"{JOBSETS} JobSets of {PODS} pods with one CPU each, {CPUS} CPUs, kubelets that are played; what is stranded "
        "is counted when the scheduler can place nothing more. A JobSet may finish once all its pods are bound. "
        "Each act ran once: how often JobSets without gangctl strand each other is not known."
    )
    return table, tuple(float(each.stranded) for _, each in results), tuple(float(each.stranded) for each, _ in results)
