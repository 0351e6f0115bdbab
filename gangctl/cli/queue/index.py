"""Index of Kueue's objects at one point in time, for the state of a queue or of a JobSet in one."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from gangctl.api.jobset import JobSet
from gangctl.cli.kueuesnapshot import Stock
from gangctl.kueue.amounts import age
from gangctl.kueue.blocked import Blocked, blocked, selects
from gangctl.kueue.names import PRIORITY_CLASS
from gangctl.kueue.objects import ClusterQueue, QueuedWorkload
from gangctl.kueue.order import in_order
from gangctl.kueue.stuck import Stuck, without_workload


class QueueIndex:
    """LocalQueues by namespace and name, ClusterQueues by name, and the Workloads in each of these."""

    def __init__(self, stock: Stock) -> None:
        """Index the objects."""
        self.stock = stock
        self.snapshot = stock.snapshot()
        self.cluster_queues = stock.cluster_queues()
        self.local_queues = {(each.namespace, each.name): each for each in stock.local_queues()}
        self.inside: dict[str, list[QueuedWorkload]] = {}
        for workload in stock.workloads():
            self.inside.setdefault(self.cluster_queue_of(workload), []).append(workload)

    def cluster_queue_of(self, workload: QueuedWorkload) -> str:
        """The ClusterQueue of its quota, else that of its LocalQueue; empty if there is none."""
        local = self.local_queues.get((workload.namespace, workload.queue))
        return workload.cluster_queue or (local.cluster_queue if local is not None else "")

    def ordered(self, queue: ClusterQueue) -> list[QueuedWorkload]:
        """Waiting Workloads of a ClusterQueue, in the order in which Kueue tries them."""
        return in_order(self.inside.get(queue.name, ()), queue)

    def obstacle(self, namespace: str, name: str) -> Blocked | None:
        """Why a LocalQueue admits nothing."""
        local = self.local_queues.get((namespace, name))
        queue = self.cluster_queues.get(local.cluster_queue) if local is not None else None
        return blocked(name, local, queue, self.stock.namespaces.get(namespace))

    @property
    def ready_timeout(self) -> timedelta | None:
        """How long Kueue waits for the pods of an admitted Workload; None if it does not."""
        configuration = self.snapshot.configuration
        ready = configuration.wait_for_pods_ready
        return timedelta(seconds=ready.timeout) if configuration.known and ready.on else None

    def unqueued(self, jobset: JobSet, raw: Mapping[str, Any], now: datetime) -> Stuck | None:
        """Why Kueue has created no Workload for a JobSet with a queue; None while that is normal."""
        waited = age(jobset.created, now)
        if waited is None or not jobset.suspend or jobset.finished:
            return None
        configuration, labels = self.snapshot.configuration, self.stock.namespaces.get(jobset.namespace)
        selector = configuration.managed_namespaces
        return without_workload(
            waited,
            podsets=len(jobset.replicated_jobs),
            podset_limit=self.stock.queue_limit,
            frameworks=configuration.frameworks if configuration.known else None,
            managed=None if selector is None or labels is None else selects(selector, labels),
            priority_class=str(((raw.get("metadata") or {}).get("labels") or {}).get(PRIORITY_CLASS) or ""),
            priority_classes=self.stock.priority_classes(),
        )
