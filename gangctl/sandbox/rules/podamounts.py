"""What a pod requests, and its limits: of resource names, summed over its containers (PodRequests and PodLimits).

Pods of a template ask for the same, and are summed up once: callers must not change what is returned here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, NamedTuple

from gangctl.api.quantity import parse_quantity
from gangctl.sandbox.objects import Object

Amounts = dict[str, Fraction]

_NOTHING: Final = Fraction(0)
_SHAPES: Final = 1024

_List = tuple[tuple[str, Any], ...]
"""A ResourceList as something that a cache can have as key."""


class _Resources(NamedTuple):
    limits: _List
    requests: _List


class _Shape(NamedTuple):
    """All of a pod that its amounts depend on."""

    containers: tuple[_Resources, ...]
    first: tuple[tuple[bool, _Resources], ...]
    """Init containers, with whether each is a sidecar."""
    level: _Resources
    overhead: _List


def requests_of(pod: Object) -> Amounts:
    """Its containers together, or one init container if that is more, and the overhead.

    Limits replace missing requests, as in the API server's defaulting; pod-level requests replace those of containers.
    """
    return _requests(_shape(pod["spec"]))


def limits_of(pod: Object) -> Amounts:
    """The same of limits; the overhead is added to what has one."""
    return _limits(_shape(pod["spec"]))


def quantities(texts: Mapping[str, Any] | None) -> Amounts:
    """A ResourceList as numbers."""
    return {name: parse_quantity(str(value)) for name, value in (texts or {}).items()}


def _shape(spec: Object) -> _Shape:
    return _Shape(
        tuple(_resources(container) for container in spec["containers"]),
        tuple(
            (container.get("restartPolicy") == "Always", _resources(container))
            for container in spec.get("initContainers") or ()
        ),
        _resources(spec),
        tuple((spec.get("overhead") or {}).items()),
    )


def _resources(holder: Object) -> _Resources:
    resources = holder.get("resources") or {}
    return _Resources(tuple((resources.get("limits") or {}).items()), tuple((resources.get("requests") or {}).items()))


@lru_cache(maxsize=_SHAPES)
def _requests(shape: _Shape) -> Amounts:
    total = _summed(shape, lambda resources: quantities(dict([*resources.limits, *resources.requests])))
    # PodRequests of component-helpers; a limit is the default where the containers request nothing.
    total = {**quantities(dict(shape.level.limits)), **total, **quantities(dict(shape.level.requests))}
    return _sum([total, quantities(dict(shape.overhead))])


@lru_cache(maxsize=_SHAPES)
def _limits(shape: _Shape) -> Amounts:
    total = _summed(shape, lambda resources: quantities(dict(resources.limits)))
    total = {**total, **quantities(dict(shape.level.limits))}
    overhead = quantities(dict(shape.overhead))
    return _sum([total, {name: value for name, value in overhead.items() if name in total}])


def _summed(shape: _Shape, amounts: Callable[[_Resources], Amounts]) -> Amounts:
    total = _sum(amounts(resources) for resources in shape.containers)
    sidecars: Amounts = {}
    most: Amounts = {}
    for is_sidecar, resources in shape.first:
        if is_sidecar:
            sidecars = _sum([sidecars, amounts(resources)])
        else:
            most = _most(most, _sum([sidecars, amounts(resources)]))
    return _most(_sum([total, sidecars]), most)


def _sum(parts: Iterable[Mapping[str, Fraction]]) -> Amounts:
    total: Amounts = {}
    for part in parts:
        for name, value in part.items():
            total[name] = total.get(name, _NOTHING) + value
    return total


def _most(one: Amounts, other: Amounts) -> Amounts:
    return {name: max(one.get(name, _NOTHING), other.get(name, _NOTHING)) for name in {**one, **other}}
