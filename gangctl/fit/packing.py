"""Equal pods and equal nodes as vectors of resources: what fits, what never does, and what fits in any order.

Kinds of pods and nodes are vectors over the same resources, including ``pods``, of which every pod uses one. If neither
a bound is exceeded nor a placement is found within the limits here, the result is unknown: packing is NP-hard.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import add, le, mul, sub
from typing import Final

Vector = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PodKind:
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


def excess(kinds: Sequence[PodKind], classes: Sequence[Class]) -> Excess | None:
    """A proof that these pods do not all fit on these nodes at once, or None if there is no proof."""
    alone = (_alone(index, kind, classes) for index, kind in enumerate(kinds))
    together = (_together(subset, kinds, classes) for subset in _subsets(kinds))
    return next((proof for proof in chain(alone, together) if proof is not None), None)


def _alone(index: int, kind: PodKind, classes: Sequence[Class]) -> Excess | None:
    there = 0
    for number in kind.classes:
        fits = most(kind.size, classes[number].capacity)
        if fits < 0:
            return None
        there += fits * classes[number].count
    return Excess((index,), None, kind.count, there) if kind.count > there else None


def _subsets(kinds: Sequence[PodKind]) -> list[tuple[int, ...]]:
    """Sets of kinds that compete for nodes: for each kind, all that are limited to its nodes; and all kinds."""
    subsets = dict.fromkeys(
        tuple(other for other, rival in enumerate(kinds) if rival.classes <= kind.classes) for kind in kinds
    )
    subsets[tuple(range(len(kinds)))] = None
    # _alone has those of one kind.
    return [subset for subset in subsets if len(subset) > 1]


def _together(subset: tuple[int, ...], kinds: Sequence[PodKind], classes: Sequence[Class]) -> Excess | None:
    usable = sorted(frozenset().union(*(kinds[index].classes for index in subset)))
    for resource in range(len(kinds[subset[0]].size)):
        capacities = [(classes[number].capacity[resource], classes[number].count) for number in usable]
        wanted = sum(kinds[index].size[resource] * kinds[index].count for index in subset)
        there = sum(capacity * count for capacity, count in capacities)
        if wanted > there:
            return Excess(subset, resource, wanted, there)
        sizes = {kinds[index].size[resource] for index in subset} - {0}
        # A sum ignores that pods are not divisible: a node that has room for one and a half has room for one.
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
    # Not strict: without nodes there are no totals.
    weights = [max((a / t for a, t in zip(size, totals, strict=False)), default=0.0) for size in sizes]
    # Of equal sizes those with fewer nodes come first: others can go elsewhere.
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


_MOST_FILLS: Final = 3000
_MOST_SUMS: Final = 50_000


@dataclass(frozen=True, slots=True)
class Packing:
    """Pods to be placed on nodes one after the other: sizes and numbers by kind, nodes that each kind may be on."""

    sizes: Sequence[Vector]
    counts: Sequence[int]
    allowed: Sequence[Collection[int]]
    free: Mapping[int, Vector]

    def possible(self) -> bool | None:
        """Whether some placement has all pods; None if that is not found out."""
        # A placement and a bound decide most cases, and cost much less than to list what fits.
        if place(self.sizes, self.counts, self.ordered(), self.free) is not None:
            return True
        if self._excess() is not None:
            return False
        steps = 0
        front = {tuple(0 for _ in self.counts)}
        for capacity, kinds, count in self._classes(range(len(self.counts))):
            fills = self._fills(capacity, kinds, self.counts)
            if fills is None:
                return None
            # A fill that has no more of any kind than another one is never needed.
            fullest = _extremes(fills, most_of=True)
            for _ in range(count):
                steps += len(front) * len(fullest)
                if steps > _MOST_SUMS:
                    return None
                # More than all pods of a kind is as good as all: capped vectors are equal more often.
                sums = {tuple(map(min, map(add, one, fill), self.counts)) for one in front for fill in fullest}
                larger = _extremes(sums, most_of=True)
                # The other nodes of this class add nothing, either.
                if larger == front:
                    break
                front = larger
        return tuple(self.counts) in front

    def certain(self) -> bool | None:
        """Whether all pods are placed in any order, on whichever node that has room; None if that is not found out.

        They are not if the others can be placed so that no node has room for a pod of some kind.
        """
        answers = [self._blocked(kind) for kind, count in enumerate(self.counts) if count]
        return False if True in answers else None if None in answers else True

    def _blocked(self, kind: int) -> bool | None:
        """Whether other pods can take the room of the last pod of a kind on every node."""
        others = tuple(count - (index == kind) for index, count in enumerate(self.counts))
        blocking: list[tuple[set[Vector], int]] = []
        for capacity, kinds, count in self._classes((kind,)):
            fills = self._fills(capacity, kinds, others)
            if fills is None:
                return None
            full = {fill for fill in fills if most(self.sizes[kind], self._left(capacity, fill)) == 0}
            if not full:
                return False
            blocking.append((_extremes(full, most_of=False), count))
        # Nodes that need the most pods come first: the front is empty sooner, which ends the search.
        blocking.sort(key=lambda entry: -min(map(sum, entry[0])))
        steps = 0
        front = {tuple(0 for _ in others)}
        for fills, count in blocking:
            # Where an empty node has no room for the kind, no pod is needed to block it.
            for _ in range(count if (0,) * len(others) not in fills else 0):
                steps += len(front) * len(fills)
                if steps > _MOST_SUMS:
                    return None
                sums = {tuple(map(add, one, fill)) for one in front for fill in fills}
                front = _extremes({one for one in sums if all(map(le, one, others))}, most_of=False)
                if not front:
                    return False
        return True

    def _excess(self) -> Excess | None:
        classes = self._classes(range(len(self.counts)))
        kinds = [
            PodKind(size, count, frozenset(number for number, (_, taken, _) in enumerate(classes) if kind in taken))
            for kind, (size, count) in enumerate(zip(self.sizes, self.counts, strict=True))
        ]
        return excess(kinds, [Class(capacity, count) for capacity, _, count in classes])

    def ordered(self) -> list[list[int]]:
        """The nodes that each kind may be on, in order."""
        return [[node for node in self.free if node in allowed] for allowed in self.allowed]

    def _classes(self, wanted: Iterable[int]) -> list[tuple[Vector, tuple[int, ...], int]]:
        """Equal nodes that accept one of the wanted kinds: their room, all kinds that they accept, and how many."""
        nodes = {node for kind in wanted for node in self.allowed[kind] if node in self.free}
        classes = Counter(
            (self.free[node], tuple(kind for kind, allowed in enumerate(self.allowed) if node in allowed))
            for node in nodes
        )
        return [(capacity, kinds, count) for (capacity, kinds), count in classes.items()]

    def _left(self, capacity: Vector, fill: Vector) -> Vector:
        used = (sum(map(mul, column, fill)) for column in zip(*self.sizes, strict=True))
        return tuple(map(sub, capacity, used))

    def _fills(self, capacity: Vector, kinds: Sequence[int], limits: Sequence[int]) -> set[Vector] | None:
        """All numbers of pods by kind that fit on one node; None if they are too many."""
        fills = {tuple(0 for _ in limits)}
        for kind in kinds:
            more = set()
            for fill in fills:
                room = most(self.sizes[kind], self._left(capacity, fill))
                for count in range(1, (limits[kind] if room < 0 else min(room, limits[kind])) + 1):
                    more.add((*fill[:kind], count, *fill[kind + 1 :]))
                if len(fills) + len(more) > _MOST_FILLS:
                    return None
            fills |= more
        return fills


def _extremes(vectors: set[Vector], *, most_of: bool) -> set[Vector]:
    """The vectors that no other one exceeds in every element, or is below in every element."""
    kept: list[Vector] = []
    # By their sums: a vector can only be surpassed by one that was kept before it.
    for vector in sorted(vectors, key=sum, reverse=most_of):
        if not any(all(map(le, *((vector, other) if most_of else (other, vector)))) for other in kept):
            kept.append(vector)
    return set(kept)
