"""Input of a fit: the request, and the cluster's objects, filled from lists or one change at a time.

The CLI and the controller use the same, so that both give the same result. The cost of a change depends on the changed
object, not on the size of the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from gangctl.api.jobset import JobSet, read_jobset
from gangctl.api.objects import Object
from gangctl.fit.ends import Outlook
from gangctl.fit.floor import NodeShape
from gangctl.fit.quotas import Quotas
from gangctl.fit.requests import Surroundings
from gangctl.kueue.configuration import KueueConfiguration, read_configuration
from gangctl.kueue.objects import (
    AdmissionCheck,
    Amounts,
    ClusterQueue,
    Cohort,
    LocalQueue,
    PodPriorityClass,
    PriorityClass,
    QueuedWorkload,
    ResourceFlavor,
    Topology,
)
from gangctl.kueue.queues import Head


@dataclass(frozen=True, slots=True)
class FitRequest:
    """One JobSet, as raw JSON, that exists in a namespace or is about to be created there.

    ``namespace_labels`` is None if unknown. ``queue`` is the LocalQueue that its label names, or empty.
    ``new`` means that it is not created yet: only then Kueue may set the queue called ``default``. ``workload`` is
    Kueue's Workload of it, if there is one: then its priority is known, and since when it waits. ``fixed_nodes`` takes
    the nodes for all that there will ever be. With an ``outlook`` the report says when it starts. With a ``reader``
    it names no Workload outside of that namespace (:meth:`~gangctl.kueue.objects.QueuedWorkload.is_hidden_from`).
    ``head`` returns the head of its queue, if that is a StrictFIFO queue and Workloads may be read. ``parsed`` is the
    JobSet where it has been read already.
    """

    jobset: Mapping[str, Any]
    namespace: str
    namespace_labels: Mapping[str, str] | None
    queue: str
    new: bool = True
    workload: QueuedWorkload | None = None
    fixed_nodes: bool = False
    outlook: Outlook | None = None
    reader: str | None = None
    head: Callable[[ClusterQueue], Head | None] = lambda _: None
    parsed: JobSet | None = None

    def read(self) -> JobSet:
        """The JobSet."""
        return self.parsed or read_jobset(self.jobset)[0]


@dataclass(frozen=True, slots=True)
class KnownNodes:
    """Nodes, and the pods on them.

    ``used`` are requests by the node's name, without pods that Kueue placed in a topology; None if unknown.
    """

    shapes: Sequence[NodeShape]
    used: Mapping[str, Amounts] | None


Held = (
    ClusterQueue
    | Cohort
    | LocalQueue
    | ResourceFlavor
    | Topology
    | QueuedWorkload
    | AdmissionCheck
    | PriorityClass
    | PodPriorityClass
)
"""Objects that a snapshot stores unchanged."""


class Snapshot:
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
        self._local_queues: dict[tuple[str, str], LocalQueue] = {}
        self._flavors: dict[str, ResourceFlavor] = {}
        self._topologies: dict[str, Topology] = {}
        self._checks: dict[str, AdmissionCheck] = {}
        self._priorities: dict[str, int] = {}
        self._pod_priorities: dict[str, PodPriorityClass] = {}
        self._limit_ranges: dict[str, dict[str, Object]] = {}
        self._runtime_classes: dict[str, Object] | None = None
        self.configuration: KueueConfiguration = read_configuration(configuration)
        for each in held:
            self.take(each)
        self.limits_known = limit_ranges is not None
        for raw in limit_ranges or ():
            self.take_limit_range(raw)
        if runtime_classes is not None:
            self.take_runtime_classes(runtime_classes)

    def take(self, held: Held) -> None:
        """Add or update an object."""
        match held:
            case ClusterQueue():
                self.quotas.set_queue(held)
            case Cohort():
                self.quotas.set_cohort(held)
            case QueuedWorkload():
                self.quotas.set_usage(held)
            case LocalQueue():
                self._local_queues[held.namespace, held.name] = held
            case ResourceFlavor():
                self._flavors[held.name] = held
            case Topology():
                self._topologies[held.name] = held
            case AdmissionCheck():
                self._checks[held.name] = held
            case PriorityClass():
                self._priorities[held.name] = held.value
            case PodPriorityClass():
                self._pod_priorities[held.name] = held

    def drop(self, held: Held) -> None:
        """Remove an object, if it exists."""
        match held:
            case ClusterQueue():
                self.quotas.remove_queue(held.name)
            case Cohort():
                self.quotas.remove_cohort(held.name)
            case QueuedWorkload():
                self.quotas.remove_usage(held.uid)
            case LocalQueue():
                self._local_queues.pop((held.namespace, held.name), None)
            case ResourceFlavor():
                self._flavors.pop(held.name, None)
            case Topology():
                self._topologies.pop(held.name, None)
            case AdmissionCheck():
                self._checks.pop(held.name, None)
            case PriorityClass():
                self._priorities.pop(held.name, None)
            case PodPriorityClass():
                self._pod_priorities.pop(held.name, None)

    @contextmanager
    def without(self, workloads: Iterable[QueuedWorkload]) -> Iterator[None]:
        """Ignore the usage of these inside the block: a JobSet does not compete with itself."""
        own = list(workloads)
        for each in own:
            self.drop(each)
        try:
            yield
        finally:
            for each in own:
                self.take(each)

    def take_limit_range(self, raw: Object) -> None:
        """Add or update a LimitRange."""
        metadata = raw["metadata"]
        self._limit_ranges.setdefault(metadata.get("namespace") or "", {})[metadata["name"]] = raw

    def drop_limit_range(self, raw: Object) -> None:
        """Remove a LimitRange."""
        namespace = raw["metadata"].get("namespace") or ""
        there = self._limit_ranges.get(namespace, {})
        there.pop(raw["metadata"]["name"], None)
        if not there:
            self._limit_ranges.pop(namespace, None)

    def take_runtime_classes(self, raws: Iterable[Object] | None) -> None:
        """Set all RuntimeClasses; None if they are unknown."""
        self._runtime_classes = None if raws is None else {raw["metadata"]["name"]: raw for raw in raws}

    def take_configuration(self, text: str | None) -> None:
        """Set Kueue's configuration; None if it is unknown."""
        self.configuration = read_configuration(text)

    def local_queue(self, namespace: str, name: str) -> LocalQueue | None:
        """A LocalQueue, or None if it does not exist."""
        return self._local_queues.get((namespace, name))

    def flavor(self, name: str) -> ResourceFlavor | None:
        """A ResourceFlavor, or None if it does not exist."""
        return self._flavors.get(name)

    def flavors(self) -> Sequence[ResourceFlavor]:
        """All ResourceFlavors."""
        return tuple(self._flavors.values())

    def has_topologies(self) -> bool:
        """Whether Kueue places pods of any flavor: then nodes matter."""
        return any(flavor.topology for flavor in self._flavors.values())

    @property
    def topologies(self) -> Mapping[str, Topology] | None:
        """Topologies by name, or None if they are unknown."""
        return self._topologies if self.topologies_known else None

    def check(self, name: str) -> AdmissionCheck | None:
        """An AdmissionCheck, or None if it does not exist or is unknown."""
        return self._checks.get(name)

    def checks(self) -> Sequence[AdmissionCheck]:
        """All known AdmissionChecks."""
        return tuple(self._checks.values())

    def priority(self, name: str) -> int | None:
        """Value of a WorkloadPriorityClass, or None if it does not exist or is unknown."""
        return self._priorities.get(name)

    def pod_priority(self, name: str) -> int | None:
        """Value of a PriorityClass, or of the default if the name is empty; None if unknown."""
        if name:
            found = self._pod_priorities.get(name)
            return found.value if found is not None else None
        return min((each.value for each in self._pod_priorities.values() if each.default), default=0)

    def surroundings(self, namespace: str) -> Surroundings:
        """Objects that change the requests of pods in a namespace, including Kueue's configuration."""
        ranges = tuple(self._limit_ranges.get(namespace, {}).values()) if self.limits_known else None
        return Surroundings(ranges, self._runtime_classes, self.configuration)
