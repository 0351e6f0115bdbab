"""Workloads and PodGroups of the three API generations, with the messages of declarative validation.

v1alpha1 (1.35) has Workloads alone and fixes them; v1alpha2 (1.36) fixes Workloads and
PodGroups; v1beta1 (1.37) lets minCount change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from gangctl.api import names
from gangctl.api.pods import MAX_PRIORITY
from gangctl.apiserver.metadata import Causes, FieldCause, validate_metadata
from gangctl.sandbox import errors
from gangctl.sandbox.kinds import ResourceKind
from gangctl.sandbox.objects import Object
from gangctl.sandbox.rules.pods import resolve
from gangctl.sandbox.store import ObjectStore

# WorkloadMaxPodGroups, later WorkloadMaxPodGroupTemplates, of k8s.io/api/scheduling.
MAX_TEMPLATES: Final = 8
PROTECTION: Final = "scheduling.k8s.io/podgroup-protection"
_POLICIES: Final = ("basic", "gang")
_LISTS: Final[Mapping[str, str]] = {"1.35": "podGroups", "1.36": "podGroupTemplates", "1.37": "podGroupTemplates"}
# Of gates that a release leaves off; groups of 1.36 get the default of their disruptionMode back.
_OFF: Final[Mapping[str, tuple[str, ...]]] = {
    "1.35": (),
    "1.36": ("schedulingConstraints", "resourceClaims", "disruptionMode", "priorityClassName", "priority"),
    "1.37": ("schedulingConstraints", "resourceClaims", "preemptionPolicy", "parentCompositePodGroupName"),
}
_FIXED: Final = ("disruptionMode", "priorityClassName", "priority")


def drop_workload(new: Object, minor: str) -> None:
    """Drop fields of disabled gates."""
    spec = new.get("spec", {})
    spec.pop("compositePodGroupTemplates", None)
    for template in spec.get(_LISTS[minor], ()):
        _drop(template, minor)


def drop_group(new: Object, minor: str) -> None:
    """Drop fields of disabled gates."""
    _drop(new.get("spec", {}), minor)


def _drop(spec: Object, minor: str) -> None:
    for field in _OFF[minor]:
        spec.pop(field, None)


def default_workload(workload: Object, minor: str) -> None:
    """The spec and the nulls that Go writes."""
    spec = workload.setdefault("spec", {})
    if minor != "1.35":
        for template in spec.get(_LISTS[minor], ()):
            template.setdefault("schedulingConstraints", None)


def default_group(group: Object, minor: str) -> None:
    """The disruption mode, and the nulls that Go writes."""
    spec = group.setdefault("spec", {})
    spec.setdefault("disruptionMode", {"single": {}} if minor == "1.37" else "Pod")
    if minor == "1.36":
        spec.setdefault("podGroupTemplateRef", None)
    for condition in group.get("status", {}).get("conditions", ()):
        for field in ("reason", "message"):
            condition.setdefault(field, "")


def prepare_group(group: Object) -> None:
    """A new PodGroup has an empty status."""
    group["status"] = {}


def admit_group(kind: ResourceKind, group: Object, store: ObjectStore, minor: str) -> None:
    """Protection, priority and, on 1.36, the Workload that must be there."""
    metadata, spec = group["metadata"], group["spec"]

    def forbid(why: str) -> errors.StatusError:
        return errors.forbidden(kind, metadata.get("name") or metadata.get("generateName", ""), why)

    if PROTECTION not in metadata.get("finalizers", ()):
        metadata["finalizers"] = [*metadata.get("finalizers", ()), PROTECTION]
    if minor == "1.37":
        level = resolve(spec.get("priorityClassName", ""), store, forbid)
        if spec.get("priority") not in {None, level.value}:
            raise forbid(
                f"priority set in the pod group ({spec['priority']}) must match the priority computed ({level.value}) "
                "based on the priority class set in the spec"
            )
        spec["priority"] = level.value
        if level.class_name:
            spec["priorityClassName"] = level.class_name
    reference = ((spec.get("podGroupTemplateRef") or {}).get("workload") or {}) if minor == "1.36" else {}
    if reference.get("workloadName") and reference.get("podGroupTemplateName"):
        why = _missing(
            reference, store.find("workloads.scheduling.k8s.io", metadata["namespace"], reference["workloadName"])
        )
        if why:
            raise forbid(f"PodGroup rejected: {why}")


def _missing(reference: Object, workload: Object | None) -> str:
    name, template = reference["workloadName"], reference["podGroupTemplateName"]
    if workload is None:
        return f'Workload "{name}" not found'
    if "deletionTimestamp" in workload["metadata"]:
        return f'Workload "{name}" is being deleted'
    if all(
        pod_group_template["name"] != template for pod_group_template in workload["spec"].get("podGroupTemplates", ())
    ):
        return f'PodGroupTemplate "{template}" not found in Workload "{name}"'
    return ""


def validate_workload(new: Object, old: Object | None, minor: str) -> Causes:
    """Errors of a Workload, or of a change of one."""
    causes = validate_metadata(new, old)
    field = _LISTS[minor]
    path, templates = f"spec.{field}", new.get("spec", {}).get(field, [])
    if (
        minor == "1.37"
        and len({(template.get("priorityClassName", ""), template.get("priority")) for template in templates}) > 1
    ):
        causes.invalid("spec", None, "detected multiple priority configurations")
    if old is not None and minor == "1.36" and _changed(new, old, field):
        # Declarative validation checks immutable fields no further.
        causes.invalid(path, None, "field is immutable")
    elif minor == "1.35":
        _groups_1_35(templates, path, causes)
    else:
        _templates(templates, minor, causes)
    if old is not None:
        _workload_change(new, old, minor, causes)
    return causes


def _templates(templates: list[Object], minor: str, causes: Causes) -> None:
    path = "spec.podGroupTemplates"
    if not templates and minor == "1.36":
        causes.required(path)
    elif not templates:
        causes.invalid("spec", "", "must specify one of: `podGroupTemplates`, `compositePodGroupTemplates`")
    if len(templates) > MAX_TEMPLATES:
        # Nothing else is checked then.
        causes.too_many(path, len(templates), MAX_TEMPLATES)
        return
    seen: set[str] = set()
    for index, template in enumerate(templates):
        name = template.get("name", "")
        if name in seen:
            causes.duplicate(f"{path}[{index}]", template)
        seen.add(name)
    for index, template in enumerate(templates):
        where, name = f"{path}[{index}]", template.get("name", "")
        if not name:
            causes.required(f"{where}.name")
        else:
            causes.invalid_each(f"{where}.name", name, names.dns_label(name))
        _scheduling(template, where, minor, causes)


def _scheduling(spec: Object, path: str, minor: str, causes: Causes) -> None:
    """What templates and groups have in common."""
    _policy(spec.get("schedulingPolicy", {}), f"{path}.schedulingPolicy", causes)
    mode = spec.get("disruptionMode")
    if mode is not None and minor == "1.37":
        _union(mode, ("single", "all"), f"{path}.disruptionMode", causes)
    name = spec.get("priorityClassName", "")
    if name:
        causes.invalid_each(f"{path}.priorityClassName", name, names.dns_subdomain(name))
    if (spec.get("priority") or 0) > MAX_PRIORITY:
        causes.invalid(f"{path}.priority", spec["priority"], f"must be less than or equal to {MAX_PRIORITY}")


def _policy(policy: Object, path: str, causes: Causes) -> None:
    _union(policy, _POLICIES, path, causes)
    if "gang" in policy:
        count = policy["gang"].get("minCount", 0)
        # In Go the field is no pointer: 0 is the same as no value.
        if not count:
            causes.required(f"{path}.gang.minCount")
        elif count < 1:
            causes.invalid(f"{path}.gang.minCount", count, "must be greater than or equal to 1")


def _union(value: Object, members: Sequence[str], path: str, causes: Causes) -> None:
    given = [member for member in members if value.get(member) is not None]
    listed = ", ".join(f"`{member}`" for member in members)
    if not given:
        causes.invalid(path, "", f"must specify one of: {listed}")
    elif len(given) > 1:
        causes.invalid(path, f"{{{', '.join(given)}}}", f"must specify exactly one of: {listed}")


def _groups_1_35(groups: list[Object], path: str, causes: Causes) -> None:
    if not groups:
        causes.required(path, "must have at least one item")
    if len(groups) > MAX_TEMPLATES:
        causes.too_many(path, len(groups), MAX_TEMPLATES)
    seen: set[str] = set()
    for index, group in enumerate(groups):
        where, name = f"{path}[{index}]", group.get("name", "")
        causes.invalid_each(f"{where}.name", name, names.dns_label(name))
        if name in seen:
            causes.duplicate(f"{where}.name", name)
        seen.add(name)
        policy = group.get("policy", {})
        given = [member for member in _POLICIES if member in policy]
        if not given:
            causes.required(f"{where}.policy", "exactly one of `basic`, `gang` is required")
        elif len(given) > 1:
            message = "exactly one of `basic`, `gang` is required, but multiple fields are set"
            causes.invalid(f"{where}.policy", "{`basic`, `gang`}", message)
        elif "gang" in policy and policy["gang"].get("minCount", 0) < 1:
            causes.invalid(
                f"{where}.policy.gang.minCount", policy["gang"].get("minCount", 0), "must be greater than zero"
            )


def _changed(new: Object, old: Object, field: str) -> bool:
    return bool(new["spec"].get(field) != old["spec"].get(field))


def _workload_change(new: Object, old: Object, minor: str, causes: Causes) -> None:
    if _changed(new, old, "controllerRef"):
        causes.invalid("spec.controllerRef", None, "field is immutable")
    if not _changed(new, old, _LISTS[minor]):
        return
    if minor == "1.35":
        causes.invalid("podGroups", new["spec"].get("podGroups"), "field is immutable")
    elif minor == "1.37":
        _templates_change(new["spec"].get("podGroupTemplates", []), old["spec"].get("podGroupTemplates", []), causes)


def _templates_change(new: list[Object], old: list[Object], causes: Causes) -> None:
    path = "spec.podGroupTemplates"
    before = {template["name"]: template for template in old}
    present = {template.get("name") for template in new}
    for index, template in enumerate(new):
        earlier = before.get(template.get("name", ""))
        if earlier is None:
            causes.forbidden(f"{path}[{index}]", "item may not be added")
            continue
        _policy_change(template, earlier, f"{path}[{index}].schedulingPolicy", causes)
        _fixed(template, earlier, _FIXED, f"{path}[{index}]", causes)
    for name in before:
        if name not in present:
            causes.forbidden(path, "item may not be removed")


def _policy_change(new: Object, old: Object, path: str, causes: Causes) -> None:
    """The kind of policy stays; ``minCount`` may change."""
    mine, theirs = new.get("schedulingPolicy", {}), old.get("schedulingPolicy", {})
    if ("basic" in mine) != ("basic" in theirs):
        causes.invalid(f"{path}.basic", None, "field is immutable")
    if "gang" in theirs and "gang" not in mine:
        causes.invalid(f"{path}.gang", None, "field cannot be cleared once set")
    elif "gang" in mine and "gang" not in theirs:
        causes.invalid(f"{path}.gang", None, "field cannot be set once created")


def _fixed(new: Object, old: Object, fields: Sequence[str], path: str, causes: Causes) -> None:
    for field in fields:
        if new.get(field) != old.get(field):
            causes.append(FieldCause("FieldValueInvalid", f"{path}.{field}", "Invalid value: null: field is immutable"))


def validate_group(new: Object, old: Object | None, subresource: str, minor: str) -> Causes:
    """Errors of a PodGroup, or of a change of one."""
    causes = validate_metadata(new, old)
    if old is None:
        _group_references(new["spec"], causes)
        _scheduling(new["spec"], "spec", minor, causes)
        return causes
    if subresource == "status":
        return causes
    spec, before = new["spec"], old["spec"]
    _fixed(spec, before, ("podGroupTemplateRef", "workloadRef"), "spec", causes)
    if spec.get("schedulingPolicy") != before.get("schedulingPolicy"):
        if minor == "1.37":
            changed = Causes()
            _policy_change(spec, before, "spec.schedulingPolicy", changed)
            if not changed:
                _policy(spec.get("schedulingPolicy", {}), "spec.schedulingPolicy", changed)
            causes += changed
        else:
            _fixed(spec, before, ("schedulingPolicy",), "spec", causes)
    _fixed(spec, before, _FIXED, "spec", causes)
    return causes


def _group_references(spec: Any, causes: Causes) -> None:
    reference = spec.get("workloadRef")
    if reference is not None:
        _names(reference, "spec.workloadRef", "templateName", causes)
    reference = spec.get("podGroupTemplateRef")
    if reference is not None:
        if "workload" not in reference:
            causes.invalid("spec.podGroupTemplateRef", "", "must specify one of: `workload`")
        else:
            _names(reference["workload"], "spec.podGroupTemplateRef.workload", "podGroupTemplateName", causes)


def _names(reference: Object, path: str, template: str, causes: Causes) -> None:
    for field, check in (("workloadName", names.dns_subdomain), (template, names.dns_label)):
        value = reference.get(field, "")
        if not value:
            causes.required(f"{path}.{field}")
        else:
            causes.invalid_each(f"{path}.{field}", value, check(value))
