"""What pods of one JobSet do to each other, and to other pods on nodes: affinity, anti-affinity, spread constraints.

Source: ``pkg/scheduler/framework/plugins`` of Kubernetes 1.37: interpodaffinity, podtopologyspread.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from gangctl.api.meta import JOB_INDEX, JOB_KEY, JOBSET_NAME, JOBSET_PRIORITY, REPLICATED_JOB_NAME, RESTART_ATTEMPT
from gangctl.api.objects import Object, object_at, objects_at, text_at
from gangctl.fit.devices import Devices
from gangctl.fit.exploring import Attraction, Domains, Evenness, Repulsion, Rules
from gangctl.fit.floor import NodeShape, affinity_allows, untolerated
from gangctl.fit.placedpods import NamespaceLabels, PlacedPod, PodTerm, Spread, pod_terms, spreads
from gangctl.fit.requests import PodSet

OF_JOBS: Final = frozenset({JOB_KEY, JOB_INDEX})
"""Labels that differ between the pods of one podset, and are known."""


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
    levels: frozenset[str] = frozenset()
    """Node labels by which Kueue chooses a node for one pod, or JobSet nodes for those of one Job.

    In the node selector of a pod they say nothing of other pods.
    """
    priority_of: Callable[[str], int | None] = lambda _: None
    """The value of a PriorityClass, or of what pods without one get; None if unknown."""
    policy_of: Callable[[str], str | None] = lambda _: None
    """The same of its ``preemptionPolicy``."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Of the namespace, those by which admission changes pods."""
    nominated: Sequence[PlacedPod] = ()
    """Pods of others on the nodes that they are nominated for."""

    def priority(self, spec: Object) -> int | None:
        """Of pods with a spec; None if unknown."""
        written = spec.get("priority")
        return written if isinstance(written, int) else self.priority_of(text_at(spec, "priorityClassName"))

    def preferred(self, podsets: Sequence[PodSet], *, hopeful: bool) -> list[PlacedPod]:
        """The nominated pods of which podsets get no room; without hope also those of which that is not known.

        A pod yields to those of its priority or a higher one (addGENominatedPods in
        ``pkg/scheduler/framework/runtime/framework.go``). The scheduler asks with these pods and again without them, so
        that they keep pods away and draw none.
        """
        own = [self.priority(podset.pod_spec) for podset in podsets if podset.pods] if self.nominated else []
        return [
            pod
            for pod in self.nominated
            if (
                all(pod.priority is not None and one is not None and one <= pod.priority for one in own)
                if hopeful
                else any(pod.priority is None or one is None or one <= pod.priority for one in own)
            )
        ]


@dataclass(slots=True)
class MemberPods:
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


