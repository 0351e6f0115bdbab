"""Every way in which kube-scheduler may place a few pods that keep each other from nodes, or draw each other.

It takes one pod after the other, in an order that nothing fixes, puts it on any node that its filters leave, and does
not go back. So a gang is placed for certain only if no way leads to a pod without a node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from gangctl.fit.packing import Packing, most

_MOST_STATES: Final = 4000
Domains = Mapping[int, str]
"""The domain of each node that has the label."""
Fill = tuple[int, ...]
State = tuple[Fill, ...]


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


class _Exploration:
    def __init__(self, packing: Packing, rules: Rules) -> None:
        self.packing = packing
        self.rules = rules
        self.nodes = sorted(packing.free)
        self.kinds = range(len(packing.counts))
        self.allowed = [set(allowed) for allowed in packing.allowed]
        groups: dict[object, list[int]] = {}
        for place, node in enumerate(self.nodes):
            groups.setdefault(self._likeness(node), []).append(place)
        self.groups = list(groups.values())

    def _likeness(self, node: int) -> object:
        """Equal for nodes that can change places: a domain of one node alone is as good as another of these."""
        parts: list[object] = [self.packing.free[node], tuple(node in allowed for allowed in self.allowed)]
        for domains, there in zip(self.rules.domains(), self.rules.there(), strict=True):
            value = domains.get(node, "")
            alone = sum(domains.get(other) == value for other in self.nodes) == 1
            parts.append((alone, there.get(value, -1) if alone else value))
        return tuple(parts)

    def _canonical(self, state: list[Fill]) -> State:
        for group in self.groups:
            # Nodes of a group can change places: states that differ by that alone become one.
            for place, fill in zip(group, sorted(state[place] for place in group), strict=True):
                state[place] = fill
        return tuple(state)

    def run(self) -> Exploration:
        """Follow every way."""
        nothing = (0,) * len(self.kinds)
        first: State = (nothing,) * len(self.nodes)
        seen, waiting, done, stuck = {first}, [first], False, False
        # With one way that places all pods and one that does not, both questions are answered.
        while waiting and not (done and stuck):
            # The newest first: a way that places all pods is found after as many states as there are pods.
            state = waiting.pop()
            placed = [sum(fill[kind] for fill in state) for kind in self.kinds]
            left = [kind for kind in self.kinds if placed[kind] < self.packing.counts[kind]]
            done = done or not left
            for kind in left:
                places = self._places(state, kind)
                stuck = stuck or not places
                for place in places:
                    following = list(state)
                    fill = state[place]
                    following[place] = (*fill[:kind], fill[kind] + 1, *fill[kind + 1 :])
                    after = self._canonical(following)
                    if after not in seen:
                        seen.add(after)
                        waiting.append(after)
            if len(seen) > _MOST_STATES:
                # What was found is proved, also by a search that is not finished.
                return Exploration(done or None, False if stuck else None)
        return Exploration(done, not stuck)

    def _places(self, state: State, kind: int) -> list[int]:
        """One of the equal nodes that the filters leave for a pod."""
        nodes = self._open(state, kind)
        places = {}
        for number, group in enumerate(self.groups):
            for place in group:
                if self.nodes[place] in nodes and self._has_room(state[place], self.nodes[place], kind):
                    places[number, state[place]] = place
        return list(places.values())

    def _has_room(self, fill: Fill, node: int, kind: int) -> bool:
        sizes = self.packing.sizes
        left = tuple(
            room - sum(count * size[index] for count, size in zip(fill, sizes, strict=True))
            for index, room in enumerate(self.packing.free[node])
        )
        # -1 is unlimited, so that "more than 0" would be wrong.
        return most(sizes[kind], left) != 0

    def _count(self, state: State, domains: Domains, kinds: frozenset[int]) -> Counter[str]:
        counts: Counter[str] = Counter()
        for node, fill in zip(self.nodes, state, strict=True):
            pods = sum(fill[kind] for kind in kinds)
            if pods and node in domains:
                counts[domains[node]] += pods
        return counts

    def _open(self, state: State, kind: int) -> set[int]:
        """Nodes that the rules leave for a pod."""
        nodes = self.allowed[kind] & set(self.nodes)
        for repulsion in self.rules.repulsions:
            # InterPodAffinity reads both: the terms of the pod, and those of the pods that are there.
            against = (repulsion.matches if kind in repulsion.owners else frozenset()) | (
                repulsion.owners if kind in repulsion.matches else frozenset()
            )
            taken = self._count(state, repulsion.domains, against)
            # A node without the label is in no domain, and no term of anti-affinity keeps a pod from it.
            nodes = {node for node in nodes if not taken[repulsion.domains.get(node, "")]}
        for attraction in self.rules.attractions:
            if attraction.kind == kind:
                nodes = self._drawn(state, attraction, nodes)
        for evenness in self.rules.evennesses:
            if evenness.kind == kind:
                counts = Counter(evenness.there)
                counts.update(self._count(state, evenness.domains, evenness.matches))
                counted = [counts[domain] for domain in evenness.there]
                # PodTopologySpread: with fewer domains than minDomains, the minimum counts as 0.
                least = min(counted, default=0) if len(counted) >= evenness.least else 0
                # The pod itself counts only if its own selector matches it (selfMatchNum).
                limit = evenness.skew + least - (kind in evenness.matches)
                domains = evenness.domains
                nodes = {node for node in nodes if node in domains and counts[domains[node]] <= limit}
        return nodes

    def _drawn(self, state: State, attraction: Attraction, nodes: set[int]) -> set[int]:
        nodes = {node for node in nodes if all(node in domains for domains in attraction.domains)}
        there = [
            occupied | {domain for domain, pods in self._count(state, domains, attraction.matches).items() if pods}
            for domains, occupied in zip(attraction.domains, attraction.there, strict=True)
        ]
        # The first pod of those that are drawn to each other may be on any node, or none of them could ever start
        # (satisfyPodAffinity of InterPodAffinity).
        if not any(there) and attraction.kind in attraction.matches:
            return nodes
        pairs = list(zip(attraction.domains, there, strict=True))
        return {node for node in nodes if all(domains[node] in occupied for domains, occupied in pairs)}
