"""``scheduling.k8s.io/v1beta1`` (Kubernetes 1.37): minCount can change, priority must agree with the pods'.

CompositePodGroups are in v1alpha3, behind the feature gate CompositePodGroup.
``v1`` (Kubernetes 1.38) is expected to have the same shape.
"""

from __future__ import annotations

from typing import Any

from gangctl.api.scheduling import (
    Generation,
    PodGroup,
    Template,
    Workload,
    list_min_counts,
    metadata,
)
from gangctl.api.scheduling_v1alpha2 import V1Alpha2
from gangctl.api.scheduling_v1alpha3 import with_group_count


class V1Beta1(V1Alpha2):
    """As v1alpha2, with ``workloadRef`` in the PodGroup, a disruption union and the priority class of the pods."""

    generation = Generation.V1BETA1

    def _with_policy(self, spec: dict[str, Any], template: Template) -> dict[str, Any]:
        spec["schedulingPolicy"] = {"gang": {"minCount": template.min_count}}
        if template.topology_key:
            spec["schedulingConstraints"] = {"topology": [{"key": template.topology_key}]}
        if template.disruption:
            spec["disruptionMode"] = {template.disruption: {}}
        if template.claims:
            spec["resourceClaims"] = [claim.encode() for claim in template.claims]
        if template.priority_class:
            spec["priorityClassName"] = template.priority_class
        return spec

    def workload(self, workload: Workload) -> dict[str, Any]:
        """See :class:`~gangctl.api.scheduling.SchedulingAdapter`."""
        body = super().workload(workload)
        if workload.composite is not None:
            parent = with_group_count({"name": workload.composite.name}, workload.composite)
            parent["podGroupTemplates"] = body["spec"].pop("podGroupTemplates")
            body["spec"]["compositePodGroupTemplates"] = [parent]
        return body

    def pod_group(self, group: PodGroup) -> dict[str, Any]:
        """See :class:`~gangctl.api.scheduling.SchedulingAdapter`."""
        spec: dict[str, Any] = {"workloadRef": {"workloadName": group.workload, "templateName": group.template.name}}
        if group.parent:
            spec["parentCompositePodGroupName"] = group.parent
        return {
            "apiVersion": self._api_version,
            "kind": "PodGroup",
            "metadata": metadata(group.namespace, group.name, group.owner),
            "spec": self._with_policy(spec, group.template),
        }

    def min_counts(self, kind: str, spec: dict[str, Any]) -> tuple[tuple[str, int], ...]:
        """See :class:`~gangctl.api.scheduling.SchedulingAdapter`."""
        parents = spec.get("compositePodGroupTemplates")
        if kind == "Workload" and isinstance(parents, list) and parents and isinstance(parents[0], dict):
            return list_min_counts(parents[0].get("podGroupTemplates"), "schedulingPolicy")
        return super().min_counts(kind, spec)


class V1(V1Beta1):
    """As v1beta1. Its types are not released, so :mod:`gangctl.gang.generation` compares it with what is served."""

    generation = Generation.V1
