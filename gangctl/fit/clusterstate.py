"""Input of a fit: the request, and the cluster's objects, filled from lists or one change at a time.

The CLI and the controller use the same, so that both give the same result. The cost of a change depends on the changed
object, not on the size of the cluster.

An outlook has when workloads give their quota back, from what they declare. Its times are seconds from now. A range is
early and late; infinite is not known. Only Kueue's maximum execution time, and an eviction, are bounds that something
enforces (Kueue 0.19, ``pkg/controller/core``).
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from math import inf
from typing import Any, Final, TypeVar

from gangctl.api.jobset import JobSet, read_jobset
from gangctl.api.objects import Object
from gangctl.api.pods import SYSTEM_CLASSES
from gangctl.fit.floor import NodeShape
from gangctl.fit.quotas import Quotas
from gangctl.fit.requests import PodsLeft, Surroundings
from gangctl.fit.tree import Pair
from gangctl.kueue import objects
from gangctl.kueue.amounts import moment
from gangctl.kueue.configuration import KueueConfiguration, read_configuration
from gangctl.kueue.names import MULTIKUEUE
from gangctl.kueue.queues import Head

Range = tuple[float, float]
UNREAD: Final = "Workloads of other namespaces may not be read"
FEWER: Final = "the files have fewer Workloads than the status of their ClusterQueue counts"


@dataclass(frozen=True, slots=True)
class Outlook:
    """The time of asking, and the Workloads of all queues that wait.

    ``expected`` are the durations that JobSets declare, in seconds, by namespace and name: Kueue does not copy them.
    """

    now: datetime
    pending: Sequence[objects.QueuedWorkload] = ()
    expected: Mapping[tuple[str, str], float] = field(default_factory=dict)

    def since(self, workload: objects.QueuedWorkload, condition: str) -> float | None:
        """For how long a condition is True; None if it is not, or has no time."""
        at = moment(workload.condition(condition).since) if workload.holds(condition) else None
        return None if at is None else (self.now - at).total_seconds()

    def expects(self, workload: objects.QueuedWorkload) -> float | None:
        """The duration that a workload or its JobSet declares."""
        if workload.run_time.expected is not None or workload.owner_kind != "JobSet":
            return workload.run_time.expected
        return self.expected.get((workload.namespace, workload.owner_name))

    def end_of_holder(self, holder: objects.QueuedWorkload) -> Range:
        """When one that has quota gives it back."""
        grace = holder.run_time.grace
        evicted = self.since(holder, "Evicted")
        # Only the condition Evicted has the time from which the grace period runs; otherwise the end is not known.
        if evicted is not None or holder.deleting:
            return 0.0, inf if evicted is None else _in_future(grace - evicted)
        age = self.since(holder, "Admitted")
        # It has quota, and its checks are not done: it may lose it at once, and hold it for any time.
        if age is None:
            return 0.0, inf
        # The time is by the clock of Kueue, which may be ahead of this one.
        age = max(0.0, age)
        bound = _in_future(_most(holder.run_time) - age + grace)
        return min(max(0.0, (self.expects(holder) or 0.0) - age), bound), bound

    def length_of_next(self, waiting: objects.QueuedWorkload) -> Range:
        """How long one runs that is still to be admitted."""
        bound = _most(waiting.run_time) + waiting.run_time.grace
        return min(self.expects(waiting) or 0.0, bound), bound


def _most(run_time: objects.RunTime) -> float:
    return inf if run_time.maximum is None else max(0, run_time.maximum - run_time.spent)


def _in_future(at: float) -> float:
    """A bound that is over was none: what was to end by then did not."""
    return at if at >= 0 else inf


@dataclass(frozen=True, slots=True)
class FitRequest:
    """One JobSet, as raw JSON, that exists in a namespace or is about to be created there.

    ``namespace_labels`` is None if unknown. ``queue`` is the LocalQueue that its label names, or empty.
    ``new`` means that it is not created yet: only then Kueue may set the queue called ``default``. ``workload`` is
    Kueue's Workload of it, if there is one: then its priority is known, and since when it waits. ``fixed_nodes`` takes
    the nodes for all that there will ever be. With an ``outlook`` the report says when it starts. With a ``reader``
    it names no Workload outside of that namespace (:meth:`~gangctl.kueue.objects.QueuedWorkload.is_hidden_from`).
    ``head`` returns the head of its queue, if that is a StrictFIFO queue and Workloads may be read. ``parsed`` is the
    JobSet where it has been read already. ``left`` is by name of the replicated job, where it is known of its Jobs
    that they do not make all pods again.
    """

    jobset: Mapping[str, Any]
    namespace: str
    namespace_labels: Mapping[str, str] | None
    queue: str
    new: bool = True
    workload: objects.QueuedWorkload | None = None
    fixed_nodes: bool = False
    outlook: Outlook | None = None
    reader: str | None = None
    head: Callable[[objects.ClusterQueue], Head | None] = lambda _: None
    parsed: JobSet | None = None
    left: Mapping[str, PodsLeft] = field(default_factory=dict)

    def read(self) -> JobSet:
        """The JobSet."""
        return self.parsed or read_jobset(self.jobset)[0]


@dataclass(frozen=True, slots=True)
class KnownNodes:
    """Nodes, and the pods on them.

    ``used`` are requests by the node's name, without pods that Kueue placed in a topology; None if unknown.
    """

    shapes: Sequence[NodeShape]
    used: Mapping[str, objects.Amounts] | None


Held = (
    objects.ClusterQueue
    | objects.Cohort
    | objects.LocalQueue
    | objects.ResourceFlavor
    | objects.Topology
    | objects.QueuedWorkload
    | objects.AdmissionCheck
    | objects.PriorityClass
    | objects.PodPriorityClass
)
"""Objects that a snapshot stores unchanged."""
_Kind = TypeVar("_Kind", bound=Held)


class ClusterSnapshot:
    """Known objects of the cluster.

    ``unknown`` returns those that could not be read, each in a few words, and is called each time: they turn a
    dependent ``never`` into unknown.
    ``queued`` is whether Kueue is installed. ``queue_limit`` is how many podsets a Workload may have: 8, 10 or 18 by
    Kueue's version; None if unknown.
    """

    def __init__(
        self,
        held: Iterable[Held] = (),
        *,
        limit_ranges: Iterable[Object] | None = (),
        runtime_classes: Iterable[Object] | None = None,
        configuration: str | None = None,
        queued: bool = True,
        queue_limit: int | None = None,
        topologies_known: bool = False,
        nodes: KnownNodes | None = None,
        unknown: Callable[[], Sequence[str]] = lambda: (),
    ) -> None:
        """Add all objects.

        LimitRanges and RuntimeClasses are raw, and None if unknown. ``configuration`` is the text of
        Kueue's, None if unknown.
        """
        self.quotas = Quotas()
        self.queued = queued
        self.queue_limit = queue_limit
        self.topologies_known = topologies_known
        self.nodes = nodes
        self.unknown = unknown
        self.unread: frozenset[type[object]] = frozenset()
        """Kinds of priority classes that could not be read."""
        self.has_workload: Callable[[str, str], bool | None] = lambda _namespace, _name: None
        """Whether a Workload exists that no object controls, by namespace and name; None if unknown."""
        self.heads_known = True
        """Whether the heads of StrictFIFO queues can be known: what waits in all namespaces is known."""
        self.workloads_known = True
        """Whether the Workloads of all namespaces are known: who holds quota, and what preemption would free."""
        self.unseen = UNREAD
        """Why not."""
        self.heads_unseen = "what waits in other namespaces may not be read"
        """Why ``heads_known`` is not."""
        self.unmeasured: frozenset[str] = frozenset()
        """ClusterQueues of which it is not known how much is in use."""
        self.partly_listed: Mapping[str, Collection[Pair]] = {}
        """ClusterQueues whose Workloads may hold more than their status lists, with the pairs that it lists."""
        self.overdrawn: frozenset[str] = frozenset()
        """ClusterQueues that hold more than they can get from what is known of their cohorts."""
        self._held: dict[type[object], dict[tuple[str, str], Any]] = defaultdict(dict)
        """By kind, then by namespace and name."""
        self._limit_ranges: dict[str, dict[str, Object]] = defaultdict(dict)
        self._runtime_classes: dict[str, Object] | None = None
        self._resource_quotas: dict[str, list[Object]] = defaultdict(list)
        self.configuration: KueueConfiguration = read_configuration(configuration)
        for one in held:
            self.take(one)
        self.limits_known = limit_ranges is not None
        self.limits_of: Container[str] | None = None
        """Namespaces whose LimitRanges are known; None is all of them."""
        for raw in limit_ranges or ():
            self.take_limit_range(raw)
        self.take_runtime_classes(runtime_classes)

    def usage_known(self, queue: str) -> bool:
        """Whether it is known how much is in use in a ClusterQueue and those that share quota with it."""
        return not self.unmeasured or self.unmeasured.isdisjoint(self.quotas.tree(queue))

    def cohort_known(self, queue: str) -> bool:
        """Whether nothing proves that others share quota with a ClusterQueue, which are not known."""
        return not self.overdrawn or self.overdrawn.isdisjoint(self.quotas.tree(queue))

    def unlisted(self, queue: str, pairs: Iterable[Pair]) -> dict[str, list[str]]:
        """By flavor of these pairs the ClusterQueues that may hold some, and share quota with a ClusterQueue."""
        names: dict[str, list[str]] = {}
        for name in self.quotas.tree(queue) if self.partly_listed else ():
            listed = self.partly_listed.get(name)
            for flavor in {pair[0] for pair in pairs if listed is not None and pair not in listed}:
                names.setdefault(flavor, []).append(name)
        return names

    def over(self, quotas: Quotas) -> ClusterSnapshot:
        """The same objects with other quotas and usage, for one question."""
        # Not a deep copy: one question reads the other objects, and a copy of them would cost the size of the cluster.
        other = copy.copy(self)
        other.quotas = quotas
        return other

    def take(self, held: Held) -> None:
        """Add or update an object."""
        if isinstance(held, objects.ClusterQueue | objects.Cohort | objects.QueuedWorkload):
            self.quotas.take(held)
        else:
            self._held[type(held)][_key(held)] = held

    def drop(self, held: Held) -> None:
        """Remove an object, if it exists."""
        if isinstance(held, objects.ClusterQueue | objects.Cohort | objects.QueuedWorkload):
            self.quotas.drop(held)
        else:
            self._held[type(held)].pop(_key(held), None)

    @contextmanager
    def without(self, workloads: Iterable[objects.QueuedWorkload]) -> Iterator[None]:
        """Ignore the usage of these inside the block: a JobSet does not compete with itself."""
        own = list(workloads)
        for workload in own:
            self.drop(workload)
        try:
            # The informers keep the snapshot: an exception in the block must not leave it without this usage.
            yield
        finally:
            for workload in own:
                self.take(workload)

    def take_limit_range(self, raw: Object) -> None:
        """Add or update a LimitRange."""
        metadata = raw["metadata"]
        self._limit_ranges[metadata.get("namespace") or ""][metadata["name"]] = raw

    def drop_limit_range(self, raw: Object) -> None:
        """Remove a LimitRange."""
        namespace = raw["metadata"].get("namespace") or ""
        self._limit_ranges[namespace].pop(raw["metadata"]["name"], None)
        # Namespaces are created and deleted while the controller runs.
        if not self._limit_ranges[namespace]:
            del self._limit_ranges[namespace]

    def take_runtime_classes(self, raws: Iterable[Object] | None) -> None:
        """Set all RuntimeClasses; None if they are unknown."""
        self._runtime_classes = None if raws is None else {raw["metadata"]["name"]: raw for raw in raws}

    def take_resource_quota(self, raw: Object) -> None:
        """Add a ResourceQuota."""
        # Only added: the controller does not follow them, and a listing or a file has each of them once.
        self._resource_quotas[raw["metadata"].get("namespace") or ""].append(raw)

    def take_configuration(self, text: str | None) -> None:
        """Set Kueue's configuration; None if it is unknown."""
        self.configuration = read_configuration(text)

    def _all(self, kind: type[_Kind]) -> Mapping[tuple[str, str], _Kind]:
        return self._held[kind]

    def local_queue(self, namespace: str, name: str) -> objects.LocalQueue | None:
        """A LocalQueue, or None if it does not exist."""
        return self._all(objects.LocalQueue).get((namespace, name))

    def local_queues(self, namespace: str) -> list[str]:
        """Names of the LocalQueues of a namespace."""
        return sorted(name for home, name in self._all(objects.LocalQueue) if home == namespace)

    def homes_of(self, name: str) -> list[str]:
        """The namespaces that have a LocalQueue of this name."""
        return [home for home, own in self._all(objects.LocalQueue) if own == name]

    def flavor(self, name: str) -> objects.ResourceFlavor | None:
        """A ResourceFlavor, or None if it does not exist."""
        return self._all(objects.ResourceFlavor).get(("", name))

    def has_any(self, kind: type[_Kind]) -> bool:
        """Whether any object of a kind is known."""
        return bool(self._held.get(kind))

    def flavors(self) -> Sequence[objects.ResourceFlavor]:
        """All ResourceFlavors."""
        return tuple(self._all(objects.ResourceFlavor).values())

    def has_topologies(self) -> bool:
        """Whether Kueue places pods of any flavor: then nodes matter."""
        return any(flavor.topology for flavor in self.flavors())

    def levels(self, flavor: str) -> tuple[str, ...] | None:
        """Levels of the topology of a flavor, or None if it has none or they are unknown."""
        known = self.flavor(flavor)
        topology = self._all(objects.Topology).get(("", known.topology)) if known is not None else None
        return topology.levels if topology is not None and self.topologies_known else None

    def topologies(self) -> set[str] | None:
        """Names of the Topologies, or None if they are unknown."""
        return {name for _, name in self._all(objects.Topology)} if self.topologies_known else None

    def check(self, name: str) -> objects.AdmissionCheck | None:
        """An AdmissionCheck, or None if it does not exist or is unknown."""
        return self._all(objects.AdmissionCheck).get(("", name))

    def checks(self) -> Sequence[objects.AdmissionCheck]:
        """All known AdmissionChecks."""
        return tuple(self._all(objects.AdmissionCheck).values())

    def dispatcher(self, queue: objects.ClusterQueue) -> str:
        """The AdmissionCheck by which a queue dispatches its JobSets to other clusters (MultiKueue), or empty."""
        checks = ((use.name, self.check(use.name)) for use in queue.checks)
        return next((name for name, check in checks if check is not None and check.controller == MULTIKUEUE), "")

    def topology_aware(self, queue: objects.ClusterQueue) -> bool:
        """Whether Kueue places the pods of a queue: with MultiKueue the clusters do that on which they run."""
        return self.configuration.gate("TopologyAwareScheduling", default=True) and not self.dispatcher(queue)

    def priority(self, name: str) -> int | None:
        """Value of a WorkloadPriorityClass, or None if it does not exist or is unknown."""
        known = self._all(objects.PriorityClass).get(("", name))
        return known.value if known is not None else None

    def pod_priority(self, name: str) -> int | None:
        """Value of a PriorityClass, or of the default if the name is empty; None if unknown."""
        chosen = self.pod_class_name(name)
        if not chosen:
            return None if chosen is None else 0
        known = self._all(objects.PodPriorityClass).get(("", chosen))
        return known.value if known is not None else SYSTEM_CLASSES.get(chosen)

    def preemption_policy(self, name: str) -> str | None:
        """``preemptionPolicy`` of a PriorityClass, or of the default if the name is empty; None if unknown."""
        chosen = self.pod_class_name(name)
        known = self._all(objects.PodPriorityClass).get(("", chosen)) if chosen else None
        if known is not None:
            return known.preemption
        return objects.PREEMPTS if chosen == "" or chosen in SYSTEM_CLASSES else None

    def has_runtime_class(self, name: str) -> bool | None:
        """Whether a RuntimeClass exists; None if unknown."""
        return None if self._runtime_classes is None else name in self._runtime_classes

    def has_pod_class(self, name: str) -> bool | None:
        """Whether a PriorityClass exists; None if unknown."""
        exists = self.pod_priority(name) is not None
        return None if not exists and objects.PodPriorityClass in self.unread else exists

    def pod_class_name(self, name: str) -> str | None:
        """The PriorityClass of pods that name this one, or none; None if unknown."""
        if name:
            return name
        if objects.PodPriorityClass in self.unread:
            return None
        defaults = [known for known in self._all(objects.PodPriorityClass).values() if known.default]
        # Of several global defaults, the admission plugin Priority takes the one with the smallest value.
        return min(defaults, key=lambda known: known.value).name if defaults else ""

    def resource_quotas(self, namespace: str) -> Sequence[Object]:
        """The ResourceQuotas of a namespace, raw, as far as they are known."""
        return self._resource_quotas.get(namespace, ())

    def surroundings(self, namespace: str) -> Surroundings:
        """Objects that change the requests of pods in a namespace, including Kueue's configuration."""
        known = self.limits_known and (self.limits_of is None or namespace in self.limits_of)
        ranges = tuple(self._limit_ranges.get(namespace, {}).values()) if known else None
        return Surroundings(ranges, self._runtime_classes, self.configuration)


def _key(held: Held) -> tuple[str, str]:
    return getattr(held, "namespace", ""), held.name
