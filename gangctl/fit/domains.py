"""The nodes of one flavor as a tree of domains, and how many pods each has room for.

Only if the lowest level is the host name, Kueue looks at taints, node selectors and affinity; otherwise a domain is the
sum of its nodes. Source: Kueue ``pkg/cache/scheduler`` of v0.19 (``tas_topology_tree.go``, ``tas_nodes_cache.go``,
``tas_flavor.go``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from gangctl.api.objects import objects_at
from gangctl.fit.eligibility import affinity_allows, untolerated
from gangctl.fit.floor import NodeShape
from gangctl.fit.topology import MOST, Leaves, Tree
from gangctl.kueue.amounts import UNLIMITED
from gangctl.kueue.objects import PODS, Amounts, Placement, ResourceFlavor

HOSTNAME: Final = "kubernetes.io/hostname"

Key = tuple[str, ...]
"""Identity of a lowest domain: its host name, or the values of all levels."""

Usage = dict[Key, dict[str, int]]
"""Amounts by lowest domain."""


@dataclass(frozen=True, slots=True)
class Pods:
    """Pods of one podset: ``requests`` are of one, without the pod itself; ``index`` identifies the podset."""

    index: int
    requests: Amounts
    spec: Mapping[str, Any] = field(repr=False)


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
        self._eligible: dict[str, list[bool]] = {}
        self._counted: dict[tuple[int, int], Leaves] = {}
        found: dict[Key, tuple[Key, NodeShape, dict[str, int] | None]] = {}
        wanted = flavor.node_labels.items()
        for node in nodes:
            labels = node.labels
            if (node.closed and not ever) or any(labels.get(key) != value for key, value in wanted):
                continue
            values = tuple(labels[level] for level in levels if level in labels)
            if len(values) < len(levels):
                continue
            key = values[-1:] if self.hosts else values
            amounts = self._amounts(node, used.get(node.name))
            if key in found:
                values, first, before = found[key]
                found[key] = values, first, _sum(before, amounts)
            else:
                found[key] = values, node, amounts
        leaves = sorted((values, key) for key, (values, _, _) in found.items())
        self.tree = Tree.of(levels, [values for values, _ in leaves])
        self.keys = [key for _, key in leaves]
        self._index = {key: index for index, key in enumerate(self.keys)}
        self._nodes = [found[key][1] for key in self.keys]
        self._free = [found[key][2] for key in self.keys]

    def _amounts(self, node: NodeShape, used: Amounts | None) -> dict[str, int] | None:
        """Free amounts of a node, None if they are unlimited: nothing is known of it yet."""
        if self._ever:
            return {PODS: UNLIMITED, **node.capacity} if node.capacity else None
        free = dict(node.present)
        for resource, amount in (used or {}).items():
            free[resource] = free.get(resource, 0) - amount
        return free

    def occupy(self, placement: Placement) -> None:
        """Add the usage of pods that Kueue placed; before any count."""
        for key, pods in placement.domains.items():
            index = self._index.get(key)
            free = self._free[index] if index is not None else None
            if free is not None:
                for resource, amount in {**placement.requests, PODS: 1}.items():
                    free[resource] = free.get(resource, 0) - amount * pods

    def takes_any(self, pods: Pods) -> bool:
        """Whether any of the nodes may run these pods, regardless of their size."""
        return any(self._takers(pods))

    def _takers(self, pods: Pods) -> list[bool]:
        """Whether each of the lowest domains may run these pods; computed once for equal requirements."""
        requirements = repr([pods.spec.get(key) for key in ("tolerations", "nodeSelector", "affinity")])
        if requirements not in self._eligible:
            tolerations = [*objects_at(pods.spec, "tolerations"), *self.flavor.tolerations]
            self._eligible[requirements] = [
                not self.hosts
                or (
                    untolerated(node.taints if self._ever else (*node.taints, *node.passing), tolerations) is None
                    and affinity_allows(pods.spec, node.labels)
                )
                for node in self._nodes
            ]
        return self._eligible[requirements]

    def leaves(self, workers: Pods, leader: Pods | None, taken: Usage) -> Leaves:
        """Pods that each of the lowest domains has room for; ``taken`` is usage besides the known one.

        As in Kueue, taints and labels are those for the workers only.
        """
        known = workers.index, leader.index if leader is not None else -1
        if known not in self._counted:
            self._counted[known] = self._leaves(workers, leader)
        base = self._counted[known]
        changed = [index for key in taken if (index := self._index.get(key)) is not None]
        if not changed:
            return base
        pods, beside, leaders = list(base.pods), list(base.beside), list(base.leaders)
        takers = self._takers(workers)
        for index in changed:
            if takers[index]:
                free = self._free[index]
                left = None if free is None else _minus(free, taken[self.keys[index]])
                pods[index], beside[index], leaders[index] = _counts(left, workers, leader)
        return Leaves(pods, beside, leaders)

    def _leaves(self, workers: Pods, leader: Pods | None) -> Leaves:
        counts = [
            _counts(free, workers, leader) if takes else (0, 0, 0)
            for free, takes in zip(self._free, self._takers(workers), strict=True)
        ]
        pods, beside, leaders = ([each[part] for each in counts] for part in range(3))
        return Leaves(pods, beside, leaders)


def _counts(free: Mapping[str, int] | None, workers: Pods, leader: Pods | None) -> tuple[int, int, int]:
    """Workers that there is room for, alone and beside the leader, and whether there is room for the leader."""
    pods = _count(free, workers.requests)
    if leader is None:
        return pods, pods, 0
    if not _count(free, leader.requests):
        return pods, pods, 0
    return pods, _count(None if free is None else _minus(free, {**leader.requests, PODS: 1}), workers.requests), 1


def _count(free: Mapping[str, int] | None, requests: Amounts) -> int:
    if free is None:
        return MOST
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
