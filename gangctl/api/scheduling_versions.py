"""The JSON of each version of ``scheduling.k8s.io``.

``v1alpha1`` (Kubernetes 1.35) has Workloads only, and everything in them is immutable. ``v1alpha2`` (1.36) has
PodGroups, immutable, too. In ``v1beta1`` (1.37) minCount can change, and the priority must agree with the pods';
CompositePodGroups (KEP-6012) are in ``v1alpha3`` of 1.37, behind a feature gate of that name, and in ``v1beta1`` of
1.38, too. Workloads and PodGroups with such a parent are written in v1beta1, as all others. ``v1`` (1.38) is expected
to have the same shape.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from gangctl.api.pods import SYSTEM_CLASSES
from gangctl.api.scheduling import (
    FIRST_OF_COMPOSITES,
    GROUP,
    CompositePodGroup,
    CompositeTemplate,
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


def _object(
    kind: str, api_version: str, made: Workload | PodGroup | CompositePodGroup, spec: dict[str, Any]
) -> dict[str, Any]:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": metadata(made.namespace, made.name, made.owner),
        "spec": spec,
    }


class V1Alpha1:
    """A group has no object here: it is a Workload's podGroup, kept apart per replica by a key in the pod."""

    generation = Generation.V1ALPHA1
    reference_field = "workloadRef"
    """Field of the pod spec that carries the reference."""

    def workload(self, workload: Workload) -> dict[str, Any]:
        """The Workload to create."""
        groups = [{"name": t.name, "policy": {"gang": {"minCount": t.min_count}}} for t in workload.templates]
        spec = {"controllerRef": controller_ref(workload.owner), "podGroups": groups}
        return _object("Workload", self.generation.api_version, workload, spec)

    def pod_group(self, group: PodGroup) -> dict[str, Any]:
        """There is no such kind: the planner never calls this."""
        raise TypeError(f"{self.generation} has no PodGroup kind, cannot build {group.name}")

    def reference(self, reference: Reference) -> dict[str, str]:
        """The value of :attr:`reference_field`."""
        value = {"name": reference.workload, "podGroup": reference.template}
        if reference.replica_key is not None:
            value["podGroupReplicaKey"] = reference.replica_key
        return value

    def min_counts(self, kind: str, spec: dict[str, Any]) -> tuple[tuple[str, int], ...]:
        """``(template, minCount)`` of every gang policy in a Workload's or PodGroup's spec."""
        return list_min_counts(spec, "podGroups", "policy") if kind == "Workload" else ()


_DISRUPTION: Final = {"single": "Pod", "all": "PodGroup"}


class V1Alpha2:
    """Policy inline in the PodGroup, template named by ``podGroupTemplateRef``.

    Without the alpha gate WorkloadAwarePreemption the server drops ``priorityClassName`` and ``disruptionMode``. With
    it, gangs preempt, and are preempted as a whole, by the priority of the group; that of the pods may be another.
    """

    generation = Generation.V1ALPHA2
    reference_field = "schedulingGroup"
    unions = False
    """Whether the disruption mode is a union; then the pods have to have the priority of their group, too."""

    def __init__(self) -> None:
        """Precompute the common fields of all objects."""
        self._api_version = self.generation.api_version

    def _with_policy(self, spec: dict[str, Any], template: Template, min_count: int) -> dict[str, Any]:
        """``spec`` itself, with the policy appended."""
        spec["schedulingPolicy"] = {"gang": {"minCount": min_count}}
        if template.topology_key:
            spec["schedulingConstraints"] = {"topology": [{"key": template.topology_key}]}
        if mode := template.disruption:
            spec["disruptionMode"] = {mode: {}} if self.unions else _DISRUPTION[mode]
        if template.claims:
            spec["resourceClaims"] = [claim.encode() for claim in template.claims]
        # Groups may not have the priority of a system class. Where pods need that of their group, admission rejects
        # these classes; in 1.36 such a gang starts if its group has none.
        if template.priority_class and (self.unions or template.priority_class not in SYSTEM_CLASSES):
            spec["priorityClassName"] = template.priority_class
        return spec

    def workload(self, workload: Workload) -> dict[str, Any]:
        """The Workload to create."""
        templates = workload.templates
        if len({template.priority_class for template in templates}) > 1:
            # 1.37 refuses a Workload with several classes, also at an update of one that 1.36 has stored.
            # Only the class of the PodGroup counts, which keeps its own.
            templates = tuple(replace(template, priority_class="") for template in templates)
        described = [self._with_policy({"name": t.name}, t, t.min_count) for t in templates]
        spec = {"controllerRef": controller_ref(workload.owner), "podGroupTemplates": described}
        return _object("Workload", self._api_version, workload, spec)

    def pod_group(self, group: PodGroup) -> dict[str, Any]:
        """The PodGroup to create."""
        spec = self._with_policy(self._origin(group), group.template, group.min_count)
        return _object("PodGroup", self._api_version, group, spec)

    def _origin(self, group: PodGroup) -> dict[str, Any]:
        template = {"workloadName": group.workload, "podGroupTemplateName": group.template.name}
        return {"podGroupTemplateRef": {"workload": template}}

    def reference(self, reference: Reference) -> dict[str, str]:
        """The value of :attr:`reference_field`."""
        return {"podGroupName": reference.group}

    def min_counts(self, kind: str, spec: dict[str, Any]) -> tuple[tuple[str, int], ...]:
        """``(template, minCount)`` of every gang policy in a Workload's or PodGroup's spec."""
        if kind == "Workload":
            return list_min_counts(spec, "podGroupTemplates")
        count = gang_min_count(spec)
        return () if count is None else (("", count),)


