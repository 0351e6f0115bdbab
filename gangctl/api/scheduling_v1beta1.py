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

    def _policy(self, template: Template) -> dict[str, Any]:
        policy: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": template.min_count}}}
        if template.topology_key:
            policy["schedulingConstraints"] = {"topology": [{"key": template.topology_key}]}
        if template.disruption:
            policy["disruptionMode"] = {template.disruption: {}}
        if template.priority_class:
            policy["priorityClassName"] = template.priority_class
        return policy

    def pod_group(self, group: PodGroup) -> dict[str, Any]:
        """See :class:`~gangctl.api.scheduling.SchedulingAdapter`."""
        reference = {"workloadName": group.workload, "templateName": group.template.name}
        return {
            "apiVersion": self.generation.api_version,
            "kind": "PodGroup",
            "metadata": metadata(group.namespace, group.name, group.owner),
            "spec": {"workloadRef": reference, **self._policy(group.template)},
        }
