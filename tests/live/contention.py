"""The scenario that gangs are for: JobSets that together need more than there is.

Four JobSets of five pods each on eight CPUs. A pod finishes only once all five pods of its
JobSet are bound, as training jobs do that wait for their peers. First everybody arrives and
nobody finishes, until nothing moves any more: eight CPUs filled pod by pod hold at least three
pods of JobSets that cannot start. Then who is complete may finish. As gangs they take turns.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gangctl.demo.scenario import CPUS, JOBSETS, PODS
from tests.controlplane.api import ApiFailure, Object
from tests.controlplane.kubelet import JOBSET_NAME, Kubelet, Outcome
from tests.controlplane.nodes import add_nodes, remove_nodes
from tests.controlplane.wait import NotYet, wait_for
from tests.jobsets import jobset, rj
from tests.live.cluster import Cluster

__all__ = ["CPUS", "JOBSETS", "PODS", "Result", "Sight", "contend"]

QUIET_SECONDS = 15.0
"""Nothing changed for so long: what is half-started is stranded."""

BACKOFF_SECONDS = 90.0
"""A gang that did not fit is tried again after a backoff, while others are tried too: 23 s were seen."""

PERMIT_SECONDS = 700.0
"""On 1.35 incomplete gangs can hold their place for five minutes before the scheduler lets go and tries again."""

_POOL = "gangctl.dev/contention"


@dataclass(frozen=True)
class Sight:
    """One look: pods bound now, and whether it has finished, by JobSet."""

    bound: dict[str, int]
    finished: frozenset[str]

    @property
    def stranded(self) -> int:
        """Pods that hold capacity for JobSets that cannot start."""
        return sum(n for name, n in self.bound.items() if name not in self.finished and n < PODS)


@dataclass(frozen=True)
class Result:
    """Most pods that were stranded when nothing moved, JobSets that finished in the end, and how long it all took."""

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
    for pod in await cluster.pods():
        if pod["spec"].get("nodeName") and pod["status"]["phase"] not in {"Succeeded", "Failed"}:
            bound[pod["metadata"]["labels"]["jobset.sigs.k8s.io/jobset-name"]] += 1
    finished = {name for name in bound if (await cluster.jobset(name)).get("status", {}).get("terminalState")}
    return Sight(bound, frozenset(finished))


async def contend(
    cluster: Cluster, *, gangs: bool, tell: Callable[[Sight, float], None] = lambda _sight, _seconds: None
) -> Result:
    """Let the JobSets contend until all have finished or nothing moves any more; leaves the namespace as it is."""
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
            full = await _watch(cluster, tell, began)
            training.may_finish = True
            await _finish_complete(cluster, kubelet)
            last = await _watch(cluster, tell, began, _patience(cluster.minor) if gangs else QUIET_SECONDS)
            return Result(max(full.stranded, last.stranded), len(last.finished), time.monotonic() - began)
    finally:
        await _remove_pods(cluster)
        await remove_nodes(cluster.api, nodes)


def _patience(minor: str) -> float:
    return PERMIT_SECONDS if minor == "1.35" else BACKOFF_SECONDS


async def _everybody(cluster: Cluster) -> None:
    async def arrived() -> bool:
        pods = len(await cluster.pods())
        if pods < JOBSETS * PODS:
            raise NotYet(f"{pods} pods exist")
        return True

    await wait_for(arrived, what="all pods to exist")


async def _watch(
    cluster: Cluster, tell: Callable[[Sight, float], None], began: float, patience: float = QUIET_SECONDS
) -> Sight:
    """Look until all have finished or nothing has changed for ``patience`` seconds; the last sight."""
    changed = time.monotonic()
    last: Sight | None = None

    async def settled() -> Sight:
        nonlocal changed, last
        sight = await look(cluster)
        now = time.monotonic()
        if sight != last:
            last, changed = sight, now
            tell(sight, now - began)
        if len(sight.finished) < JOBSETS and now - changed < patience:
            raise NotYet(str(sight))
        return sight

    return await wait_for(settled, what="nothing to move", interval=0.2)


async def _finish_complete(cluster: Cluster, kubelet: Kubelet) -> None:
    """Finish the JobSets that are complete already; the policy is only asked when something changes."""
    sight = await look(cluster)
    for pod in kubelet.pods:
        labels = pod["metadata"].get("labels", {})
        name = labels.get(JOBSET_NAME, "")
        if pod["metadata"]["namespace"] == cluster.namespace and sight.bound.get(name) == PODS:
            await kubelet.finish(pod)


async def _remove_pods(cluster: Cluster) -> None:
    """Take the JobSets away, so that their capacity and pods are nobody's any more."""
    for i in range(JOBSETS):
        try:
            await cluster.api.delete(
                cluster.path("jobset.x-k8s.io/v1alpha2", "jobsets", f"train-{i}"), propagation="Background"
            )
        except ApiFailure as failure:
            if failure.status != 404:
                raise
    await cluster.api.delete(cluster.path("v1", "pods"), grace=0)
