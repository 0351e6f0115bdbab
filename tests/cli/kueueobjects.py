"""Kueue's objects as files and API servers hold them, in few words."""

from __future__ import annotations

from typing import Any, Final

from tests.jobsets import jobset, rj

Object = dict[str, Any]

KUEUE: Final = "kueue.x-k8s.io/v1beta2"
QUEUE: Final = "kueue.x-k8s.io/queue-name"
GPU: Final = "nvidia.com/gpu"
LONG_AGO: Final = "2026-01-01T00:00:00Z"
LATER: Final = "2026-01-01T01:00:00Z"

CONFIGURATION: Final[Object] = {
    "apiVersion": "config.kueue.x-k8s.io/v1beta2",
    "kind": "Configuration",
    "integrations": {"frameworks": ["batch/job", "jobset.x-k8s.io/jobset"]},
}


def kueue(kind: str, name: str, *, namespace: str = "", **parts: Any) -> Object:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {}), "uid": f"{kind}-{namespace}-{name}"}
    return {"apiVersion": KUEUE, "kind": kind, "metadata": metadata, **parts}


def flavor(name: str = "f", **spec: Any) -> Object:
    return kueue("ResourceFlavor", name, spec=spec)


def cluster_queue(name: str, quotas: dict[str, dict[str, Any]], **spec: Any) -> Object:
    """Quotas by flavor and resource: a nominal one, or the fields of it; a single resource group."""
    resources = list(dict.fromkeys(resource for each in quotas.values() for resource in each))
    flavors = [
        {
            "name": name_,
            "resources": [
                {"name": resource, **(quota if isinstance(quota, dict) else {"nominalQuota": quota})}
                for resource, quota in each.items()
            ],
        }
        for name_, each in quotas.items()
    ]
    groups = [{"coveredResources": resources, "flavors": flavors}]
    return kueue("ClusterQueue", name, spec={"namespaceSelector": {}, "resourceGroups": groups, **spec})


def reserving(queue: Object, **totals: dict[str, str]) -> Object:
    """A ClusterQueue whose status says what its Workloads hold, by flavor and resource."""
    reserved = [
        {"name": flavor, "resources": [{"name": resource, "total": total} for resource, total in amounts.items()]}
        for flavor, amounts in totals.items()
    ]
    return {**queue, "status": {**queue.get("status", {}), "flavorsReservation": reserved}}


def local_queue(name: str, cluster_queue: str, namespace: str = "t", **spec: Any) -> Object:
    return kueue("LocalQueue", name, namespace=namespace, spec={"clusterQueue": cluster_queue, **spec})


def condition(kind: str, status: bool = True, reason: str = "", message: str = "", since: str = LONG_AGO) -> Object:
    return {
        "type": kind,
        "status": str(status),
        "reason": reason or kind,
        "message": message,
        "lastTransitionTime": since,
    }


def workload(
    owner: str,
    queue: str,
    *conditions: Object,
    namespace: str = "t",
    kind: str = "JobSet",
    pods: int = 1,
    created: str = LONG_AGO,
    held: dict[str, dict[str, str]] | None = None,
    cluster_queue: str = "cq",
    **spec: Any,
) -> Object:
    """A Workload of Kueue; ``held`` is what it holds, by flavor and resource."""
    made = kueue("Workload", f"{kind.lower()}-{owner}-00000", namespace=namespace)
    version = "jobset.x-k8s.io/v1alpha2" if kind == "JobSet" else "batch/v1"
    reference = {"apiVersion": version, "kind": kind, "name": owner, "uid": f"uid-{owner}", "controller": True}
    made["metadata"] |= {"creationTimestamp": created, "ownerReferences": [reference]}
    template = {"spec": {"containers": [{"name": "main", "image": "none"}]}}
    made["spec"] = {"queueName": queue, "podSets": [{"name": "w", "count": pods, "template": template}], **spec}
    made["status"] = {"conditions": list(conditions)}
    if held is not None:
        made["status"]["conditions"] += [condition("QuotaReserved"), condition("Admitted")]
        made["status"]["admission"] = {
            "clusterQueue": cluster_queue,
            "podSetAssignments": [
                {
                    "name": "w",
                    "count": pods,
                    "flavors": {resource: flavor for flavor, amounts in held.items() for resource in amounts},
                    "resourceUsage": {
                        resource: amount for amounts in held.values() for resource, amount in amounts.items()
                    },
                }
            ],
        }
    return made


def queued(name: str = "train", cpu: str = "1", pods: int = 4, queue: str = "q", **fields: Any) -> Object:
    """A JobSet of so many pods in a queue."""
    made = jobset(name, rj("w", 1, pods, pods, cpu=cpu), mode="Gang", **fields)
    if queue:
        made["metadata"]["labels"] = {QUEUE: queue}
    return made


def of_trainjob(raw: Object) -> Object:
    """The same JobSet, made by Trainer for TrainJob ``job``."""
    owner = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "job", "uid": "uid-job"}
    return {**raw, "metadata": {**raw["metadata"], "ownerReferences": [{**owner, "controller": True}]}}


WITH_TRAINJOBS: Final[Object] = {
    **CONFIGURATION,
    "integrations": {"frameworks": ["jobset.x-k8s.io/jobset", "trainer.kubeflow.org/trainjob"]},
}


def cluster(cpu: Any = "8", *more: Object, **spec: Any) -> list[Object]:
    """A ClusterQueue ``cq`` with one flavor and so many CPUs, behind LocalQueue ``t/q``; and Kueue's configuration."""
    return [
        flavor(),
        cluster_queue("cq", {"f": {"cpu": cpu}}, **spec),
        local_queue("q", "cq"),
        CONFIGURATION,
        *more,
    ]
