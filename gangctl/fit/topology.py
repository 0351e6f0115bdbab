"""Where Kueue places the pods of one podset, or of a leader and its workers, in a hierarchy of domains.

Counts of the lowest domains are summed upwards; then a level is chosen, and from there on the pods are distributed
downwards. The result is the one that Kueue finds, not only whether there is any. Domains are identified by level and by
index, in the order of their values. Source: Kueue ``pkg/cache/scheduler/tas_flavor_snapshot.go`` of v0.19.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

MOST: Final = 2**31 - 1
"""Pods in a domain, at most."""


@dataclass(frozen=True, slots=True)
class Tree:
    """``values[level]`` are the domains of a level, each by its label's value and those above it.

    ``children[level][index]`` are indexes in the next level.
    """

    levels: tuple[str, ...]
    values: tuple[tuple[tuple[str, ...], ...], ...]
    children: tuple[tuple[range, ...], ...]

    @classmethod
    def of(cls, levels: Sequence[str], leaves: Iterable[tuple[str, ...]]) -> Tree:
        """The tree above the lowest domains, given in the order of their values, one for each level."""
        values = [tuple(leaves)]
        children: list[tuple[range, ...]] = []
        for depth in range(len(levels) - 1, 0, -1):
            starts: dict[tuple[str, ...], int] = {}
            for index, value in enumerate(values[0]):
                starts.setdefault(value[:depth], index)
            stops = [*starts.values(), len(values[0])][1:]
            # The leaves are in order, so that the children of a domain are neighbours.
            children.insert(0, tuple(range(start, stop) for start, stop in zip(starts.values(), stops, strict=True)))
            values.insert(0, tuple(starts))
        return cls(tuple(levels), tuple(values), tuple(children))

    @property
    def lowest(self) -> int:
        """Index of the lowest level."""
        return len(self.levels) - 1

    def above(self, level: int, counts: Mapping[int, int]) -> dict[int, int]:
        """Sums, by domain of a level, of counts by domain of the lowest level."""
        sums = dict(counts)
        for lower in range(self.lowest, level, -1):
            starts = [domains.start for domains in self.children[lower - 1]]
            below, sums = sums, {}
            for child, count in below.items():
                parent = bisect_right(starts, child) - 1
                sums[parent] = sums.get(parent, 0) + count
        return sums


@dataclass(frozen=True, slots=True)
class Ask:
    """A number of pods, and the level (by index) at which Kueue looks for domains.

    ``required`` is one domain of ``level``, ``anywhere`` is any number of them; otherwise levels above follow.
    ``size`` pods at a time are in one domain of ``slice_level``, which is not above ``level``. ``inner`` are the sizes
    of smaller slices by each level at which pods come only in such numbers. ``leader`` is one more pod of another kind.
    ``least`` takes the domains with the least room first, as Kueue does for unconstrained pods.
    """

    count: int
    level: int
    slice_level: int
    required: bool = False
    anywhere: bool = False
    size: int = 1
    inner: Mapping[int, int] | None = None
    leader: bool = False
    least: bool = False

    @property
    def slices(self) -> int:
        """Whole slices; Kueue leaves the pods beyond them out."""
        return self.count // self.size


@dataclass(frozen=True, slots=True)
class Leaves:
    """Pods that each of the lowest domains has room for: alone, and beside the leader where there is room for it."""

    pods: Sequence[int]
    beside: Sequence[int]
    leaders: Sequence[int]


@dataclass(frozen=True, slots=True)
class DomainAssignment:
    """Pods by lowest domain, and that of the leader, if there is one."""

    pods: Mapping[int, int]
    leader: int | None = None


@dataclass(slots=True)
class Room:
    """Room in the domains of one level, by index; at the end of the search what is used of it.

    Slices count at their own level and above, and are 0 below.
    """

    pods: list[int]
    slices: list[int]
    beside: list[int]
    slices_beside: list[int]
    leaders: list[int]

    def order(self, domains: Iterable[int], *, least: bool) -> list[int]:
        """Domains in the order in which Kueue uses them without a leader."""
        sign = 1 if least else -1
        return sorted(domains, key=lambda each: (sign * self.slices[each], self.pods[each], each))

    def order_with_leader(self, domains: Iterable[int], *, least: bool) -> list[int]:
        """The same for a leader with its workers."""
        sign = 1 if least else -1
        return sorted(
            domains,
            key=lambda each: (-self.leaders[each], sign * self.slices_beside[each], self.beside[each], each),
        )


def room_of(tree: Tree, leaves: Leaves, ask: Ask) -> list[Room]:
    """Room in all domains, by level."""
    lowest = tree.lowest
    whole = [pod // ask.size for pod in leaves.pods] if ask.slice_level == lowest else [0] * len(leaves.pods)
    # A copy: the search changes each list by itself.
    beside = [pods // ask.size for pods in leaves.beside] if ask.slice_level == lowest else list(whole)
    rooms = [Room(list(leaves.pods), whole, list(leaves.beside), beside, list(leaves.leaders))]
    for level in range(lowest - 1, -1, -1):
        rooms.insert(0, _summed(tree.children[level], rooms[0], ask, level))
    return rooms


def _summed(children: Sequence[range], below: Room, ask: Ask, level: int) -> Room:
    inner = (ask.inner or {}).get(level + 1, 1)
    pods = [pod // inner * inner for pod in below.pods] if inner > 1 else below.pods
    beside = [pods // inner * inner for pods in below.beside] if inner > 1 else below.beside
    room = Room([], [], [], [], [])
    for domains in children:
        first, last = domains.start, domains.stop
        total, slices = min(sum(pods[first:last]), MOST), sum(below.slices[first:last])
        total_beside, slices_beside = total, slices
        if ask.leader:
            leading = [domain for domain in domains if below.leaders[domain]]
            lost = min((pods[domain] - beside[domain] for domain in leading), default=total)
            total_beside = total - lost
            lost = min((below.slices[domain] - below.slices_beside[domain] for domain in leading), default=slices)
            slices_beside = slices - lost
        if level == ask.slice_level:
            slices, slices_beside = total // ask.size, total_beside // ask.size
        room.pods.append(total)
        room.slices.append(slices)
        room.beside.append(total_beside)
        room.slices_beside.append(slices_beside)
        room.leaders.append(max(below.leaders[first:last]))
    return room


def find(tree: Tree, leaves: Leaves, ask: Ask) -> DomainAssignment | None:
    """Kueue's assignment, None if it finds none."""
    rooms = room_of(tree, leaves, ask)
    if not rooms or not rooms[0].pods:
        return None
    level = ask.level
    # findLevelWithFitDomains: one level up at a time, unless the request forbids it.
    while (chosen := _at(rooms[level], ask, top=level == 0)) is None:
        if ask.required or ask.anywhere or level == 0:
            return None
        level -= 1
    return _distribute(tree, rooms, ask, level, chosen)


