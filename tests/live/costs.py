"""What one gang costs, on a real control plane: writes by whom, events of pods, bytes of objects, time to decode.

python -m tests.live.costs

docs/scaling.md reckons with these; ``test_costs_live.py`` holds the page against a plane.
"""

from __future__ import annotations

import asyncio
import sys
import timeit
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final

import aiohttp

from benchmarks.meters import Usage
from gangctl.client.responses import decode_object
from gangctl.readiness.facts import read_pod
from tests.controlplane.api import Object, path_of
from tests.controlplane.kubelet import Kubelet, Outcome
from tests.controlplane.nodes import add_nodes, remove_nodes
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
from tests.jobsets import jobset, rj
from tests.live.cluster import JOBSETS, Cluster
from tests.live.gangctl import OWN_NAMESPACE, USER, Gangctl, create_namespaces
from tests.live.observe import said

PODS: Final = 10
GANG: Final = "gang"
MANY: Final = 40
"""Gangs at once, for seconds of CPU: one alone is lost among what runs anyway."""
_PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_NAMES: Final = {
    "system:kube-scheduler": "kube-scheduler",
    "system:kube-controller-manager": "kube-controller-manager",
    "jobset": "JobSet",
}
"""Of users; every other one is the administrator, who plays the kubelets here, and gangctl."""
_QUIET: Final = ("--log-level", "info")
_SOMEBODYS: Final[Object] = {
    "metadata": {"name": "gangctl"},
    "spec": {"holderIdentity": "somebody", "leaseDurationSeconds": 3600, "renewTime": "2026-01-01T00:00:00.000000Z"},
}
"""A Lease that stays held: a candidate for it stays standby. The other one does not ask."""


@dataclass(frozen=True)
class Costs:
    """Of one gang of :data:`PODS` pods from its creation until it has finished."""

    writes: Mapping[str, Counter[str]]
    """By user, then by verb and resource; what kubelets would write is the administrator's here.

    Without the Event that says that it is ready: its pods end as soon as all run, and whether gangctl looks in between
    is chance.
    """
    lines: tuple[bytes, ...]
    """What a watch of its pods was sent."""
    stored: Mapping[str, int]
    """Bytes of an object as etcd keeps it, by kind."""
    seconds: Mapping[str, float]
    """Of CPU for a gang, by process: of many that were created at once, on a machine that others may use, too."""

    @property
    def bytes_of_an_event(self) -> float:
        """Of a pod, as JSON, on average."""
        return sum(map(len, self.lines)) / len(self.lines)

    def microseconds(self) -> float:
        """To decode an event and keep what readiness wants of it, on average."""
        rounds = 200

        def decode() -> None:
            for line in self.lines:
                read_pod(decode_object(line, 200)["object"])

        best = min(timeit.repeat(decode, number=rounds, repeat=5))
        return best / rounds / len(self.lines) * 1e6


async def measure(cluster: Cluster, processes: Mapping[str, int], many: int = MANY) -> Costs:
    """Create a gang beside a gangctl that runs, have it run and finish, and count; ``processes`` are those to clock."""
    plane = cluster.plane
    await cluster.asked()
    nodes = await add_nodes(plane.api, 4, cpu="200", labels={"costs": cluster.namespace})
    lines: list[bytes] = []
    watching = asyncio.create_task(_follow(cluster, lines))
    since = plane.audit_position
    try:
        async with Kubelet(plane.api, _together):
            await cluster.create_jobset(_gang(GANG))
            stored = await _stored(cluster)
            await _all_finished(cluster)
            await _all_written(cluster, since)
            writes, events = _writes(plane, since, cluster.namespace), tuple(lines)
            writes[USER]["create events"] -= (await cluster.reasons(GANG)).count("GangReady")
            seconds = await _seconds(cluster, processes, many)
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
        await remove_nodes(plane.api, nodes)
    return Costs(writes, events, stored, seconds)


def _gang(name: str) -> Object:
    return jobset(name, rj("workers", 1, PODS, PODS, mode="Gang"))


def _together(_: Object, jobset: Sequence[Object]) -> Outcome | None:
    """Pods end once all of them run: one after the other they would have minCount follow, any number of times."""
    return "Succeeded" if sum(map(_runs, jobset)) == PODS else None


async def _all_finished(cluster: Cluster) -> None:
    """Wait until every JobSet has finished and no Workload and no group is left."""

    async def finished() -> bool:
        found = await cluster.api.list(cluster.path(JOBSETS, "jobsets"))
        waiting = [each for each in found if not (each.get("status") or {}).get("terminalState")]
        if waiting or (names := (await cluster.gangs()).names):
            raise NotYet(f"{len(waiting)} have not finished" if waiting else f"{len(names)} objects are left")
        return True

    await wait_for(finished, "every gang to finish")


async def _all_written(cluster: Cluster, since: int) -> None:
    """Wait until what gangctl writes of the one gang is in the audit log: it has deletions after them."""
    for reason in ("PodGroupDeleted", "WorkloadDeleted"):
        await said(cluster, reason, GANG)
    written = Counter({"delete workloads": 1, "delete podgroups": 1, "create events": len(await cluster.events(GANG))})

    async def logged() -> bool:
        counts = _writes(cluster.plane, since, cluster.namespace).get(USER, Counter())
        if missing := written - counts:
            raise NotYet(f"without {dict(missing)}")
        return True

    await wait_for(logged, what="the audit log to have what gangctl wrote")


