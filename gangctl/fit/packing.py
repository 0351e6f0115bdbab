"""Pods of several kinds on nodes of several shapes: bounds that prove, and a placement that shows.

Kinds and nodes are vectors over the same resources, ``pods`` among them, of which every pod takes one. Between a bound
that does not refuse and a placement that does not succeed nothing is known: packing is hard.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Vector = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Kind:
    """So many equal pods, and the classes of nodes (indexes) that would take them, whatever else is there."""

    size: Vector
    count: int
    classes: frozenset[int]


@dataclass(frozen=True, slots=True)
class Class:
    """So many equal nodes."""

    room: Vector
    count: int


@dataclass(frozen=True, slots=True)
class Excess:
    """Why a set of kinds can not be on the nodes at once: ``wanted`` is more than ``there``.

    Amounts of resource number ``resource``; pods where that is None.
    """

    kinds: tuple[int, ...]
    resource: int | None
    wanted: int
    there: int


def most(size: Vector, room: Vector) -> int:
    """Pods of one size that an empty node holds; those without size are without number, which is -1."""
    counts = [there // asked for asked, there in zip(size, room, strict=True) if asked > 0]
    return min(counts, default=-1)


def excess(kinds: Sequence[Kind], classes: Sequence[Class]) -> Excess | None:
    """A proof that these pods can not all be on these nodes at once, or None: then they may, or may not."""
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
        fits = most(kind.size, classes[number].room)
        if fits < 0:
            return None
        there += fits * classes[number].count
    return Excess((index,), None, kind.count, there) if kind.count > there else None


def _subsets(kinds: Sequence[Kind]) -> list[tuple[int, ...]]:
    """Kinds that have to do with the same nodes: for each, all that can be nowhere else; and all."""
    found = dict.fromkeys(
        tuple(other for other, each in enumerate(kinds) if each.classes <= kind.classes) for kind in kinds
    )
    found[tuple(range(len(kinds)))] = None
    return [subset for subset in found if len(subset) > 1]


def _together(subset: tuple[int, ...], kinds: Sequence[Kind], classes: Sequence[Class]) -> Excess | None:
    usable = sorted(frozenset().union(*(kinds[index].classes for index in subset)))
    for resource in range(len(kinds[subset[0]].size)):
        rooms = [(classes[number].room[resource], classes[number].count) for number in usable]
        wanted = sum(kinds[index].size[resource] * kinds[index].count for index in subset)
        there = sum(room * count for room, count in rooms)
        if wanted > there:
            return Excess(subset, resource, wanted, there)
        sizes = {kinds[index].size[resource] for index in subset} - {0}
        for size in sizes:
            big = tuple(index for index in subset if kinds[index].size[resource] >= size)
            pods = sum(kinds[index].count for index in big)
            places = sum(room // size * count for room, count in rooms)
            if pods > places:
                return Excess(big, None, pods, places)
    return None


def place(
    sizes: Sequence[Vector], counts: Sequence[int], allowed: Sequence[Sequence[int]], free: Mapping[int, Vector]
) -> dict[int, Vector] | None:
    """What is left on each node once all pods are on it, the biggest first and each on the first node that takes it.

    None where this way finds no place for one. ``allowed`` are the nodes that each kind may be on.
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
