"""Definitions of Kueue's kinds, without their schemas, for a sandbox: real clusters show what the schemas mean."""

from __future__ import annotations

from typing import Any

from gangctl.client.resources import Resource
from gangctl.controllers.queues import sources

KUEUE: tuple[Resource, ...] = (
    sources.CLUSTER_QUEUES,
    sources.COHORTS,
    sources.LOCAL_QUEUES,
    sources.RESOURCE_FLAVORS,
    sources.QUEUED_WORKLOADS,
    sources.ADMISSION_CHECKS,
    sources.PRIORITY_CLASSES,
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
