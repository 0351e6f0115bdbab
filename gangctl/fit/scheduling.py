"""The pods of one JobSet on the nodes of a cluster, by the filters of kube-scheduler's default profile.

A fact that is not certain is taken both ways: a ``hopeful`` floor assumes what admits more pods, the other one what
admits fewer. What both hold in any order fits; one alone tells nothing, because a node more is also one more on which a
pod can be in the way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import sub
from typing import Final

from gangctl.api.jobset import volume_claims
from gangctl.api.meta import JOB_INDEX, JOB_KEY, JOBSET_NAME, JOBSET_PRIORITY, REPLICATED_JOB_NAME, RESTART_ATTEMPT
from gangctl.api.objects import Object, object_at
from gangctl.errors import one_line
from gangctl.fit.devices import Devices
from gangctl.fit.exploring import Attraction, Domains, Evenness, Exploration, Repulsion, Rules, explore
from gangctl.fit.floor import NodeShape, affinity_allows, affinity_keys, takes, tolerations_of, untolerated
from gangctl.fit.packing import Class, Excess, Packing, PodKind, Vector, excess, most, place
from gangctl.fit.placedpods import (
    NamespaceLabels,
    PlacedPod,
    PodTerm,
    Spread,
    host_ports,
    in_use,
    pod_terms,
    ports_as_amounts,
    spreads,
)
from gangctl.fit.requests import PodSet
from gangctl.fit.volumes import as_pod_spec, is_of_one_pod
from gangctl.kueue.amounts import UNLIMITED
from gangctl.kueue.objects import PODS, Amounts

OF_JOBS: Final = frozenset({JOB_KEY, JOB_INDEX})
"""Labels that differ between the pods of one podset, and are known."""


@dataclass(frozen=True, slots=True)
class Together:
    """Pods that have to run at once, in one domain of a label if there is one: counts by index of podset."""

    pods: Mapping[int, int]
    topology: str = ""
    minimum: int = 0
    """With how many of them it starts (minCount), if these are fewer than all; 0 otherwise."""


@dataclass(frozen=True, slots=True)
class Neighbours:
    """What else is on the nodes of a cluster, for a JobSet in a namespace of it.

    ``pods`` are None if unknown, as are labels of a namespace, and the volume of a claim.
    """

    pods: Sequence[PlacedPod] | None
    namespace: str = ""
    labels_of: NamespaceLabels = lambda _: None
    volume_of: Callable[[str], Object | None] = lambda _: None
    devices: Devices = field(default_factory=Devices)
    admitted: Mapping[str, Object] = field(default_factory=dict)
    """Pods of the JobSet, by replicated job: what they are outranks the templates."""


@dataclass(slots=True)
class _Member:
    """A podset with what the filters read of its pods."""

    podset: PodSet
    labels: dict[str, str]
    repels: tuple[PodTerm, ...] = ()
    draws: tuple[PodTerm, ...] = ()
    spreads: tuple[Spread, ...] = ()

    @property
    def differs(self) -> bool:
        """Whether pods of different Jobs count differently."""
        selectors = [term.selector for term in (*self.repels, *self.draws)]
        selectors += [spread.selector for spread in self.spreads]
        keys = {term.key for selector in selectors for term in selector or ()}
        return not OF_JOBS.isdisjoint(keys)


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
        self.resources = (
            PODS,
            *sorted({name for request in requests for name, amount in request.items() if amount > 0}),
        )
        self._hopeful = hopeful
        self._jobset = jobset
        self._members = [self._member(podset, 0) for podset in podsets]
        self._differ = any(member.differs for member in self._members)
        ports = [tuple(host_ports(podset.pod_spec)) for podset in podsets]
        others = neighbours.pods or ()
        known = {port for own in (*ports, *(pod.ports for pod in others)) for port in own} if any(ports) else set()
        asked = [{**own, **ports_as_amounts(used, known)} for own, used in zip(requests, ports, strict=True)]
        self._ports = tuple(sorted({name for own in asked for name in own} - {*self.resources}))
        self.used = in_use(pod if pod.resized is None else replace(pod, requests=pod.resized) for pod in others)
        for pod in others if known else ():
            self.used[pod.node] = {**self.used[pod.node], **ports_as_amounts(pod.ports, known)}
        # Pods of which a node holds one are counted like a resource: that costs much less than to explore their order.
        self._alone = [] if self._differ else list(self._exclusive())
        self._tolerated = [
            # Pods that exist have passed admission: what they tolerate is known.
            _extended(amounts) if hopeful and podset.name not in neighbours.admitted else frozenset()
            for podset, amounts in zip(podsets, requests, strict=True)
        ]
        self._sizes = [
            (*self._vector({**own, PODS: 1}, 0, 0), *(int(index in owners) for owners, _ in self._alone))
            for index, own in enumerate(asked)
        ]
        self._sole = [
            frozenset(claim for claim, volume in self._volumes(podset) if is_of_one_pod(volume)) for podset in podsets
        ]
        self._capacities = [self._capacity(number) for number in range(len(nodes))]
        self._positions = {node.name: number for number, node in enumerate(nodes)}
        self.takers = self._all_takers()
        self._now: list[frozenset[int]] | None = None

    def _member(self, podset: PodSet, job: int) -> _Member:
        """A podset with the pods of one Job."""
        written = object_at(object_at(podset.template, "metadata"), "labels")
        labels = {key: text for key, text in written.items() if isinstance(text, str)}
        labels |= {JOBSET_NAME: self._jobset, REPLICATED_JOB_NAME: podset.name, JOB_INDEX: str(job)}
        spec, namespace = podset.pod_spec, self.neighbours.namespace
        labels |= {RESTART_ATTEMPT: labels.get(RESTART_ATTEMPT, "0")}
        if not spec.get("priorityClassName"):
            labels.setdefault(JOBSET_PRIORITY, "0")
        # A hash of it: no selector names the value.
        labels[JOB_KEY] = f"{namespace}/{self._jobset}-{podset.name}-{job}"
        return _Member(
            podset,
            labels,
            pod_terms(spec, "podAntiAffinity", namespace, labels),
            pod_terms(spec, "podAffinity", namespace, labels),
            spreads(spec, labels),
        )

    def _vector(self, amounts: Amounts, pods: int, ports: int) -> Vector:
        first, *others = self.resources
        plain = [max(0, amounts.get(first, pods)), *(max(0, amounts.get(name, 0)) for name in others)]
        return (*plain, *(max(0, amounts.get(port, ports)) for port in self._ports))

    def _capacity(self, number: int) -> Vector:
        node = self.nodes[number]
        # A node without a capacity has not reported it yet.
        unlimited = (UNLIMITED,) * (len(self.resources) + len(self._ports))
        own = self._vector(node.capacity, UNLIMITED, 1) if node.capacity else unlimited
        return (*own, *self._single(number))

    def _single(self, number: int) -> Iterator[int]:
        return (1 if number in domains else UNLIMITED for _, domains in self._alone)

    def _free(self, number: int) -> Vector:
        node = self.nodes[number]
        taken = self.used.get(node.name, {})
        there = self._vector(node.present, UNLIMITED, 1)
        if taken:
            there = tuple(max(0, left) for left in map(sub, there, self._vector(taken, 0, 0)))
        return (*there, *self._single(number)) if self._alone else there

    def _exclusive(self) -> Iterator[tuple[frozenset[int], Domains]]:
        """Podsets of which a node holds one pod: each of their pods repels all of them from it."""
        terms = {term: None for member in self._members for term in member.repels}
        for term in terms:
            owners = frozenset(index for index, member in enumerate(self._members) if term in member.repels)
            domains = self._by(term.key)
            if owners == self._matching(self._members, [term], unknown=not self._hopeful) and len(
                set(domains.values())
            ) == len(domains):
                yield owners, domains

    def _matching(
        self, members: Sequence[_Member], terms: Sequence[PodTerm], *, unknown: bool = False
    ) -> frozenset[int]:
        """Members that all terms match."""
        namespace, labels_of = self.neighbours.namespace, self.neighbours.labels_of
        return frozenset(
            index
            for index, member in enumerate(members)
            if all(term.matches(namespace, member.labels, labels_of, unknown=unknown) for term in terms)
        )

    def _by(self, key: str) -> dict[int, str]:
        """The domain of each node that has a label."""
        return {number: node.labels[key] for number, node in enumerate(self.nodes) if key in node.labels}

    def _all_takers(self) -> list[frozenset[int]]:
        """Podsets that each node accepts, whatever is on it; computed once for each kind of node."""
        specs = [
            [podset.pod_spec, *(as_pod_spec(volume) for _, volume in self._volumes(podset))] for podset in self.podsets
        ]
        keys = sorted({key for own in specs for spec in own for key in affinity_keys(spec)})
        known: dict[tuple[object, ...], frozenset[int]] = {}
        takers = []
        for node in self.nodes:
            taints = repr(node.taints) if node.taints else ""
            kind = (taints, node.features, *(node.labels.get(key) for key in keys))
            if kind not in known:
                known[kind] = frozenset(
                    index
                    for index, podset in enumerate(self.podsets)
                    if takes(node, podset, self._tolerated[index])
                    and all(affinity_allows(volume, node.labels) for volume in specs[index][1:])
                )
            takers.append(known[kind])
        return takers

    def wary(self, requests: Sequence[Amounts]) -> Floor:
        """The same without hope."""
        return Floor(self.podsets, requests, self.nodes, self.neighbours, jobset=self._jobset, hopeful=False)

    @property
    def assumes(self) -> bool:
        """Whether hope may change anything."""
        terms = [term for member in self._members for term in (*member.repels, *member.draws)]
        terms += [term for pod in self.neighbours.pods or () for term in pod.repels]
        tolerated = frozenset().union(*self._tolerated)
        return any(term.namespace_selector for term in terms) or any(
            node.unready or node.passing or any(taint.get("key") in tolerated for taint in node.taints)
            for node in self.nodes
        )

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
        others = {claim for pod in self.neighbours.pods or () if pod.namespace == namespace for claim in pod.claims}
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
        against = [self._against(member) for member in self._members]
        takers_now = []
        for node, takers in zip(self.nodes, self.takers, strict=True):
            open_to = (
                index
                for index in takers
                if node.admits(self.podsets[index], hopeful=self._hopeful)
                and not any(node.labels.get(key) == value for key, value in against[index])
            )
            takers_now.append(frozenset(open_to))
        return takers_now

    def _against(self, member: _Member) -> set[tuple[str, str]]:
        """Domains with a pod that repels those of a podset, or that they repel."""
        labels_of, namespace, unknown = self.neighbours.labels_of, self.neighbours.namespace, not self._hopeful
        domains = set()
        for pod in self.neighbours.pods or ():
            terms = [term for term in pod.repels if term.matches(namespace, member.labels, labels_of, unknown=unknown)]
            terms += [
                term for term in member.repels if term.matches(pod.namespace, pod.labels, labels_of, unknown=unknown)
            ]
            number = self._positions.get(pod.node) if terms else None
            labels = self.nodes[number].labels if number is not None else {}
            domains |= {(term.key, labels[term.key]) for term in terms if term.key in labels}
        return domains

    def repelled(self, index: int) -> bool:
        """Whether a pod on some node is against those of a podset there."""
        against = self._against(self._members[index])
        return any(node.labels.get(key) == value for node in self.nodes for key, value in against)

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
        for number, value in self._by(topology).items():
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
        empty = {number: self._capacities[number] for number, node in enumerate(self.nodes) if node.capacity}
        answers = [self._ever(gang, empty) for gang in gangs]
        return False if False in answers else None if None in answers else True

    def _ever(self, gang: Together, empty: Mapping[int, Vector]) -> bool | None:
        answers = [
            explore(*self._problem(gang.pods, {n: empty[n] for n in domain if n in empty}, now=False)).possible
            for domain in self.domains(gang.topology).values()
        ]
        # A node that has not reported its capacity may hold it, so that there is no proof.
        unreported = any(not node.capacity for node in self.nodes)
        return True if True in answers else None if None in answers or unreported else False

    def _members_of(self, pods: Mapping[int, int]) -> Iterator[tuple[_Member, int, int]]:
        """Kinds of pods: with the number of each, and the index of the podset."""
        for index, count in sorted(pods.items()):
            podset, jobs = self.podsets[index], 1
            if self._differ and podset.jobs > 1:
                jobs = max(1, -(-count * podset.jobs // max(1, podset.pods)))
            for number in range(jobs if count else 0):
                share = count // jobs + (number < count % jobs)
                yield self._member(podset, number) if jobs > 1 else self._members[index], share, index

    def _problem(self, pods: Mapping[int, int], free: Mapping[int, Vector], *, now: bool) -> tuple[Packing, Rules]:
        """The pods as kinds, and what they do to each other; other pods count only ``now``."""
        kinds = list(self._members_of(pods))
        takers = {number: self.takers_now(number) if now else self.takers[number] for number in free}
        allowed = [frozenset(number for number in free if index in takers[number]) for _, _, index in kinds]
        sizes = [self._sizes[index] for _, _, index in kinds]
        packing = Packing(sizes, [count for _, count, _ in kinds], allowed, free)
        members = [member for member, _, _ in kinds]
        return packing, self._rules(members, free, now=now)

    def _rules(self, members: Sequence[_Member], free: Collection[int], *, now: bool) -> Rules:
        repulsions = []
        for term in {term: None for member in members for term in member.repels}:
            domains = {number: value for number, value in self._by(term.key).items() if number in free}
            owners = frozenset(index for index, member in enumerate(members) if term in member.repels)
            matches = self._matching(members, [term], unknown=not self._hopeful)
            # A term that is counted as a resource (`_alone`) must not become a rule, too: any rule has to be explored.
            alone = owners == matches and not self._differ and len(set(domains.values())) == len(domains)
            if matches and not (alone and any(domains.items() <= of.items() for _, of in self._alone)):
                repulsions.append(Repulsion(owners, matches, domains))
        if not now:
            # Other pods can come that draw these, or that even them out.
            return Rules(tuple(repulsions))
        drawn = tuple(self._attraction(index, members) for index, member in enumerate(members) if member.draws)
        even = (
            self._evenness(index, members, spread) for index, member in enumerate(members) for spread in member.spreads
        )
        return Rules(tuple(repulsions), drawn, tuple(even))

    def _attraction(self, index: int, members: Sequence[_Member]) -> Attraction:
        terms, labels_of = members[index].draws, self.neighbours.labels_of
        there = [
            self._positions[pod.node]
            for pod in self.neighbours.pods or ()
            if pod.node in self._positions
            # To draw a pod admits it: here hope takes what is not known as a match, while for what repels it does not.
            and all(term.matches(pod.namespace, pod.labels, labels_of, unknown=self._hopeful) for term in terms)
        ]
        domains = tuple(self._by(term.key) for term in terms)
        occupied = tuple(frozenset(of[number] for number in there if number in of) for of in domains)
        return Attraction(index, self._matching(members, terms, unknown=self._hopeful), domains, occupied)

    def _evenness(self, index: int, members: Sequence[_Member], spread: Spread) -> Evenness:
        member, namespace = members[index], self.neighbours.namespace
        spec, keys = member.podset.pod_spec, {spread.key for spread in member.spreads}
        tolerations = tolerations_of(spec, self._tolerated[member.podset.index])
        domains = {
            number: node.labels[spread.key]
            for number, node in enumerate(self.nodes)
            # PodTopologySpread counts only nodes that have the labels of all constraints of the pod.
            if keys <= node.labels.keys()
            and (not spread.by_affinity or affinity_allows(spec, node.labels))
            and not (spread.by_taints and untolerated((*node.taints, *node.passing), tolerations))
        }
        term = PodTerm(spread.key, spread.selector, frozenset({namespace}))
        there = dict.fromkeys(domains.values(), 0)
        for pod in self.neighbours.pods or ():
            number = self._positions.get(pod.node, -1)
            # PodTopologySpread does not count pods that are being deleted.
            if number in domains and not pod.deleting and term.matches(pod.namespace, pod.labels, lambda _: None):
                there[domains[number]] += 1
        return Evenness(index, self._matching(members, [term]), domains, there, spread.skew, spread.domains)

    @property
    def independent(self) -> bool:
        """Whether none of its pods says anything about other pods, or has a claim that is for one pod at a time."""
        return not any(member.repels or member.draws or member.spreads for member in self._members) and not any(
            self._sole
        )

    @property
    def jobs_differ(self) -> bool:
        """Whether pods of one podset differ by their Jobs."""
        return self._differ

    def helped(self, gang: Together, copies: int) -> bool:
        """Whether other pods of the JobSet may make a place for a gang: they draw its pods, or even them out."""
        others = [member for index, member in enumerate(self._members) if copies > 1 or index not in gang.pods]
        for member in (self._members[index] for index in gang.pods):
            terms = [
                PodTerm(spread.key, spread.selector, frozenset({self.neighbours.namespace}))
                for spread in member.spreads
            ]
            if any(self._matching(others, [term], unknown=True) for term in (*member.draws, *terms)):
                return True
        return False

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


def _extended(amounts: Amounts) -> frozenset[str]:
    """Extended resources: admission (ExtendedResourceToleration) may add a toleration of taints with their names."""
    return frozenset(name for name in amounts if "/" in name and "kubernetes.io/" not in name)
