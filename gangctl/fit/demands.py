"""Demands of podsets on a ClusterQueue: amounts, common podsets, and the flavors that they may use.

All podsets of one ``podset-group-name`` take the same flavors, and all resources of one resource group come from one
flavor. Whether pods may use a flavor is independent of usage, and Kueue checks only labels that the flavor itself
defines. Source: Kueue ``pkg/scheduler/flavorassigner`` of v0.19.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from gangctl.api.objects import object_at, objects_at
from gangctl.errors import one_line, shown
from gangctl.fit.clusterstate import ClusterSnapshot
from gangctl.fit.floor import affinity_allows, affinity_terms, untolerated
from gangctl.fit.requests import Counted, PodSet
from gangctl.fit.search import Demand
from gangctl.kueue.objects import PODS, Amounts, ClusterQueue, QueuedWorkload, ResourceFlavor, ResourceGroup
from gangctl.kueue.reading import pods_left
from gangctl.kueue.topology import TopologyRequest

_SHOWN: Final = 80


@dataclass(frozen=True, slots=True)
class Member:
    """A podset with the requests of one of its pods in this queue, and how they were counted."""

    podset: PodSet
    counted: Counted
    requests: Amounts


@dataclass(frozen=True, slots=True)
class Needs:
    """``demands[i]`` is of the podsets ``owners[i]`` (indexes of members); ``refused[m]`` is of the m-th member.

    ``undeclared`` names the podsets that request a resource which is in no resource group. ``stop`` is the podset after
    which Kueue assigns nothing: it requests only resources that are in no resource group, and others follow. ``last``
    is such a one that none follows: then Kueue admits all, and looks for no domains.
    """

    demands: tuple[Demand, ...]
    owners: tuple[tuple[int, ...], ...]
    refused: tuple[Mapping[str, str], ...]
    undeclared: Mapping[str, tuple[int, ...]]
    stop: int | None = None
    last: int | None = None


Refuses = Callable[[Member, str, ResourceGroup], str]
"""Why a podset may not use a flavor for a resource group, by flavor; empty if it may."""


def refusals(queue: ClusterQueue, cluster: ClusterSnapshot) -> Refuses:
    """Rejections of a queue's flavors by podset."""
    tas_only = all_with_topology(queue, cluster.flavor)
    topology_aware = cluster.configuration.gate("TopologyAwareScheduling", default=True)

    def refuses(member: Member, name: str, group: ResourceGroup) -> str:
        return refusal(
            member.podset,
            cluster.flavor(name),
            counted=member.counted,
            group=group,
            tas_only=tas_only,
            levels=cluster.levels(name),
            topology_aware=topology_aware,
        )

    return refuses


def refusal(
    podset: PodSet,
    flavor: ResourceFlavor | None,
    *,
    counted: Counted | None = None,
    group: ResourceGroup | None = None,
    tas_only: bool | None = None,
    levels: Sequence[str] | None = None,
    topology_aware: bool = True,
) -> str:
    """Why these pods may not use a flavor, in a few words without the flavor's name; empty if they may.

    ``counted`` and ``group`` are the podset's requests and the resource group that the flavor is tried for: without
    them a flavor without topology is not rejected. ``tas_only`` is :func:`all_with_topology` of the ClusterQueue.
    ``levels`` are node labels of the flavor's Topology. None is unknown, and rejects nothing.
    ``topology_aware`` is Kueue's gate TopologyAwareScheduling.
    """
    if flavor is None:
        # Without one of its flavors a queue is not open, and nothing is asked.
        return "the ResourceFlavor is not known"
    if topology_aware:
        placement = _placement_refusal(podset, flavor, counted, group, tas_only=tas_only, levels=levels)
        if placement:
            return placement
    # As checkFlavorForPodSets: Kueue gives the flavor's tolerations to the pods that it starts there.
    taint = untolerated(flavor.taints, [*objects_at(podset.pod_spec, "tolerations"), *flavor.tolerations])
    if taint is not None:
        return f"its taint {_shown_taint(taint)} is not tolerated"
    if not affinity_allows(podset.pod_spec, flavor.node_labels, only_keys=flavor.node_labels.keys()):
        return f"its node labels do not match: {_unmet(podset.pod_spec, flavor.node_labels)}"
    return ""


def all_with_topology(queue: ClusterQueue, flavor: Callable[[str], ResourceFlavor | None]) -> bool:
    """Whether every flavor of a ClusterQueue has a topology: then pods get one without requesting it."""
    flavors = [flavor(quota.name) for group in queue.groups for quota in group.flavors]
    return all(flavor is not None and flavor.topology for flavor in flavors)


def _placement_refusal(
    podset: PodSet,
    flavor: ResourceFlavor,
    counted: Counted | None,
    group: ResourceGroup | None,
    *,
    tas_only: bool | None,
    levels: Sequence[str] | None,
) -> str:
    if not podset.topology:
        return "it is only for pods that ask for a topology" if flavor.topology and tas_only is False else ""
    if not flavor.topology:
        # A flavor may provide transformed resources, besides the one that provides the nodes.
        concerned = counted is not None and group is not None and not counted.asked.keys().isdisjoint(group.resources)
        return f"it has no topology, and these pods ask for one ({podset.topology})" if concerned else ""
    return _level_refusal(podset.topology, levels) if levels is not None else ""


