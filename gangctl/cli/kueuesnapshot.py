"""Input of fits and queues, from files or from a cluster: Kueue's objects, small and typed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, TypeVar

from gangctl.api.documents import Document
from gangctl.api.emit import to_yaml
from gangctl.api.meta import JOBSET_NAME
from gangctl.api.objects import Object, misshapen, object_at
from gangctl.cli.inputs import in_default_namespace, kind_of, note_skipped, read_documents
from gangctl.cli.messages import errors_in, full_name
from gangctl.client.resources import JOBSETS
from gangctl.controllers.queues.kinds import CONFIG_KEY, CONFIG_NAME
from gangctl.errors import InputError, shown
from gangctl.fit.clusterstate import Held, KnownNodes, Snapshot
from gangctl.fit.domains import HOSTNAME
from gangctl.fit.ends import Outlook
from gangctl.fit.nodes import NodeShape, read_node
from gangctl.gang.requests import as_integers, pod_requests
from gangctl.kueue.amounts import read_quantity
from gangctl.kueue.names import (
    API_VERSION,
    GROUP,
    SLICE_CONSTRAINTS,
    SLICE_TOPOLOGY,
    TOPOLOGY_PREFERRED,
    TOPOLOGY_REQUIRED,
    TOPOLOGY_UNCONSTRAINED,
)
from gangctl.kueue.objects import (
    PODS,
    Amounts,
    ClusterQueue,
    LocalQueue,
    PodPriorityClass,
    PriorityClass,
    QueuedWorkload,
    ResourceFlavor,
    Topology,
)
from gangctl.kueue.placements import with_placements
from gangctl.kueue.reading import (
    read_check,
    read_cluster_queue,
    read_cohort,
    read_expected,
    read_flavor,
    read_local_queue,
    read_pod_priority_class,
    read_priority_class,
    read_topology,
)
from gangctl.readiness.membership import FINISHED

_TOPOLOGY_NOTES: Final = frozenset(
    {TOPOLOGY_REQUIRED, TOPOLOGY_PREFERRED, TOPOLOGY_UNCONSTRAINED, SLICE_TOPOLOGY, SLICE_CONSTRAINTS}
)
"""By these annotations Kueue takes a pod for one that it placed (``pkg/util/tas``)."""


@dataclass(frozen=True, slots=True)
class PlacedPod:
    """Requests of a pod on its node; ``jobset`` is the name of its JobSet, or empty.

    ``in_topology`` is a pod that Kueue placed: its usage is also in its Workload.
    """

    namespace: str
    jobset: str
    node: str
    requests: Amounts
    in_topology: bool


def placed_pods(raw: Mapping[str, Any]) -> Iterator[PlacedPod]:
    """The pod, if it uses capacity of a node. Invalid requests count as 0."""
    metadata, spec, status = (object_at(raw, key) for key in ("metadata", "spec", "status"))
    node = spec.get("nodeName")
    if isinstance(node, str) and node and str(status.get("phase")) not in FINISHED:
        requests = as_integers(pod_requests(spec)[0])
        labels = object_at(metadata, "labels")
        yield PlacedPod(
            str(metadata.get("namespace") or ""),
            str(labels.get(JOBSET_NAME) or ""),
            node,
            requests,
            not _TOPOLOGY_NOTES.isdisjoint(object_at(metadata, "annotations")),
        )


def in_use(pods: Iterable[PlacedPod], without: Callable[[PlacedPod], bool]) -> dict[str, Amounts]:
    """Requests on each node, by its name, except some pods."""
    used: dict[str, Counter[str]] = {}
    for pod in pods:
        if not without(pod):
            used.setdefault(pod.node, Counter()).update({**pod.requests, PODS: 1})
    return dict(used)


_CONFIGURATION_GROUP: Final = "config.kueue.x-k8s.io"
_READERS: Final[Mapping[tuple[str, str], Callable[[Mapping[str, Any]], Held]]] = {
    (GROUP, "ClusterQueue"): read_cluster_queue,
    (GROUP, "Cohort"): read_cohort,
    (GROUP, "LocalQueue"): read_local_queue,
    (GROUP, "ResourceFlavor"): read_flavor,
    (GROUP, "Topology"): read_topology,
    (GROUP, "Workload"): with_placements,
    (GROUP, "AdmissionCheck"): read_check,
    (GROUP, "WorkloadPriorityClass"): read_priority_class,
    ("scheduling.k8s.io", "PriorityClass"): read_pod_priority_class,
}
"""By group and kind."""
_FIELDS: Final[Mapping[str, frozenset[str]]] = {
    "ClusterQueue": frozenset(
        {
            *("admissionChecksStrategy", "admissionScope", "cohortName", "concurrentAdmissionPolicy", "fairSharing"),
            *("flavorFungibility", "namespaceSelector", "preemption", "queueingStrategy", "resourceGroups"),
            "stopPolicy",
        }
    ),
    "Cohort": frozenset({"fairSharing", "parentName", "resourceGroups"}),
    "LocalQueue": frozenset({"clusterQueue", "fairSharing", "stopPolicy"}),
    "ResourceFlavor": frozenset({"nodeLabels", "nodeTaints", "tolerations", "topologyName"}),
    "Topology": frozenset({"levels"}),
}
"""Fields of ``spec`` in v1beta2: a file was not checked by a schema, and the older ``cohort`` would be ignored."""
_MOST_LEVELS: Final = 16
_QUOTAS: Final = ("nominalQuota", "borrowingLimit", "lendingLimit")
T = TypeVar("T")


def key_of(raw: Object) -> tuple[str, str, str]:
    """Kind, namespace and name; a name that is no string is empty."""
    metadata = object_at(raw, "metadata")
    namespace, name = metadata.get("namespace"), metadata.get("name")
    return (
        str(raw.get("kind", "")),
        namespace if isinstance(namespace, str) else "",
        name if isinstance(name, str) else "",
    )


@dataclass(slots=True)
class Stock:
    """All objects found. Finished Workloads are separate: they have no usage and do not wait."""

    held: list[Held] = field(default_factory=list)
    finished: list[QueuedWorkload] = field(default_factory=list)
    limit_ranges: list[Object] = field(default_factory=list)
    runtime_classes: list[Object] | None = None
    """None if unknown."""
    namespaces: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """Labels by name, of those that are known."""
    nodes: list[NodeShape] = field(default_factory=list)
    nodes_known: bool = False
    topologies_known: bool = False
    pods: list[PlacedPod] | None = None
    """Pods that are on nodes and have not ended; None if unknown."""
    expected: dict[tuple[str, str], float] = field(default_factory=dict)
    """Durations that JobSets declare, in seconds, by namespace and name."""
    configuration: str | None = None
    """The text of Kueue's configuration; None if unknown."""
    queue_limit: int | None = None
    queues: dict[tuple[str, str, str], Object] = field(default_factory=dict)
    """LocalQueues and ClusterQueues as they were read, by :func:`key_of`."""
    unknown: list[str] = field(default_factory=list)
    """Unknown facts that could change a ``never``."""
    priority_classes_known: bool = True
    partial: bool = False
    """Whether Workloads are of some namespaces only: usage of others is not counted."""

    def take(self, raw: Object) -> bool:
        """Store an object of a relevant kind; InputError if it has no name."""
        group, kind = kind_of(raw)
        if (group, kind) in _READERS:
            self._hold(_READERS[group, kind](raw), raw)
        elif group == _CONFIGURATION_GROUP and kind == "Configuration":
            self.configuration = to_yaml([raw])
        elif (group, kind) == ("", "ConfigMap") and key_of(raw)[2] == CONFIG_NAME:
            data = raw.get("data")
            text = data.get(CONFIG_KEY) if isinstance(data, dict) else None
            self.configuration = text if isinstance(text, str) else ""
        elif not key_of(raw)[2]:
            raise InputError(f"a {kind or 'n object without kind and'} without metadata.name")
        else:
            return self._take_other(group, kind, raw)
        return True

    def _take_other(self, group: str, kind: str, raw: Object) -> bool:
        if (group, kind) == ("", "LimitRange"):
            self.limit_ranges.append(raw)
        elif (group, kind) == ("node.k8s.io", "RuntimeClass"):
            self.runtime_classes = [*(self.runtime_classes or ()), raw]
        elif (group, kind) == ("", "Namespace"):
            labels = object_at(raw, "metadata").get("labels")
            texts = labels.items() if isinstance(labels, dict) else ()
            self.namespaces[key_of(raw)[2]] = {str(key): str(value) for key, value in texts}
        elif (group, kind) == (JOBSETS.group, JOBSETS.kind):
            expected = read_expected(raw)
            if expected is not None:
                self.expected[key_of(raw)[1:]] = expected
        elif (group, kind) == ("", "Node"):
            self.nodes.append(read_node(raw))
            self.nodes_known = True
        elif (group, kind) == ("", "Pod"):
            self.pods = self.pods or []
            self.pods += placed_pods(raw)
        else:
            return False
        return True

    def _hold(self, each: Held, raw: Object) -> None:
        if not isinstance(each, QueuedWorkload):
            self.held.append(each)
            if isinstance(each, LocalQueue | ClusterQueue):
                self.queues[key_of(raw)] = raw
        elif each.holds("Finished"):
            self.finished.append(each)
        else:
            # Objects in files may have no UIDs, and two Workloads must stay distinct.
            self.held.append(each if each.uid else replace(each, uid=f"{each.namespace}/{each.name}"))

    def of(self, kind: type[T]) -> Iterator[T]:
        """All of one kind."""
        return (each for each in self.held if isinstance(each, kind))

    def cluster_queues(self) -> dict[str, ClusterQueue]:
        """ClusterQueues by name, in order."""
        return {each.name: each for each in sorted(self.of(ClusterQueue), key=lambda queue: queue.name)}

    def local_queues(self, namespace: str | None = None) -> list[LocalQueue]:
        """LocalQueues of one namespace or of all, in order."""
        found = (each for each in self.of(LocalQueue) if namespace in {None, each.namespace})
        return sorted(found, key=lambda queue: (queue.namespace, queue.name))

    def priority_classes(self) -> frozenset[str] | None:
        """Names of the WorkloadPriorityClasses, None if unknown."""
        return frozenset(each.name for each in self.of(PriorityClass)) if self.priority_classes_known else None

    def workloads(self) -> list[QueuedWorkload]:
        """Kueue's Workloads that have not finished."""
        return list(self.of(QueuedWorkload))

    def has_topologies(self) -> bool:
        """Whether Kueue places pods of any flavor: then nodes matter."""
        return any(flavor.topology for flavor in self.of(ResourceFlavor))

    def _known_nodes(self, without: Callable[[PlacedPod], bool]) -> KnownNodes | None:
        if not self.nodes_known or not self.has_topologies():
            return None
        pods = self.pods
        used = None if pods is None else in_use((pod for pod in pods if not pod.in_topology), without)
        return KnownNodes(self.nodes, used)

    def outlook(self, now: datetime) -> Outlook:
        """What an estimate of a start is made from, besides the quotas."""
        pending = [each for each in self.workloads() if not each.holds("QuotaReserved")]
        return Outlook(now, pending, self.expected)

    def snapshot(
        self,
        without: Callable[[QueuedWorkload], bool] = lambda _: False,
        without_pods: Callable[[PlacedPod], bool] = lambda _: False,
    ) -> Snapshot:
        """The snapshot for fits; ``without`` and ``without_pods`` select Workloads and pods that are ignored."""
        return Snapshot(
            (each for each in self.held if not (isinstance(each, QueuedWorkload) and without(each))),
            limit_ranges=self.limit_ranges,
            runtime_classes=self.runtime_classes,
            configuration=self.configuration,
            queued=any(not isinstance(each, PodPriorityClass) for each in self.held),
            queue_limit=self.queue_limit,
            topologies_known=self.topologies_known,
            nodes=self._known_nodes(without_pods),
            # A cluster's lists have any order.
            unknown=lambda: tuple(sorted(self.unknown)),
        )


