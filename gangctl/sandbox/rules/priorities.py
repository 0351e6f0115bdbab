"""PriorityClasses, and the numbers that the Priority admission plugin makes of their names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gangctl.sandbox import errors
from gangctl.sandbox.kinds import ResourceKind
from gangctl.sandbox.objects import Object
from gangctl.sandbox.rules import names
from gangctl.sandbox.rules.causes import Causes
from gangctl.sandbox.rules.metadata import validate_metadata, validate_metadata_update
from gangctl.sandbox.rules.world import World

RESOURCE: Final = "priorityclasses.scheduling.k8s.io"
HIGHEST: Final = 1_000_000_000
_PREEMPTION: Final = ("Never", "PreemptLowerPriority")
# Every cluster has these two.
_SYSTEM: Final[Mapping[str, int]] = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}


@dataclass(frozen=True, slots=True)
class Priority:
    """What a class stands for."""

    class_name: str = ""
    value: int = 0
    preemption: str = "PreemptLowerPriority"


def resolve(class_name: str, world: World, forbid: Callable[[str], errors.StatusError]) -> Priority:
    """The priority of a class, or of the global default, or 0; ``forbid`` words the refusal of an unknown one."""
    if class_name in _SYSTEM:
        return Priority(class_name, _SYSTEM[class_name])
    if not class_name:
        default = _global_default(world)
        return Priority() if default is None else _of(default)
    found = world(RESOURCE, "", class_name)
    if found is None:
        raise forbid(f"no PriorityClass with name {class_name} was found")
    return _of(found)


def _of(found: Object) -> Priority:
    return Priority(
        found["metadata"]["name"], int(found.get("value", 0)), found.get("preemptionPolicy", "PreemptLowerPriority")
    )


def _global_default(world: World) -> Object | None:
    marked = [each for each in world.all(RESOURCE) if each.get("globalDefault")]
    # Of several, which only a race makes, the lowest counts.
    return min(marked, key=lambda each: int(each.get("value", 0)), default=None)


def default(obj: Object) -> None:
    """``preemptionPolicy`` and ``value``, which Go writes even when it is 0."""
    obj.setdefault("value", 0)
    obj.setdefault("preemptionPolicy", "PreemptLowerPriority")


def admit(kind: ResourceKind, new: Object, world: World) -> None:
    """Only one class is the default of the cluster."""
    if not new.get("globalDefault"):
        return
    present = _global_default(world)
    if present is not None and present["metadata"]["name"] != new["metadata"].get("name"):
        told = f"PriorityClass {present['metadata']['name']} is already marked as default. Only one default can exist"
        raise errors.forbidden(kind, new["metadata"].get("name", ""), told)


def validate(new: Object, old: Object | None) -> Causes:
    """What is wrong with a PriorityClass."""
    if old is not None:
        return _validate_update(new, old)
    causes = validate_metadata(new, names.dns_subdomain, namespaced=False)
    name, value = new["metadata"].get("name", ""), int(new["value"])
    if name.startswith("system-"):
        told = (
            "priority class names with 'system-' prefix are reserved for system use only. "
            f"error: {name} is not a known system priority class"
        )
        causes.forbidden("metadata.name", told)
    elif value > HIGHEST:
        causes.forbidden("value", f"maximum allowed value of a user defined priority is {HIGHEST}")
    policy: Any = new.get("preemptionPolicy")
    if policy not in _PREEMPTION:
        causes.unsupported("preemptionPolicy", policy, ("PreemptLowerPriority", "Never"))
    return causes


def _validate_update(new: Object, old: Object) -> Causes:
    causes = validate_metadata_update(new, old)
    if new["value"] != old["value"]:
        causes.forbidden("value", "may not be changed in an update.")
    if new.get("preemptionPolicy") != old.get("preemptionPolicy"):
        causes.invalid("preemptionPolicy", new.get("preemptionPolicy"), "field is immutable")
    return causes
