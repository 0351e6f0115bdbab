"""The gang reference of pods, in pods and in templates: kept or dropped by feature gate, and checked."""

from __future__ import annotations

from collections.abc import Mapping

from gangctl.sandbox.objects import Object
from gangctl.sandbox.rules import names
from gangctl.sandbox.rules.causes import Causes


def field_of(minor: str) -> str:
    """Field of the reference: ``workloadRef`` on 1.35, ``schedulingGroup`` later."""
    return "workloadRef" if minor == "1.35" else "schedulingGroup"


def drop_reference(spec: Object, old: Object, minor: str, gates: Mapping[str, bool]) -> None:
    """Drop the reference in a pod spec while its gate is off, unless the old pod spec has one."""
    field = field_of(minor)
    if not gates.get("GenericWorkload") and field not in old:
        spec.pop(field, None)
    # Off on every minor that has it, and not read here.
    if "evictionResponders" not in old:
        spec.pop("evictionResponders", None)


def validate_reference(spec: Object, path: str, causes: Causes) -> None:
    """Check the gang that a pod names."""
    group = spec.get("schedulingGroup")
    if group is not None:
        where = f"{path}.schedulingGroup.podGroupName"
        if "podGroupName" not in group:
            causes.invalid(where, None, "must specify one of: `podGroupName`")
        else:
            causes.invalid_each(where, group["podGroupName"], names.dns_subdomain(group["podGroupName"]))
    reference = spec.get("workloadRef")
    if reference is not None:
        for field, check in (("name", names.dns_subdomain), ("podGroup", names.dns_label)):
            value = reference.get(field, "")
            causes.invalid_each(f"{path}.workloadRef.{field}", value, check(value))
        key = reference.get("podGroupReplicaKey", "")
        if key:
            causes.invalid_each(f"{path}.workloadRef.podGroupReplicaKey", key, names.dns_label(key))
