"""Demands of podsets on a ClusterQueue: amounts, common podsets, and flavors.

All podsets of one ``podset-group-name`` take the same flavors, and all resources of one resource group come from one
flavor (Kueue 0.19, ``pkg/scheduler/flavorassigner``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gangctl.fit.clusterstate import ClusterState
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


def refusals(queue: ClusterQueue, cluster: ClusterState, configuration: KueueConfiguration) -> Refuses:
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
    eligible = _Eligibility(members, queue, refuses, refused)
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
            among = tuple(flavor.name for flavor in queue.groups[part].flavors)
            demands.append(Demand(wanted, eligible.flavors(sharing, part), part, number, among))
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


class _Eligibility:
    """Flavors that all podsets of a group may use; rejections are recorded for each."""

    def __init__(
        self, members: Sequence[Member], queue: ClusterQueue, refuses: Refuses, refused: Sequence[dict[str, str]]
    ) -> None:
        self._members = members
        self._groups = queue.groups
        self._refuses = refuses
        self._refused = refused

    def flavors(self, sharing: Sequence[int], part: int) -> tuple[str, ...]:
        usable = []
        for flavor in self._groups[part].flavors:
            # Check each podset, because every rejection is reported.
            refusals = [self._refusal(index, flavor.name, part) for index in sharing]
            if not any(refusals):
                usable.append(flavor.name)
        return tuple(usable)

    def _refusal(self, index: int, flavor: str, part: int) -> str:
        why = self._refuses(self._members[index], flavor, self._groups[part])
        if why:
            self._refused[index].setdefault(flavor, why)
        return why
