"""Priorities from PriorityClasses, as in the Priority admission plugin."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from gangctl.sandbox import errors
from gangctl.sandbox.objects import Object
from gangctl.sandbox.rules.world import World

RESOURCE: Final = "priorityclasses.scheduling.k8s.io"
# Every cluster has these two.
_SYSTEM: Final[Mapping[str, int]] = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}


@dataclass(frozen=True, slots=True)
class Priority:
    """What a class stands for."""

    class_name: str = ""
    value: int = 0
    preemption: str = "PreemptLowerPriority"


def resolve(class_name: str, world: World, forbid: Callable[[str], errors.StatusError]) -> Priority:
    """The priority of a class, or of the global default, or 0; ``forbid`` has the message for an unknown one."""
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
    # Of several, which only a race can create, the lowest counts.
    return min(marked, key=lambda each: int(each.get("value", 0)), default=None)