def _at(room: Room, ask: Ask, *, top: bool) -> list[int] | None:
    """Domains of one level that have room for everything: one, or if there is no level above, any number."""
    leader = 1 if ask.leader else 0
    order = room.order_with_leader(range(len(room.pods)), least=ask.least)
    counts = room.slices_beside if leader else room.slices
    if ask.least:
        for domain in order:
            if room.leaders[domain] >= leader and counts[domain] >= ask.slices:
                return [domain]
    # The first has the most room: if it has not enough, none has.
    elif counts[order[0]] >= ask.slices and room.leaders[order[0]] >= leader:
        return [_tightest(room, order, ask.slices, counts, leader)]
    if ask.required or not (top or ask.anywhere):
        return None
    return _several(room, order, ask, leader)


def _several(room: Room, order: list[int], ask: Ask, leader: int) -> list[int] | None:
    """Domains that have room for everything together."""
    chosen: list[int] = []
    left = ask.slices
    if leader:
        first = _leading_first(room, order, ask.slices, room.slices, room.slices_beside)
        domain = first[0]
        if not room.leaders[domain]:
            return None
        if not ask.least and room.slices_beside[domain] >= left:
            domain = _tightest(room, first, left, room.slices_beside, leader)
        chosen.append(domain)
        left -= room.slices_beside[domain]
        order = first[1:]
    order = room.order(order, least=ask.least)
    for position, domain in enumerate(order):
        if left <= 0:
            break
        if not ask.least and room.slices[domain] >= left:
            domain = _tightest(room, order[position:], left, room.slices, 0)  # noqa: PLW2901 -- the last of them
        chosen.append(domain)
        left -= room.slices[domain]
    return chosen if left <= 0 else None


