"""Whether pods of a podset may use a ResourceFlavor, or a single node, regardless of usage.

Source: Kueue ``pkg/scheduler/flavorassigner`` of v0.19, which takes the rules of taints and of required node affinity
from the scheduler (``k8s.io/component-helpers``), but checks only labels that the flavor itself defines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from gangctl.api.objects import object_at, objects_at
from gangctl.errors import one_line, shown
from gangctl.fit.podsets import PodSet, TopologyRequest
from gangctl.fit.requests import Counted
from gangctl.kueue.objects import ClusterQueue, ResourceFlavor, ResourceGroup

_REPELLING: Final = ("NoSchedule", "NoExecute")
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")
_SHOWN: Final = 80


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
        return "the ResourceFlavor does not exist"
    if topology_aware:
        placement = _placement_refusal(podset, flavor, counted, group, tas_only=tas_only, levels=levels)
        if placement:
            return placement
    taint = untolerated(flavor.taints, [*objects_at(podset.pod_spec, "tolerations"), *flavor.tolerations])
    if taint is not None:
        return f"its taint {_shown_taint(taint)} is not tolerated"
    if not affinity_allows(podset.pod_spec, flavor.node_labels, only_keys=flavor.node_labels.keys()):
        return f"its node labels do not match: {_unmet(podset.pod_spec, flavor.node_labels)}"
    return ""


def all_with_topology(queue: ClusterQueue, flavor: Callable[[str], ResourceFlavor | None]) -> bool:
    """Whether every flavor of a ClusterQueue has a topology: then pods get one without requesting it."""
    found = [flavor(each.name) for group in queue.groups for each in group.flavors]
    return all(each is not None and each.topology for each in found)


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


def untolerated(
    taints: Sequence[Mapping[str, Any]], tolerations: Sequence[Mapping[str, Any]]
) -> Mapping[str, Any] | None:
    """The first taint that repels pods without a matching toleration."""
    for taint in taints:
        if taint.get("effect") in _REPELLING and not any(tolerates(each, taint) for each in tolerations):
            return taint
    return None


def tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    """Whether a toleration matches a taint, with any effect."""
    effect, key = toleration.get("effect"), toleration.get("key")
    if (effect and effect != taint.get("effect")) or (key and key != taint.get("key")):
        return False
    wanted, value = toleration.get("value") or "", taint.get("value") or ""
    match toleration.get("operator") or "Equal":
        case "Equal":
            return bool(wanted == value)
        case "Exists":
            return True
        case "Gt" | "Lt" as operator:
            bound = _integer(wanted)
            return bound is not None and _beyond(operator, _integer(value), bound)
    return False


def affinity_allows(
    pod_spec: Mapping[str, Any], labels: Mapping[str, str], *, only_keys: Collection[str] | None = None
) -> bool:
    """Whether nodeSelector and required node affinity match a node with these labels.

    With ``only_keys``, requirements on other labels are ignored, as Kueue does for a flavor; a term without other
    requirements matches everything. ``matchFields`` are ignored, and a requirement that the API server would reject
    matches everything, so that nothing is rejected by mistake.
    """
    for key, value in object_at(pod_spec, "nodeSelector").items():
        if (only_keys is None or key in only_keys) and isinstance(value, str) and labels.get(key) != value:
            return False
    terms = list(_terms(pod_spec))
    if not terms:
        return True
    if only_keys is None:
        return any(all(_holds(each, labels) for each in term) for term, says_something in terms if says_something)
    return any(all(_holds(each, labels) for each in term if _is_about(each, only_keys)) for term, _ in terms)


def _is_about(requirement: Mapping[str, Any], keys: Collection[str]) -> bool:
    key = requirement.get("key")
    return isinstance(key, str) and key in keys


def _terms(pod_spec: Mapping[str, Any]) -> Iterator[tuple[list[dict[str, Any]], bool]]:
    """Requirements of each term of the required node affinity, one of which has to hold.

    With each, whether it is non-empty: an empty term matches no node.
    """
    affinity = object_at(object_at(pod_spec, "affinity"), "nodeAffinity")
    for term in objects_at(object_at(affinity, "requiredDuringSchedulingIgnoredDuringExecution"), "nodeSelectorTerms"):
        expressions = objects_at(term, "matchExpressions")
        yield expressions, bool(expressions or term.get("matchFields"))


def _holds(requirement: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key = requirement.get("key")
    values = requirement.get("values")
    if not isinstance(key, str) or not isinstance(values, list | None):
        return True
    label, wanted = labels.get(key), values or []
    match requirement.get("operator"):
        case "In":
            return not wanted or label in wanted
        case "NotIn":
            return label not in wanted
        case "Exists":
            return label is not None
        case "DoesNotExist":
            return label is None
        case "Gt" | "Lt" as operator:
            bound = _integer(wanted[0]) if len(wanted) == 1 else None
            return bound is None or _beyond(operator, _integer(label), bound)
    return True


def _beyond(operator: str, number: int | None, bound: int) -> bool:
    return number is not None and (number > bound if operator == "Gt" else number < bound)


def _integer(value: object) -> int | None:
    return int(value) if isinstance(value, str) and _INTEGER.fullmatch(value) else None


def _unmet(pod_spec: Mapping[str, Any], labels: Mapping[str, str]) -> str:
    """Label requirements of pods that a flavor does not meet."""
    selector = object_at(pod_spec, "nodeSelector")
    unmet = [key for key in labels if isinstance(selector.get(key), str) and selector[key] != labels[key]]
    if unmet:
        return f"these pods ask for {', '.join(f'{_short(key)}={_short(selector[key])}' for key in unmet)}"
    keys = {key for term, _ in _terms(pod_spec) for each in term if isinstance(key := each.get("key"), str)}
    return f"these pods ask for others of {', '.join(_short(key) for key in labels if key in keys)}"


def _shown_taint(taint: Mapping[str, Any]) -> str:
    key, value, effect = (_short(taint.get(each) or "") for each in ("key", "value", "effect"))
    return f"{key}={value}:{effect}" if value else f"{key}:{effect}"


def _short(value: object) -> str:
    return one_line(value, _SHOWN) if isinstance(value, str) else shown(value)
