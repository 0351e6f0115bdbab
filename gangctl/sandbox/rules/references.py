"""The gang reference of pods, in pods and in templates: kept or dropped by feature gate."""

from __future__ import annotations

from collections.abc import Mapping

from gangctl.sandbox.objects import Object


def field_of(minor: str) -> str:
    """What the reference is called: ``workloadRef`` on 1.35, ``schedulingGroup`` later."""
    return "workloadRef" if minor == "1.35" else "schedulingGroup"


def drop_reference(spec: Object, old: Object, minor: str, gates: Mapping[str, bool]) -> None:
    """Drop the reference in a pod spec while its gate is off, unless the old pod spec has one."""
    field = field_of(minor)
    if not gates.get("GenericWorkload") and field not in old:
        spec.pop(field, None)
    # Off on every minor that has it, and nobody here reads it.
    if "evictionResponders" not in old:
        spec.pop("evictionResponders", None)
