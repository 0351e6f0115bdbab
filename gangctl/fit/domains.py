"""The nodes of one flavor as a tree of domains, how many pods each has room for, and what that means to users.

Only if the lowest level is the host name, Kueue looks at taints, node selectors and affinity; otherwise a domain is the
sum of its nodes. Source: Kueue ``pkg/cache/scheduler`` of v0.19 (``tas_topology_tree.go``, ``tas_nodes_cache.go``,
``tas_flavor.go``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from gangctl.api.objects import objects_at
from gangctl.api.pods import HOSTNAME
from gangctl.errors import plural
from gangctl.fit.demands import Member
from gangctl.fit.floor import NodeShape, affinity_of, untolerated
from gangctl.fit.report import DomainReport
from gangctl.fit.topology import MOST, Ask, DomainAssignment, Leaves, Room, Tree, room_of
from gangctl.kueue.amounts import UNLIMITED
from gangctl.kueue.objects import PODS, Amounts, Placement, ResourceFlavor

Key = tuple[str, ...]
"""Identity of a lowest domain: its host name, or the values of all levels."""

Usage = dict[Key, dict[str, int]]
"""Amounts by lowest domain."""


def use(usage: Usage, key: Key, requests: Amounts, pods: int) -> None:
    """Add pods to a usage; a negative number takes them away."""
    taken = usage.setdefault(key, {})
    for resource, amount in {**requests, PODS: 1}.items():
        taken[resource] = taken.get(resource, 0) + amount * pods


class FlavorDomains:
    """Domains of a flavor's nodes now, or ``ever``: with all nodes ready and nothing on them."""

    def __init__(
        self,
        flavor: ResourceFlavor,
        levels: Sequence[str],
        nodes: Iterable[NodeShape],
        used: Mapping[str, Amounts],
        *,
        ever: bool = False,
    ) -> None:
        """``levels`` are of the flavor's topology, at least one.

        ``used`` are requests of pods by name of their node, without those that Kueue placed.
        """
        self.flavor = flavor
        self.hosts = levels[-1] == HOSTNAME
        self._ever = ever
        self._placed: list[Placement] = []
        self._eligible: dict[str, list[bool]] = {}
        self._counted: dict[tuple[int, int], Leaves] = {}
        domains: dict[Key, tuple[Key, NodeShape, dict[str, int] | None]] = {}
        wanted, named = flavor.node_labels.items(), set(levels)
        self._inside: list[tuple[Key, NodeShape, dict[str, int] | None]] = []
        for node in nodes:
            labels = node.labels
            # Kueue counts no capacity of nodes that are cordoned or not ready.
            if (node.closed and not ever) or not (wanted <= labels.items() and named <= labels.keys()):
                continue
            values = tuple(labels[level] for level in levels)
            key = values[-1:] if self.hosts else values
            amounts: dict[str, int] | None
            if not ever:
                amounts = _minus(node.present, used.get(node.name) or {})
            else:
                # Without a limit where nothing is known of a node yet.
                silent = dict.fromkeys(node.unreported, UNLIMITED)
                amounts = {PODS: UNLIMITED, **node.capacity, **silent} if node.capacity else None
            self._inside.append((key, node, amounts))
            if key in domains:
                values, first, before = domains[key]
                # The taints of the first node are kept for all: they are read only where a domain is one host.
                domains[key] = values, first, _sum(before, amounts)
            else:
                domains[key] = values, node, amounts
        # Tree.of takes neighbours for children of one domain.
        leaves = sorted((values, key) for key, (values, _, _) in domains.items())
        self.tree = Tree.of(levels, [values for values, _ in leaves])
        self.keys = [key for _, key in leaves]
        self._index = {key: index for index, key in enumerate(self.keys)}
        self._nodes = [domains[key][1] for key in self.keys]
        self._free = [domains[key][2] for key in self.keys]

    def occupy(self, placement: Placement) -> None:
        """Add the usage of pods that Kueue placed; before any count."""
        self._placed.append(placement)
        for key, pods in placement.domains.items():
            # Of a node that is gone or not ready Kueue ignores the usage, too (addTASUsage).
            index = self._index.get(key)
            free = self._free[index] if index is not None else None
            if free is not None:
                for resource, amount in {**placement.requests, PODS: 1}.items():
                    free[resource] = free.get(resource, 0) - amount * pods

    @cached_property
    def _alike(self) -> tuple[list[int], list[dict[str, int] | None]]:
        """The kind of each of the lowest domains by what is free in it, and the kinds: most nodes are alike."""
        kinds: dict[tuple[tuple[str, int], ...] | None, int] = {}
        alike = [kinds.setdefault(None if free is None else tuple(free.items()), len(kinds)) for free in self._free]
        return alike, [None if kind is None else dict(kind) for kind in kinds]

    def takes_any(self, pods: Member) -> bool:
        """Whether any of the nodes may run these pods, regardless of their size."""
        return any(self._takers(pods))

    def _takers(self, pods: Member) -> list[bool]:
        """Whether each of the lowest domains may run these pods; computed once for equal requirements."""
        spec = pods.podset.pod_spec
        # As text, because the lists of a pod spec are not hashable.
        requirements = repr([spec.get(key) for key in ("tolerations", "nodeSelector", "affinity")])
        if requirements not in self._eligible:
            nodes = self._nodes
            self._eligible[requirements] = self._takes(pods, nodes) if self.hosts else [True] * len(nodes)
        return self._eligible[requirements]

    def _takes(self, pods: Member, nodes: Iterable[NodeShape]) -> list[bool]:
        """Whether each of the nodes may run these pods."""
        spec = pods.podset.pod_spec
        tolerations, allows = [*objects_at(spec, "tolerations"), *self.flavor.tolerations], affinity_of(spec)
        return [
            # The components that add the taints in `passing` remove them again: they do not decide about ever.
            untolerated(node.taints if self._ever else (*node.taints, *node.passing), tolerations) is None
            and allows(node.labels, node.name)
            for node in nodes
        ]

    def _useful(self, pods: Member) -> list[NodeShape]:
        """The nodes that add room: one without what the pods request, as a control plane without GPUs, does not."""
        asked = [name for name, amount in pods.counted.asked.items() if amount > 0]
        return [node for _, node, _ in self._inside if all(node.present.get(name, 0) > 0 for name in asked)]

    def overlooked(self, workers: Member, leader: Member | None) -> Iterator[Member]:
        """Pods that Kueue may give nodes that do not take them.

        It reads taints and labels of single hosts only, and of a group for the workers only (findTopologyAssignment).
        """
        if not self.hosts:
            yield from (pods for pods in (workers, leader) if pods and not all(self._takes(pods, self._useful(pods))))
        elif leader is not None:
            both = zip(self._takers(workers), self._takers(leader), strict=True)
            if any(works and not leads for works, leads in both):
                yield leader

    def divided(self, pods: Member, assigned: DomainAssignment) -> bool:
        """Whether a domain gets more of the pods than its nodes have room for, one by one: Kueue takes their sum."""
        if self.hosts:
            return False
        single: dict[Key, list[tuple[Amounts | None, int]]] = {key: [] for key in self.keys}
        takes = self._takes(pods, [node for _, node, _ in self._inside])
        for (key, _, free), taken in zip(self._inside, takes, strict=True):
            single[key].append((free, _count(free, pods.counted.asked) if taken else 0))
        for index, count in assigned.pods.items():
            nodes = single[key := self.keys[index]]
            if count > sum(room for _, room in nodes) - self._lost(key, nodes, pods.counted.asked):
                return True
        return False

    def _lost(self, key: Key, nodes: Sequence[tuple[Amounts | None, int]], asked: Amounts) -> int:
        """Pods, at most, that find no room on the nodes of a domain because of those that Kueue placed there.

        ``nodes`` are what each has without these and the pods that it has room for. Kueue does not know on which of
        them its pods are.
        """
        placed = [({**one.requests, PODS: 1}, one.domains[key]) for one in self._placed if key in one.domains]
        taken: Usage = {}
        for requests, count in placed:
            use(taken, key, requests, count)
        total = taken.get(key, {})
        if len(nodes) == 1:
            [(free, room)] = nodes
            return 0 if free is None else room - min(room, _count(_minus(free, total), asked))
        scarce = {
            resource: amount
            for resource, amount in {**asked, PODS: 1}.items()
            if amount > 0
            and any(
                free is not None and free.get(resource, 0) - total.get(resource, 0) < room * amount
                for free, room in nodes
            )
        }
        return sum(
            count * max((-(-requests.get(resource, 0) // amount) for resource, amount in scarce.items()), default=0)
            for requests, count in placed
        )

    def leaves(self, workers: Member, leader: Member | None, taken: Usage) -> Leaves:
        """Pods that each of the lowest domains has room for; ``taken`` is usage besides the known one.

        As in Kueue, taints and labels are those for the workers only.
        """
        known, takers = (workers.podset.index, leader.podset.index if leader is not None else -1), self._takers(workers)
        if known not in self._counted:
            alike, kinds = self._alike
            counted = [_counts(free, workers, leader) for free in kinds]
            counts = [counted[kind] if takes else (0, 0, 0) for kind, takes in zip(alike, takers, strict=True)]
            self._counted[known] = Leaves(*([count[part] for count in counts] for part in range(3)))
        # Most domains are as they were: only those in `taken` are counted again, on copies.
        base = self._counted[known]
        changed = [index for key in taken if (index := self._index.get(key)) is not None]
        if not changed:
            return base
        pods, beside, leaders = list(base.pods), list(base.beside), list(base.leaders)
        for index in changed:
            if takers[index]:
                free = self._free[index]
                left = None if free is None else _minus(free, taken[self.keys[index]])
                pods[index], beside[index], leaders[index] = _counts(left, workers, leader)
        return Leaves(pods, beside, leaders)


def _counts(free: Mapping[str, int] | None, workers: Member, leader: Member | None) -> tuple[int, int, int]:
    """Workers that there is room for, alone and beside the leader, and whether there is room for the leader."""
    pods = _count(free, workers.counted.asked)
    if leader is None or not _count(free, leader.counted.asked):
        return pods, pods, 0
    left = None if free is None else _minus(free, {**leader.counted.asked, PODS: 1})
    return pods, _count(left, workers.counted.asked), 1


def _count(free: Mapping[str, int] | None, requests: Amounts) -> int:
    if free is None:
        return MOST
    # As findTopologyAssignment, which adds one of `pods` to the requests.
    count = min(free.get(PODS, 0), MOST)
    for resource, amount in requests.items():
        if amount > 0:
            there = free.get(resource, 0)
            count = min(count, there // amount)
    return max(0, count)


def _minus(free: Mapping[str, int], taken: Amounts) -> dict[str, int]:
    left = dict(free)
    for resource, amount in taken.items():
        left[resource] = left.get(resource, 0) - amount
    return left


def _sum(one: dict[str, int] | None, other: Mapping[str, int] | None) -> dict[str, int] | None:
    if one is None or other is None:
        return None
    return {resource: one.get(resource, 0) + other.get(resource, 0) for resource in {**one, **other}}


_MOST_ROWS: Final = 20


@dataclass(slots=True)
class DomainView:
    """Room for the pods of one podset, and of a leader beside it, in the domains of a flavor.

    ``leaves`` are the lowest domains.
    """

    domains: FlavorDomains
    leaves: Leaves
    ask: Ask
    workers: Member
    leader: Member | None
    _summed: Sequence[Room] = ()

    @property
    def _rooms(self) -> Sequence[Room]:
        """Room in the domains of all levels."""
        # Not shared with `find`, which changes its sums while it assigns the pods.
        self._summed = self._summed or room_of(self.domains.tree, self.leaves, self.ask)
        return self._summed

    @property
    def level(self) -> int:
        """The level that the request is about: its own, else that of its slices, else the lowest."""
        return self.ask.slice_level if self.ask.anywhere else self.ask.level

    @property
    def label(self) -> str:
        """The node label of the level."""
        return self.domains.tree.levels[self.level]

    def free(self, index: int) -> int:
        """Pods in whole slices that a domain has room for, beside a leader if there is one."""
        room = self._rooms[self.level]
        slices = room.slices_beside[index] if self.ask.leader else room.slices[index]
        leads = room.leaders[index] if self.ask.leader else 1
        return min(slices * leads * self.ask.size, UNLIMITED)

    def nearest(self, empty: DomainView) -> int | None:
        """The domain that lacks the least, first of those that could hold all pods if they were empty."""
        order = self._order(self._maxima(empty))
        return order[0] if order else None

    def keys(self, index: int | None) -> Collection[Key]:
        """The lowest domains of one domain, or all."""
        children, level = [index] if index is not None else range(len(self._values())), self.level
        while level < self.domains.tree.lowest:
            children = [child for parent in children for child in self.domains.tree.children[level][parent]]
            level += 1
        return {self.domains.keys[parent] for parent in children}

    def _values(self) -> Sequence[Key]:
        return self.domains.tree.values[self.level]

    def _maxima(self, empty: DomainView) -> list[int]:
        """Pods of each domain with nothing on its nodes."""
        known = {values: index for index, values in enumerate(empty._values())}
        return [empty.free(known[values]) if values in known else 0 for values in self._values()]

    def _order(self, maxima: Sequence[int]) -> list[int]:
        wanted = self.ask.count if self.ask.required else 1
        domains = range(len(self._values()))
        return sorted(domains, key=lambda each: (maxima[each] < wanted, -self.free(each), -maxima[each], each))

    def rows(self, empty: DomainView, found: DomainAssignment | None = None) -> list[DomainReport]:
        """The domains of the pods, or those with the most room."""
        maxima = self._maxima(empty)
        assigned: Mapping[int, int] = {}
        if found is not None:
            assigned = self.domains.tree.above(self.level, found.pods)
        return [
            {
                "podSet": self.workers.podset.name,
                "flavor": self.domains.flavor.name,
                "level": self.label,
                "domain": self.name(index),
                "requested": min(self.ask.count, UNLIMITED),
                "assigned": assigned.get(index, 0),
                "free": self.free(index),
                "maximum": maxima[index],
            }
            for index in (sorted(assigned) or self._order(maxima))[:_MOST_ROWS]
        ]

    def name(self, index: int) -> str:
        """A domain by its value, after those of the levels above."""
        return "/".join(self._values()[index])

    @property
    def who(self) -> str:
        """The pods."""
        beside = f' and its leader "{self.leader.podset.name}"' if self.leader is not None else ""
        return f'"{self.workers.podset.name}"{beside}'

    def where(self, found: DomainAssignment) -> str:
        """Where the pods are."""
        indexes = sorted(self.domains.tree.above(self.level, found.pods))
        rest = self.ask.count % self.ask.size
        left_out = f", but {plural(rest, 'pod')}, beyond slices of {self.ask.size}, on no node: not all of it starts"
        where = f"{plural(len(indexes), 'domain')} of {self.label}"
        if len(indexes) == 1:
            where = f'"{self.name(indexes[0])}" ({self.label})'
        return f"{self.who} in {where}{left_out if rest else ''}"

    def problem(self, empty: DomainView, *, ever: bool, beside: bool) -> str:
        """Why there is no place; ``beside`` other podsets that are placed before."""
        flavor, index = f'flavor "{self.domains.flavor.name}"', self.nearest(empty)
        if index is None:
            levels = ", ".join(self.domains.tree.levels)
            return f"no {'' if ever else 'ready '}node of {flavor} has labels for all levels of its topology ({levels})"
        if not self.domains.takes_any(self.workers):
            return f"taints, node selectors and affinity keep {self.who} from all nodes of {flavor}"
        when = ", with all nodes ready and nothing on them" if ever else " now"
        when += ", beside the podsets before it" if beside else ""
        if self.ask.required:
            free = self.free(index) // self.ask.size
            return (
                f'no domain of {self.label} has room for {self._amount} of {self.who}{when}: "{self.name(index)}" has '
                f"room for {free}, {self.ask.slices - free} short"
            )
        free = self._everywhere()
        return (
            f"the nodes of {flavor} have no room for {self._amount} of {self.who}{when}: there is room for {free}, "
            f"{max(0, self.ask.slices - free)} short"
        )

    @property
    def _amount(self) -> str:
        if self.ask.size == 1:
            return plural(self.ask.count, "pod")
        return f"{plural(self.ask.slices, 'slice')} of {plural(self.ask.size, 'pod')}"

    def _everywhere(self) -> int:
        """Slices that all domains have room for together."""
        room = self._rooms[0]
        if not self.ask.leader:
            return sum(room.slices)
        # The leader takes the place that costs the workers the least.
        lost = [room.slices[domain] - room.slices_beside[domain] for domain, leads in enumerate(room.leaders) if leads]
        return sum(room.slices) - min(lost) if lost else 0
