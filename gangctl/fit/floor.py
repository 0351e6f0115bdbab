"""Placement of pods on the nodes of a cluster: shapes, eligible nodes, and whether they are enough.

The rules of taints and of required node affinity are the scheduler's (``k8s.io/component-helpers``).
Kinds of pods and nodes are vectors over the same resources, including ``pods``, of which every pod uses one. If neither
a bound is exceeded nor a placement is found, the result is unknown: packing is NP-hard.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from gangctl.api.objects import condition_of, object_at, objects_at
from gangctl.fit.requests import PodSet
from gangctl.kueue.amounts import UNLIMITED, read_amounts
from gangctl.kueue.objects import PODS, Amounts

Vector = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Kind:
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


def excess(kinds: Sequence[Kind], classes: Sequence[Class]) -> Excess | None:
    """A proof that these pods do not all fit on these nodes at once, or None if there is no proof."""
    alone = (_alone(index, kind, classes) for index, kind in enumerate(kinds))
    together = (_together(subset, kinds, classes) for subset in _subsets(kinds))
    return next((proof for proof in chain(alone, together) if proof is not None), None)


def _alone(index: int, kind: Kind, classes: Sequence[Class]) -> Excess | None:
    there = 0
    for number in kind.classes:
        fits = most(kind.size, classes[number].capacity)
        if fits < 0:
            return None
        there += fits * classes[number].count
    return Excess((index,), None, kind.count, there) if kind.count > there else None


def _subsets(kinds: Sequence[Kind]) -> list[tuple[int, ...]]:
    """Sets of kinds that compete for nodes: for each kind, all that are limited to its nodes; and all kinds."""
    found = dict.fromkeys(
        tuple(other for other, each in enumerate(kinds) if each.classes <= kind.classes) for kind in kinds
    )
    found[tuple(range(len(kinds)))] = None
    return [subset for subset in found if len(subset) > 1]


def _together(subset: tuple[int, ...], kinds: Sequence[Kind], classes: Sequence[Class]) -> Excess | None:
    usable = sorted(frozenset().union(*(kinds[index].classes for index in subset)))
    for resource in range(len(kinds[subset[0]].size)):
        capacities = [(classes[number].capacity[resource], classes[number].count) for number in usable]
        wanted = sum(kinds[index].size[resource] * kinds[index].count for index in subset)
        there = sum(capacity * count for capacity, count in capacities)
        if wanted > there:
            return Excess(subset, resource, wanted, there)
        sizes = {kinds[index].size[resource] for index in subset} - {0}
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
    weights = [max((a / t for a, t in zip(size, totals, strict=False)), default=0.0) for size in sizes]
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


_PASSING: Final = (
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
)
"""Prefixes of taints that components add and remove: a node is not ready, drained, short of memory."""
_MOST_COPIES: Final = 200


@dataclass(frozen=True, slots=True)
class NodeShape:
    """Capacity of a node for pods.

    ``capacity`` is the most that it can have, empty before the kubelet reports it; ``allocatable`` is the present
    amount, if that is less: devices fail and return. ``passing`` are taints that components add and remove, ``closed``
    is a node that is cordoned or not ready.
    """

    name: str
    labels: Mapping[str, str]
    taints: tuple[Mapping[str, Any], ...]
    capacity: Amounts
    allocatable: Amounts | None = None
    passing: tuple[Mapping[str, Any], ...] = ()
    closed: bool = False

    @property
    def away(self) -> bool:
        """Whether it accepts no new pods at present."""
        return self.closed or any(taint.get("effect") != "PreferNoSchedule" for taint in self.passing)

    @property
    def present(self) -> Amounts:
        """The present amounts."""
        return self.capacity if self.allocatable is None else self.allocatable


def read_node(raw: Mapping[str, Any]) -> NodeShape:
    """Project a raw Node; total."""
    metadata, spec, status = (object_at(raw, key) for key in ("metadata", "spec", "status"))
    found = objects_at(spec, "taints")
    passing = [taint for taint in found if str(taint.get("key", "")).startswith(_PASSING)]
    capacity = read_amounts(status.get("capacity"))
    allocatable = read_amounts(status.get("allocatable")) or capacity
    devices = {name: max(amount, allocatable.get(name, 0)) for name, amount in capacity.items() if "/" in name}
    ready = condition_of(raw, "Ready").get("status", "True") == "True"
    name = metadata.get("name")
    return NodeShape(
        name if isinstance(name, str) else "",
        {key: value for key, value in object_at(metadata, "labels").items() if isinstance(value, str)},
        tuple(taint for taint in found if taint not in passing),
        {**allocatable, **devices},
        allocatable,
        tuple(passing),
        closed=bool(spec.get("unschedulable")) or not ready,
    )


_REPELLING: Final = ("NoSchedule", "NoExecute")
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")


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
    terms = list(affinity_terms(pod_spec))
    if not terms:
        return True
    if only_keys is None:
        return any(all(_holds(each, labels) for each in term) for term, says_something in terms if says_something)
    return any(all(_holds(each, labels) for each in term if _is_about(each, only_keys)) for term, _ in terms)


def _is_about(requirement: Mapping[str, Any], keys: Collection[str]) -> bool:
    key = requirement.get("key")
    return isinstance(key, str) and key in keys


def affinity_terms(pod_spec: Mapping[str, Any]) -> Iterator[tuple[list[dict[str, Any]], bool]]:
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


def takes(node: NodeShape, podset: PodSet) -> bool:
    """Whether labels and taints of a node allow these pods; pods with a nodeName are not checked."""
    spec = podset.pod_spec
    if spec.get("nodeName"):
        return True
    return untolerated(node.taints, objects_at(spec, "tolerations")) is None and affinity_allows(spec, node.labels)


@dataclass(frozen=True, slots=True)
class Together:
    """Pods that have to run at once, in one domain of a label if there is one: counts by index of podset."""

    pods: Mapping[int, int]
    topology: str = ""


class Floor:
    """Nodes, and the podsets of one JobSet; nodes are identified by index."""

    def __init__(
        self,
        podsets: Sequence[PodSet],
        requests: Sequence[Amounts],
        nodes: Sequence[NodeShape],
        used: Mapping[str, Amounts] | None,
    ) -> None:
        """``requests`` are of one pod of each podset, ``used`` is the usage by node name, if known."""
        self.podsets = podsets
        self.nodes = nodes
        self.resources = (PODS, *sorted({name for each in requests for name, amount in each.items() if amount > 0}))
        self._used = used
        self._sizes = [self._vector({**each, PODS: 1}, 0) for each in requests]
        unlimited = (UNLIMITED,) * len(self.resources)
        # A node without a capacity has not reported it yet.
        self._capacities = [self._vector(node.capacity, UNLIMITED) if node.capacity else unlimited for node in nodes]
        self.takers = self._all_takers()

    def _vector(self, amounts: Amounts, default: int) -> Vector:
        return tuple(max(0, amounts.get(name, default if name == PODS else 0)) for name in self.resources)

    def _free(self, node: NodeShape) -> Vector:
        taken = (self._used or {}).get(node.name, {})
        return tuple(
            max(0, node.present.get(name, UNLIMITED if name == PODS else 0) - taken.get(name, 0))
            for name in self.resources
        )

    def _all_takers(self) -> list[frozenset[int]]:
        """Podsets that each node accepts; computed once for each kind of node."""
        known: dict[tuple[str, str], frozenset[int]] = {}
        takers = []
        for node in self.nodes:
            kind = repr(sorted(node.labels.items())), repr(node.taints)
            if kind not in known:
                known[kind] = frozenset(index for index, podset in enumerate(self.podsets) if takes(node, podset))
            takers.append(known[kind])
        return takers

    def has_place(self, index: int) -> bool:
        """Whether a pod of a podset fits on any empty node."""
        return any(
            index in takers and most(self._sizes[index], capacity) != 0
            for capacity, takers in zip(self._capacities, self.takers, strict=True)
        )

    def proofs(self, gang: Together) -> list[Excess] | None:
        """Why each domain cannot hold a gang, or None if some may: kinds are in the order of the gang's podsets.

        Empty without domains.
        """
        proofs = []
        for domain in self._domains(gang.topology).values():
            proof = self._proof(gang, domain)
            if proof is None:
                return None
            proofs.append(proof)
        return proofs

    def _domains(self, topology: str) -> dict[str, list[int]]:
        """Nodes by the value of a label; all together without one."""
        if not topology:
            return {"": list(range(len(self.nodes)))}
        domains: dict[str, list[int]] = {}
        for number, node in enumerate(self.nodes):
            if topology in node.labels:
                domains.setdefault(node.labels[topology], []).append(number)
        return domains

    def rooms(self, gang: Together, index: int) -> Iterator[tuple[str, int, int]]:
        """By value of the gang's topology: pods of one podset that fit now, and with nothing else on the nodes."""
        size = self._sizes[index]
        for value, domain in self._domains(gang.topology).items():
            takers = [number for number in domain if index in self.takers[number]]
            now = [self._free(self.nodes[number]) for number in takers if not self.nodes[number].away]
            free = sum(max(0, most(size, each)) for each in now)
            yield value, free, sum(max(0, most(size, self._capacities[number])) for number in takers)

    def _proof(self, gang: Together, domain: Sequence[int]) -> Excess | None:
        members = sorted(gang.pods)
        shapes: dict[tuple[Vector, frozenset[int]], int] = {}
        for number in domain:
            shape = self._capacities[number], self.takers[number]
            shapes[shape] = shapes.get(shape, 0) + 1
        kinds = [
            Kind(
                self._sizes[index],
                gang.pods[index],
                frozenset(number for number, (_, takers) in enumerate(shapes) if index in takers),
            )
            for index in members
        ]
        return excess(kinds, [Class(capacity, count) for (capacity, _), count in shapes.items()])

    def placeable(self, gangs: Sequence[Together]) -> bool:
        """Whether each gang alone fits on empty nodes."""
        empty = {number: self._capacities[number] for number, node in enumerate(self.nodes) if node.capacity}
        return all(self._put(gang, empty) is not None for gang in gangs)

    def placed_now(self, gangs: Sequence[Together]) -> list[tuple[Together, str]] | None:
        """The domain of each gang with a topology, one for each of its copies, if all pods fit at once now.

        None if they do not.
        """
        free = {number: self._free(node) for number, node in enumerate(self.nodes) if node.capacity and not node.away}
        rest = {index: podset.pods for index, podset in enumerate(self.podsets)}
        placed = []
        for gang in gangs:
            copies = min((rest[index] // pods for index, pods in gang.pods.items()), default=0) if gang.topology else 0
            if copies > _MOST_COPIES:
                return None
            for _ in range(copies):
                found = self._put(gang, free)
                if found is None:
                    return None
                placed.append((gang, found[0]))
                free |= found[1]
            rest = {index: pods - copies * gang.pods.get(index, 0) for index, pods in rest.items()}
        return placed if self._put(Together(rest), free) is not None else None

    def _put(self, gang: Together, free: Mapping[int, Vector]) -> tuple[str, dict[int, Vector]] | None:
        """The first domain in which a gang fits, and the remaining capacity on its nodes."""
        members = [index for index, pods in sorted(gang.pods.items()) if pods]
        sizes, counts = [self._sizes[index] for index in members], [gang.pods[index] for index in members]
        for value, domain in self._domains(gang.topology).items():
            vectors = {number: free[number] for number in domain if number in free}
            allowed = [[number for number in vectors if index in self.takers[number]] for index in members]
            left = place(sizes, counts, allowed, vectors)
            if left is not None:
                return value, left
        return None