def _tightest(room: Room, domains: Sequence[int], wanted: int, counts: Sequence[int], leader: int) -> int:
    """The domain with the least room that is enough, the first of them; the first of all if there is none."""
    enough = [domain for domain in domains if room.leaders[domain] >= leader and counts[domain] >= wanted]
    return min(enough, key=lambda each: counts[each]) if enough else domains[0]


def _leading_first(
    room: Room, order: list[int], wanted: int, counts: Sequence[int], beside: Sequence[int]
) -> list[int]:
    """The same domains, first one for the leader that leaves room for all of its workers."""
    there = sum(counts[domain] for domain in order)
    for position, candidate in enumerate(order):
        if room.leaders[candidate] and there - (counts[candidate] - beside[candidate]) >= wanted:
            return [candidate, *order[:position], *order[position + 1 :]]
    return order


def _distribute(tree: Tree, rooms: Sequence[Room], ask: Ask, level: int, chosen: list[int]) -> DomainAssignment:
    """Pods of the chosen domains in the lowest ones."""
    leader = 1 if ask.leader else 0
    chosen = _take(rooms[level], chosen, ask.count, leader, ask.size, least=ask.least, whole=True)
    # Down to the level of the slices, Kueue distributes among the children of all chosen domains together. Below it,
    # what a domain got stays in it: a slice must not be divided.
    while level < min(tree.lowest, ask.slice_level):
        below = [child for domain in chosen for child in tree.children[level][domain]]
        level += 1
        order = rooms[level].order(below, least=ask.least)
        chosen = _take(rooms[level], order, ask.count, leader, ask.size, least=ask.least, whole=True)
    while level < tree.lowest:
        level += 1
        chosen = _into_children(tree, rooms, ask, level, chosen)
    room = rooms[level]
    leading = next((domain for domain in chosen if room.leaders[domain]), None) if leader else None
    return DomainAssignment({domain: room.pods[domain] for domain in chosen if room.pods[domain]}, leading)


def _into_children(tree: Tree, rooms: Sequence[Room], ask: Ask, level: int, parents: Sequence[int]) -> list[int]:
    """The domains of a level that have the pods of those above, which are distributed among their own."""
    above, room = rooms[level - 1], rooms[level]
    size = (ask.inner or {}).get(level, 1)
    chosen: list[int] = []
    for parent in parents:
        order = room.order(tree.children[level - 1][parent], least=ask.least)
        if size > 1:
            for domain in order:
                room.slices[domain] = room.pods[domain] // size
                room.slices_beside[domain] = room.beside[domain] // size
        wanted, leader = above.pods[parent], above.leaders[parent]
        chosen += _take(room, order, wanted, leader, size, least=ask.least, whole=size > 1)
    return chosen


def _take(room: Room, order: list[int], count: int, leader: int, size: int, *, least: bool, whole: bool) -> list[int]:
    """Domains for so many pods, with what each has of them; ``whole`` distributes slices of ``size``."""
    # As updateCountsToMinimumGeneric, with its exception for the last domain: the tightest that is enough.
    counts, beside = (room.slices, room.slices_beside) if whole else (room.pods, room.beside)
    size = size if whole else 1
    left = count // size
    if leader:
        order = _leading_first(room, order, left, counts, beside)
    chosen: list[int] = []
    for position, domain in enumerate(order):
        choice, there = domain, beside if leader else counts
        if not least and there[choice] >= left and room.leaders[choice] >= leader:
            choice = _tightest(room, order[position:], left, there, leader)
        counts[choice] = min(there[choice], left)
        room.pods[choice] = counts[choice] * size
        room.leaders[choice] = min(room.leaders[choice], leader)
        leader -= room.leaders[choice]
        left -= counts[choice]
        chosen.append(choice)
        if left <= 0 and not leader:
            break
    return chosen
