"""The scenario that gangs are for: JobSets that together need more than there is.

Four JobSets of five pods each on eight CPUs. A pod finishes only once all five pods of its
JobSet are bound, as training jobs do that wait for their peers. First everybody arrives and
nobody finishes, until the scheduler can place nothing more: eight CPUs filled pod by pod hold at
least three pods of JobSets that cannot start. Then who is complete may finish. As gangs they take turns.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from gangctl.demo.scenario import CPUS, JOBSETS, PODS
from tests.controlplane.api import Object
from tests.controlplane.kubelet import JOBSET_NAME, Kubelet, Outcome
from tests.controlplane.nodes import add_nodes, remove_nodes
from tests.controlplane.wait import NotYet, read_until, wait_for
from tests.jobsets import jobset, rj
from tests.live.cluster import JOBSETS as API
from tests.live.cluster import Cluster
from tests.live.placing import nothing_to_place

__all__ = ["CPUS", "JOBSETS", "PODS", "Result", "Sight", "contend"]

PERMIT_SECONDS = 700.0
"""A gang that did not fit may be tried again only after five minutes; on 1.35 incomplete gangs can hold their place
for as long before the scheduler lets go."""

_POOL = "gangctl.dev/contention"


@dataclass(frozen=True)
class Sight:
    """One look: pods bound now, and whether it has finished, by JobSet."""

    bound: dict[str, int]
    finished: frozenset[str]
    waiting: frozenset[str]
    """JobSets with pods that have no node."""

    @property
    def stranded(self) -> int:
        """Pods that hold capacity for JobSets that cannot start."""
        return sum(n for name, n in self.bound.items() if name not in self.finished and n < PODS)


@dataclass(frozen=True)
class Result:
    """Most pods that were stranded when nothing could be placed, JobSets that finished, and how long it all took."""

    stranded: int
    finished: int
    seconds: float


class Training:
    """The kubelet's policy: pods run until their whole JobSet is bound and :attr:`may_finish`."""

    may_finish = False

    def __call__(self, _pod: Object, jobset: Sequence[Object]) -> Outcome | None:
        return "Succeeded" if self.may_finish and len(jobset) >= PODS else None


async def look(cluster: Cluster) -> Sight:
    """Count bound pods that have not finished, and finished JobSets."""
    bound = {f"train-{i}": 0 for i in range(JOBSETS)}
    waiting = set()
    for pod in await cluster.pods():
        name = pod["metadata"]["labels"][JOBSET_NAME]
        if not pod["spec"].get("nodeName"):
            waiting.add(name)
        elif pod["status"]["phase"] not in {"Succeeded", "Failed"}:
            bound[name] += 1
    finished = {name for name in bound if (await cluster.jobset(name)).get("status", {}).get("terminalState")}
    return Sight(bound, frozenset(finished), frozenset(waiting))


async def contend(cluster: Cluster, *, gangs: bool, to_the_end: bool = True) -> Result:
    """
    Let the JobSets contend until all have finished or nothing more can; leaves the namespace as it is.

    If not ``to_the_end``, only until nothing more can be placed.
    """
    mode = "Gang" if gangs else None
    if gangs:
        await cluster.asked()
    selector = {"nodeSelector": {_POOL: cluster.namespace}}
    manifests = [
        jobset(
            f"train-{i}",
            rj("driver", 1, 1, 1, cpu="1", pod=selector),
            rj("workers", 1, PODS - 1, PODS - 1, cpu="1", pod=selector),
            mode=mode,
        )
        for i in range(JOBSETS)
    ]
    nodes = await add_nodes(
        cluster.api, CPUS // 4, cpu="4", labels={_POOL: cluster.namespace}, prefix=cluster.namespace
    )
    training = Training()
    try:
        async with Kubelet(cluster.api, training) as kubelet:
            began = time.monotonic()
            for manifest in manifests:
                await cluster.create_jobset(manifest)
            await _everybody(cluster)
            full = await _full(cluster, gangs=gangs)
            if not to_the_end:
                return Result(full.stranded, len(full.finished), time.monotonic() - began)
            training.may_finish = True
            await _finish_complete(cluster, kubelet)
            last = await (_all_finished if gangs else _stuck)(cluster)
            return Result(max(full.stranded, last.stranded), len(last.finished), time.monotonic() - began)
    finally:
        await _remove_pods(cluster)
        await remove_nodes(cluster.api, nodes)


async def _everybody(cluster: Cluster) -> None:
    await read_until(cluster.pods, lambda pods: len(pods) >= JOBSETS * PODS, "all pods to exist")


async def _full(cluster: Cluster, *, gangs: bool) -> Sight:
    """The sight when the scheduler can place nothing more."""

    async def full() -> Sight:
        sight = await look(cluster)
        # On 1.35 a pod of a gang holds its place without being bound.
        await nothing_to_place(cluster.plane, full=True, held=gangs and cluster.minor == "1.35")
        if sight != (now := await look(cluster)):
            raise NotYet(f"{sight}, then {now}")
        return sight

    return await wait_for(full, what="the nodes to be full")


async def _all_finished(cluster: Cluster) -> Sight:
    async def finished() -> Sight:
        sight = await look(cluster)
        if len(sight.finished) < JOBSETS:
            raise NotYet(str(sight))
        return sight

    return await wait_for(finished, what="every JobSet to finish", hung=PERMIT_SECONDS)


async def _stuck(cluster: Cluster) -> Sight:
    """The sight when every JobSet has finished, or waits for nodes that are never released."""

    async def waits() -> Sight:
        sight = await look(cluster)
        moving = [name for name in sight.bound if name not in sight.waiting | sight.finished]
        if moving:
            raise NotYet(f"{moving} have all their nodes and have not finished")
        await nothing_to_place(cluster.plane)
        if sight != (now := await look(cluster)):
            raise NotYet(f"{sight}, then {now}")
        return sight

    return await wait_for(waits, what="nothing to move", interval=0.2)


async def _finish_complete(cluster: Cluster, kubelet: Kubelet) -> None:
    """Finish the JobSets that are complete already; the policy is only asked when something changes."""
    sight = await look(cluster)
    for pod in kubelet.pods:
        labels = pod["metadata"].get("labels", {})
        name = labels.get(JOBSET_NAME, "")
        if pod["metadata"]["namespace"] == cluster.namespace and sight.bound.get(name) == PODS:
            await kubelet.finish(pod)


async def _remove_pods(cluster: Cluster) -> None:
    """Delete the JobSets, and wait until their capacity is free and their pods are gone."""
    for i in range(JOBSETS):
        await cluster.api.remove(cluster.path(API, "jobsets", f"train-{i}"), propagation="Background")

    async def gone() -> bool:
        # A Job that is not deleted yet makes them anew.
        await cluster.api.delete(cluster.path("v1", "pods"), grace=0)
        if left := [
            *await cluster.api.list(cluster.path(API, "jobsets")),
            *await cluster.jobs(),
            *await cluster.pods(),
        ]:
            raise NotYet(f"{len(left)} objects are left")
        return True

    await wait_for(gone, what="JobSets, Jobs and pods to be gone", interval=0.2)