def read_stock(filenames: Sequence[str]) -> Stock:
    """The objects of files, as with :func:`stock_of`."""
    return stock_of(read_documents(filenames))


def stock_of(documents: Iterable[Document]) -> Stock:
    """The objects of documents; other kinds are skipped with a note; InvalidInputError with all errors."""
    stock = Stock()
    lines: list[str] = []
    others: list[Document] = []
    seen: dict[tuple[str, str, str], Document] = {}
    for document in documents:
        raw = in_default_namespace(document.value)
        problems = list(_problems(document, raw))
        if not problems:
            try:
                kept = stock.take(raw)
            except InputError as error:
                problems.append(f"{document.where()}: {error}")
            else:
                if not kept:
                    others.append(document)
                elif (earlier := seen.setdefault(key_of(raw), document)) is not document and key_of(raw)[2]:
                    kind, namespace, name = key_of(raw)
                    title = f"{kind} {full_name(namespace, name)}"
                    problems.append(f"{document.where()}: {title} is there already, at {earlier.where()}")
        lines += problems
    if lines:
        raise errors_in("the queues' files", lines)
    note_skipped(others)
    return _evaluate_completeness(stock)


def _evaluate_completeness(stock: Stock) -> Stock:
    """Files are complete, except kinds that they do not contain at all."""
    if any(queue.groups for queue in stock.of(ClusterQueue)) and not any(True for _ in stock.of(ResourceFlavor)):
        stock.unknown.append("ResourceFlavors (the files have none)")
    stock.topologies_known = any(True for _ in stock.of(Topology))
    return stock


