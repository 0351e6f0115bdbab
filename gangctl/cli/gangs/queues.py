"""State of gangs in the queues of Kueue, as far as these may be read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from gangctl.api.jobset import JobSet
from gangctl.cli.kueuesnapshot import Stock
from gangctl.cli.queue.index import QueueIndex
from gangctl.fit import verdict
from gangctl.fit.clusterstate import Held
from gangctl.kueue.objects import ClusterQueue, LocalQueue, QueuedWorkload
from gangctl.kueue.order import head_of
from gangctl.kueue.states import phase_of
from gangctl.kueue.stuck import Owner, Stuck, Trouble, blocking_head, stuck_workload
from gangctl.readiness.facts import QueueFacts
from gangctl.runtime.informer import Entry, Store


@dataclass(slots=True)
class Queues:
    """Kueue's objects; ``stock`` is None without Kueue, or if none of them may be read."""

    stock: Stock | None = None
    present: bool | None = None
    """Whether the cluster has Kueue, None if unknown."""
    queues_known: bool = False
    """Whether ClusterQueues may be read: without them no queue is closed and no verdict is ``never``."""
    local_queues: Store[LocalQueue] = field(default_factory=Store)
    cluster_queues: Store[ClusterQueue] = field(default_factory=Store)
    workloads: Store[QueuedWorkload] = field(default_factory=Store)
    """Watched objects; before a watch they are empty, and ``stock`` has all objects."""
    _view: _View | None = None

    def seed(self, namespace: str | None) -> None:
        """Start watching with the known objects, so that none is missing before the first sync."""
        for each in (*self.stock.held, *self.stock.finished) if self.stock is not None else ():
            store: Store[Any] | None = self._store_of(each, namespace)
            if store is not None:
                store.put((getattr(each, "namespace", ""), each.name), Entry(getattr(each, "uid", ""), "", each))

    def _store_of(self, held: Held, namespace: str | None) -> Store[Any] | None:
        """The watched store of an object; None for others."""
        if isinstance(held, ClusterQueue):
            return self.cluster_queues if self.queues_known else None
        if isinstance(held, LocalQueue | QueuedWorkload) and namespace in {None, held.namespace}:
            return self.local_queues if isinstance(held, LocalQueue) else self.workloads
        return None

    def refresh(self, namespace: str | None) -> None:
        """Apply watched changes; ``namespace`` is the watched one, None all."""
        self._view = None
        if self.stock is None:
            return
        self.stock.held = [each for each in self.stock.held if self._store_of(each, namespace) is None]
        self.stock.held += [*self.local_queues.values(), *self.cluster_queues.values()]
        self.stock.held += [each for each in self.workloads.values() if not each.holds("Finished")]
        self.stock.finished = [each for each in self.stock.finished if self._store_of(each, namespace) is None]
        self.stock.finished += [each for each in self.workloads.values() if each.holds("Finished")]

    def facts(self, jobset: JobSet, raw: Mapping[str, Any], now: datetime, *, pods: int) -> QueueFacts | None:
        """Queue facts for the readiness of a JobSet, with its number of remaining pods; None without a queue."""
        view = self._seen() if jobset.queue else None
        return view.facts(jobset, raw, now, pods) if view is not None else None

    def cluster_of(self, uid: str) -> str:
        """The worker cluster on which MultiKueue runs, or ran, the JobSet of this UID; empty for none."""
        view = self._seen()
        return view.clusters.get(uid, "") if view is not None else ""

    def _seen(self) -> _View | None:
        if self._view is None and self.stock is not None:
            self._view = _View(self.stock, queues_known=self.queues_known)
        return self._view


class _View(QueueIndex):
    """The objects at one point in time, by their JobSets."""

    def __init__(self, stock: Stock, *, queues_known: bool) -> None:
        super().__init__(stock)
        self._queues_known = queues_known
        self._unused = stock.snapshot(without=lambda _: True)
        self._of = {workload.owner_uid: workload for workload in stock.workloads()}
        self._never: dict[str, str] = {}
        both = (*stock.finished, *stock.workloads())
        self.clusters = {workload.owner_uid: workload.cluster for workload in both if workload.cluster}
        for workload in stock.finished:
            # A Workload that Kueue could not start is finished, too, and has the only record of that.
            if workload.conditions["Finished"].reason == Trouble.FAILED_TO_START:
                self._of.setdefault(workload.owner_uid, workload)

    def facts(self, jobset: JobSet, raw: Mapping[str, Any], now: datetime, pods: int) -> QueueFacts:
        workload = self._of.get(jobset.uid) if jobset.uid else None
        door = self.local_queues.get((jobset.namespace, jobset.queue))
        name = workload.cluster_queue if workload is not None else ""
        waits = workload is None or phase_of(workload).waits
        closed = self._queues_known and waits and not jobset.finished
        obstacle = self.obstacle(jobset.namespace, jobset.queue) if closed else None
        never = self._why_never(jobset, raw) if waits and jobset.suspend and not jobset.finished else ""
        if workload is None:
            stuck = self.unqueued(jobset, raw, now)
        else:
            owner = Owner(jobset.finished, pods)
            stuck = stuck_workload(workload, owner, now, blocked=obstacle, ready_timeout=self.ready_timeout)
            if stuck is None and waits and not never:
                stuck = self._head(workload, now)
        return QueueFacts(
            local_queue=jobset.queue,
            cluster_queue=name or (door.cluster_queue if door is not None else ""),
            workload=workload,
            blocked=obstacle,
            stuck=stuck,
            never=never,
            cluster=self.clusters.get(jobset.uid, ""),
            queues_known=self._queues_known,
        )

    def _why_never(self, jobset: JobSet, raw: Mapping[str, Any]) -> str:
        """The verdict of ``gangctl fit`` with nothing in use: ``never`` does not depend on usage."""
        if not self._queues_known:
            return ""
        if jobset.uid not in self._never:
            labels = self.stock.namespaces.get(jobset.namespace)
            report = verdict.fit(
                verdict.FitRequest(raw, jobset.namespace, labels, jobset.queue, new=False), self._unused
            )
            self._never[jobset.uid] = report["message"].rstrip(".") if report["verdict"] == "never" else ""
        return self._never[jobset.uid]

    def _head(self, workload: QueuedWorkload, now: datetime) -> Stuck | None:
        """The head of a strict queue that it waits behind."""
        queue = self.cluster_queues.get(self.cluster_queue_of(workload))
        if queue is None:
            return None
        ordered = self.ordered(queue)
        head = head_of(ordered, queue)
        if head is None or head.uid == workload.uid or all(each.uid != workload.uid for each in ordered):
            return None
        return blocking_head(ordered, queue, now, never={head.uid} if self._never.get(head.owner_uid) else ())
