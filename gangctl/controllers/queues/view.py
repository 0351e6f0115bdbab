"""Kueue as this process knows it: the answers to webhooks, policies and controllers, all from memory.

The index of quotas follows the informers one change at a time, and each change returns the LocalQueues that it
concerns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from gangctl.api.jobset import JobSet
from gangctl.api.labelselector import NAMESPACE_NAME
from gangctl.api.objects import Object
from gangctl.client.resources import Resource
from gangctl.cluster.queues import LocalQueueKey, Queues
from gangctl.controllers.queues.sources import QueueSources
from gangctl.errors import FieldError
from gangctl.fit.clusterstate import ClusterSnapshot
from gangctl.fit.report import FitReport
from gangctl.gang.reasons import Reason
from gangctl.kueue.consistency import KueueFacts
from gangctl.kueue.objects import (
    AdmissionCheck,
    ClusterQueue,
    Cohort,
    LocalQueue,
    PodPriorityClass,
    PriorityClass,
    QueuedWorkload,
    ResourceFlavor,
)
from gangctl.kueue.queues import may_be_admitted, pods_ready
from gangctl.policy.variables import unknown_fit


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


class QueueView(Queues):
    """What is known of queues now; it is also the webhooks' :class:`~gangctl.webhooks.gangs.KnownQueues`."""

    def __init__(self, sources: QueueSources, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        """Follow ``sources`` from now on."""
        # Masked: events, Gang objects and ``fit`` are read by users who may not read other namespaces.
        super().__init__(now, masked=True)
        self._sources = sources
        self._listeners: list[Callable[[Affected], None]] = []
        # The informers' own stores: what they show is known here without a second copy.
        self.cluster_queues = sources.cluster_queues.store
        self.local_queues = sources.local_queues.store
        self.workloads = sources.workloads.store
        self.namespaces = sources.namespaces.store
        sources.cluster_queues.informer.subscribe(self._on_cluster_queue)
        sources.cohorts.informer.subscribe(self._on_cohort)
        sources.local_queues.informer.subscribe(self._on_local_queue)
        sources.flavors.informer.subscribe(self._on_flavor)
        sources.workloads.informer.subscribe(self._on_workload)
        sources.checks.informer.subscribe(self._on_check)
        sources.priorities.informer.subscribe(self._on_priority)
        sources.limit_ranges.informer.subscribe(self._on_limit_range)
        sources.namespaces.informer.subscribe(self._on_namespace)
        sources.runtime_classes.informer.subscribe(lambda _old, _new: self._notify(ALL))
        sources.configuration.informer.subscribe(self._on_configuration)
        sources.on_known(lambda: self._notify(ALL))

    def subscribe(self, on_change: Callable[[Affected], None]) -> None:
        """Call ``on_change`` with the affected JobSets of each change, after the change is visible here."""
        self._listeners.append(on_change)

    @property
    def known(self) -> bool | None:
        """Whether the cluster has Kueue; None while that is not known."""
        return self._sources.present

    @property
    def podset_limit(self) -> int | None:
        """Podsets that a Workload may have; None if unknown."""
        return self._sources.presence.podset_limit

    @property
    def facts(self) -> KueueFacts:
        """What is known of its version and configuration."""
        ready = pods_ready(self.configuration, self.podset_limit)
        return KueueFacts(self.podset_limit, ready.timeout if ready is not None else None)

    def trouble(self, resource: Resource) -> str:
        """What of a kind is not known, and why; empty if it is known."""
        return self._sources.trouble(resource)

    def unknown(self) -> Sequence[str]:
        """What could change a ``never`` and cannot be read, each as a short text."""
        return self._sources.unknown()

    def check(self, raw: Object, jobset: JobSet, namespace: str) -> tuple[tuple[FieldError, ...], tuple[str, ...]]:
        """Warnings for a new JobSet that will not be admitted; it is not refused, since quotas may change."""
        report = self.ever(raw, namespace, jobset=jobset)
        reason = reportable_reason(report)
        return (), (f"{reason}: {report['message']}",) if reason is not None else ()

    def _fit(self, snapshot: ClusterSnapshot, raw: Object, jobset: JobSet, namespace: str, **asked: Any) -> FitReport:
        if missing := self.missing():
            return unknown_fit(raw, namespace, missing)
        return super()._fit(snapshot, raw, jobset, namespace, **asked)

    def completed(self, snapshot: ClusterSnapshot) -> ClusterSnapshot:
        """The snapshot with the facts that no change of an object carries."""
        classes = self._sources.runtime_classes
        snapshot.limits_known = self._sources.limit_ranges.known
        snapshot.take_runtime_classes(classes.store.values() if classes.known else None)
        super().completed(snapshot)
        # Those of Kubernetes are not followed.
        snapshot.unread |= {PodPriorityClass}
        return snapshot

    def _notify(self, affected: Affected) -> None:
        for listener in self._listeners:
            listener(affected)

    def _on_cluster_queue(self, old: ClusterQueue | None, new: ClusterQueue | None) -> None:
        name = new.name if new is not None else old.name if old is not None else ""
        if old is not None and new is not None and _settings(old) == _settings(new):
            self.keep(old, new)
            return
        # The trees before and after: a ClusterQueue that changes its cohort concerns those that it leaves, too.
        before = self._tree([name])
        self.keep(old, new)
        self._notify(Affected(cluster_queues=before | self._tree([name])))

    def _on_cohort(self, old: Cohort | None, new: Cohort | None) -> None:
        name = new.name if new is not None else old.name if old is not None else ""
        before = self._tree(self._under(name))
        self.keep(old, new)
        self._notify(Affected(cluster_queues=before | self._tree(self._under(name))))

    def _on_workload(self, old: QueuedWorkload | None, new: QueuedWorkload | None) -> None:
        self.keep(old, new)
        changed = new or old
        # Usage changes no verdict: the only news is whether this JobSet waits for quota.
        if changed is not None and may_be_admitted(old) != may_be_admitted(new):
            self._notify(Affected(jobsets=frozenset({(changed.namespace, changed.owner_name)})))

    def _tree(self, names: Iterable[str]) -> frozenset[str]:
        """These ClusterQueues, and all that share quota with one of them."""
        queues: set[str] = set()
        for name in names:
            if name not in queues:
                queues |= {name, *self.snapshot.quotas.tree(name)}
        return frozenset(queues)

    def _under(self, cohort: str) -> list[str]:
        """ClusterQueues in a cohort, or in one below it."""
        quotas = self.snapshot.quotas
        names = []
        for queue in quotas.queues():
            above, seen = queue.cohort, set[str]()
            # Parents of cohorts may be a cycle.
            while above and above not in seen and above != cohort:
                seen.add(above)
                known = quotas.cohort(above)
                above = known.parent if known is not None else ""
            if above == cohort:
                names.append(queue.name)
        return names

    def _on_local_queue(self, old: LocalQueue | None, new: LocalQueue | None) -> None:
        self.keep(old, new)
        changed = new or old
        # status.pendingWorkloads changes with each Workload and decides no verdict.
        if changed is None or (old is not None and new is not None and replace(old, pending=new.pending) == new):
            return
        self._notify(Affected(local_queues=frozenset({(changed.namespace, changed.name)})))

    def _on_flavor(self, old: ResourceFlavor | None, new: ResourceFlavor | None) -> None:
        self.keep(old, new)
        name = new.name if new is not None else old.name if old is not None else ""
        using = {
            queue.name
            for queue in self.snapshot.quotas.queues()
            if any(flavor.name == name for group in queue.groups for flavor in group.flavors)
        }
        self._notify(Affected(cluster_queues=frozenset(using)))

    def _on_check(self, old: AdmissionCheck | None, new: AdmissionCheck | None) -> None:
        """A check of MultiKueue rules out the verdict never."""
        self.keep(old, new)
        if old is not None and new is not None and old.controller == new.controller:
            return
        name = new.name if new is not None else old.name if old is not None else ""
        queues = self.snapshot.quotas.queues()
        using = {queue.name for queue in queues if any(use.name == name for use in queue.checks)}
        self._notify(Affected(cluster_queues=frozenset(using)))

    def _on_priority(self, old: PriorityClass | None, new: PriorityClass | None) -> None:
        """Kueue makes no Workload without its class. No verdict depends on the value: it decides about preemption."""
        self.keep(old, new)
        if old is None or new is None:
            self._notify(ALL)

    def _on_limit_range(self, old: Object | None, new: Object | None) -> None:
        changed = new or old
        if new is not None:
            self.snapshot.take_limit_range(new)
        elif old is not None:
            self.snapshot.drop_limit_range(old)
        if changed is not None:
            self._notify(Affected(namespaces=frozenset({changed["metadata"]["namespace"]})))

    def _on_namespace(self, old: Mapping[str, str] | None, new: Mapping[str, str] | None) -> None:
        # The projection has only labels, and the API server gives every namespace this one.
        name = (new or old or {}).get(NAMESPACE_NAME, "")
        self._notify(Affected(namespaces=frozenset({name})))

    def _on_configuration(self, _old: str | None, new: str | None) -> None:
        self.snapshot.take_configuration(new)
        self.heads.forget()
        self._notify(ALL)


def reportable_reason(report: FitReport) -> Reason | None:
    """The reason to report to the user for a fit; None where there is nothing to report."""
    if report["verdict"] == "never":
        return Reason.NEVER_FITS
    return Reason.QUEUE_BLOCKED if report["reason"] == Reason.QUEUE_BLOCKED else None


def _settings(queue: ClusterQueue) -> ClusterQueue:
    """The settings that verdicts depend on: not how many Workloads wait."""
    return replace(queue, pending=0)
