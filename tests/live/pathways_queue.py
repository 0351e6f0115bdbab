"""A queue of Kueue with quota for one PathwaysJob: TPUs of its pools, and cpu and memory of nodes for heads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gangctl.pathways.rendering.jobset import render
from gangctl.pathways.words import GKE_NODEPOOL, TPU
from tests.controlplane.api import Object
from tests.live import kueue
from tests.live.cluster import Cluster
from tests.live.pathways_ground import OWN, Ground, readable
from tests.pathways.samples import pathways_job


def queued_pathways_job(name: str, priority: str) -> Object:
    """Two slices of two VMs, in the namespace's queue."""
    return pathways_job(name, metadata={"labels": {kueue.QUEUE_NAME: "q", kueue.PRIORITY: priority}})


async def queue_for(ground: Ground, raw: Object) -> str:
    """LocalQueue ``q`` with room for one such job, on hold; its ClusterQueue."""
    cluster, job = ground.cluster, readable(raw)
    heads = await ground.head_pool(1)
    for _ in range(job.slices):
        await ground.slice_pool(job.slice)
    name = f"pw-{cluster.namespace[-20:]}"
    flavors = {f"{name}-tpu": {OWN: cluster.namespace}, f"{name}-cpu": {GKE_NODEPOOL: heads}}
    for flavor, labels in flavors.items():
        await kueue.create(cluster.api, "resourceflavors", flavor, spec={"nodeLabels": labels})
    head = render(job).head_requests
    groups = [
        _group(f"{name}-tpu", {TPU: str(job.vms * job.slice.accelerator.chips_per_vm)}),
        _group(f"{name}-cpu", {"cpu": f"{head['cpu']}m", "memory": str(head["memory"])}),
    ]
    spec = {
        "namespaceSelector": {},
        "preemption": {"withinClusterQueue": "LowerPriority"},
        "resourceGroups": groups,
        "stopPolicy": "Hold",
    }
    await kueue.create(cluster.api, "clusterqueues", name, spec=spec)
    await kueue.create(cluster.api, "localqueues", "q", cluster.namespace, spec={"clusterQueue": name})
    return name


def _group(flavor: str, quota: Mapping[str, str]) -> Object:
    resources = [{"name": name, "nominalQuota": amount} for name, amount in quota.items()]
    return {"coveredResources": list(quota), "flavors": [{"name": flavor, "resources": resources}]}


@dataclass(frozen=True)
class Counted:
    """One pod set of a Workload of Kueue's."""

    pods: int
    resources: frozenset[str]
    """Names of what it uses of the quota."""


async def counted(cluster: Cluster, name: str) -> dict[str, Counted]:
    """What quota a JobSet holds, by its ReplicatedJob."""
    uid = (await cluster.jobset(name))["metadata"]["uid"]
    (workload,) = [
        each
        for each in await cluster.api.list(kueue.path("workloads", namespace=cluster.namespace))
        if each["metadata"]["ownerReferences"][0]["uid"] == uid
    ]
    return {
        each["name"]: Counted(each["count"], frozenset(each["resourceUsage"]))
        for each in workload["status"]["admission"]["podSetAssignments"]
    }
