"""Kueue beside a plane and a gangctl that run already, with its queues; and what the two make of one JobSet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tests.controlplane.api import ApiClient, Object, path_of
from tests.controlplane.components import kueue
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import read_until
from tests.jobsets import jobset, rj
from tests.live.cluster import JOBSETS, Cluster

API_VERSION: Final = kueue.API_VERSION
QUEUE_NAME: Final = "kueue.x-k8s.io/queue-name"
PRIORITY: Final = "kueue.x-k8s.io/priority-class"
POOL: Final = "gangctl.dev/pool"

_NAMESPACED: Final = frozenset({"localqueues", "workloads"})
_KINDS: Final = {
    "clusterqueues": "ClusterQueue",
    "cohorts": "Cohort",
    "localqueues": "LocalQueue",
    "resourceflavors": "ResourceFlavor",
    "workloadpriorityclasses": "WorkloadPriorityClass",
}


async def install(plane: ControlPlane) -> None:
    """Install Kueue, as a user does long after gangctl, with its configuration where its manifests have it."""
    await plane.add("kueue")
    await configure(plane)


async def configure(plane: ControlPlane) -> None:
    """Put the configuration of the plane's Kueue where gangctl looks for it."""
    text = (plane.directory / "kueue.yaml").read_text()
    body: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kueue-manager-config"}}
    body["data"] = {"controller_manager_config.yaml": text}
    await plane.api.create(path_of("v1", "configmaps", namespace=kueue.NAMESPACE), body)


def path(plural: str, name: str | None = None, namespace: str | None = None) -> str:
    """Path of an object of Kueue, or of all of a kind."""
    return path_of(API_VERSION, plural, namespace=namespace if plural in _NAMESPACED else None, name=name)


async def create(api: ApiClient, plural: str, name: str, namespace: str | None = None, **body: Any) -> None:
    """Create an object of Kueue; ``spec`` and the like are keywords."""
    raw: Object = {"apiVersion": API_VERSION, "kind": _KINDS[plural], "metadata": {"name": name}, **body}
    await api.create(path(plural, namespace=namespace), raw)


def cpu_groups(flavors: Mapping[str, int]) -> list[Object]:
    """One resource group with so many CPUs in each flavor."""
    return [
        {
            "coveredResources": ["cpu"],
            "flavors": [
                {"name": name, "resources": [{"name": "cpu", "nominalQuota": str(cpus)}]}
                for name, cpus in flavors.items()
            ],
        }
    ]


async def make_queue(cluster: Cluster, cpus: Mapping[str, int], **spec: Any) -> str:
    """LocalQueue ``q`` with a ClusterQueue of its own, which is returned; flavors are node pools of these names."""
    name = f"cq-{cluster.namespace[-20:]}"
    for flavor in cpus:
        await create(cluster.api, "resourceflavors", flavor, spec={"nodeLabels": {POOL: flavor}})
    preemption = {"withinClusterQueue": "LowerPriority"}
    groups = cpu_groups(cpus)
    settings = {"namespaceSelector": {}, "preemption": preemption, "resourceGroups": groups, **spec}
    await create(cluster.api, "clusterqueues", name, spec=settings)
    await create(cluster.api, "localqueues", "q", cluster.namespace, spec={"clusterQueue": name})
    return name


def queued(name: str, pods: int, *, priority: str = "", queue: str = "q", **pod: Any) -> Object:
    """A gang of so many pods of one CPU, in a queue."""
    raw = jobset(name, rj("w", 1, pods, pods, cpu="1", mode="Gang", pod=pod))
    raw["metadata"]["labels"] = {QUEUE_NAME: queue, **({PRIORITY: priority} if priority else {})}
    return raw


@dataclass(frozen=True)
class Life:
    """Where a JobSet stands with Kueue, and its gang with Kubernetes."""

    suspended: bool
    workload: Mapping[str, str]
    """Status by type of condition of Kueue's Workload."""
    flavors: Mapping[str, str]
    pods: Sequence[Object]
    """Those that hold a node."""
    gang: Mapping[str, str]
    """UID by name of Workloads and PodGroups (``scheduling.k8s.io``) that it owns and that are not being deleted."""
    evictions: int
    """How often it was evicted, as Kueue counts."""

    @property
    def running(self) -> int:
        """Pods that run."""
        return sum(pod["status"].get("phase") == "Running" for pod in self.pods)


async def look(cluster: Cluster, name: str) -> Life:
    """Look at one JobSet."""
    live = await cluster.jobset(name)
    uid = live["metadata"]["uid"]
    listed = await cluster.api.list(path("workloads", namespace=cluster.namespace))
    owned = [each for each in listed if _owner(each) == uid]
    status = owned[0].get("status", {}) if owned else {}
    assigned = (status.get("admission") or {}).get("podSetAssignments") or []
    label = "jobset.sigs.k8s.io/jobset-name"
    pods = [pod for pod in await cluster.pods() if pod["metadata"]["labels"].get(label) == name]
    gangs = await cluster.gangs()
    objects = [*gangs.workloads.values(), *gangs.groups.values()]
    evictions = (status.get("schedulingStats") or {}).get("evictions") or []
    return Life(
        suspended=bool(live["spec"].get("suspend")),
        workload={each["type"]: each["status"] for each in status.get("conditions", [])},
        flavors=dict(assigned[0].get("flavors") or {}) if assigned else {},
        pods=[pod for pod in pods if pod["spec"].get("nodeName") and not _ended(pod)],
        gang={
            each["metadata"]["name"]: each["metadata"]["uid"]
            for each in objects
            if _owner(each) == uid and not each["metadata"].get("deletionTimestamp")
        },
        evictions=sum(int(each["count"]) for each in evictions),
    )


def _owner(raw: Object) -> str:
    owners = raw["metadata"].get("ownerReferences") or [{}]
    return str(owners[0].get("uid", ""))


def _ended(pod: Object) -> bool:
    return pod["status"].get("phase") in {"Succeeded", "Failed"}


async def until(cluster: Cluster, name: str, what: str, condition: Any) -> Life:
    """Wait until a JobSet stands so."""
    return await read_until(lambda: look(cluster, name), condition, f"{name} {what}")


async def runs(cluster: Cluster, name: str, pods: int) -> Life:
    """Wait until all its pods run."""
    return await until(cluster, name, f"to run {pods} pods", lambda life: life.running == pods and life.gang)


async def waits(cluster: Cluster, name: str) -> Life:
    """Wait until it is suspended, without quota, and none of its pods holds a node."""
    return await until(
        cluster,
        name,
        "to wait",
        lambda life: life.suspended and not life.pods and life.workload.get("QuotaReserved") == "False",
    )


async def delete(cluster: Cluster, name: str) -> None:
    """Delete a JobSet."""
    await cluster.api.delete(cluster.path(JOBSETS, "jobsets", name), propagation="Background")
