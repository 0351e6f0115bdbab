"""The pods of one JobSet on the nodes of a cluster, by the filters of kube-scheduler's default profile.

A fact that is not certain is taken both ways: a ``hopeful`` floor assumes what admits more pods, the other one what
admits fewer. What both hold in any order fits; one alone tells nothing, because a node more is also one more on which a
pod can be in the way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import sub

from gangctl.api.objects import Object, objects_at
from gangctl.api.pods import tolerates
from gangctl.api.volumes import volume_claims
from gangctl.errors import one_line
from gangctl.fit.exploring import Exploration, Rules, explore
from gangctl.fit.floor import NodeShape, affinity_allows, affinity_keys, names_nodes, takes, untolerated
from gangctl.fit.members import Members, Neighbours
from gangctl.fit.packing import Class, Excess, Packing, PodKind, Vector, excess, most, place
from gangctl.fit.placedpods import PlacedPod, host_ports, in_use, ports_as_amounts
from gangctl.fit.requests import PodSet
from gangctl.fit.tolerations import possible_tolerations
from gangctl.fit.volumes import as_pod_spec, is_of_one_pod
from gangctl.kueue.amounts import UNLIMITED
from gangctl.kueue.objects import PODS, Amounts


@dataclass(frozen=True, slots=True)
class Together:
    """Pods that have to run at once, in one domain of a label if there is one: counts by index of podset."""

    pods: Mapping[int, int]
    topology: str = ""
    minimum: int = 0
    """With how many of them it starts (minCount), if these are fewer than all; 0 otherwise."""


class Floor:
    """Nodes, and the podsets of one JobSet; nodes are identified by index."""

    def __init__(
        self,
        podsets: Sequence[PodSet],
        requests: Sequence[Amounts],
        nodes: Sequence[NodeShape],
        neighbours: Neighbours,
        *,
        jobset: str = "",
        hopeful: bool = True,
    ) -> None:
        """``requests`` are of one pod of each podset."""
        self.podsets = podsets
        self.nodes = nodes
        self.neighbours = neighbours
        # `pods` first: `_vector` has another default for the first one.
        self.resources = (
            PODS,
            *sorted({name for request in requests for name, amount in request.items() if amount > 0}),
        )
        self._hopeful = hopeful
        self._jobset = jobset
        self._possible = [
            possible_tolerations(podset.pod_spec, amounts, neighbours.annotations)
            # Pods that exist have passed admission: what they tolerate is known.
            if hopeful and podset.name not in neighbours.admitted
            else []
            for podset, amounts in zip(podsets, requests, strict=True)
        ]
        self._tolerated = [[one.toleration for one in possible] for possible in self._possible]
        self.members = Members(podsets, nodes, neighbours, self._tolerated, jobset=jobset, hopeful=hopeful)
        ports = [tuple(host_ports(podset.pod_spec)) for podset in podsets]
        others = self.members.others
        # Ports of other pods matter only to pods that have ports.
        known = {port for own in (*ports, *(pod.ports for pod in others)) for port in own} if any(ports) else set()
        asked = [{**own, **ports_as_amounts(used, known)} for own, used in zip(requests, ports, strict=True)]
        self._ports = tuple(sorted({name for own in asked for name in own} - {*self.resources}))
        self.used = in_use(pod if pod.resized is None else replace(pod, requests=pod.resized) for pod in others)
        for pod in others if known else ():
            self.used[pod.node] = {**self.used[pod.node], **ports_as_amounts(pod.ports, known)}
        self._sizes = [
            (*self._vector({**own, PODS: 1}, 0, 0), *(int(index in owners) for owners, _ in self.members.alone))
            for index, own in enumerate(asked)
        ]
        self._sole = [
            frozenset(
                claim
                for _, claim in volume_claims(podset.pod_spec)
                # JobSet makes one that is not there by its template.
                if is_of_one_pod(neighbours.volume_of(claim) or podset.policy_claims.get(claim, {}))
            )
            for podset in podsets
        ]
        self._capacities = [
            # It may have any amount again once its device plugin runs.
            self._capacity(number, {**node.capacity, **dict.fromkeys(self.unreported(number), UNLIMITED)})
            for number, node in enumerate(nodes)
        ]
        self.takers = self._all_takers()
        # Computed when it is asked for: it goes over all pods on the nodes, and `ever` needs none of them.
        self._now: list[frozenset[int]] | None = None

    def _vector(self, amounts: Amounts, pods: int, ports: int) -> Vector:
        first, *others = self.resources
        plain = [max(0, amounts.get(first, pods)), *(max(0, amounts.get(name, 0)) for name in others)]
        return (*plain, *(max(0, amounts.get(port, ports)) for port in self._ports))

    def _capacity(self, number: int, amounts: Amounts) -> Vector:
        # A node without a capacity has not reported it yet.
        unlimited = (UNLIMITED,) * (len(self.resources) + len(self._ports))
        own = self._vector(amounts, UNLIMITED, 1) if amounts else unlimited
        return (*own, *self._single(number))

    def unreported(self, number: int) -> frozenset[str]:
        """Resources that pods ask for, and of which the device plugin of a node is not registered now."""
        return self.nodes[number].unreported & frozenset(self.resources)

    def _single(self, number: int) -> Iterator[int]:
        return (1 if number in domains else UNLIMITED for _, domains in self.members.alone)

    def _free(self, number: int) -> Vector:
        node = self.nodes[number]
        taken = self.used.get(node.name, {})
        there = self._vector(node.present, UNLIMITED, 1)
        if taken:
            # Pods may use more than is allocatable now, and a negative number would count as unlimited (`most`).
            there = tuple(max(0, left) for left in map(sub, there, self._vector(taken, 0, 0)))
        return (*there, *self._single(number)) if self.members.alone else there

    def _all_takers(self) -> list[frozenset[int]]:
        """Podsets that each node accepts, whatever is on it; computed once for each kind of node."""
        specs = [
            [podset.pod_spec, *(as_pod_spec(volume) for _, volume in self._volumes(podset))] for podset in self.podsets
        ]
        keys = sorted({key for own in specs for spec in own for key in affinity_keys(spec)})
        by_name = any(names_nodes(spec) for own in specs for spec in own)
        known: dict[tuple[object, ...], frozenset[int]] = {}
        takers = []
        for node in self.nodes:
            # As text, because the mappings of taints are not hashable.
            taints = repr(node.taints) if node.taints else ""
            kind = (taints, node.features, by_name and node.name, *(node.labels.get(key) for key in keys))
            if kind not in known:
                known[kind] = frozenset(
                    index
                    for index, podset in enumerate(self.podsets)
                    if takes(node, podset, self._tolerated[index])
                    and all(affinity_allows(volume, node.labels, node.name) for volume in specs[index][1:])
                )
            takers.append(known[kind])
        return takers

    def wary(self, requests: Sequence[Amounts]) -> Floor:
        """The same without hope."""
        return Floor(self.podsets, requests, self.nodes, self.neighbours, jobset=self._jobset, hopeful=False)

    @property
    def assumes(self) -> bool:
        """Whether hope may change anything."""
        added = [toleration for tolerations in self._tolerated for toleration in tolerations]
        return (
            self.members.by_namespace
            or any(self.doubted_pods())
            or any(
                node.unready or node.passing or any(tolerates(one, taint) for one in added for taint in node.taints)
                for node in self.nodes
            )
        )

    def possibly_tolerated(self, number: int, index: int) -> Iterator[tuple[str, str]]:
        """Keys of a node's taints that a podset does not tolerate itself, each with what may add the toleration."""
        own = objects_at(self.podsets[index].pod_spec, "tolerations")
        for taint in self.nodes[number].taints:
            if untolerated([taint], own) is not None:
                by = (one.by for one in self._possible[index] if tolerates(one.toleration, taint))
                yield str(taint.get("key")), next(by, "")

    def doubted_pods(self) -> Iterator[PlacedPod]:
        """Nominated pods of which it is not known whether the podsets get room of theirs."""
        certain, possible = (self.neighbours.preferred(self.podsets, hopeful=hopeful) for hopeful in (True, False))
        # The same objects; equal ones would be compared field by field.
        known = set(map(id, certain))
        yield from (pod for pod in possible if id(pod) not in known)

    def _volumes(self, podset: PodSet) -> Iterator[tuple[str, Object]]:
        """The claims of its pods with their volumes, as far as these are known."""
        for _, claim in volume_claims(podset.pod_spec):
            if (volume := self.neighbours.volume_of(claim)) is not None:
                yield claim, volume

    def contested(self, pods: Mapping[int, int], *, now: bool) -> str:
        """Which claim that is for one pod at a time keeps these pods from being placed at once; empty if none does.

        Other pods count only ``now``.
        """
        namespace = self.neighbours.namespace
        others = {claim for pod in self.members.others if pod.namespace == namespace for claim in pod.claims}
        for claim in sorted({claim for index, count in pods.items() if count for claim in self._sole[index]}):
            users = sum(count for index, count in pods.items() if claim in self._sole[index])
            mode = f"claim {one_line(claim, 80)}, and only one pod at a time may (ReadWriteOncePod)"
            if users > 1:
                return f"{users} of its pods use {mode}"
            if now and claim in others:
                return f"another pod uses {mode}"
        return ""

    def takers_now(self, number: int) -> frozenset[int]:
        """Podsets that a node accepts at present: it is open, and no pod there, or of there, is against them."""
        if self._now is None:
            self._now = self._all_takers_now()
        return self._now[number]

    def _all_takers_now(self) -> list[frozenset[int]]:
        against = [self.members.against(index) for index in range(len(self.podsets))]
        takers_now = []
        for node, takers in zip(self.nodes, self.takers, strict=True):
            open_to = (
                index
                for index in takers
                if node.admits(self.podsets[index], hopeful=self._hopeful)
                and not any(node.labels.get(key) in values for key, values in against[index].items())
            )
            takers_now.append(frozenset(open_to))
        return takers_now

    def repelled(self, index: int) -> bool:
        """Whether a pod on some node is against those of a podset there."""
        against = self.members.against(index)
        return any(node.labels.get(key) in values for node in self.nodes for key, values in against.items())

    def has_place(self, index: int) -> bool:
        """Whether a pod of a podset fits on any empty node."""
        return any(
            index in takers and most(self._sizes[index], capacity) != 0
            for capacity, takers in zip(self._capacities, self.takers, strict=True)
        )

    def lacking(self, index: int) -> Iterator[tuple[str, int, int]]:
        """Each resource of which a pod of a podset requests more than any node has: the request, and the most there is.

        Nodes count that take the pod.
        """
        takers = [number for number, takers in enumerate(self.takers) if index in takers]
        # Not strict: behind the resources are ports and anti-affinity, of which no amount is asked for.
        for resource, (name, asked) in enumerate(zip(self.resources, self._sizes[index], strict=False)):
            largest = max((self._capacities[number][resource] for number in takers), default=0)
            if asked > largest:
                yield name, asked, largest

    def proofs(self, gang: Together) -> list[Excess] | None:
        """Why each domain cannot hold a gang, or None if some may: kinds are in the order of the gang's podsets.

        Empty without domains.
        """
        proofs = []
        for domain in self.domains(gang.topology).values():
            proof = self._proof(gang, domain)
            if proof is None:
                return None
            proofs.append(proof)
        return proofs

    def single(self, index: int) -> list[str]:
        """Why a node has one pod of a podset at most: its ports, and anti-affinity."""
        first, size = len(self.resources), self._sizes[index]
        return [self.name_of(number) for number in range(first, len(size)) if size[number]]

    def name_of(self, resource: int) -> str:
        """The name of an element of a vector."""
        names = (*self.resources, *self._ports)
        return names[resource] if resource < len(names) else "podAntiAffinity"

    def domains(self, topology: str) -> dict[str, list[int]]:
        """Nodes by the value of a label; all together without one."""
        if not topology:
            return {"": list(range(len(self.nodes)))}
        domains: dict[str, list[int]] = {}
        for number, value in self.members.by(topology).items():
            domains.setdefault(value, []).append(number)
        return domains

    def rooms(self, gang: Together, index: int) -> Iterator[tuple[str, int, int]]:
        """By value of the gang's topology: pods of one podset that fit now, and with nothing else on the nodes."""
        size = self._sizes[index]
        for value, domain in self.domains(gang.topology).items():
            takers = [number for number in domain if index in self.takers[number]]
            free = sum(self.room_on(number, index) for number in takers)
            yield value, free, sum(max(0, most(size, self._capacities[number])) for number in takers)

    def room_on(self, number: int, index: int) -> int:
        """Pods of one podset that a node has room for now, if they let each other in."""
        return max(0, most(self._sizes[index], self._free(number))) if index in self.takers_now(number) else 0

    def _proof(self, gang: Together, domain: Sequence[int]) -> Excess | None:
        members = sorted(gang.pods)
        # A cluster has few kinds of nodes, and each of them is compared once.
        shapes = Counter((self._capacities[number], self.takers[number]) for number in domain)
        kinds = [
            PodKind(
                self._sizes[index],
                gang.pods[index],
                frozenset(number for number, (_, takers) in enumerate(shapes) if index in takers),
            )
            for index in members
        ]
        return excess(kinds, [Class(capacity, count) for (capacity, _), count in shapes.items()])

    def ever(self, gangs: Sequence[Together]) -> bool | None:
        """Whether each gang alone fits on empty nodes; None if that is not known."""
        # By what is reported: what a device plugin will report is not known, and only refutes a proof.
        empty = {n: self._capacity(n, node.capacity) for n, node in enumerate(self.nodes) if node.capacity}
        answers = [self._ever(gang, empty) for gang in gangs]
        return False if False in answers else None if None in answers else True

    def _ever(self, gang: Together, empty: Mapping[int, Vector]) -> bool | None:
        answers = [
            explore(*self._problem(gang.pods, {n: empty[n] for n in domain if n in empty}, now=False)).possible
            for domain in self.domains(gang.topology).values()
        ]
        # A node that has not reported its capacity may hold it, so that there is no proof.
        unreported = any(not node.capacity or self.unreported(number) for number, node in enumerate(self.nodes))
        return True if True in answers else None if None in answers or unreported else False

    def _problem(self, pods: Mapping[int, int], free: Mapping[int, Vector], *, now: bool) -> tuple[Packing, Rules]:
        """The pods as kinds, and what they do to each other; other pods count only ``now``."""
        kinds = list(self.members.of(pods))
        takers = {number: self.takers_now(number) if now else self.takers[number] for number in free}
        allowed = [frozenset(number for number in free if index in takers[number]) for _, _, index in kinds]
        sizes = [self._sizes[index] for _, _, index in kinds]
        packing = Packing(sizes, [count for _, count, _ in kinds], allowed, free)
        members = [member for member, _, _ in kinds]
        return packing, self.members.rules(members, free, now=now)

    @property
    def independent(self) -> bool:
        """Whether none of its pods says anything about other pods, or has a claim that is for one pod at a time."""
        return self.members.independent and not any(self._sole)

    def free(self) -> dict[int, Vector]:
        """The room that is left on each node."""
        return {number: self._free(number) for number, node in enumerate(self.nodes) if node.capacity}

    def room_of(self, pods: Mapping[int, int], nodes: Mapping[int, Vector]) -> Exploration:
        """Whether pods fit on some nodes now."""
        if self.contested(pods, now=True):
            return Exploration(possible=False, certain=False)
        return explore(*self._problem(pods, nodes, now=True))

    def put(self, pods: Mapping[int, int], nodes: Mapping[int, Vector]) -> dict[int, Vector] | None:
        """The room that is left on some nodes by a placement; None if there is none that is found at once."""
        packing, rules = self._problem(pods, nodes, now=True)
        return None if rules else place(packing.sizes, packing.counts, packing.ordered(), nodes)
