"""What is written: for each new JobSet, when everything is looked at again, and while nothing happens.

The API server's audit log counts. Everything is looked at again when gangctl starts anew: it remembers nothing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

from benchmarks.result import Figure, Findings
from benchmarks.table import Table
from gangctl.gang.reasons import Reason
from tests.controlplane.api import Object
from tests.controlplane.audit_log import Writes
from tests.controlplane.kubelet import Kubelet
from tests.controlplane.minors import NEWEST
from tests.controlplane.nodes import add_nodes
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
from tests.jobsets import jobset, rj
from tests.live.cluster import Cluster
from tests.live.gangctl import USER, Gangctl, create_namespaces

NAMESPACE: Final = "steady"
JOBSET_USER: Final = "jobset-controller"
_COUNTED: Final = (
    "The budget is about what a creation writes: every normal event counts but GangReady, which readiness adds once in "
    "each attempt, when the gang is ready; warnings are extra."
)


@dataclass(frozen=True, slots=True)
class Size:
    """How many JobSets of each shape, and how long nothing happens."""

    jobsets: int
    idle_seconds: float


FULL, QUICK = Size(20, 60), Size(2, 3)


def shapes(number: int) -> dict[str, tuple[Object, int]]:
    """JobSets by what they are, each with the number of its groups."""
    three = ("a", "b", "c")
    return {
        "one gang": (jobset(f"one-{number}", *(rj(name, 1, 2, 2) for name in three), mode="Gang"), 1),
        "a gang for each ReplicatedJob": (jobset(f"each-{number}", *(rj(n, 1, 2, 2, mode="Gang") for n in three)), 3),
        "a gang for each replica": (
            jobset(f"all-{number}", *(rj(name, 4, 2, 2, mode="ReplicatedGang") for name in three)),
            12,
        ),
    }


async def created(cluster: Cluster, gangctl: Gangctl, size: Size) -> dict[str, int]:
    """Create them all and wait until everything of them is written; how many groups each JobSet has."""
    groups = {}
    for number in range(size.jobsets):
        for manifest, count in shapes(number).values():
            await cluster.create_jobset(manifest)
            groups[manifest["metadata"]["name"]] = count
    wanted = sum(groups.values()) + len(groups)

    async def written() -> bool:
        found, said = len((await cluster.gangs()).names), len(await cluster.reasons())
        if found < wanted or said < len(groups):
            raise NotYet(f"{found} of {wanted} objects, {said} events")
        return True

    await wait_for(written, what="all gangs to be written", interval=0.5)
    await gangctl.settle(len(groups))
    return groups


async def running(cluster: Cluster, gangctl: Gangctl, jobsets: int) -> None:
    """Wait until every gang is ready: what waits is told of again and again, and that is not steady."""

    async def ready() -> bool:
        found = await gangctl.metric("gangctl_gangs", {"namespace": cluster.namespace, "phase": "ready"})
        if found < jobsets:
            raise NotYet(f"{found:.0f} of {jobsets} are ready")
        return True

    await wait_for(ready, what="all gangs to be ready", interval=0.5)
    await gangctl.settle()


def of_each(writes: list[Object]) -> Counter[str]:
    """Writes by the JobSet that the names of objects begin with."""
    found: Counter[str] = Counter()
    for entry in writes:
        shape, number, *_ = entry["objectRef"]["name"].split("-")
        found[f"{shape}-{number}"] += 1
    return found


@dataclass(frozen=True, slots=True)
class Written:
    """By gangctl: for new JobSets, when it looked again, and while nothing happened; and by the JobSet controller."""

    groups: dict[str, int]
    """PodGroups that each JobSet is to have."""
    new: Counter[str]
    events: Counter[str]
    """Normal ones, but those that tell that it is ready."""
    ready: Counter[str]
    """Events that tell that it is ready, one for each attempt: they belong to readiness and not to the creation."""
    reasons: Counter[str]
    """Of all events."""
    again: Writes
    idle: Writes
    beside: int


async def measure(minor: str, size: Size) -> Written:
    """Create, look again, wait."""
    async with AsyncExitStack() as stack:
        plane = await stack.enter_async_context(ControlPlane.start(minor, ("jobset",)))
        gangctl = await stack.enter_async_context(Gangctl(plane, "--log-level", "info"))
        await create_namespaces(plane, [NAMESPACE])
        cluster = Cluster(plane, NAMESPACE)
        await add_nodes(plane.api, 8, cpu="64", memory="256Gi", pods=500)
        await stack.enter_async_context(Kubelet(plane.api))
        position = plane.audit_position
        groups = await created(cluster, gangctl, size)
        await running(cluster, gangctl, len(groups))
        new, beside = (_in_namespace(plane, user, position) for user in (USER, JOBSET_USER))
        told = await cluster.events()
        reasons = Counter(event["reason"] for event in told)
        normal = [event for event in told if event["type"] == "Normal"]
        ready, events = (
            Counter(each["regarding"]["name"] for each in normal if (each["reason"] == Reason.GANG_READY) is told_ready)
            for told_ready in (True, False)
        )
        position = plane.audit_position
        await gangctl.process.restart()
        await gangctl.settle(len(groups))
        again = plane.writes_by(USER, position)
        position = plane.audit_position
        await asyncio.sleep(size.idle_seconds)
        idle = plane.writes_by(USER, position)
        return Written(groups, of_each(new), events, ready, reasons, again, idle, len(beside))


def _in_namespace(plane: ControlPlane, user: str, since: int) -> list[Object]:
    return [each for each in plane.writes_by(user, since).objects if each["objectRef"].get("namespace") == NAMESPACE]


def main(quick: bool = False, minor: str = NEWEST) -> Findings:
    """Run it, and tell of each shape."""
    size = QUICK if quick else FULL
    written = asyncio.run(measure(minor, size))
    table = Table("steady", ["new JobSet", "PodGroups", "writes", "events", "GangReady, beside"])
    for shape, (manifest, count) in shapes(0).items():
        prefix = manifest["metadata"]["name"].partition("-")[0]
        names = [name for name in written.groups if name.startswith(f"{prefix}-")]
        counts = ([each[name] for name in names] for each in (written.new, written.events, written.ready))
        table.add(shape, count, *map(_range, counts))
    table.remarks += [
        f"{len(written.groups)} JobSets, Kubernetes {minor} with JobSet.",
        f"Writes meanwhile: gangctl {written.new.total()}, the JobSet controller {written.beside}.",
        f"Events: {', '.join(f'{count} {reason}' for reason, count in sorted(written.reasons.items()))}.",
        _COUNTED,
        f"Everything looked at again: {_told(written.again)}.",
        f"{size.idle_seconds:g} s in which nothing happens: {_told(written.idle)}.",
    ]
    return Findings(table, _figures(written))


def done(writes: list[Object]) -> list[Object]:
    """Those that the API server carried out: an event that exists already is refused, and nothing is written."""
    return [each for each in writes if each["responseStatus"]["code"] < 300]


def _told(writes: Writes) -> str:
    refused = len(writes.events) - len(done(writes.events))
    return f"{len(writes.objects)} writes, {len(done(writes.events))} events ({refused} more were there already)"


def _figures(written: Written) -> list[Figure]:
    names = list(written.groups)
    objects = tuple(float(written.new[name]) for name in names)
    return [
        *(
            Figure(f"steady-{what}", (float(len(writes.objects) + len(done(writes.events))),))
            for what, writes in (("resync", written.again), ("idle", written.idle))
        ),
        Figure("steady-objects", objects, tuple(float(1 + written.groups[name]) for name in names)),
        Figure("steady-events", tuple(float(written.events[name]) for name in names)),
    ]


def _range(counts: list[int]) -> str:
    low, high = min(counts), max(counts)
    return str(low) if low == high else f"{low} to {high}"
