"""Kueue in a week: one ClusterQueue per team, and the Workload of each JobSet that has a queue."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from tests.cli import kueueobjects
from tests.monitoring.weeks.watched import START

if TYPE_CHECKING:  # a cluster has queues, and its gangs have Workloads
    from tests.monitoring.weeks.cluster import Cluster
    from tests.monitoring.weeks.gang import Gang

Object = dict[str, Any]

GPU: Final = "nvidia.com/gpu"
AT_START: Final = {"lastTransitionTime": START.strftime("%Y-%m-%dT%H:%M:%SZ")}
"""Of conditions that have been so from the first minute."""
REJECTED: Final = "DeactivatedDueToAdmissionCheck"
NO_QUOTA: Final = "couldn't assign flavors to pod set w: insufficient unused quota for nvidia.com/gpu in flavor f"


class Queue:
    """A ClusterQueue as Kueue runs it: those that wait, in order, and those that hold quota."""

    def __init__(self, cluster: Cluster, name: str, pods: int, strategy: str) -> None:
        self.cluster, self.name, self.pods, self.strategy = cluster, name, pods, strategy
        quota = {"f": {GPU: str(pods)}}
        self.raw = kueueobjects.cluster_queue(name, quota, queueingStrategy=strategy)
        self.raw["status"] = {
            "conditions": [{"type": "Active", "status": "True", "reason": "Ready", "message": "", **AT_START}]
        }
        self.waiting: list[Workload] = []
        self.holding: dict[str, Workload] = {}
        self.admissions = 0
        self.stopped = False

    def join(self, workload: Workload) -> None:
        """It waits from now on."""
        self.waiting.append(workload)
        self.schedule()

    def leave(self, workload: Workload) -> None:
        """It waits no more, and holds nothing."""
        self.waiting = [other for other in self.waiting if other is not workload]
        self.holding.pop(workload.name, None)
        self.cluster.later(1, self.schedule)

    def schedule(self) -> None:
        """Admit what fits."""
        for workload in [] if self.stopped else list(self.waiting):
            free = self.pods - sum(other.gang.size for other in self.holding.values())
            if workload.gang.size <= free:
                self.waiting.remove(workload)
                self.holding[workload.name] = workload
                self.admissions += 1
                workload.admit()
            else:
                workload.set("QuotaReserved", False, "Pending", NO_QUOTA)
                if self.strategy == "StrictFIFO":
                    return

    def stop(self, *, stopped: bool) -> None:
        """Set ``stopPolicy``."""
        self.stopped = stopped
        self.raw["spec"]["stopPolicy"] = "Hold" if stopped else "None"
        self.cluster.watched.deliver(self.raw)
        self.schedule()


class Workload:
    """What Kueue keeps of one JobSet, and does with it."""

    def __init__(self, gang: Gang, queue: Queue) -> None:
        """It waits for quota."""
        self.gang, self.queue, self.name = gang, queue, gang.shape.name
        self._cluster = gang.cluster
        self.raw = kueueobjects.workload(
            self.name, "q", namespace=gang.shape.namespace, pods=gang.size, created=self._cluster.stamp
        )
        # Names and UIDs are of one JobSet each.
        self.raw["metadata"]["uid"] = f"workload-{self.name}"
        self.set("QuotaReserved", False, "Pending", NO_QUOTA)

    @property
    def evictions(self) -> int:
        """How often waitForPodsReady has evicted it."""
        return int(self.raw["status"].get("requeueState", {}).get("count", 0))

    def set(self, kind: str, status: bool, reason: str, message: str = "") -> None:
        """A condition."""
        self._condition(kind, status, reason, message)
        self.gang.deliver(self.raw)

    def admit(self) -> None:
        """It gets quota, and its JobSet starts."""
        size = self.gang.size
        self.raw["status"]["admission"] = {
            "clusterQueue": self.queue.name,
            "podSetAssignments": [
                {"name": "w", "count": size, "flavors": {GPU: "f"}, "resourceUsage": {GPU: str(size)}}
            ],
        }
        self._condition("QuotaReserved", True, "QuotaReserved")
        self._condition("PodsReady", False, "WaitForStart")
        self.set("Admitted", True, "Admitted")
        self.gang.resume()

    def suspend(self, seconds: float) -> None:
        """Its owner suspends it for a while: it gives back its quota."""
        if self.gang.over or self.name not in self.queue.holding:
            return
        self._stop("Suspended")
        self.raw["spec"]["active"] = False
        self.set("Evicted", True, "Deactivated", "The workload is deactivated")
        self.queue.leave(self)
        self.gang.later(seconds, self._reactivate)

    def _reactivate(self) -> None:
        self.raw["spec"]["active"] = True
        self.set("Evicted", False, "QuotaReserved")
        self.queue.join(self)

    def evict(self, pause: float) -> None:
        """waitForPodsReady takes its quota, and it is queued again after a pause."""
        if self.gang.over:
            return
        self._stop("Evicted")
        at = (START + timedelta(seconds=int(self._cluster.now + pause))).strftime("%Y-%m-%dT%H:%M:%SZ")
        self.raw["status"]["requeueState"] = {"count": self.evictions + 1, "requeueAt": at}
        self._condition("Evicted", True, "PodsReadyTimeout", "Exceeded the PodsReady timeout")
        self.set("Requeued", False, "PodsReadyTimeout")
        self.queue.leave(self)
        self.gang.later(pause, self._requeue)

    def _requeue(self) -> None:
        self.raw["status"]["requeueState"].pop("requeueAt")
        self.set("Requeued", True, "BackoffFinished")
        self.queue.join(self)

    def reject(self) -> None:
        """An admission check rejects it: it is deactivated."""
        self._stop("Rejected")
        self.raw["spec"]["active"] = False
        self.set("Evicted", True, REJECTED, "check a said no")
        self.queue.leave(self)

    def _stop(self, reason: str) -> None:
        self.raw["status"].pop("admission", None)
        self._condition("QuotaReserved", False, "Pending", reason)
        self._condition("Admitted", False, "NoReservation")
        self.gang.stop()

    def _condition(self, kind: str, status: bool, reason: str, message: str = "") -> None:
        self._cluster.condition(self.raw, kind, status, reason, message)
