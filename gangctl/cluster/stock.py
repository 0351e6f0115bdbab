"""What a listing or files have for fits and queues: Kueue's objects, and nodes with the pods that are placed there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from gangctl.api.emit import to_yaml
from gangctl.api.meta import JOBSET_NAME
from gangctl.api.objects import Key, Object, kind_of, object_at
from gangctl.api.store import Entry
from gangctl.client.resources import JOBSETS
from gangctl.cluster import kinds
from gangctl.cluster.queues import Queues
from gangctl.errors import InputError
from gangctl.fit.clusterstate import KnownNodes, Outlook, Snapshot
from gangctl.fit.floor import NodeShape, read_node
from gangctl.gang.requests import as_integers, pod_requests
from gangctl.kueue.blocked import NAMESPACE_NAME
from gangctl.kueue.names import API_VERSION, GROUP, VERSION
from gangctl.kueue.objects import PODS, Amounts, ClusterQueue, LocalQueue, PodPriorityClass, QueuedWorkload
from gangctl.kueue.reading import read_expected
from gangctl.kueue.topology import REQUESTS
from gangctl.readiness.membership import FINISHED

CONFIGURATION_GROUP: Final = "config.kueue.x-k8s.io"


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
            not REQUESTS.isdisjoint(object_at(metadata, "annotations")),
        )


def in_use(pods: Iterable[PlacedPod], without: Callable[[PlacedPod], bool]) -> dict[str, Amounts]:
    """Requests on each node, by its name, except some pods."""
    used: dict[str, Counter[str]] = {}
    for pod in pods:
        if not without(pod):
            used.setdefault(pod.node, Counter()).update({**pod.requests, PODS: 1})
    return dict(used)


def key_of(raw: Object) -> tuple[str, str, str]:
    """Kind, namespace and name; a name that is no string is empty."""
    metadata = object_at(raw, "metadata")
    namespace, name = metadata.get("namespace"), metadata.get("name")
    return (
        str(raw.get("kind", "")),
        namespace if isinstance(namespace, str) else "",
        name if isinstance(name, str) else "",
    )


def _waiting_member(raw: Object) -> Key | None:
    """The JobSet of a pod that waits for a node; None for others, and for one whose scheduling gates hold it."""
    metadata, spec, status = (object_at(raw, key) for key in ("metadata", "spec", "status"))
    jobset = object_at(metadata, "labels").get(JOBSET_NAME)
    over = metadata.get("deletionTimestamp") or str(status.get("phase")) in FINISHED
    if not jobset or over or spec.get("nodeName") or spec.get("schedulingGates"):
        return None
    return str(metadata.get("namespace") or ""), str(jobset)


class Stock(Queues):
    """All objects that were read, once."""

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        """Start empty."""
        super().__init__(now)
        self.nodes: list[NodeShape] = []
        self.nodes_known = False
        self.pods: list[PlacedPod] | None = None
        """Pods that are on nodes and have not ended; None if unknown."""
        self.unplaced: dict[Key, list[Object]] = {}
        """Pods of JobSets that wait for a node, by namespace and name of the JobSet."""
        self.expected: dict[tuple[str, str], float] = {}
        """Durations that JobSets declare, in seconds, by namespace and name."""
        self.raw: dict[tuple[str, str, str], Object] = {}
        """LocalQueues and ClusterQueues as they were read, by :func:`key_of`."""
        self.topologies_known = False
        self._known_nodes: dict[tuple[int, int], KnownNodes] = {}
        """With all pods, by how many nodes and pods there are: one for many JobSets."""
        self.partial = False
        """Whether Workloads are of some namespaces only: usage of others is not counted."""
        self.runtime_classes: list[Object] | None = None
        """None if unknown."""

    def take_raw(self, raw: Object) -> bool:
        """Store an object of a relevant kind; InputError if it has no name, or is of another version of Kueue's API."""
        group, kind = kind_of(raw)
        if (group, kind) in kinds.READERS:
            if group == GROUP and (written := raw.get("apiVersion")) != API_VERSION:
                command = f"kubectl get {kind.lower()}.{VERSION}.{GROUP} -o yaml"
                detail = f"apiVersion: is {written}, known: {API_VERSION}; a cluster that has the object converts it"
                raise InputError(f"{detail}: {command}")
            held = kinds.READERS[group, kind](raw)
            if isinstance(held, LocalQueue | ClusterQueue):
                self.raw[key_of(raw)] = raw
            if not isinstance(held, PodPriorityClass):
                self.note_presence(True, self.podset_limit)
            self.take(held)
        elif group == CONFIGURATION_GROUP and kind == "Configuration":
            self.snapshot.take_configuration(to_yaml([raw]))
        elif (group, kind) == ("", "ConfigMap") and key_of(raw)[2] == kinds.CONFIG_NAME:
            text = object_at(raw, "data").get(kinds.CONFIG_KEY)
            self.snapshot.take_configuration(text if isinstance(text, str) else "")
        elif not key_of(raw)[2]:
            raise InputError(f"a {kind or 'n object without kind and'} without metadata.name")
        else:
            return self._take_other(group, kind, raw)
        return True

    def _take_other(self, group: str, kind: str, raw: Object) -> bool:
        if (group, kind) == ("", "LimitRange"):
            self.snapshot.take_limit_range(raw)
        elif (group, kind) == ("node.k8s.io", "RuntimeClass"):
            self.take_runtime_classes([*(self.runtime_classes or ()), raw])
        elif (group, kind) == ("", "Namespace"):
            labels = object_at(raw, "metadata").get("labels")
            texts = labels.items() if isinstance(labels, dict) else ()
            name = key_of(raw)[2]
            known = {NAMESPACE_NAME: name} | {str(key): str(value) for key, value in texts}
            self.namespaces.put(("", name), Entry("", "", known))
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
            if owner := _waiting_member(raw):
                self.unplaced.setdefault(owner, []).append(raw)
        else:
            return False
        return True

    def note_files_end(self) -> None:
        """Files are complete, except kinds that they do not contain at all."""
        for resource, kind in kinds.CLASSES.items():
            if not self.snapshot.has_any(kind):
                self.note_unread(resource, f"{resource.kind}es (the files have none)")

    def take_runtime_classes(self, classes: list[Object]) -> None:
        """Set all RuntimeClasses."""
        self.runtime_classes = classes
        self.snapshot.take_runtime_classes(classes)

    def live_workloads(self) -> list[QueuedWorkload]:
        """Kueue's Workloads that have not finished."""
        return [workload for workload in self.workloads.values() if not workload.holds("Finished")]

    def cluster_queues_by_name(self) -> Mapping[str, ClusterQueue]:
        """ClusterQueues by name, in order."""
        queues = sorted(self.cluster_queues.values(), key=lambda queue: queue.name)
        return {queue.name: queue for queue in queues}

    def local_queues_in(self, namespace: str | None = None) -> list[LocalQueue]:
        """LocalQueues of one namespace or of all, in order."""
        queues = (queue for queue in self.local_queues.values() if namespace in {None, queue.namespace})
        return sorted(queues, key=lambda queue: (queue.namespace, queue.name))

    def outlook(self, now: datetime) -> Outlook:
        """What an estimate of a start is made from, besides the quotas."""
        pending = [workload for workload in self.live_workloads() if not workload.holds("QuotaReserved")]
        return Outlook(now, pending, self.expected)

    def completed(self, snapshot: Snapshot, without: Callable[[PlacedPod], bool] | None = None) -> Snapshot:
        """The snapshot with the facts that no change of an object carries, and the nodes with all pods but some."""
        super().completed(snapshot)
        snapshot.topologies_known = self.topologies_known
        snapshot.nodes = None
        # Nodes matter where Kueue places pods of any flavor.
        if self.nodes_known and snapshot.has_topologies():
            snapshot.nodes = self._nodes_without(without)
        return snapshot

    def _nodes_without(self, without: Callable[[PlacedPod], bool] | None) -> KnownNodes:
        if self.pods is None:
            return KnownNodes(self.nodes, None)
        others = (pod for pod in self.pods if not pod.in_topology)
        if without is not None:
            return KnownNodes(self.nodes, in_use(others, without))
        count = len(self.nodes), len(self.pods)
        if count not in self._known_nodes:
            self._known_nodes = {count: KnownNodes(self.nodes, in_use(others, lambda _: False))}
        return self._known_nodes[count]
