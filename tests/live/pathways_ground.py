"""Node pools as GKE has them for Pathways, for one namespace: a pool of TPU nodes is a slice, other nodes hold heads.

TPU nodes are tainted, and every node has a label of the namespace's own, for jobs that are to keep to these nodes.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from gangctl.pathways.accelerators import Slice
from gangctl.pathways.job import PathwaysJob
from gangctl.pathways.reading import read_pathways_job
from gangctl.pathways.rendering.jobset import render
from gangctl.pathways.result import Profile, RenderingInputs
from gangctl.pathways.words import GKE_ACCELERATOR, GKE_NODEPOOL, GKE_TOPOLOGY, HEAD, TPU, WORKER
from tests.controlplane.api import Object
from tests.controlplane.kubelet import JOBSET_NAME
from tests.controlplane.nodes import add_nodes, remove_nodes
from tests.controlplane.wait import NotYet, wait_for
from tests.live.cluster import Cluster

OWN: Final = "gangctl.dev/pool"
"""Label of a ground's nodes; its value is the namespace."""
REPLICATED_JOB: Final = "jobset.sigs.k8s.io/replicatedjob-name"
JOB_INDEX: Final = "jobset.sigs.k8s.io/job-index"
_TAINT: Final = {"key": TPU, "value": "present", "effect": "NoSchedule"}
_HOST: Final[Mapping[str, str]] = {"cpu": "208", "memory": "400Gi"}
_NONE: Final[Mapping[str, str]] = {}


def readable(raw: Mapping[str, Any]) -> PathwaysJob:
    """The job of an object that nothing is wrong with."""
    reading = read_pathways_job(raw)
    assert reading.job is not None, reading.problems
    return reading.job


def rendered(cluster: Cluster, raw: Mapping[str, Any], profile: Profile = Profile.GANG) -> Object:
    """The JobSet for a cluster of this minor."""
    return dict(render(readable(raw), RenderingInputs(profile, topology=cluster.keeps_topology)).jobset)


def pods_of(job: PathwaysJob) -> int:
    """Head and workers."""
    return 1 + job.vms


@dataclass(frozen=True)
class Standing:
    """Where the pods of one JobSet are; one that has ended is nowhere."""

    heads: tuple[str, ...]
    """Node of each head."""
    slices: Mapping[str, tuple[str, ...]]
    """Nodes of the workers by the index of their Job."""
    unbound: int

    @property
    def bound(self) -> int:
        """Pods that hold a node."""
        return len(self.heads) + sum(len(nodes) for nodes in self.slices.values())


