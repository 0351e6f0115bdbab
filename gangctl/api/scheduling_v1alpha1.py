"""``scheduling.k8s.io/v1alpha1`` (Kubernetes 1.35): Workloads only, everything in them immutable."""

from __future__ import annotations

from typing import Any

from gangctl.api.scheduling import (
    Generation,
    PodGroup,
    Reference,
    Workload,
    controller_ref,
    list_min_counts,
    metadata,
)


class V1Alpha1:
    """A group has no object here: it is a Workload's podGroup, kept apart per replica by a key in the pod."""

    generation = Generation.V1ALPHA1
    reference_field = "workloadRef"

    def workload(self, workload: Workload) -> dict[str, Any]:
        """See :class:`~gangctl.api.scheduling.SchedulingAdapter`."""
        groups = [{"name": t.name, "policy": {"gang": {"minCount": t.min_count}}} for t in workload.templates]
        return {
            "apiVersion": self.generation.api_version,
            "kind": "Workload",
            "metadata": metadata(workload.namespace, workload.name, workload.owner),
            "spec": {"controllerRef": controller_ref(workload.owner), "podGroups": groups},
        }

    def pod_group(self, group: PodGroup) -> dict[str, Any]:
        """There is no such kind: the planner never calls this."""
        raise TypeError(f"{self.generation} has no PodGroup kind, cannot build {group.name}")

    def reference(self, reference: Reference) -> dict[str, str]:
        """See :class:`~gangctl.api.scheduling.SchedulingAdapter`."""
        value = {"name": reference.workload, "podGroup": reference.template}
        if reference.replica_key is not None:
            value["podGroupReplicaKey"] = reference.replica_key
        return value

    def min_counts(self, kind: str, spec: dict[str, Any]) -> tuple[tuple[str, int], ...]:
        """See :class:`~gangctl.api.scheduling.SchedulingAdapter`."""
        return list_min_counts(spec.get("podGroups"), "policy") if kind == "Workload" else ()
