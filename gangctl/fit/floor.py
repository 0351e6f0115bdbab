"""Placement of pods on the nodes of a cluster: shapes, eligible nodes, and whether they are enough."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gangctl.api.parts import object_at
from gangctl.fit.eligibility import affinity_allows, untolerated
from gangctl.fit.packing import Class, Excess, Kind, Vector, excess, most, place
from gangctl.fit.podsets import PodSet
from gangctl.kueue.amounts import UNLIMITED, read_amounts
from gangctl.kueue.objects import PODS, Amounts

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
    """Capacity of a node for pods. ``away`` means that it accepts no new pods at present.

    ``capacity`` is the most that it can have, empty before the kubelet reports it; ``allocatable`` is the present
    amount, if that is less: devices fail and return.
    """

    name: str
    labels: Mapping[str, str]
    taints: tuple[Mapping[str, Any], ...]
    capacity: Amounts
    allocatable: Amounts | None = None
    away: bool = False


def read_node(raw: Mapping[str, Any]) -> NodeShape:
    """Project a raw Node; total."""
    metadata, spec, status = (object_at(raw, key) for key in ("metadata", "spec", "status"))
    taints = spec.get("taints")
    found = [taint for taint in (taints if isinstance(taints, list) else ()) if isinstance(taint, dict)]
    passing = [taint for taint in found if str(taint.get("key", "")).startswith(_PASSING)]
    capacity = read_amounts(status.get("capacity"))
    allocatable = read_amounts(status.get("allocatable")) or capacity
    devices = {name: max(amount, allocatable.get(name, 0)) for name, amount in capacity.items() if "/" in name}
    name = metadata.get("name")
    return NodeShape(
        name if isinstance(name, str) else "",
        {key: value for key, value in object_at(metadata, "labels").items() if isinstance(value, str)},
        tuple(taint for taint in found if taint not in passing),
        {**allocatable, **devices},
        allocatable,
        away=bool(spec.get("unschedulable")) or any(taint.get("effect") != "PreferNoSchedule" for taint in passing),
    )


def takes(node: NodeShape, podset: PodSet) -> bool:
    """Whether labels and taints of a node allow these pods; pods with a nodeName are not checked."""
    spec = podset.pod_spec
    if spec.get("nodeName"):
        return True
    tolerations = spec.get("tolerations")
    listed = [each for each in (tolerations if isinstance(tolerations, list) else ()) if isinstance(each, dict)]
    return untolerated(node.taints, listed) is None and affinity_allows(spec, node.labels)


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
        self._capacities = [self._capacity(node) for node in nodes]
        self.takers = self._all_takers()

    def _vector(self, amounts: Amounts, default: int) -> Vector:
        return tuple(max(0, amounts.get(name, default if name == PODS else 0)) for name in self.resources)

    def _capacity(self, node: NodeShape) -> Vector:
        """Capacity of an empty node; unlimited if unknown."""
        return self._vector(node.capacity, UNLIMITED) if node.capacity else (UNLIMITED,) * len(self.resources)

    def _free(self, node: NodeShape) -> Vector:
        taken = (self._used or {}).get(node.name, {})
        now = node.capacity if node.allocatable is None else node.allocatable
        return tuple(
            max(0, now.get(name, UNLIMITED if name == PODS else 0) - taken.get(name, 0)) for name in self.resources
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
        for domain in self._domains(gang.topology):
            proof = self._proof(gang, domain)
            if proof is None:
                return None
            proofs.append(proof)
        return proofs

    def _domains(self, topology: str) -> list[list[int]]:
        if not topology:
            return [list(range(len(self.nodes)))]
        domains: dict[str, list[int]] = {}
        for number, node in enumerate(self.nodes):
            if topology in node.labels:
                domains.setdefault(node.labels[topology], []).append(number)
        return list(domains.values())

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

    def placeable_now(self, gangs: Sequence[Together]) -> bool:
        """Whether all pods fit at once with the present usage; gangs with a topology each in one domain."""
        free = {number: self._free(node) for number, node in enumerate(self.nodes) if node.capacity and not node.away}
        rest = {index: podset.pods for index, podset in enumerate(self.podsets)}
        for gang in gangs:
            copies = min((rest[index] // pods for index, pods in gang.pods.items()), default=0) if gang.topology else 0
            if copies > _MOST_COPIES:
                return False
            for _ in range(copies):
                left = self._put(gang, free)
                if left is None:
                    return False
                free |= left
            rest = {index: pods - copies * gang.pods.get(index, 0) for index, pods in rest.items()}
        return self._put(Together(rest), free) is not None

    def _put(self, gang: Together, free: Mapping[int, Vector]) -> dict[int, Vector] | None:
        """Remaining capacity on the nodes of the first domain in which a gang fits."""
        members = [index for index, pods in sorted(gang.pods.items()) if pods]
        sizes, counts = [self._sizes[index] for index in members], [gang.pods[index] for index in members]
        for domain in self._domains(gang.topology):
            vectors = {number: free[number] for number in domain if number in free}
            allowed = [[number for number in vectors if index in self.takers[number]] for index in members]
            left = place(sizes, counts, allowed, vectors)
            if left is not None:
                return left
        return None