async def _seconds(cluster: Cluster, processes: Mapping[str, int], many: int) -> dict[str, float]:
    before = {name: Usage.of(pid).cpu_seconds for name, pid in processes.items()}
    await asyncio.gather(*(cluster.create_jobset(_gang(f"{GANG}-{number}")) for number in range(many)))
    await _all_finished(cluster)
    return {name: (Usage.of(pid).cpu_seconds - before[name]) / many for name, pid in processes.items()}


async def _follow(cluster: Cluster, lines: list[bytes]) -> None:
    """Keep what a watch of the namespace's pods is sent, as it is sent."""
    query = {"watch": "true", "labelSelector": "jobset.sigs.k8s.io/jobset-name"}
    async with _get(cluster, cluster.path("v1", "pods"), query, "application/json") as response:
        async for line in response.content:
            lines.append(line)


@asynccontextmanager
async def _get(
    cluster: Cluster, path: str, query: Mapping[str, str], media_type: str
) -> AsyncIterator[aiohttp.ClientResponse]:
    """An answer in bytes as they come; the tests' client decodes them."""
    session = await cluster.api._session()
    headers, timeout = {"Accept": media_type}, aiohttp.ClientTimeout(total=None)
    async with session.get(cluster.api.url + path, params=query, headers=headers, timeout=timeout) as response:
        assert response.ok, await response.text()
        yield response


async def _stored(cluster: Cluster) -> dict[str, int]:
    """Sizes once every pod runs: of built-in kinds as protobuf, of others as the JSON that is kept."""
    places = {
        "JobSet": (cluster.path(JOBSETS, "jobsets"), "application/json"),
        "Job": (cluster.path("batch/v1", "jobs"), _PROTOBUF),
        "Workload": (cluster.scheduling("workloads"), _PROTOBUF),
        "PodGroup": (cluster.scheduling("podgroups"), _PROTOBUF),
        "Pod": (cluster.path("v1", "pods"), _PROTOBUF),
    }
    sizes = {}
    for kind, (path, media_type) in places.items():

        async def one(path: str = path, kind: str = kind) -> Object:
            found = [each for each in await cluster.api.list(path) if kind != "Pod" or _runs(each)]
            if not found:
                raise NotYet(f"no {kind}")
            return found[0]

        name = (await wait_for(one, what=f"a {kind}"))["metadata"]["name"]
        async with _get(cluster, f"{path}/{name}", {}, media_type) as response:
            sizes[kind] = len(await response.read())
    return sizes


def _runs(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in {"Running", "Succeeded"}


def _writes(plane: ControlPlane, since: int, namespace: str) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = {}
    for each in plane.audit(since):
        place = each.get("objectRef") or {}
        if each["verb"] in {"create", "update", "patch", "delete", "deletecollection"} and (
            place.get("namespace") == namespace and each["stage"] == "ResponseComplete"
        ):
            name = "/".join(filter(None, (place["resource"], place.get("subresource"))))
            found.setdefault(each["user"]["username"], Counter())[f"{each['verb']} {name}"] += 1
    return found


def reported(costs: Costs) -> str:
    """A few lines of text."""
    lines = [f"a gang of {PODS} pods in one Job, from its creation to its end:"]
    for user, counts in sorted(costs.writes.items()):
        each = ", ".join(f"{times} {what}" for what, times in sorted(counts.items()))
        lines.append(f"  {_NAMES.get(user, user)}: {counts.total()} writes ({each})")
    lines.append(f"  events of its pods: {len(costs.lines)}, {costs.bytes_of_an_event:,.0f} bytes each")
    lines.append(f"  decoding one and reading it: {costs.microseconds():.0f} microseconds")
    lines.append("  stored: " + ", ".join(f"{kind} {size:,} bytes" for kind, size in costs.stored.items()))
    each = ", ".join(f"{name} {seconds * 1000:.0f} ms" for name, seconds in costs.seconds.items())
    lines.append(f"  CPU for each of many at once: {each}")
    return "\n".join(lines)


async def _alone() -> None:
    async with ControlPlane.start("1.37", ("jobset",)) as plane, Gangctl(plane, *_QUIET) as gangctl:
        await plane.api.create(path_of("coordination.k8s.io/v1", "leases", namespace=OWN_NAMESPACE), _SOMEBODYS)
        standby = Gangctl(plane, *_QUIET, "--leader-elect=true", name="standby", webhook_url=gangctl.webhook_url)
        async with standby:
            await create_namespaces(plane, ["costs"])
            processes = {name: plane.process(name).pid for name in ("kube-apiserver", "etcd")}
            processes |= {"gangctl": gangctl.process.pid, "a gangctl that stands by": standby.process.pid}
            sys.stdout.write(f"{reported(await measure(Cluster(plane, 'costs'), processes))}\n")


if __name__ == "__main__":
    asyncio.run(_alone())
