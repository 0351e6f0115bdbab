"""The kinds that queues and fits are made of: Kueue's own, and those of Kubernetes that change requests."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from gangctl.api.objects import kind_of
from gangctl.api.store import Store
from gangctl.client.resources import Resource
from gangctl.fit.clusterstate import Held
from gangctl.kueue import reading
from gangctl.kueue.names import GROUP, VERSION
from gangctl.kueue.objects import LocalQueue, PodPriorityClass, PriorityClass, QueuedWorkload
from gangctl.kueue.topology import with_placements

CLUSTER_QUEUES: Final = Resource(GROUP, VERSION, "clusterqueues", "ClusterQueue", namespaced=False)
COHORTS: Final = Resource(GROUP, VERSION, "cohorts", "Cohort", namespaced=False)
LOCAL_QUEUES: Final = Resource(GROUP, VERSION, "localqueues", "LocalQueue")
RESOURCE_FLAVORS: Final = Resource(GROUP, VERSION, "resourceflavors", "ResourceFlavor", namespaced=False)
TOPOLOGIES: Final = Resource(GROUP, VERSION, "topologies", "Topology", namespaced=False)
QUEUED_WORKLOADS: Final = Resource(GROUP, VERSION, "workloads", "Workload")
"""Kueue's, not those of ``scheduling.k8s.io``."""
ADMISSION_CHECKS: Final = Resource(GROUP, VERSION, "admissionchecks", "AdmissionCheck", namespaced=False)
PRIORITY_CLASSES: Final = Resource(GROUP, VERSION, "workloadpriorityclasses", "WorkloadPriorityClass", namespaced=False)

POD_PRIORITY_CLASSES: Final = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
LIMIT_RANGES: Final = Resource("", "v1", "limitranges", "LimitRange")
RUNTIME_CLASSES: Final = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False)
CLAIMS: Final = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
VOLUMES: Final = Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
RESOURCE_SLICES: Final = Resource("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", namespaced=False)
RESOURCE_CLAIMS: Final = Resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim")
CLAIM_TEMPLATES: Final = Resource("resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate")
DEVICE_CLASSES: Final = Resource("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", namespaced=False)
TAINT_RULES: Final = Resource("resource.k8s.io", "v1", "devicetaintrules", "DeviceTaintRule", namespaced=False)
DEVICE_VERSIONS: Final = frozenset({"resource.k8s.io/v1", "resource.k8s.io/v1beta2"})
"""Versions in which a request is written alike."""
CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap")

CONFIG_NAME: Final = "kueue-manager-config"
"""The ConfigMap in which Kueue's manifests and chart put its configuration."""

HARMLESS: Final = frozenset({TOPOLOGIES.plural, PRIORITY_CLASSES.plural, POD_PRIORITY_CLASSES.plural})
"""Unknown ones change no ``never``: they decide about preemption, or about topologies, which have their own unknown."""
ESSENTIAL: Final = frozenset({CLUSTER_QUEUES.plural, LOCAL_QUEUES.plural, QUEUED_WORKLOADS.plural})
"""A cluster that serves these has Kueue."""


READERS: Final[Mapping[tuple[str, str], Callable[[Mapping[str, Any]], Held]]] = {
    (resource.group, resource.kind): read
    for resource, read in (
        (CLUSTER_QUEUES, reading.read_cluster_queue),
        (COHORTS, reading.read_cohort),
        (LOCAL_QUEUES, reading.read_local_queue),
        (RESOURCE_FLAVORS, reading.read_flavor),
        (TOPOLOGIES, reading.read_topology),
        # With placements, unlike in the controller, whose fits know no nodes.
        (QUEUED_WORKLOADS, with_placements),
        (ADMISSION_CHECKS, reading.read_check),
        (PRIORITY_CLASSES, reading.read_priority_class),
        (POD_PRIORITY_CLASSES, reading.read_pod_priority_class),
    )
}
"""By group and kind."""


READ: Final = frozenset(
    {
        *(kind for _, kind in READERS),
        *(one.kind for one in (LIMIT_RANGES, RUNTIME_CLASSES, CLAIMS, VOLUMES, CONFIG_MAPS)),
        *(
            resource.kind
            for resource in (RESOURCE_SLICES, RESOURCE_CLAIMS, CLAIM_TEMPLATES, DEVICE_CLASSES, TAINT_RULES)
        ),
        *("JobSet", "Job", "Pod", "Node", "Namespace", "Event", "ResourceQuota", "Configuration"),
        *("PodGroup", "CompositePodGroup", "Gang"),
    }
)
"""Kinds that are read from files, of whatever group. Others are skipped, whatever they look like."""


def is_skipped(raw: Mapping[str, Any]) -> bool:
    """Whether an object is of a kind that nothing reads; one without a kind is not."""
    _, kind = kind_of(raw)
    return bool(kind) and kind not in READ


CLASSES: Final = {PRIORITY_CLASSES: PriorityClass, POD_PRIORITY_CLASSES: PodPriorityClass}
"""Classes of priority: Kueue makes no Workload for a JobSet that names one that does not exist."""


def local_queue_store() -> Store[LocalQueue]:
    """LocalQueues, also by the ClusterQueue that they point to."""
    return Store({"cluster_queue": lambda local_queue: [local_queue.cluster_queue]})


def workload_store() -> Store[QueuedWorkload]:
    """Kueue's Workloads, also by the UID of their JobSet, by LocalQueue, and by the ClusterQueue of their quota."""
    return Store(
        {
            "owner": lambda workload: [workload.owner_uid] if workload.owner_uid else [],
            "local_queue": lambda workload: [(workload.namespace, workload.queue)],
            "cluster_queue": lambda workload: [workload.cluster_queue] if workload.cluster_queue else [],
        }
    )


def with_variants(store: Store[QueuedWorkload], own: Collection[QueuedWorkload]) -> list[QueuedWorkload]:
    """Workloads, and those that Kueue queues in their place, one for each flavor (gate ConcurrentAdmission)."""
    return [*own, *(variant for workload in own for variant in store.by_index("owner", workload.uid))]
