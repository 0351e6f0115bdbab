"""What a listing or files have for fits and queues: Kueue's objects, and nodes with the pods that are placed there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from gangctl.api.emit import to_yaml
from gangctl.api.labelselector import NAMESPACE_NAME
from gangctl.api.meta import DEFAULT_TOLERATIONS, JOBSET_NAME, NODE_SELECTORS, REPLICATED_JOB_NAME
from gangctl.api.objects import Key, Object, integer_at, kind_of, object_at, text_at
from gangctl.api.pods import HOSTNAME, is_finished
from gangctl.api.store import Entry
from gangctl.client.resources import JOBSETS
from gangctl.cluster import kinds
from gangctl.cluster.queues import Queues
from gangctl.errors import InputError
from gangctl.fit.admitted import differ
from gangctl.fit.clusterstate import FEWER, ClusterSnapshot, KnownNodes, Outlook
from gangctl.fit.devices import Device, Devices, allocated, reserved_for
from gangctl.fit.floor import NodeShape, read_node
from gangctl.fit.placedpods import PlacedPod, in_use, nominated_pods, placed_pods
from gangctl.fit.quotas import has_reservation
from gangctl.fit.tree import Pair, quotas_of
from gangctl.kueue.amounts import age
from gangctl.kueue.configuration import CONFIG_KEY, CONFIGURATION_GROUP
from gangctl.kueue.names import API_VERSION, GROUP, VERSION
from gangctl.kueue.objects import ClusterQueue, LocalQueue, PodPriorityClass, QueuedWorkload, Topology
from gangctl.kueue.reading import read_expected, read_reservations


def key_of(raw: Object) -> tuple[str, str, str]:
    """Kind, namespace and name; a name that is no string is empty."""
    metadata = object_at(raw, "metadata")
    namespace, name = metadata.get("namespace"), metadata.get("name")
    return (
        str(raw.get("kind", "")),
        namespace if isinstance(namespace, str) else "",
        name if isinstance(name, str) else "",
    )


_ADMISSION: Final = (*NODE_SELECTORS, DEFAULT_TOLERATIONS)
_LAG: Final = timedelta(seconds=5)
"""Kueue collects changes for a second before it writes the status of a ClusterQueue (UpdatesBatchPeriod)."""


def _is_new(workload: QueuedWorkload, now: datetime) -> bool:
    """Whether the status of a ClusterQueue may not count a Workload with quota yet."""
    since = age(workload.condition("QuotaReserved").since, now)
    return since is not None and since < _LAG


class Stock(Queues):
    """All objects that were read, once."""

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        """Start empty."""
        super().__init__(now)
        self.nodes: list[NodeShape] = []
        self.nodes_known = False
        self.pods: list[PlacedPod] | None = None
        """Pods that are on nodes and have not ended; None if unknown."""
        self.nominated: list[PlacedPod] = []
        """Pods that are on no node yet, each on the one that kube-scheduler has nominated it for."""
        self.expected: dict[tuple[str, str], float] = {}
        """Durations that JobSets declare, in seconds, by namespace and name."""
        self.raw: dict[tuple[str, str, str], Object] = {}
        """LocalQueues and ClusterQueues as they were read, by :func:`key_of`."""
        self.topologies_known = False
        self._known_nodes: dict[tuple[int, int], KnownNodes] = {}
        """With all pods, by how many nodes and pods there are: one for many JobSets."""
        self.unread_quotas: dict[str, str] = {}
        """Namespaces whose ResourceQuotas could not be read, with the reason in a few words."""
        self.runtime_classes: list[Object] | None = None
        """None if unknown."""
        self.admitted: dict[Key, dict[str, Object]] = {}
        """A pod of each replicated job, without its status, by namespace and name of the JobSet."""
        self.varied: set[Key] = set()
        """JobSets of which pods of one replicated job that wait for a node are not alike."""
        self.slices: list[Object] | None = None
        """ResourceSlices; None if unknown."""
        self.device_classes: dict[str, Object] = {}
        self.classes_unread = True
        """Whether there may be other DeviceClasses, which were not or could not be read."""
        self.resource_claims: list[Object] | None = None
        """None if unknown."""
        self._claim_templates: dict[tuple[str, str], Object] = {}
        self.tainted = False
        """Whether there are DeviceTaintRules, or may be."""
        self._claiming = False
        """Whether a pod on a node has ResourceClaims."""
        self.admission_annotations: dict[str, dict[str, str]] = {}
        """By namespace, those by which admission changes pods."""
        self._volumes: dict[str, Object] = {}
        self._claims: dict[tuple[str, str], str] = {}

    def take_raw(self, raw: Object) -> bool:
        """Store an object of a relevant kind; InputError if it has no name, or is of another version of Kueue's API."""
        group, kind = kind_of(raw)
        if kinds.is_skipped(raw):
            return False
        if (group, kind) in kinds.READERS:
            if group == GROUP and (written := raw.get("apiVersion")) != API_VERSION:
                command = f"kubectl get {kind.lower()}.{VERSION}.{GROUP} -o yaml"
                detail = f"apiVersion: is {written}, known: {API_VERSION}; a cluster that has the object converts it"
                raise InputError(f"{detail}: {command}")
            held = kinds.READERS[group, kind](raw)
            if isinstance(held, LocalQueue | ClusterQueue):
                self.raw[key_of(raw)] = raw
            # A cluster without Kueue has PriorityClasses, too.
            if not isinstance(held, PodPriorityClass):
                self.note_presence(True, self.podset_limit)
            self.take(held)
        elif group == CONFIGURATION_GROUP and kind == "Configuration":
            self.snapshot.take_configuration(to_yaml([raw]))
        # In any namespace: files do not say in which one Kueue runs.
        elif (group, kind) == ("", "ConfigMap") and key_of(raw)[2] == kinds.CONFIG_NAME:
            text = object_at(raw, "data").get(CONFIG_KEY)
            self.snapshot.take_configuration(text if isinstance(text, str) else "")
        elif not key_of(raw)[2]:
            raise InputError(f"a {kind or 'n object without kind and'} without metadata.name")
        elif group == kinds.DEVICE_CLASSES.group:
            return self._take_device(kind, raw)
        else:
            return self._take_other(group, kind, raw)
        return True

    def _take_other(self, group: str, kind: str, raw: Object) -> bool:
        limiting = {"LimitRange": self.snapshot.take_limit_range, "ResourceQuota": self.snapshot.take_resource_quota}
        if not group and kind in limiting:
            limiting[kind](raw)
        elif (group, kind) == ("node.k8s.io", "RuntimeClass"):
            self.take_runtime_classes([*(self.runtime_classes or ()), raw])
        elif (group, kind) == ("", "Namespace"):
            labels, notes = (object_at(object_at(raw, "metadata"), part) for part in ("labels", "annotations"))
            name = key_of(raw)[2]
            self.admission_annotations[name] = {key: text_at(notes, key) for key in _ADMISSION if key in notes}
            # A manifest lacks the label that the API server gives every namespace.
            known = {NAMESPACE_NAME: name} | {str(key): str(value) for key, value in labels.items()}
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
            placed = list(placed_pods(raw))
            self.pods += placed
            self.nominated += nominated_pods(raw)
            self._claiming |= bool(placed and object_at(raw, "spec").get("resourceClaims"))
            self._take_template(raw)
        elif (group, kind) == ("", "PersistentVolume"):
            self._volumes[key_of(raw)[2]] = raw
        elif (group, kind) == ("", "PersistentVolumeClaim"):
            # No new pod may use a claim that is being deleted, or whose volume is gone (podHasPVCs of VolumeBinding).
            lost = (
                object_at(raw, "metadata").get("deletionTimestamp") or object_at(raw, "status").get("phase") == "Lost"
            )
            self._claims[key_of(raw)[1:]] = "" if lost else text_at(object_at(raw, "spec"), "volumeName")
        else:
            return False
        return True

    def _take_device(self, kind: str, raw: Object) -> bool:
        _, namespace, name = key_of(raw)
        if kind == kinds.TAINT_RULES.kind:
            # Any version: only whether there are some counts.
            self.tainted = True
        elif raw.get("apiVersion") not in kinds.DEVICE_VERSIONS:
            return False
        elif kind == kinds.RESOURCE_SLICES.kind:
            self.slices = self.slices or []
            self.slices.append(raw)
        elif kind == kinds.DEVICE_CLASSES.kind:
            self.device_classes[name] = raw
        elif kind == kinds.RESOURCE_CLAIMS.kind:
            self.resource_claims = self.resource_claims or []
            self.resource_claims.append(raw)
        elif kind == kinds.CLAIM_TEMPLATES.kind:
            self._claim_templates[namespace, name] = raw
        else:
            return False
        return True

    def note_files_end(self) -> None:
        """Files are complete, except what the status of ClusterQueues proves, and classes of priority without any."""
        self.classes_unread = False
        queues = self.cluster_queues_by_name()
        if any(queue.groups for queue in queues.values()) and not self.snapshot.flavors():
            self.note_unread(kinds.RESOURCE_FLAVORS, "ResourceFlavors (the files have none)")
        self.short = {key_of(raw)[1:] for raw in self.raw.values() if self._counts_more(raw)}
        if short := [name for name in queues if self._unseen(name) > 0]:
            self.take_reservations(short)
        for name, queue in queues.items():
            waiting = [one for one in self.inside(name) if one.active and not one.holds("QuotaReserved")]
            # One that got quota before it was listed is among the others.
            if queue.pending > len(waiting) - self._unseen(name):
                self.heads_known = False
        self.snapshot.unseen = self.snapshot.heads_unseen = FEWER
        # Without its Workload in the files a pod is all that has its usage.
        self.pods = self.pods and [
            replace(pod, in_topology=False)
            if pod.in_topology and pod.workload and self.workloads.get(pod.namespace, pod.workload) is None
            else pod
            for pod in self.pods
        ]
        self.snapshot.overdrawn = frozenset(name for name in queues if self._is_overdrawn(name))
        for resource, kind in kinds.CLASSES.items():
            if not self.snapshot.has_any(kind):
                self.note_unread(resource, f"{resource.kind}es (the files have none)")

    def take_runtime_classes(self, classes: list[Object]) -> None:
        """Set all RuntimeClasses."""
        self.runtime_classes = classes
        self.snapshot.take_runtime_classes(classes)

    def _take_template(self, pod: Object) -> None:
        """Keep one pod of a replicated job, the first that has no node."""
        metadata, spec = object_at(pod, "metadata"), object_at(pod, "spec")
        name, entry = (text_at(object_at(metadata, "labels"), key) for key in (JOBSET_NAME, REPLICATED_JOB_NAME))
        if not name or metadata.get("deletionTimestamp") or is_finished(pod):
            return
        key = text_at(metadata, "namespace"), name
        kept = self.admitted.setdefault(key, {})
        first = kept.get(entry)
        if first is None or (object_at(first, "spec").get("nodeName") and not spec.get("nodeName")):
            kept[entry] = {"metadata": metadata, "spec": spec}
        elif not spec.get("nodeName") and differ(object_at(first, "spec"), spec):
            self.varied.add(key)

    def volume(self, namespace: str, claim: str) -> Object | None:
        """The volume to which a claim is bound; None if that is not known."""
        return self._volumes.get(self._claims.get((namespace, claim), ""))

    def topology_levels(self) -> frozenset[str]:
        """Node labels by which Kueue may choose nodes; that of the host name also where no Topology is known."""
        topologies: Iterable[Topology] = self.others[Topology].values()
        return frozenset({HOSTNAME, *(level for topology in topologies for level in topology.levels)})

    def claim_templates(self, namespace: str) -> dict[str, Object]:
        """The known ResourceClaimTemplates of a namespace, by name."""
        return {name: raw for (home, name), raw in self._claim_templates.items() if home == namespace}

    def devices(self, namespace: str, without: Callable[[PlacedPod], bool]) -> Devices:
        """Devices, and who has them besides some pods, for a JobSet in a namespace."""
        templates = self.claim_templates(namespace)
        taken: set[Device] | None = None
        # Without a pod on a node that has claims no device counts as taken, also if ResourceClaims could not be read.
        if self.resource_claims is not None or not self._claiming:
            own = {(pod.namespace, pod.name) for pod in self.pods or () if without(pod)}
            taken = set()
            for claim in self.resource_claims or ():
                users = {(key_of(claim)[1], name) for name in reserved_for(claim)}
                # A JobSet does not compete with itself. An allocated claim without users still has its devices.
                taken |= set() if users and users <= own else set(allocated(claim))
        return Devices(self.slices, self.device_classes, templates, taken, self.tainted, self.classes_unread)

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

    def status_of(self, kind: str, name: str, namespace: str = "") -> Object:
        """The status of a LocalQueue or ClusterQueue, as it was read."""
        return object_at(self.raw.get((kind, namespace, name), {}), "status")

    def _unseen(self, name: str) -> int:
        """How many more Workloads with quota the status of a ClusterQueue counts than are known."""
        known = sum(map(has_reservation, self.workloads.by_index("cluster_queue", name)))
        return integer_at(self.status_of("ClusterQueue", name), "reservingWorkloads") - known

    def _counts_more(self, raw: Object) -> bool:
        """Whether more Workloads wait in a LocalQueue, by its status, than are known."""
        kind, namespace, name = key_of(raw)
        inside = self.workloads.by_index("local_queue", (namespace, name)) if kind == "LocalQueue" else ()
        waiting = sum(one.active and not (one.holds("QuotaReserved") or one.holds("Finished")) for one in inside)
        return kind == "LocalQueue" and integer_at(self.status_of(kind, name, namespace), "pendingWorkloads") > waiting

    def _is_overdrawn(self, name: str) -> bool:
        """Whether a ClusterQueue holds more than all that is known of its cohort could ever give it."""
        node = self.snapshot.quotas.node(name)
        # Alone, or by its own borrowingLimit, it had more quota before.
        if node is None or node.parent is None or node.in_cycle():
            return False
        for pair, amount in read_reservations(self.raw.get(("ClusterQueue", "", name), {})).items():
            most, limited = node.potential(pair)
            if pair in node.quotas and limited is None and amount > most:
                return True
        return False

    def take_reservations(self, names: Collection[str] | None = None) -> None:
        """Take from ClusterQueues, once, what Workloads use that are not known: after all those that are.

        ``names`` are those that have such Workloads; None if any may.
        """
        quotas, now = self.snapshot.quotas, self.now()
        unmeasured = {
            workload.cluster_queue
            for workload in quotas.workloads()
            # Kueue counts by the admission, but when a Workload gets quota it writes the status of the ClusterQueue
            # to which its LocalQueue leads (NotifyWorkloadUpdate).
            if (names is None or workload.cluster_queue in names)
            and (
                _is_new(workload, now)
                or self.cluster_queue_of((workload.namespace, workload.queue)) != workload.cluster_queue
            )
        }
        partly: dict[str, Collection[Pair]] = {}
        for name, queue in self.cluster_queues_by_name().items():
            if names is not None and name not in names:
                continue
            raw = self.raw.get(("ClusterQueue", "", name), {})
            reserved = read_reservations(raw)
            # Kueue lists what a ClusterQueue has now (getUsage), and counts in the cohort also what it has no more, as
            # long as Workloads hold that. Of the first generation it has lost nothing.
            if self._unseen(name) > 0 and integer_at(object_at(raw, "metadata"), "generation") != 1:
                partly[name] = reserved.keys()
            if not quotas_of(queue.groups).keys() <= reserved.keys():
                unmeasured.add(name)
                continue
            # Kueue's sums have the Workloads that are counted already, too.
            others = {pair: amount - quotas.used(name, *pair) for pair, amount in reserved.items()}
            quotas.use(name, {pair: amount for pair, amount in others.items() if amount > 0}, 1)
            # Less than these hold is a status from before they got it: it lacks what others got since, too.
            if any(amount < 0 for amount in others.values()):
                unmeasured.add(name)
        self.snapshot.workloads_known, self.snapshot.unmeasured = False, frozenset(unmeasured)
        self.snapshot.partly_listed = partly
        self.heads_known = False

    def outlook(self, now: datetime) -> Outlook:
        """What an estimate of a start is made from, besides the quotas."""
        pending = [workload for workload in self.live_workloads() if not workload.holds("QuotaReserved")]
        return Outlook(now, pending, self.expected)

    def completed(
        self, snapshot: ClusterSnapshot, without: Callable[[PlacedPod], bool] | None = None
    ) -> ClusterSnapshot:
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
        # The usage of the others is in their Workloads, and would count twice.
        others = (pod for pod in self.pods if not pod.in_topology)
        if without is not None:
            return KnownNodes(self.nodes, in_use(others, without))
        count = len(self.nodes), len(self.pods)
        if count not in self._known_nodes:
            # Nodes and pods are only ever added: with equal counts they are the same.
            self._known_nodes = {count: KnownNodes(self.nodes, in_use(others))}
        return self._known_nodes[count]