@dataclass
class Ground:
    """The pools of one namespace."""

    cluster: Cluster
    pools: dict[str, list[str]] = field(default_factory=dict)
    """Nodes by pool."""

    def pool_of(self, node: str) -> str:
        """The pool that a node belongs to."""
        (found,) = [pool for pool, nodes in self.pools.items() if node in nodes]
        return found

    async def slice_pool(self, of: Slice, labels: Mapping[str, str] = _NONE) -> str:
        """A pool that is one slice, with further labels; its name."""
        kind = {GKE_ACCELERATOR: of.accelerator.label, GKE_TOPOLOGY: of.topology}
        chips = {TPU: str(of.accelerator.chips_per_vm)}
        return await self._pool("tpu", of.vms, {**labels, **kind}, extended=chips, taints=[_TAINT], **_HOST)

    async def head_pool(self, count: int, labels: Mapping[str, str] = _NONE) -> str:
        """So many nodes of a size that heads are run on; the pool's name."""
        return await self._pool("cpu", count, labels, cpu="64", memory="256Gi")

    async def _pool(self, kind: str, count: int, labels: Mapping[str, str], **sizes: Any) -> str:
        name = labels.get(GKE_NODEPOOL) or f"{kind}-{len(self.pools)}-{self.cluster.namespace[-12:]}"
        all_labels = {GKE_NODEPOOL: name, OWN: self.cluster.namespace, **labels}
        prefix = f"{name}-{secrets.token_hex(2)}"
        self.pools[name] = await add_nodes(self.cluster.api, count, labels=all_labels, prefix=prefix, **sizes)
        return name

    async def standing(self) -> dict[str, Standing]:
        """The nodes of all pods, by JobSet."""
        found: dict[str, list[Object]] = {}
        for pod in await self.cluster.pods():
            if name := pod["metadata"].get("labels", {}).get(JOBSET_NAME):
                found.setdefault(name, []).append(pod)
        return {name: _standing(pods) for name, pods in found.items()}

    async def started(self, job: PathwaysJob) -> Standing:
        """Where the pods of a job are, once all of them have a node."""

        async def complete() -> Standing:
            standing = (await self.standing()).get(job.name, _standing([]))
            if standing.bound != pods_of(job) or standing.unbound:
                raise NotYet(f"{standing}")
            return standing

        return await wait_for(complete, f"all pods of {job.name} to have a node", interval=0.2)

    async def refused(self, name: str, count: int) -> Standing:
        """Where the pods of a JobSet are, once the scheduler has refused so many of them."""

        async def reported() -> Standing:
            pods = [p for p in await self.cluster.pods() if p["metadata"].get("labels", {}).get(JOBSET_NAME) == name]
            conditions = [each for pod in pods for each in pod["status"].get("conditions", [])]
            refused = [each for each in conditions if (each["type"], each["status"]) == ("PodScheduled", "False")]
            if len(refused) < count:
                raise NotYet(f"{len(refused)} of {len(pods)} pods refused")
            return _standing(pods)

        return await wait_for(reported, f"{count} pods of {name} to be refused", interval=0.2)

    def look_at(self, job: PathwaysJob, standing: Standing) -> None:
        """All of a job's pods are where they belong: each slice on one pool, the head beside them or on none."""
        slices = [{self.pool_of(node) for node in nodes} for nodes in standing.slices.values()]
        assert [len(pools) for pools in slices] == [1] * job.slices, f"{job.name}: {standing}"
        assert all(len(set(nodes)) == job.slice.vms for nodes in standing.slices.values()), f"{job.name}: {standing}"
        used = set[str]().union(*slices)
        assert len(used) == job.slices, f"{job.name}: two slices on one pool: {standing}"
        (head,) = standing.heads
        assert (self.pool_of(head) in used) == job.colocated, f"{job.name}: {standing}"


def alone(ground: Ground, everybody: Iterable[Standing]) -> None:
    """No pool holds slices, and no node heads, of two JobSets."""
    everybody = list(everybody)
    pools = [{ground.pool_of(node) for nodes in each.slices.values() for node in nodes} for each in everybody]
    assert sum(map(len, pools)) == len(set[str]().union(*pools)), pools
    heads = [node for each in everybody for node in each.heads]
    assert len(heads) == len(set(heads)), heads


@asynccontextmanager
async def open_ground(cluster: Cluster) -> AsyncIterator[Ground]:
    """A ground whose nodes are gone afterwards."""
    ground = Ground(cluster)
    try:
        yield ground
    finally:
        await remove_nodes(cluster.api, [node for nodes in ground.pools.values() for node in nodes])


def _standing(pods: Iterable[Object]) -> Standing:
    heads: list[str] = []
    slices: dict[str, list[str]] = {}
    unbound = 0
    for pod in pods:
        labels, node = pod["metadata"]["labels"], pod["spec"].get("nodeName")
        if pod["status"].get("phase") in {"Succeeded", "Failed"}:
            continue
        if not node:
            unbound += 1
        elif labels[REPLICATED_JOB] == HEAD:
            heads.append(node)
        elif labels[REPLICATED_JOB] == WORKER:
            slices.setdefault(labels[JOB_INDEX], []).append(node)
    return Standing(tuple(heads), {index: tuple(nodes) for index, nodes in slices.items()}, unbound)
