"""Whether Kueue finds domains for the podsets of a JobSet, by the flavors that quota gives them.

Kueue chooses flavors by quota alone, and then places podsets in their order, flavor by flavor, each beside those placed
before. Source: Kueue ``pkg/scheduler/flavorassigner/tas_flavorassigner.go`` and
``pkg/cache/scheduler/clusterqueue_snapshot.go`` of v0.19.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gangctl.api.jobset import JobSet
from gangctl.api.objects import object_at
from gangctl.api.pods import HOSTNAME
from gangctl.fit.clusterstate import ClusterSnapshot
from gangctl.fit.demands import Member, Needs, all_with_topology, groups
from gangctl.fit.domains import DomainView, FlavorDomains, Usage, use
from gangctl.fit.limits import exclusive, in_one_domain, in_topology, unread
from gangctl.fit.nodes import gangs_of
from gangctl.fit.report import DomainReport, joined, quoted
from gangctl.fit.requests import PodSet, requests_of
from gangctl.fit.search import Demand, Step
from gangctl.fit.topology import Ask, DomainAssignment, find
from gangctl.kueue.names import PROVISIONING
from gangctl.kueue.objects import Amounts, ClusterQueue, Placement, QueuedWorkload

_CHOOSING: Final = ("TASBalancedPlacement", "TASRespectNodeAffinityPreferred")
"""Feature gates by which Kueue chooses among domains in other ways."""
Holders = Sequence[tuple[QueuedWorkload, Amounts]]


@dataclass(frozen=True, slots=True)
class Unit:
    """Podsets that are placed together: workers, and a leader beside them.

    The pods need not ask for a topology, if all flavors of the queue have one.
    """

    workers: Member
    leader: Member | None = None


@dataclass(frozen=True, slots=True)
class Placed:
    """The result of an attempt: ``where`` the pods are, or the ``problem``; both are empty if nothing is needed."""

    where: str = ""
    problem: str = ""
    domains: Sequence[DomainReport] = ()
    holders: Holders = ()


class Placing:
    """The domains that the podsets of a JobSet need in one ClusterQueue."""

    def __init__(
        self,
        members: Sequence[Member],
        needs: Needs,
        queue: ClusterQueue,
        cluster: ClusterSnapshot,
    ) -> None:
        """Find the podsets that need domains."""
        self._needs = needs
        self._cluster = cluster
        self._gate = cluster.configuration.gate
        self._provisioned = _provisioned(queue, cluster)
        implied = all_with_topology(queue, cluster.flavor)
        units = list(_units(members, implied=implied)) if cluster.topology_aware(queue) else []
        # Behind a last podset without a flavor, Kueue admits without a search for domains (assignFlavors).
        self.units = units if needs.last is None else []
        last = [member.podset.name for member in members if member.podset.index == needs.last]
        self._unplaced = last if units else []
        self._trees: dict[tuple[str, bool], FlavorDomains] = {}
        self._requests: dict[int, Placement] = {}

    def unknown(self, jobset: JobSet, steps: Sequence[Step]) -> Iterator[str]:
        """Facts without which no domain is certain; none if no podset needs one. ``steps`` have the flavors it gets."""
        if self._unplaced:
            yield (
                f"on which nodes its pods run: Kueue gives none of them a domain, because {quoted(self._unplaced)}, "
                "the last of them, requests nothing that the queue has; have it request a resource of the queue"
            )
        flavors = sorted({flavor for unit in self.units for flavor in self._candidates(unit)})
        if not flavors:
            return
        if any(self._provisioned(flavor) for flavor in flavors):
            yield "which nodes are added for it (ProvisioningRequest)"
        if missing := [name for name in flavors if not self._cluster.levels(name)]:
            yield f"the topology of flavor {quoted(missing)}"
        yield from self._on_nodes(flavors)
        overlooked = (
            pods.podset
            for unit in self.units
            for flavor in self._flavors_of(unit, steps)
            if not self._provisioned(flavor) and (domains := self._domains(flavor, ever=False)) is not None
            for pods in domains.overlooked(unit.workers, unit.leader)
        )
        divided = (
            unit.workers.podset
            for unit, view, domains in (() if self._ambiguous(steps) else self._attempt(steps, (), ever=False))
            if domains is not None and view.domains.divided(unit.workers, domains)
        )
        yield from dict.fromkeys(map(unread, (*overlooked, *divided)))
        placed = list(self._placed())
        yield from (why for podset in placed for why in in_topology(podset))
        # Of the whole JobSet it is one fact.
        yield from dict.fromkeys(why for podset in placed for why in exclusive(jobset, podset))
        # A podset that asks Kueue for a topology asks for that of its gang (check_consistency).
        keys = {index: gang.topology for gang in gangs_of(jobset) if sum(gang.pods.values()) > 1 for index in gang.pods}
        for podset in placed:
            if podset.topology is None and (key := keys.get(podset.index)):
                yield in_one_domain(podset, key)
        # Each of these finds a domain where there is one, but what is left for the next podset is not the same.
        for gate in _CHOOSING if len(self.units) > 1 else ():
            if self._gate(gate, default=False):
                yield f"which domains its podsets leave to each other (feature gate {gate})"
        if self._gate("SchedulerLibraryIntegration", default=False):
            yield "which nodes the scheduler's library excludes (SchedulerLibraryIntegration)"

    def _on_nodes(self, flavors: Sequence[str]) -> Iterator[str]:
        """What of the nodes of flavors is not known, and of their usage."""
        nodes = self._cluster.nodes
        if nodes is None:
            yield f"the nodes of flavor {quoted(flavors)}, and what is free on them"
        elif nodes.used is None:
            yield "what other pods use on the nodes"
        if not self._cluster.workloads_known:
            yield f"what pods use that Kueue has placed: {self._cluster.unseen}"
        if any(
            workload.placements and self._cluster.surroundings(workload.namespace).limit_ranges is None
            for workload in self._cluster.quotas.workloads()
        ):
            yield "what pods use that Kueue has placed: LimitRanges of other namespaces may not be read"

    def _placed(self) -> Iterator[PodSet]:
        """The podsets that Kueue places."""
        for unit in self.units:
            yield unit.workers.podset
            if unit.leader is not None:
                yield unit.leader.podset

    def misfit(self) -> str:
        """Podsets that get no domain with any quota and any nodes; empty if there are none."""
        parts = []
        for unit in self.units:
            for member in (unit.workers, *((unit.leader,) if unit.leader is not None else ())):
                name, own = quoted([member.podset.name]), self._demands_of(member)
                if not own:
                    parts.append(f"{name} requests nothing that the queue has, and without a flavor it gets no domain")
                elif sum(all(map(self._has_topology, demand.flavors)) for demand in own) > 1:
                    parts.append(
                        f"{name} gets a flavor with a topology from each of {len(own)} resource groups, and Kueue "
                        "places pods only if they have one"
                    )
        return "; ".join(parts)

    def pairs(self, steps: Sequence[Step]) -> set[tuple[str, str]]:
        """Flavors and resources of the podsets that need domains."""
        return {
            (step.flavor, resource)
            for unit in self.units
            for demand, step in zip(self._needs.demands, steps, strict=True)
            if demand in self._demands_of(unit.workers)
            for resource in demand.amounts
        }

    @property
    def cost(self) -> int:
        """Steps of :meth:`fits`, of about 10 microseconds."""
        nodes = self._cluster.nodes
        return len(nodes.shapes) * len(self.units) // 40 if nodes is not None else 0

    def fits(self, steps: Sequence[Step], *, without: Collection[str] = (), vacant: bool = False) -> bool:
        """Whether Kueue finds domains with these flavors; what is not known is assumed to fit.

        ``without`` are UIDs of workloads whose usage is ignored; ``vacant`` ignores all of them.
        """
        if vacant and self.units:
            without = {workload.uid for workload in self._cluster.quotas.workloads()}
        return not self._ambiguous(steps) and all(
            assignment for _, _, assignment in self._attempt(steps, without, ever=False)
        )

    def place(self, steps: Sequence[Step], *, ever: bool = False) -> Placed:
        """The same with the domains or the problem; ``ever`` is with all nodes ready and nothing on them."""
        if self._ambiguous(steps):
            return Placed(problem=f"{self._ambiguous(steps)} would not get exactly one flavor with a topology")
        where: list[str] = []
        rows: list[DomainReport] = []
        for unit, view, assignment in self._attempt(steps, (), ever=ever):
            if assignment is None:
                alone = self._view(unit, view.domains, {})
                # Alone it would have a place: then the message names the podsets before it.
                beside = bool(find(view.domains.tree, alone.leaves, alone.ask))
                return self._failure(unit, view, ever=ever, beside=beside)
            where.append(view.where(assignment))
            rows += view.rows(self._empty(unit, view), assignment)
        return Placed(joined(where), domains=rows)

    def _ambiguous(self, steps: Sequence[Step]) -> str:
        """The first podset for which it is not clear which flavor places it."""
        for unit in self.units:
            if len(self._flavors_of(unit, steps)) != 1:
                return quoted([unit.workers.podset.name])
        return ""

    def _attempt(
        self, steps: Sequence[Step], without: Collection[str], *, ever: bool
    ) -> Iterator[tuple[Unit, DomainView, DomainAssignment | None]]:
        """Each unit in Kueue's order, with the domains that are left for it and those that it gets of them."""
        by_flavor: dict[str, list[Unit]] = {}
        for unit in self.units:
            # There is one: callers ask `_ambiguous` first.
            by_flavor.setdefault(self._flavors_of(unit, steps)[0], []).append(unit)
        shared: Usage | None = None
        # FindTopologyAssignmentsForWorkload goes by the names of the flavors, too.
        for flavor, units in sorted(by_flavor.items()):
            domains = None if self._provisioned(flavor) else self._domains(flavor, ever=ever)
            if domains is None:
                continue
            # A host name is one node in all flavors: with TASHandleOverlappingFlavors pods that were placed in one
            # flavor use room in the next.
            taken = self._freed(domains, without) if shared is None or not domains.hosts else shared
            shared = taken if domains.hosts and self._overlapping else shared
            for unit in units:
                view = self._view(unit, domains, taken)
                assignment = find(domains.tree, view.leaves, view.ask)
                yield unit, view, assignment
                for index, pods in assignment.pods.items() if assignment is not None else ():
                    use(taken, domains.keys[index], unit.workers.counted.asked, pods)
                if unit.leader is not None and assignment is not None and assignment.leader is not None:
                    use(taken, domains.keys[assignment.leader], unit.leader.counted.asked, 1)

    def ever(self) -> Placed:
        """A podset that none of its flavors can hold, with all nodes ready and nothing on them, if there is one."""
        for unit in self.units:
            first: Placed | None = None
            for flavor in self._candidates(unit):
                domains = None if self._provisioned(flavor) else self._domains(flavor, ever=True)
                # What is not known may hold the pods: then there is no proof.
                if domains is None:
                    break
                view = self._view(unit, domains, {})
                if find(domains.tree, view.leaves, view.ask) is not None:
                    break
                first = first or self._failure(unit, view, ever=True)
            else:
                if first is not None:
                    return first
        return Placed()

    @property
    def _overlapping(self) -> bool:
        """Whether usage of a node counts for all flavors that have it."""
        return self._gate("TASHandleOverlappingFlavors", default=True)

    def _demands_of(self, member: Member) -> list[Demand]:
        """Demands that give a member its flavors: without requests of its own, those of its group."""
        pairs = zip(self._needs.demands, self._needs.owners, strict=True)
        shared = [demand for demand, owners in pairs if member.podset.index in owners]
        own = [demand for demand in shared if not member.requests.keys().isdisjoint(demand.amounts)]
        return own or shared

    def _candidates(self, unit: Unit) -> list[str]:
        """Flavors with a topology that a unit may get."""
        flavors = (flavor for demand in self._demands_of(unit.workers) for flavor in demand.flavors)
        return [flavor for flavor in dict.fromkeys(flavors) if self._has_topology(flavor)]

    def _flavors_of(self, unit: Unit, steps: Sequence[Step]) -> list[str]:
        """Flavors with a topology that a unit gets."""
        own = self._demands_of(unit.workers)
        chosen = (step.flavor for demand, step in zip(self._needs.demands, steps, strict=True) if demand in own)
        return [flavor for flavor in dict.fromkeys(chosen) if self._has_topology(flavor)]

    def _has_topology(self, flavor: str) -> bool:
        resource_flavor = self._cluster.flavor(flavor)
        return resource_flavor is not None and bool(resource_flavor.topology)

    def _domains(self, name: str, *, ever: bool) -> FlavorDomains | None:
        """Domains of a flavor, None if they are unknown."""
        flavor, levels, nodes = self._cluster.flavor(name), self._cluster.levels(name), self._cluster.nodes
        if flavor is None or not levels or nodes is None:
            return None
        if (name, ever) not in self._trees:
            domains = FlavorDomains(flavor, levels, nodes.shapes, nodes.used or {}, ever=ever)
            for _, placement in self._placements(domains) if not ever else ():
                domains.occupy(placement)
            self._trees[name, ever] = domains
        return self._trees[name, ever]

    def _placements(self, domains: FlavorDomains) -> Iterator[tuple[QueuedWorkload, Placement]]:
        """Pods that Kueue placed in these domains."""
        for workload in self._cluster.quotas.workloads():
            for placement in workload.placements:
                everywhere = domains.hosts and self._overlapping and placement.levels[-1:] == (HOSTNAME,)
                if everywhere or domains.flavor.name in placement.flavors:
                    yield workload, self._filled_in(workload.namespace, placement)

    def _filled_in(self, namespace: str, placement: Placement) -> Placement:
        """With the overhead of its pods and the defaults of LimitRanges, which Kueue counts here, too."""
        surroundings = self._cluster.surroundings(namespace)
        # Few have either, and a simulation of preemption asks for all of them each time.
        if not surroundings.limit_ranges and not object_at(placement.template, "spec").get("runtimeClassName"):
            return placement
        # By identity: the domains of one are not hashable.
        if id(placement) not in self._requests:
            counted = requests_of(PodSet("", 0, 1, placement.template), surroundings)
            # AdjustResources of Kueue's workload controller, before its cache takes a Workload.
            self._requests[id(placement)] = replace(placement, requests=counted.asked)
        return self._requests[id(placement)]

    def _freed(self, domains: FlavorDomains, without: Collection[str]) -> Usage:
        """The usage of workloads that is ignored, as less than nothing."""
        freed: Usage = {}
        for workload, placement in self._placements(domains) if without else ():
            if workload.uid in without:
                for key, pods in placement.domains.items():
                    use(freed, key, placement.requests, -pods)
        return freed

    def _ask(self, unit: Unit, levels: Sequence[str]) -> Ask:
        """The request in terms of a topology's levels, which has all that it names."""
        request, lowest = unit.workers.podset.topology, len(levels) - 1
        layers = request.layers if request is not None else ()
        narrow = request is not None and bool(request.level)
        # levelKey of Kueue: slices alone start at the highest level, pods without a level at the lowest.
        level = levels.index(request.level) if request is not None and narrow else 0 if layers else lowest
        above = slice_level = levels.index(layers[0].level) if layers else lowest
        inner: dict[int, int] = {}
        for layer in layers[1:]:
            below = levels.index(layer.level)
            # Levels between two layers have the size of the inner one (buildSliceSizeAtLevel).
            inner |= dict.fromkeys(range(above + 1, below + 1), layer.size)
            above = below
        return Ask(
            unit.workers.podset.pods,
            level,
            slice_level,
            required=request is not None and request.mode == "required",
            anywhere=not narrow,
            size=layers[0].size if layers else 1,
            inner=inner,
            leader=unit.leader is not None,
            # useLeastFreeCapacityAlgorithm, by the matrix of KEP-2724.
            least=not narrow and self._gate("TASProfileMixed", default=True),
        )

    def _view(self, unit: Unit, domains: FlavorDomains, taken: Usage) -> DomainView:
        leaves = domains.leaves(unit.workers, unit.leader, taken)
        return DomainView(domains, leaves, self._ask(unit, domains.tree.levels), unit.workers, unit.leader)

    def _empty(self, unit: Unit, view: DomainView) -> DomainView:
        """The same with all nodes ready and nothing on them."""
        domains = self._domains(view.domains.flavor.name, ever=True)
        return view if domains is None or domains is view.domains else self._view(unit, domains, {})

    def _failure(self, unit: Unit, view: DomainView, *, ever: bool, beside: bool = False) -> Placed:
        empty = self._empty(unit, view)
        holders = [] if ever else self._holders(unit, view, empty)
        return Placed(problem=view.problem(empty, ever=ever, beside=beside), domains=view.rows(empty), holders=holders)

    def _holders(self, unit: Unit, view: DomainView, empty: DomainView) -> Holders:
        """Workloads in the domain that lacks the least, or if it need not be one, in all."""
        keys = view.keys(view.nearest(empty) if view.ask.required else None)
        wanted = {resource for resource, amount in unit.workers.counted.asked.items() if amount > 0}
        holders: dict[str, tuple[QueuedWorkload, dict[str, int]]] = {}
        for workload, placement in self._placements(view.domains):
            pods = sum(count for key, count in placement.domains.items() if key in keys)
            if pods:
                _, amounts = holders.setdefault(workload.uid, (workload, {}))
                for resource in wanted & placement.requests.keys():
                    amounts[resource] = amounts.get(resource, 0) + placement.requests[resource] * pods
        return sorted(holders.values(), key=lambda each: (each[0].priority, each[0].namespace, each[0].name))


def _units(members: Sequence[Member], *, implied: bool) -> Iterator[Unit]:
    """The podsets with pods that need domains, in Kueue's order; ``implied`` for all of them."""
    placed = (member for member in members if member.podset.pods and (member.podset.topology is not None or implied))
    for workers, *others in groups(placed):
        leader = others[0] if others else None
        # findLeaderAndWorkers: the second podset is the leader, unless it has more pods.
        if leader is not None and leader.podset.pods > workers.podset.pods:
            yield Unit(leader, workers)
        else:
            yield Unit(workers, leader)


def _provisioned(queue: ClusterQueue, cluster: ClusterSnapshot) -> Callable[[str], bool]:
    """Whether nodes of a flavor are added after quota is reserved: only then pods are placed."""
    flavors: set[str] = set()
    for use_of in queue.checks:
        check = cluster.check(use_of.name)
        if check is not None and check.controller == PROVISIONING:
            flavors |= set(use_of.on_flavors) or {quota.name for group in queue.groups for quota in group.flavors}
    return flavors.__contains__