class Members:
    """The podsets of one JobSet, by what the filters read of their pods; nodes are identified by index."""

    def __init__(
        self,
        podsets: Sequence[PodSet],
        nodes: Sequence[NodeShape],
        neighbours: Neighbours,
        tolerated: Sequence[Sequence[Object]],
        *,
        jobset: str,
        hopeful: bool,
    ) -> None:
        """``tolerated`` are, by podset, tolerations that admission may add."""
        self._podsets = podsets
        self._nodes = nodes
        self._neighbours = neighbours
        self._tolerated = tolerated
        self._jobset = jobset
        self._hopeful = hopeful
        self._members = [self._member(podset, 0) for podset in podsets]
        self._positions = {node.name: number for number, node in enumerate(nodes)}
        self.others = [*(neighbours.pods or ()), *neighbours.preferred(podsets, hopeful=hopeful)]
        """Pods that keep room from them, and may keep them away."""
        self.differ = any(member.differs for member in self._members)
        """Whether pods of one podset differ by their Jobs."""
        # Pods of which a node holds one are counted like a resource: that costs much less than to explore their order.
        self.alone = [] if self.differ else list(self._exclusive())

    def _member(self, podset: PodSet, job: int) -> MemberPods:
        """A podset with the pods of one Job."""
        written = object_at(object_at(podset.template, "metadata"), "labels")
        labels = {key: text for key, text in written.items() if isinstance(text, str)}
        labels |= {JOBSET_NAME: self._jobset, REPLICATED_JOB_NAME: podset.name, JOB_INDEX: str(job)}
        spec, namespace = podset.pod_spec, self._neighbours.namespace
        # Pods that exist have the label; those of a template are of the first attempt.
        labels |= {RESTART_ATTEMPT: labels.get(RESTART_ATTEMPT, "0")}
        # JobSet's webhook writes the priority that admission gives to the pod.
        if (priority := self._neighbours.priority_of(text_at(spec, "priorityClassName"))) is not None:
            labels.setdefault(JOBSET_PRIORITY, str(priority))
        # A hash of it: no selector names the value.
        labels[JOB_KEY] = f"{namespace}/{self._jobset}-{podset.name}-{job}"
        return MemberPods(
            podset,
            labels,
            pod_terms(spec, "podAntiAffinity", namespace, labels),
            pod_terms(spec, "podAffinity", namespace, labels),
            spreads(spec, labels),
        )

    def _exclusive(self) -> Iterator[tuple[frozenset[int], Domains]]:
        """Podsets of which a node holds one pod: each of their pods repels all of them from it."""
        terms = {term: None for member in self._members for term in member.repels}
        for term in terms:
            owners = frozenset(index for index, member in enumerate(self._members) if term in member.repels)
            domains = self.by(term.key)
            if owners == self._matching(self._members, [term], unknown=not self._hopeful) and len(
                set(domains.values())
            ) == len(domains):
                yield owners, domains

    def _matching(
        self, members: Sequence[MemberPods], terms: Sequence[PodTerm], *, unknown: bool = False
    ) -> frozenset[int]:
        """Members that all terms match."""
        namespace, labels_of = self._neighbours.namespace, self._neighbours.labels_of
        return frozenset(
            index
            for index, member in enumerate(members)
            if all(term.matches(namespace, member.labels, labels_of, unknown=unknown) for term in terms)
        )

    def by(self, key: str) -> dict[int, str]:
        """The domain of each node that has a label."""
        return {number: node.labels[key] for number, node in enumerate(self._nodes) if key in node.labels}

    def against(self, index: int) -> Mapping[str, set[str]]:
        """Domains with a pod that repels those of a podset, or that they repel: values by label."""
        member = self._members[index]
        labels_of, namespace, unknown = self._neighbours.labels_of, self._neighbours.namespace, not self._hopeful
        domains: dict[str, set[str]] = {}
        for pod in self.others:
            terms = [term for term in pod.repels if term.matches(namespace, member.labels, labels_of, unknown=unknown)]
            terms += [
                term for term in member.repels if term.matches(pod.namespace, pod.labels, labels_of, unknown=unknown)
            ]
            number = self._positions.get(pod.node) if terms else None
            labels = self._nodes[number].labels if number is not None else {}
            for term in terms:
                if term.key in labels:
                    domains.setdefault(term.key, set()).add(labels[term.key])
        return domains

    def of(self, pods: Mapping[int, int]) -> Iterator[tuple[MemberPods, int, int]]:
        """Kinds of pods: with the number of each, and the index of the podset."""
        for index, count in sorted(pods.items()):
            podset, jobs = self._podsets[index], 1
            # Only where their Jobs matter: each kind multiplies the states that are explored.
            if self.differ and podset.jobs > 1:
                # As many Jobs as have so many pods: a gang may be one of them, or all.
                jobs = max(1, -(-count * podset.jobs // max(1, podset.pods)))
            for number in range(jobs if count else 0):
                share = count // jobs + (number < count % jobs)
                yield self._member(podset, number) if jobs > 1 else self._members[index], share, index

    def rules(self, members: Sequence[MemberPods], free: Collection[int], *, now: bool) -> Rules:
        """What kinds of pods do to each other on nodes with room; other pods count only ``now``."""
        repulsions = []
        for term in {term: None for member in members for term in member.repels}:
            domains = {number: value for number, value in self.by(term.key).items() if number in free}
            owners = frozenset(index for index, member in enumerate(members) if term in member.repels)
            matches = self._matching(members, [term], unknown=not self._hopeful)
            # A term that is counted as a resource (`alone`) must not become a rule, too: any rule has to be explored.
            alone = owners == matches and not self.differ and len(set(domains.values())) == len(domains)
            if matches and not (alone and any(domains.items() <= of.items() for _, of in self.alone)):
                repulsions.append(Repulsion(owners, matches, domains))
        if not now:
            # Other pods can come that draw these, or that even them out.
            return Rules(tuple(repulsions))
        drawn = tuple(self._attraction(index, members) for index, member in enumerate(members) if member.draws)
        even = (
            self._evenness(index, members, spread) for index, member in enumerate(members) for spread in member.spreads
        )
        return Rules(tuple(repulsions), drawn, tuple(even))

    def _attraction(self, index: int, members: Sequence[MemberPods]) -> Attraction:
        terms, labels_of = members[index].draws, self._neighbours.labels_of
        there = [
            self._positions[pod.node]
            for pod in self._neighbours.pods or ()
            if pod.node in self._positions
            # To draw a pod admits it: here hope takes what is not known as a match, while for what repels it does not.
            and all(term.matches(pod.namespace, pod.labels, labels_of, unknown=self._hopeful) for term in terms)
        ]
        domains = tuple(self.by(term.key) for term in terms)
        occupied = tuple(frozenset(of[number] for number in there if number in of) for of in domains)
        return Attraction(index, self._matching(members, terms, unknown=self._hopeful), domains, occupied)

    def _evenness(self, index: int, members: Sequence[MemberPods], spread: Spread) -> Evenness:
        member, namespace = members[index], self._neighbours.namespace
        spec, keys = member.podset.pod_spec, {spread.key for spread in member.spreads}
        tolerations = [*objects_at(spec, "tolerations"), *self._tolerated[member.podset.index]]
        domains = {
            number: node.labels[spread.key]
            for number, node in enumerate(self._nodes)
            # PodTopologySpread counts only nodes that have the labels of all constraints of the pod.
            if keys <= node.labels.keys()
            and (not spread.by_affinity or affinity_allows(spec, node.labels, node.name))
            and not (spread.by_taints and untolerated((*node.taints, *node.passing), tolerations))
        }
        # PodTopologySpread counts pods of the pod's own namespace alone.
        term = PodTerm(spread.key, spread.selector, frozenset({namespace}))
        there = dict.fromkeys(domains.values(), 0)
        for pod in self._neighbours.pods or ():
            number = self._positions.get(pod.node, -1)
            # PodTopologySpread does not count pods that are being deleted.
            if number in domains and not pod.deleting and term.matches(pod.namespace, pod.labels, lambda _: None):
                there[domains[number]] += 1
        return Evenness(index, self._matching(members, [term]), domains, there, spread.skew, spread.domains)

    def helped(self, gang: Collection[int], copies: int) -> bool:
        """Whether other pods of the JobSet may make a place for a gang: they draw its pods, or even them out."""
        # Another copy of the gang consists of the same podsets.
        others = [member for index, member in enumerate(self._members) if copies > 1 or index not in gang]
        for member in (self._members[index] for index in gang):
            terms = [
                PodTerm(spread.key, spread.selector, frozenset({self._neighbours.namespace}))
                for spread in member.spreads
            ]
            if any(self._matching(others, [term], unknown=True) for term in (*member.draws, *terms)):
                return True
        return False

    def reach(self, gang: Collection[int], pods: Collection[int], *, copies: int, topology: str) -> bool:
        """Whether pods in one domain of a label may keep a gang from another domain of it; ``pods`` are all podsets."""
        domain_of, keys = self.by(topology), set[str]()
        for member in (self._members[index] for index in pods):
            keys |= {term.key for term in member.repels} | {spread.key for spread in member.spreads}
        for key in keys:
            across: dict[str, set[str | None]] = {}
            for number, value in self.by(key).items():
                across.setdefault(value, set()).add(domain_of.get(number))
            if any(len(domains) > 1 for domains in across.values()):
                return True
        # A pod needs no other one near it only while there is none in any domain (satisfyPodAffinity).
        others = [self._members[index] for index in pods if index not in gang]
        others += [self._member(self._podsets[index], 1) for index in gang if copies > 1]
        drawn = (self._members[index].draws for index in gang)
        return any(draws and self._matching(others, draws, unknown=True) for draws in drawn)

    @property
    def independent(self) -> bool:
        """Whether none of the pods says anything about other pods."""
        return not any(member.repels or member.draws or member.spreads for member in self._members)

    @property
    def by_namespace(self) -> bool:
        """Whether a term selects namespaces by their labels, which may be unknown."""
        terms = [term for member in self._members for term in (*member.repels, *member.draws)]
        terms += [term for pod in self.others for term in pod.repels]
        return any(term.namespace_selector for term in terms)
