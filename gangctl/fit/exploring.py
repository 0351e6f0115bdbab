"""Every way in which kube-scheduler may place a few pods that keep each other from nodes, or draw each other.

It takes one pod after the other, in an order that nothing fixes, puts it on any node that its filters leave, and does
not go back. So a gang is placed for certain only if no way leads to a pod without a node.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from gangctl.fit.packing import Packing, Vector, most

_MOST_STATES: Final = 4000
Domains = Mapping[int, str]
"""The domain of each node that has the label."""
Fill = tuple[int, ...]
"""Pods on one node, by kind."""
Place = tuple[int, Fill]
"""A group, and what is on one of its nodes."""
State = tuple[tuple[tuple[Fill, int], ...], ...]
"""By group: how many nodes have what on them. The cost does not depend on the number of equal nodes."""


@dataclass(frozen=True, slots=True)
class Repulsion:
    """A term of anti-affinity: no pod that has it is in a domain with one that it matches, whichever is first."""

    owners: frozenset[int]
    matches: frozenset[int]
    domains: Domains


@dataclass(frozen=True, slots=True)
class Attraction:
    """The terms of affinity of a kind: the domains, and in each those that have a pod which all terms match."""

    kind: int
    matches: frozenset[int]
    domains: tuple[Domains, ...]
    there: tuple[frozenset[str], ...]


@dataclass(frozen=True, slots=True)
class Evenness:
    """A topology spread constraint of a kind; ``there`` are pods that it counts, by domain with all domains."""

    kind: int
    matches: frozenset[int]
    domains: Domains
    there: Mapping[str, int]
    skew: int
    least: int


@dataclass(frozen=True, slots=True)
class Rules:
    """What pods of a gang do to each other."""

    repulsions: tuple[Repulsion, ...] = ()
    attractions: tuple[Attraction, ...] = ()
    evennesses: tuple[Evenness, ...] = ()

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self.repulsions or self.attractions or self.evennesses)

    def domains(self) -> Iterator[Domains]:
        """The domains of every rule."""
        yield from (repulsion.domains for repulsion in self.repulsions)
        yield from (domains for attraction in self.attractions for domains in attraction.domains)
        yield from (evenness.domains for evenness in self.evennesses)

    def there(self) -> Iterator[Mapping[str, int]]:
        """What other pods are to the rule of each of :meth:`domains`, by domain."""
        yield from ({} for _ in self.repulsions)
        yield from (dict.fromkeys(there, 1) for attraction in self.attractions for there in attraction.there)
        yield from (evenness.there for evenness in self.evennesses)


@dataclass(frozen=True, slots=True)
class Exploration:
    """Whether some way places all pods, and whether every way does; None if that is not found out."""

    possible: bool | None
    certain: bool | None


def explore(packing: Packing, rules: Rules) -> Exploration:
    """Whether pods that have such rules are placed."""
    if not rules:
        possible = packing.possible()
        # Equal pods: whichever node one takes, all nodes together have room for one less.
        return Exploration(possible, packing.certain() if possible and len(packing.sizes) > 1 else possible)
    # Rules only take nodes away, so that what does not fit without them does not fit with them.
    if packing.possible() is False:
        return Exploration(possible=False, certain=False)
    return _Exploration(_merged(packing, rules), rules).run()


def _merged(packing: Packing, rules: Rules) -> Packing:
    """For pods of one size that may be on the same nodes: nodes of one domain by every rule become one node."""
    # With pods of several sizes the room of a node depends on which of them are there already.
    if len(set(packing.sizes)) > 1 or len({frozenset(allowed) for allowed in packing.allowed}) > 1:
        return packing
    rooms: dict[object, tuple[int, int]] = {}
    for node in packing.allowed[0]:
        if node in packing.free:
            likeness = tuple(domains.get(node) for domains in rules.domains())
            first, room = rooms.get(likeness, (node, 0))
            rooms[likeness] = first, room + most(packing.sizes[0], packing.free[node])
    free = {node: (room,) for node, room in rooms.values()}
    return Packing([(1,) for _ in packing.sizes], packing.counts, [list(free) for _ in packing.sizes], free)


@dataclass(frozen=True, slots=True)
class _Group:
    """Equal nodes that can change places.

    A domain is a name that several nodes have. That of one node alone is as good as another one of these with as many
    pods, and is this number. None is no domain.
    """

    free: Vector
    allowed: tuple[bool, ...]
    domains: tuple[str | int | None, ...]


def _groups(packing: Packing, rules: Rules) -> Counter[_Group]:
    """The groups with their sizes."""
    nodes = sorted(packing.free)
    columns: list[list[str | int | None]] = []
    for domains, there in zip(rules.domains(), rules.there(), strict=True):
        names = [domains.get(node) for node in nodes]
        sizes = Counter(names)
        columns.append([there.get(name, 0) if name is not None and sizes[name] == 1 else name for name in names])
    allowed = [frozenset(own) for own in packing.allowed]
    return Counter(
        _Group(packing.free[node], tuple(node in own for own in allowed), tuple(column[place] for column in columns))
        for place, node in enumerate(nodes)
    )


class _Exploration:
    def __init__(self, packing: Packing, rules: Rules) -> None:
        self.packing = packing
        self.rules = rules
        self.kinds = range(len(packing.counts))
        groups = _groups(packing, rules)
        self.groups = list(groups)
        self.first: State = tuple((((0,) * len(self.kinds), size),) for size in groups.values())
        self.there = list(rules.there())
        self.beside: list[list[int]] = []
        """For each rule the pods in the domains of other nodes."""
        for evenness in rules.evennesses:
            names = {name for node, name in evenness.domains.items() if node in packing.free}
            self.beside.append([pods for name, pods in evenness.there.items() if name not in names])

    def run(self) -> Exploration:
        """Follow every way."""
        seen, waiting, done, stuck = {self.first}, [self.first], False, False
        # With one way that places all pods and one that does not, both questions are answered.
        while waiting and not (done and stuck):
            # The newest first: a way that places all pods is found after as many states as there are pods.
            state = waiting.pop()
            placed = [sum(fill[kind] * nodes for fills in state for fill, nodes in fills) for kind in self.kinds]
            left = [kind for kind in self.kinds if placed[kind] < self.packing.counts[kind]]
            done = done or not left
            for kind in left:
                places = self._places(state, kind)
                stuck = stuck or not places
                for number, fill in places:
                    fills = Counter(dict(state[number]))
                    fills[fill] -= 1
                    fills[(*fill[:kind], fill[kind] + 1, *fill[kind + 1 :])] += 1
                    # Without those that no node has any more.
                    after = (*state[:number], tuple(sorted((+fills).items())), *state[number + 1 :])
                    if after not in seen:
                        seen.add(after)
                        waiting.append(after)
            if len(seen) > _MOST_STATES:
                # What was found is proved, also by a search that is not finished.
                return Exploration(done or None, False if stuck else None)
        return Exploration(done, not stuck)

    def _has_room(self, place: Place, kind: int) -> bool:
        number, fill = place
        sizes = self.packing.sizes
        left = tuple(
            room - sum(count * size[index] for count, size in zip(fill, sizes, strict=True))
            for index, room in enumerate(self.groups[number].free)
        )
        # -1 is unlimited, so that "more than 0" would be wrong.
        return most(sizes[kind], left) != 0

    def _domain(self, place: Place, rule: int) -> str | int | None:
        return self.groups[place[0]].domains[rule]

    def _counted(self, state: State, rule: int, kinds: frozenset[int]) -> Callable[[Place], int]:
        """The number of pods in the domain of a place: those that are there, and those of some kinds."""
        shared: dict[str, int] = {}
        for group, fills in zip(self.groups, state, strict=True):
            if isinstance(name := group.domains[rule], str):
                pods = sum(fill[kind] * nodes for fill, nodes in fills for kind in kinds)
                shared[name] = shared.get(name, self.there[rule].get(name, 0)) + pods

        def count(place: Place) -> int:
            domain = self._domain(place, rule)
            if isinstance(domain, int):
                return domain + sum(place[1][kind] for kind in kinds)
            return 0 if domain is None else shared[domain]

        return count

    def _places(self, state: State, kind: int) -> list[Place]:
        """One of the equal nodes that the filters leave for a pod."""
        every = [(number, fill) for number, fills in enumerate(state) for fill, _ in fills]
        places = [place for place in every if self.groups[place[0]].allowed[kind] and self._has_room(place, kind)]
        # In the order of Rules.domains().
        rules = itertools.count()
        for repulsion in self.rules.repulsions:
            # InterPodAffinity reads both: the terms of the pod, and those of the pods that are there.
            against = (repulsion.matches if kind in repulsion.owners else frozenset()) | (
                repulsion.owners if kind in repulsion.matches else frozenset()
            )
            taken = self._counted(state, next(rules), against)
            # A node without the label is in no domain, and no term of anti-affinity keeps a pod from it.
            places = [place for place in places if not taken(place)]
        for attraction in self.rules.attractions:
            terms = list(itertools.islice(rules, len(attraction.domains)))
            if attraction.kind == kind:
                drawn = [self._counted(state, rule, attraction.matches) for rule in terms]
                places = [place for place in places if all(self._domain(place, rule) is not None for rule in terms)]
                # The first pod of those that are drawn to each other may be on any node, or none of them could ever
                # start (satisfyPodAffinity of InterPodAffinity).
                occupied = any(attraction.there) or any(count(place) for count in drawn for place in every)
                if occupied or kind not in attraction.matches:
                    places = [place for place in places if all(count(place) for count in drawn)]
        for evenness, beside in zip(self.rules.evennesses, self.beside, strict=True):
            rule = next(rules)
            if evenness.kind == kind:
                pods = self._counted(state, rule, evenness.matches)
                counted = [*beside, *(pods(place) for place in every if self._domain(place, rule) is not None)]
                # PodTopologySpread: with fewer domains than minDomains, the minimum counts as 0.
                least = min(counted, default=0) if len(evenness.there) >= evenness.least else 0
                # The pod itself counts only if its own selector matches it (selfMatchNum).
                limit = evenness.skew + least - (kind in evenness.matches)
                places = [place for place in places if self._domain(place, rule) is not None and pods(place) <= limit]
        return places
