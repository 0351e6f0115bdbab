"""Demands of podsets on a ClusterQueue: amounts, common podsets, and flavors.

All podsets of one ``podset-group-name`` take the same flavors, and all resources of one resource group come from one
flavor (Kueue 0.19, ``pkg/scheduler/flavorassigner``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gangctl.fit.clusterstate import Snapshot
from gangctl.fit.eligibility import all_with_topology, refusal
from gangctl.fit.podsets import PodSet
from gangctl.fit.requests import Counted
from gangctl.fit.search import Demand
from gangctl.kueue.configuration import KueueConfiguration
from gangctl.kueue.objects import PODS, Amounts, ClusterQueue, ResourceGroup


@dataclass(frozen=True, slots=True)
class Member:
    """A podset with the requests of one of its pods in this queue, and how they were counted."""

    podset: PodSet
    counted: Counted
    requests: Amounts


@dataclass(frozen=True, slots=True)
class Needs:
    """``demands[i]`` is of the podsets ``owners[i]`` (indexes of members); ``refused[m]`` is of the m-th member.

    ``undeclared`` names the podsets that request a resource which is in no resource group.
    """

    demands: tuple[Demand, ...]
    owners: tuple[tuple[int, ...], ...]
    refused: tuple[Mapping[str, str], ...]
    undeclared: Mapping[str, tuple[int, ...]]


Refuses = Callable[[Member, str, ResourceGroup], str]
"""Why a podset may not use a flavor for a resource group, by flavor; empty if it may."""


def refusals(queue: ClusterQueue, cluster: Snapshot, configuration: KueueConfiguration) -> Refuses:
    """Rejections of a queue's flavors by podset; ``configuration`` is Kueue's."""
    tas_only = all_with_topology(queue, cluster.flavor)
    topology_aware = configuration.gate("TopologyAwareScheduling", default=True)

    topologies = cluster.topologies or {}

    def refuses(member: Member, name: str, group: ResourceGroup) -> str:
        flavor = cluster.flavor(name)
        topology = topologies.get(flavor.topology) if flavor is not None else None
        return refusal(
            member.podset,
            flavor,
            counted=member.counted,
            group=group,
            tas_only=tas_only,
            levels=topology.levels if topology is not None else None,
            topology_aware=topology_aware,
        )

    return refuses


def with_pods(requests: Amounts, queue: ClusterQueue) -> dict[str, int]:
    """Requests of one pod in a ClusterQueue, including one of ``pods`` if the queue counts them."""
    if any(PODS in group.resources for group in queue.groups):
        return {**requests, PODS: 1}
    return dict(requests)


def needs_of(members: Sequence[Member], queue: ClusterQueue, refuses: Refuses, *, lenient: bool = False) -> Needs:
    """The demands of a gang, in Kueue's order; ``lenient`` ignores undeclared resources."""
    parts: dict[str, int] = {}
    for index, group in enumerate(queue.groups):
        for resource in group.resources:
            parts.setdefault(resource, index)
    refused: list[dict[str, str]] = [{} for _ in members]
    demands, owners = [], []
    undeclared: dict[str, list[int]] = {}
    for number, sharing in enumerate(_groups(members)):
        by_part: dict[int, dict[str, int]] = {}
        for index in sharing:
            for resource, amount in _totals(members[index]).items():
                part = parts.get(resource)
                if part is None:
                    undeclared.setdefault(resource, []).append(index)
                else:
                    wanted = by_part.setdefault(part, {})
                    wanted[resource] = wanted.get(resource, 0) + amount
        for part, wanted in sorted(by_part.items()):
            group = queue.groups[part]
            among = tuple(flavor.name for flavor in group.flavors)
            usable = _usable(members, sharing, group, refuses, refused)
            demands.append(Demand(wanted, usable, part, number, among))
            owners.append(sharing)
    missing = {} if lenient else {resource: tuple(names) for resource, names in undeclared.items()}
    return Needs(tuple(demands), tuple(owners), tuple(refused), missing)


def _totals(member: Member) -> dict[str, int]:
    """Requests of all pods of a podset; zero amounts are left out, because they need no flavor."""
    totals = {resource: amount * member.podset.pods for resource, amount in member.requests.items()}
    return {resource: amount for resource, amount in totals.items() if amount > 0}


def _groups(members: Sequence[Member]) -> list[tuple[int, ...]]:
    groups: dict[tuple[str, int], list[int]] = {}
    for index, member in enumerate(members):
        name = member.podset.group
        groups.setdefault((name, -1) if name else ("", index), []).append(index)
    return [tuple(group) for group in groups.values()]


def _usable(
    members: Sequence[Member],
    sharing: Sequence[int],
    group: ResourceGroup,
    refuses: Refuses,
    refused: Sequence[dict[str, str]],
) -> tuple[str, ...]:
    """Flavors that all podsets that share them may use; the rejections of each podset are added to ``refused``."""
    usable = []
    for flavor in group.flavors:
        reasons = [(index, why) for index in sharing if (why := refuses(members[index], flavor.name, group))]
        for index, why in reasons:
            refused[index].setdefault(flavor.name, why)
        if not reasons:
            usable.append(flavor.name)
    return tuple(usable)
