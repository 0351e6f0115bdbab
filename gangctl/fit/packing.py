"""Pods of several kinds on nodes of several shapes: upper bounds, and a placement.

Kinds and nodes are vectors over the same resources, including ``pods``, of which every pod uses one. If neither a bound
is exceeded nor a placement is found, the result is unknown: packing is NP-hard.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Vector = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Kind:
    """A number of equal pods, and the classes of nodes (indexes) that accept them, regardless of usage."""

    size: Vector
    count: int
    classes: frozenset[int]


@dataclass(frozen=True, slots=True)
class Class:
    """A number of equal nodes."""

    capacity: Vector
    count: int


@dataclass(frozen=True, slots=True)
class Excess:
    """Why a set of kinds cannot be on the nodes at once: ``wanted`` is more than ``there``.

    Amounts of resource number ``resource``; pods if that is None.
    """

    kinds: tuple[int, ...]
    resource: int | None
    wanted: int
    there: int


def most(size: Vector, capacity: Vector) -> int:
    """Number of pods of one size that fit on an empty node; -1, unlimited, for pods without size."""
    counts = [there // asked for asked, there in zip(size, capacity, strict=True) if asked > 0]
    return min(counts, default=-1)


def excess(kinds: Sequence[Kind], classes: Sequence[Class]) -> Excess | None:
    """A proof that these pods do not all fit on these nodes at once, or None if there is no proof."""
    for index, kind in enumerate(kinds):
        found = _alone(index, kind, classes)
        if found is not None:
            return found
    for subset in _subsets(kinds):
        found = _together(subset, kinds, classes)
        if found is not None:
            return found
    return None


def _alone(index: int, kind: Kind, classes: Sequence[Class]) -> Excess | None:
    there = 0
    for number in kind.classes:
        fits = most(kind.size, classes[number].capacity)
        if fits < 0:
            return None
        there += fits * classes[number].count
    return Excess((index,), None, kind.count, there) if kind.count > there else None


def _subsets(kinds: Sequence[Kind]) -> list[tuple[int, ...]]:
    """Sets of kinds that compete for nodes: for each kind, all that are limited to its nodes; and all kinds."""
    found = dict.fromkeys(
        tuple(other for other, each in enumerate(kinds) if each.classes <= kind.classes) for kind in kinds
    )
    found[tuple(range(len(kinds)))] = None
    return [subset for subset in found if len(subset) > 1]


def _together(subset: tuple[int, ...], kinds: Sequence[Kind], classes: Sequence[Class]) -> Excess | None:
    usable = sorted(frozenset().union(*(kinds[index].classes for index in subset)))
    for resource in range(len(kinds[subset[0]].size)):
        capacities = [(classes[number].capacity[resource], classes[number].count) for number in usable]
        wanted = sum(kinds[index].size[resource] * kinds[index].count for index in subset)
        there = sum(capacity * count for capacity, count in capacities)
        if wanted > there:
            return Excess(subset, resource, wanted, there)
        sizes = {kinds[index].size[resource] for index in subset} - {0}
        for size in sizes:
            big = tuple(index for index in subset if kinds[index].size[resource] >= size)
            pods = sum(kinds[index].count for index in big)
            places = sum(capacity // size * count for capacity, count in capacities)
            if pods > places:
                return Excess(big, None, pods, places)
    return None


def place(
    sizes: Sequence[Vector], counts: Sequence[int], allowed: Sequence[Sequence[int]], free: Mapping[int, Vector]
) -> dict[int, Vector] | None:
    """Remaining capacity of each node after first-fit-decreasing placement of all pods.

    None if one does not fit this way. ``allowed`` are the nodes that each kind may be on.
    """
    left = dict(free)
    totals = [sum(column) or 1 for column in zip(*free.values(), strict=True)]
    weights = [max((a / t for a, t in zip(size, totals, strict=False)), default=0.0) for size in sizes]
    order = sorted(range(len(sizes)), key=lambda index: (-weights[index], len(allowed[index])))
    for index in order:
        waiting = counts[index]
        for node in allowed[index]:
            if not waiting:
                break
            fits = most(sizes[index], left[node])
            taken = waiting if fits < 0 else max(0, min(waiting, fits))
            left[node] = tuple(there - asked * taken for there, asked in zip(left[node], sizes[index], strict=True))
            waiting -= taken
        if waiting:
            return None
    return left
