"""Kueue as this process knows it: the answers to webhooks, policies and controllers, all from memory.

The index of quotas follows the informers one change at a time, and each change returns the LocalQueues that it
concerns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from gangctl.api.jobset import read_jobset
from gangctl.api.objects import Object
from gangctl.controllers.queues.heads import Heads
from gangctl.controllers.queues.sources import QueueSources
from gangctl.errors import FieldError
from gangctl.fit.clusterstate import FitRequest, Snapshot
from gangctl.fit.report import FitReport
from gangctl.fit.verdict import fit
from gangctl.gang.reasons import Reason
from gangctl.kueue.configuration import KueueConfiguration
from gangctl.kueue.consistency import KueueFacts
from gangctl.kueue.objects import AdmissionCheck, ClusterQueue, Cohort, LocalQueue, QueuedWorkload, ResourceFlavor
from gangctl.kueue.queues import Head, current, pods_ready_seconds
from gangctl.policy.variables import unknown_fit

LocalQueueKey = tuple[str, str]
"""Namespace and LocalQueue, there or not."""

_NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
"""The API server puts this label on every namespace."""


@dataclass(frozen=True, slots=True)
class Affected:
    """The JobSets whose verdicts a change may alter: all, those of a namespace, those in some LocalQueues, or a few."""

    every_jobset: bool = False
    jobsets: frozenset[tuple[str, str]] = frozenset()
    """Namespace and name of each."""
    namespaces: frozenset[str] = frozenset()
    local_queues: frozenset[LocalQueueKey] = frozenset()
    cluster_queues: frozenset[str] = frozenset()

    def concerns(self, queue_key: LocalQueueKey, cluster_queue: str) -> bool:
        """Whether JobSets in a LocalQueue, which points to this ClusterQueue, are among them."""
        return (
            self.every_jobset
            or queue_key[0] in self.namespaces
            or queue_key in self.local_queues
            or (cluster_queue != "" and cluster_queue in self.cluster_queues)
        )

    def __or__(self, other: Affected) -> Affected:
        return Affected(
            self.every_jobset or other.every_jobset,
            self.jobsets | other.jobsets,
            self.namespaces | other.namespaces,
            self.local_queues | other.local_queues,
            self.cluster_queues | other.cluster_queues,
        )


ALL: Final = Affected(every_jobset=True)


class QueueView:
    """What is known of queues now; it is also the webhooks' :class:`~gangctl.webhooks.gangs.QueueView`."""

    def __init__(self, sources: QueueSources, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        """Follow ``sources`` from now on."""
        self._sources = sources
        self.heads = Heads(self, now)
        self._listeners: list[Callable[[Affected], None]] = []
        self.snapshot = Snapshot(queued=False, unknown=sources.unknown)
        self._unused = Snapshot(queued=False, unknown=sources.unknown)
        """The same without Workloads: what never fits does not fit an unused quota either."""
        sources.cluster_queues.informer.subscribe(self._on_cluster_queue)
        sources.cohorts.informer.subscribe(self._on_cohort)
        sources.local_queues.informer.subscribe(self._on_local_queue)
        sources.flavors.informer.subscribe(self._on_flavor)
        sources.workloads.informer.subscribe(self._on_workload)
        sources.checks.informer.subscribe(self._on_check)
        sources.priorities.informer.subscribe(self._keep)
        sources.limit_ranges.informer.subscribe(self._on_limit_range)
        sources.namespaces.informer.subscribe(self._on_namespace)
        sources.runtime_classes.informer.subscribe(lambda _old, _new: self._notify(ALL))
        sources.configuration.informer.subscribe(self._on_configuration)
        sources.on_known(lambda: self._notify(ALL))

    def subscribe(self, on_change: Callable[[Affected], None]) -> None:
        """Call ``on_change`` with the affected JobSets of each change, after the change is visible here."""
        self._listeners.append(on_change)

    @property
    def present(self) -> bool:
        """Whether the cluster has Kueue, as far as is known."""
        return bool(self._sources.present)

    @property
    def known(self) -> bool | None:
        """The same, None while it is not known."""
        return self._sources.present

    @property
    def facts(self) -> KueueFacts:
        """What is known of its version and configuration."""
        return KueueFacts(self.podset_limit, pods_ready_seconds(self.configuration, self.podset_limit))

    @property
    def configuration(self) -> KueueConfiguration:
        """Its configuration."""
        return self.snapshot.configuration

    @property
    def podset_limit(self) -> int | None:
        """Podsets that a Workload may have; None if unknown."""
        return self._sources.presence.podset_limit

    @property
    def queues_known(self) -> bool:
        """Whether LocalQueues and ClusterQueues are known."""
        return bool(self.known) and not self._missing()

    def has_priority_class(self, name: str) -> bool | None:
        """Whether a WorkloadPriorityClass of this name exists; None if unknown."""
        return self.snapshot.priority(name) is not None if self._sources.priorities.known else None

    def workloads_of(self, uid: str) -> list[QueuedWorkload]:
        """Kueue's Workloads that a JobSet of this UID controls: never by name, which others may have."""
        return self._sources.workloads.store.by_index("owner", uid)

    def local_queue(self, namespace: str, name: str) -> LocalQueue | None:
        """A LocalQueue; None if there is none."""
        return self.snapshot.local_queue(namespace, name)

    def cluster_queue(self, name: str) -> ClusterQueue | None:
        """A ClusterQueue; None if there is none."""
        return self.snapshot.quotas.queue(name)

    def cluster_queue_of(self, queue_key: LocalQueueKey) -> str:
        """The ClusterQueue that a LocalQueue points to, empty where there is no such LocalQueue."""
        local_queue = self.local_queue(*queue_key)
        return local_queue.cluster_queue if local_queue is not None else ""

    def labels(self, namespace: str) -> Mapping[str, str] | None:
        """Labels of a namespace, None where they are not known."""
        return self._sources.namespaces.store.get("", namespace)

    def inside(self, cluster_queue: str) -> list[QueuedWorkload]:
        """Kueue's Workloads of every LocalQueue that points to a ClusterQueue."""
        local_queues = (
            local_queue
            for local_queue in self._sources.local_queues.store.values()
            if local_queue.cluster_queue == cluster_queue
        )
        store = self._sources.workloads.store
        return [
            each
            for local_queue in local_queues
            for each in store.by_index("local_queue", (local_queue.namespace, local_queue.name))
        ]

    def fit(self, raw: Object, namespace: str, *, new: bool = True) -> FitReport:
        """Whether a JobSet (of this namespace, where it names none) can be admitted, ever and now; never raises.

        The quota that an existing JobSet itself holds does not count against it.
        """
        own = () if new else self.workloads_of(read_jobset(raw)[0].uid)
        with self.snapshot.without(own):
            return self._fit(self.snapshot, raw, namespace, new=new, workload=current(own), head=self.heads.of)

    def ever(self, raw: Object, namespace: str, *, new: bool = True) -> FitReport:
        """The same with nothing in use: whether it can ever be admitted. The time is independent of other Workloads."""
        return self._fit(self._unused, raw, namespace, new=new)

    def check(self, raw: Object, namespace: str) -> tuple[tuple[FieldError, ...], tuple[str, ...]]:
        """Warnings for a new JobSet that will not be admitted; it is not refused, since quotas may change."""
        report = self.ever(raw, namespace)
        reason = reportable_reason(report)
        return (), (f"{reason}: {report['message']}",) if reason is not None else ()

    def _fit(
        self,
        snapshot: Snapshot,
        raw: Object,
        namespace: str,
        *,
        new: bool,
        workload: QueuedWorkload | None = None,
        head: Callable[[ClusterQueue], Head | None] = lambda _: None,
    ) -> FitReport:
        jobset, _ = read_jobset(raw)
        home = jobset.namespace or namespace
        if missing := self._missing():
            return unknown_fit(raw, namespace, missing)
        request = FitRequest(raw, home, self.labels(home), jobset.queue, new, workload, reader=home, head=head)
        self._complete(snapshot)
        return fit(request, snapshot)

    def _missing(self) -> list[str]:
        """The sources without which no verdict is possible."""
        if self.known is None:
            return ["gangctl does not know yet whether the cluster has Kueue"]
        essential = (self._sources.cluster_queues, self._sources.local_queues) if self.known else ()
        return [trouble for source in essential if (trouble := source.trouble())]

    def _complete(self, snapshot: Snapshot) -> None:
        """Add the facts that no change of an object carries."""
        classes = self._sources.runtime_classes
        snapshot.queued = self.present
        snapshot.queue_limit = self._sources.presence.podset_limit
        snapshot.limits_known = self._sources.limit_ranges.known
        snapshot.take_runtime_classes(classes.store.values() if classes.known else None)

    def _notify(self, affected: Affected) -> None:
        for listener in self._listeners:
            listener(affected)

    def _keep(self, old: Any, new: Any) -> None:
        """Update both snapshots with one object."""
        for snapshot in (self.snapshot, self._unused):
            if new is None:
                snapshot.drop(old)
            else:
                snapshot.take(new)

    def _on_cluster_queue(self, old: ClusterQueue | None, new: ClusterQueue | None) -> None:
        name = new.name if new is not None else old.name if old is not None else ""
        if old is not None and new is not None and _settings(old) == _settings(new):
            self._keep(old, new)
            return
        before = self._tree([name])
        self._keep(old, new)
        self._notify(Affected(cluster_queues=before | self._tree([name])))

    def _on_cohort(self, old: Cohort | None, new: Cohort | None) -> None:
        name = new.name if new is not None else old.name if old is not None else ""
        before = self._tree(self._under(name))
        self._keep(old, new)
        self._notify(Affected(cluster_queues=before | self._tree(self._under(name))))

    def _on_workload(self, old: QueuedWorkload | None, new: QueuedWorkload | None) -> None:
        if new is not None:
            self.snapshot.take(new)
        elif old is not None:
            self.snapshot.drop(old)
        changed = new or old
        if changed is not None:
            self.heads.changed(changed)
        if changed is not None and _reserved(old) != _reserved(new):
            self._notify(Affected(jobsets=frozenset({(changed.namespace, changed.owner_name)})))

    def _tree(self, names: Iterable[str]) -> frozenset[str]:
        """These ClusterQueues, and all that share quota with one of them."""
        found: set[str] = set()
        for name in names:
            if name not in found:
                found |= {name, *self.snapshot.quotas.tree(name)}
        return frozenset(found)

    def _under(self, cohort: str) -> list[str]:
        """ClusterQueues in a cohort, or in one below it."""
        quotas = self.snapshot.quotas
        found = []
        for queue in quotas.queues():
            above, seen = queue.cohort, set[str]()
            while above and above not in seen and above != cohort:
                seen.add(above)
                known = quotas.cohort(above)
                above = known.parent if known is not None else ""
            if above == cohort:
                found.append(queue.name)
        return found

    def _on_local_queue(self, old: LocalQueue | None, new: LocalQueue | None) -> None:
        self._keep(old, new)
        changed = new or old
        if changed is None or (old is not None and new is not None and replace(old, pending=new.pending) == new):
            return
        self._notify(Affected(local_queues=frozenset({(changed.namespace, changed.name)})))

    def _on_flavor(self, old: ResourceFlavor | None, new: ResourceFlavor | None) -> None:
        self._keep(old, new)
        name = new.name if new is not None else old.name if old is not None else ""
        using = {
            queue.name
            for queue in self.snapshot.quotas.queues()
            if any(flavor.name == name for group in queue.groups for flavor in group.flavors)
        }
        self._notify(Affected(cluster_queues=frozenset(using)))

    def _on_check(self, old: AdmissionCheck | None, new: AdmissionCheck | None) -> None:
        """A check of MultiKueue rules out the verdict never."""
        self._keep(old, new)
        if old is not None and new is not None and old.controller == new.controller:
            return
        name = new.name if new is not None else old.name if old is not None else ""
        queues = self.snapshot.quotas.queues()
        using = {queue.name for queue in queues if any(use.name == name for use in queue.checks)}
        self._notify(Affected(cluster_queues=frozenset(using)))

    def _on_limit_range(self, old: Object | None, new: Object | None) -> None:
        for snapshot in (self.snapshot, self._unused):
            if new is not None:
                snapshot.take_limit_range(new)
            elif old is not None:
                snapshot.drop_limit_range(old)
        changed = new or old
        if changed is not None:
            self._notify(Affected(namespaces=frozenset({changed["metadata"]["namespace"]})))

    def _on_namespace(self, old: Mapping[str, str] | None, new: Mapping[str, str] | None) -> None:
        name = (new or old or {}).get(_NAMESPACE_NAME, "")
        self._notify(Affected(namespaces=frozenset({name})))

    def _on_configuration(self, _old: str | None, new: str | None) -> None:
        for snapshot in (self.snapshot, self._unused):
            snapshot.take_configuration(new)
        self._notify(ALL)


def reportable_reason(report: FitReport) -> Reason | None:
    """The reason to report to the user for a fit; None where there is nothing to report."""
    if report["verdict"] == "never":
        return Reason.NEVER_FITS
    return Reason.QUEUE_BLOCKED if report["reason"] == Reason.QUEUE_BLOCKED else None


def _reserved(workload: QueuedWorkload | None) -> bool:
    return workload is not None and workload.holds("QuotaReserved")


def _settings(queue: ClusterQueue) -> ClusterQueue:
    """The settings that verdicts depend on: not how many Workloads wait."""
    return replace(queue, pending=0)
