"""``scheduling.k8s.io/v1alpha2`` (Kubernetes 1.36): Workloads and PodGroups, immutable."""

from __future__ import annotations

from typing import Any, Final

from gangctl.api.scheduling import (
    Generation,
    PodGroup,
    Reference,
    Template,
    Workload,
    controller_ref,
    gang_min_count,
    list_min_counts,
    metadata,
)

_DISRUPTION: Final = {"single": "Pod", "all": "PodGroup"}


class V1Alpha2:
    """Policy inline in the PodGroup, template named by ``podGroupTemplateRef``.

    ``priorityClassName`` is left out: without the alpha gate WorkloadAwarePreemption the
    server drops it, and the 1.36 scheduler tolerates pods of another priority.
    """

    generation = Generation.V1ALPHA2
    reference_field = "schedulingGroup"

    def __init__(self) -> None:
        """Precompute the common fields of all objects."""
        self._api_version = self.generation.api_version

    def _with_policy(self, spec: dict[str, Any], template: Template) -> dict[str, Any]:
        """``spec`` itself, with the policy appended."""
        spec["schedulingPolicy"] = {"gang": {"minCount": template.min_count}}
        if template.topology_key:
            spec["schedulingConstraints"] = {"topology": [{"key": template.topology_key}]}
        if template.disruption:
            spec["disruptionMode"] = _DISRUPTION[template.disruption]
        if template.claims:
            spec["resourceClaims"] = [claim.encode() for claim in template.claims]
        return spec

    def workload(self, workload: Workload) -> dict[str, Any]:
        """See :class:`~gangctl.api.scheduling.SchedulingAdapter`."""
        templates = [self._with_policy({"name": t.name}, t) for t in workload.templates]
        return {
            "apiVersion": self._api_version,
            "kind": "Workload",
            "metadata": metadata(workload.namespace, workload.name, workload.owner),
            "spec": {"controllerRef": controller_ref(workload.owner), "podGroupTemplates": templates},
        }

    def pod_group(self, group: PodGroup) -> dict[str, Any]:
        """See :class:`~gangctl.api.scheduling.SchedulingAdapter`."""
        template = {"workloadName": group.workload, "podGroupTemplateName": group.template.name}
        return {
            "apiVersion": self._api_version,
            "kind": "PodGroup",
            "metadata": metadata(group.namespace, group.name, group.owner),
            "spec": self._with_policy({"podGroupTemplateRef": {"workload": template}}, group.template),
        }

    def reference(self, reference: Reference) -> dict[str, str]:
        """See :class:`~gangctl.api.scheduling.SchedulingAdapter`."""
        return {"podGroupName": reference.group}

    def min_counts(self, kind: str, spec: dict[str, Any]) -> tuple[tuple[str, int], ...]:
        """See :class:`~gangctl.api.scheduling.SchedulingAdapter`."""
        if kind == "Workload":
            return list_min_counts(spec.get("podGroupTemplates"), "schedulingPolicy")
        count = gang_min_count(spec.get("schedulingPolicy"))
        return () if count is None else (("", count),)