def _problems(document: Document, raw: Object) -> Iterator[str]:
    """Errors that the API server would reject, if they would make a result wrong."""
    if path := misshapen(raw):
        yield f"{document.where(path)}: {path}: has the wrong type"
        return
    group, kind = kind_of(raw)
    if group != GROUP or (group, kind) not in _READERS:
        return
    if raw.get("apiVersion") != API_VERSION:
        yield f"{document.where('apiVersion')}: apiVersion: is {raw.get('apiVersion')}, known: {API_VERSION}"
        return
    spec = raw.get("spec")
    known = _FIELDS.get(kind)
    for name in (spec or {}) if known else ():
        if name not in (known or ()):
            yield f"{document.where(f'spec.{name}')}: spec.{name}: {kind} of {API_VERSION} has no such field"
    yield from _quota_problems(document, spec or {})
    if kind == "ResourceFlavor":
        labels = (spec or {}).get("nodeLabels")
        for name, value in labels.items() if isinstance(labels, dict) else ():
            if not isinstance(value, str):
                path = f"spec.nodeLabels.{name}"
                yield f"{document.where(path)}: {path}: {shown(value)} is not a string; put it in quotes"
    if kind == "Topology":
        yield from _level_problems(document, spec or {})


def _level_problems(document: Document, spec: Object) -> Iterator[str]:
    """Levels that the API server rejects."""
    levels = spec.get("levels")
    if not isinstance(levels, list) or not 1 <= len(levels) <= _MOST_LEVELS:
        where = document.where("spec.levels")
        yield f"{where}: spec.levels: needs 1 to {_MOST_LEVELS} objects with nodeLabel, the widest level first"
        return
    seen: set[str] = set()
    for number, level in enumerate(levels):
        path = f"spec.levels[{number}]"
        label = level.get("nodeLabel") if isinstance(level, dict) else None
        if not isinstance(label, str) or not label:
            yield f"{document.where(path)}: {path}: needs nodeLabel, the key of a node label"
        elif label in seen:
            yield f"{document.where(path)}: {path}.nodeLabel: {shown(label)} is a level already; name each once"
        elif label == HOSTNAME and number < len(levels) - 1:
            yield f"{document.where(path)}: {path}.nodeLabel: {HOSTNAME} can only be the last level"
        else:
            seen.add(label)


def _quota_problems(document: Document, spec: Object) -> Iterator[str]:
    for path, entry in _entries(spec.get("resourceGroups"), "spec.resourceGroups"):
        for flavor_path, flavor in _entries(entry.get("flavors"), f"{path}.flavors"):
            for resource_path, resource in _entries(flavor.get("resources"), f"{flavor_path}.resources"):
                for name in _QUOTAS:
                    value = resource.get(name)
                    if value is not None and read_quantity(value) is None:
                        where = document.where(f"{resource_path}.{name}")
                        yield f"{where}: {resource_path}.{name}: {shown(value)} is not a quantity"


def _entries(value: object, path: str) -> Iterator[tuple[str, Object]]:
    entries: Iterable[object] = value if isinstance(value, list) else ()
    return ((f"{path}[{index}]", each) for index, each in enumerate(entries) if isinstance(each, dict))