def _level_refusal(request: TopologyRequest, levels: Sequence[str]) -> str:
    """Why a Topology has no place for a request: a level is missing, or they are in another order."""
    missing = [level for level in request.levels if level not in levels]
    if missing:
        listed = f"levels {', '.join(map(_short, levels))}" if levels else "no levels"
        return f"its topology has no level {', '.join(map(_short, missing))} (it has {listed})"
    for number, (above, below) in enumerate(pairwise(request.levels)):
        # The largest slices may be of the podset's own level, smaller ones only of levels below.
        least = levels.index(above) + (1 if number or not request.level else 0)
        if levels.index(below) < least:
            return f"in its topology {_short(below)} is not below {_short(above)}, as the slices need it"
    return ""


def _unmet(pod_spec: Mapping[str, Any], labels: Mapping[str, str]) -> str:
    """Label requirements of pods that a flavor does not meet."""
    selector = object_at(pod_spec, "nodeSelector")
    unmet = [key for key in labels if isinstance(selector.get(key), str) and selector[key] != labels[key]]
    if unmet:
        return f"these pods ask for {', '.join(f'{_short(key)}={_short(selector[key])}' for key in unmet)}"
    keys = {
        key
        for term, _ in affinity_terms(pod_spec)
        for expression in term
        if isinstance(key := expression.get("key"), str)
    }
    return f"these pods ask for others of {', '.join(_short(key) for key in labels if key in keys)}"


def _shown_taint(taint: Mapping[str, Any]) -> str:
    key, value, effect = (_short(taint.get(part) or "") for part in ("key", "value", "effect"))
    return f"{key}={value}:{effect}" if value else f"{key}:{effect}"


def _short(value: object) -> str:
    return one_line(value, _SHOWN) if isinstance(value, str) else shown(value)


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
    stop: int | None = None
    last: int | None = None
    grouped = groups(members)
    for number, sharing in enumerate(grouped):
        by_part: dict[int, dict[str, int]] = {}
        for member in sharing:
            for resource, of_one in member.requests.items():
                amount, part = of_one * member.podset.pods, parts.get(resource)
                if part is not None:
                    # Also of nothing: Kueue gives it a flavor, and admits no podset that may use none.
                    wanted = by_part.setdefault(part, {})
                    wanted[resource] = wanted.get(resource, 0) + amount
                elif amount:
                    undeclared.setdefault(resource, []).append(member.podset.index)
        for part, wanted in sorted(by_part.items()):
            group = queue.groups[part]
            among = tuple(flavor.name for flavor in group.flavors)
            usable = tuple(flavor for flavor in among if _is_usable(flavor, group, sharing, refuses, refused))
            demands.append(Demand(wanted, usable, part, number, among))
            owners.append(tuple(member.podset.index for member in sharing))
        # assignFlavors returns at a podset with requests and without a flavor, also if all of these are ignored.
        bare = (member for member in sharing if member.requests and parts.keys().isdisjoint(member.requests))
        last = next((member.podset.index for member in bare), None)
        stop = last if stop is None and number + 1 < len(grouped) else stop
    missing = {} if lenient else {resource: tuple(names) for resource, names in undeclared.items()}
    return Needs(tuple(demands), tuple(owners), tuple(refused), missing, stop, last)


def _is_usable(
    flavor: str, group: ResourceGroup, sharing: Sequence[Member], refuses: Refuses, refused: Sequence[dict[str, str]]
) -> bool:
    """Whether all podsets that share their flavors may use one; the rejections of each podset go to ``refused``."""
    # All of them are asked, although one rejection decides: the report has the reason of each podset.
    reasons = [(member.podset.index, why) for member in sharing if (why := refuses(member, flavor, group))]
    for index, why in reasons:
        refused[index].setdefault(flavor, why)
    return not reasons


def contradictions(
    members: Sequence[Member], needs: Needs, flavors: Sequence[str], known: Callable[[str], ResourceFlavor | None]
) -> Iterator[str]:
    """Node labels with two values: Kueue writes those of all flavors of a pod, in any order, into one nodeSelector.

    ``flavors`` are those of the demands.
    """
    for index, member in enumerate(members):
        written: dict[str, tuple[str, str]] = {}
        for owners, demand, name in zip(needs.owners, needs.demands, flavors, strict=True):
            # Of the flavors of its group a podset gets those of the resources that it requests itself.
            if index not in owners or member.requests.keys().isdisjoint(demand.amounts):
                continue
            flavor = known(name)
            for label, value in flavor.node_labels.items() if flavor is not None else ():
                first, other = written.setdefault(label, (value, name))
                if first != value:
                    yield (
                        f'which nodes "{member.podset.name}" gets: its flavors "{other}" and "{name}" have {first} and '
                        f"{value} in nodeLabels[{label}], and Kueue writes either"
                    )


def demands_of(workload: QueuedWorkload, queue: ClusterQueue) -> tuple[Demand, ...] | None:
    """What a waiting workload asks for, as Kueue counted it when it was tried; None if that is not known.

    Any flavor of a resource group counts as one that its pods may use: pod templates are not stored.
    """
    if not workload.requests:
        return None
    pods = pods_left(workload.pods, workload.reclaimable)
    demands = []
    for number, (name, requests) in enumerate(workload.requests.items()):
        counted = dict(requests)
        if PODS in with_pods({}, queue):
            counted[PODS] = pods.get(name, 0)
        for part, group in enumerate(queue.groups):
            amounts = {resource: counted[resource] for resource in group.resources if counted.get(resource)}
            if amounts:
                demands.append(Demand(amounts, tuple(flavor.name for flavor in group.flavors), part, number))
    return tuple(demands)


def groups(members: Iterable[Member]) -> list[list[Member]]:
    """Podsets that take the same flavors and are placed together, in order."""
    grouped: dict[tuple[str, int], list[Member]] = {}
    for member in members:
        name = member.podset.group
        grouped.setdefault((name, -1) if name else ("", member.podset.index), []).append(member)
    return list(grouped.values())
