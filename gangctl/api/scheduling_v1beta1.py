"""``scheduling.k8s.io/v1beta1`` (Kubernetes 1.37): minCount can change, priority must agree with the pods'."""

from __future__ import annotations

from typing import Any

from gangctl.api.scheduling import (
    Generation,
    PodGroup,
    Template,
    metadata,
)
from gangctl.api.scheduling_v1alpha2 import V1Alpha2


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

    def pod_group(self, group: PodGroup) -> dict[str, Any]:
        """See :class:`~gangctl.api.scheduling.SchedulingAdapter`."""
        reference = {"workloadName": group.workload, "templateName": group.template.name}
        return {
            "apiVersion": self._api_version,
            "kind": "PodGroup",
            "metadata": metadata(group.namespace, group.name, group.owner),
            "spec": self._with_policy({"workloadRef": reference}, group.template),
        }