def composite_pod_group(group: CompositePodGroup, version: str = FIRST_OF_COMPOSITES) -> dict[str, Any]:
    """The CompositePodGroup to create; ``version`` has the kind, and need not be that of the generation."""
    reference = {"workloadName": group.workload, "templateName": group.template.name}
    spec = _with_group_count({"workloadRef": reference}, group.template, group.min_group_count)
    return _object("CompositePodGroup", f"{GROUP}/{version}", group, spec)


def _with_group_count(spec: dict[str, Any], template: CompositeTemplate, count: int) -> dict[str, Any]:
    """``spec`` itself, with the policy appended."""
    spec["schedulingPolicy"] = {"gang": {"minGroupCount": count}}
    if template.disruption:
        spec["disruptionMode"] = {template.disruption: {}}
    if template.priority_class:
        spec["priorityClassName"] = template.priority_class
    return spec


class V1Beta1(V1Alpha2):
    """As v1alpha2, with ``workloadRef`` in the PodGroup, a disruption union and the priority class of the pods."""

    generation = Generation.V1BETA1
    unions = True

    def workload(self, workload: Workload) -> dict[str, Any]:
        """The Workload to create."""
        body = super().workload(workload)
        if workload.composite is not None:
            composite = workload.composite
            parent = _with_group_count({"name": composite.name}, composite, composite.min_group_count)
            parent["podGroupTemplates"] = body["spec"].pop("podGroupTemplates")
            body["spec"]["compositePodGroupTemplates"] = [parent]
        return body

    def _origin(self, group: PodGroup) -> dict[str, Any]:
        origin: dict[str, Any] = {"workloadRef": {"workloadName": group.workload, "templateName": group.template.name}}
        if group.parent:
            origin["parentCompositePodGroupName"] = group.parent
        return origin

    def min_counts(self, kind: str, spec: dict[str, Any]) -> tuple[tuple[str, int], ...]:
        """``(template, minCount)`` of every gang policy in a Workload's or PodGroup's spec."""
        parents = spec.get("compositePodGroupTemplates")
        if kind == "Workload" and isinstance(parents, list) and parents and isinstance(parents[0], dict):
            return list_min_counts(parents[0], "podGroupTemplates")
        return super().min_counts(kind, spec)


class V1(V1Beta1):
    """As v1beta1. Its types are not released, so :mod:`gangctl.gang.generation` compares it with what is served."""

    generation = Generation.V1


SchedulingAdapter = V1Alpha1 | V1Alpha2
"""One generation's JSON."""

_ALL: Final[tuple[SchedulingAdapter, ...]] = (V1Alpha1(), V1Alpha2(), V1Beta1(), V1())
ADAPTERS: Final = {adapter.generation: adapter for adapter in _ALL}
