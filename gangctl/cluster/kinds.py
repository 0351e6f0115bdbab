"""The resources that a fit is evaluated by: Kueue's own, and those of Kubernetes that change requests."""

from __future__ import annotations

from typing import Final

from gangctl.client.resources import Resource
from gangctl.kueue.names import GROUP, VERSION

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
CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap")

CONFIG_NAME: Final = "kueue-manager-config"
CONFIG_KEY: Final = "controller_manager_config.yaml"
"""Where Kueue's manifests and chart put its configuration."""

ESSENTIAL: Final = frozenset({CLUSTER_QUEUES.plural, LOCAL_QUEUES.plural, QUEUED_WORKLOADS.plural})
"""A cluster that serves these has Kueue."""
