"""Definitions of Kueue's kinds, without their schemas, for a sandbox: real clusters show what the schemas mean."""

from __future__ import annotations

from typing import Any

from gangctl.client.resources import Resource
from gangctl.cluster import kinds

KUEUE: tuple[Resource, ...] = (
    kinds.CLUSTER_QUEUES,
    kinds.COHORTS,
    kinds.LOCAL_QUEUES,
    kinds.RESOURCE_FLAVORS,
    kinds.QUEUED_WORKLOADS,
    kinds.ADMISSION_CHECKS,
    kinds.PRIORITY_CLASSES,
)


def definition(resource: Resource) -> dict[str, Any]:
    """The CustomResourceDefinition of one kind."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": resource.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    singular = resource.kind.lower()
    names = {"plural": resource.plural, "singular": singular, "kind": resource.kind, "listKind": f"{resource.kind}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.qualified_name},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "names": names,
            "versions": [version],
        },
    }
