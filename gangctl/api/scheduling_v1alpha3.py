"""``scheduling.k8s.io/v1alpha3`` (Kubernetes 1.37): CompositePodGroups, behind a feature gate of that name (KEP-6012).

Workloads and PodGroups with such a parent are written in v1beta1, as all others.
"""

from __future__ import annotations

from typing import Any, Final

from gangctl.api.scheduling import GROUP, CompositePodGroup, CompositeTemplate, metadata

VERSION: Final = "v1alpha3"


def composite_pod_group(group: CompositePodGroup) -> dict[str, Any]:
    """The CompositePodGroup to create."""
    reference = {"workloadName": group.workload, "templateName": group.template.name}
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "CompositePodGroup",
        "metadata": metadata(group.namespace, group.name, group.owner),
        "spec": with_group_count({"workloadRef": reference}, group.template),
    }


def with_group_count(spec: dict[str, Any], template: CompositeTemplate) -> dict[str, Any]:
    """``spec`` itself, with the policy of the template appended."""
    spec["schedulingPolicy"] = {"gang": {"minGroupCount": template.min_group_count}}
    if template.priority_class:
        spec["priorityClassName"] = template.priority_class
    return spec
