"""From Kueue's objects to the reports: state, quotas, and the order of a queue."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

from gangctl.api.jobset import read_jobset
from gangctl.cli.kueuesnapshot import Stock
from gangctl.cli.queue.index import QueueIndex
from gangctl.cli.queue.jobsets import JobSets
from gangctl.cli.queue.report import (
    DESCRIPTION,
    SUMMARY,
    BorrowerReport,
    Identity,
    MemberReport,
    QueueDescription,
    QueueReport,
    QuotaReport,
    State,
)
from gangctl.fit import verdict
from gangctl.fit.quotas import Quotas
from gangctl.fit.report import API_VERSION
from gangctl.fit.tree import quotas_of
from gangctl.kueue import names
from gangctl.kueue.blocked import Blockage, Blocked, blocked
from gangctl.kueue.objects import ClusterQueue, LocalQueue, QueuedWorkload
from gangctl.kueue.order import head_of, places
from gangctl.kueue.states import Phase, status_of
from gangctl.kueue.stuck import blocking_head, stuck_workload

_STATES: Final[Mapping[Blockage, State]] = {
    Blockage.LOCAL_QUEUE_MISSING: "missing",
    Blockage.LOCAL_QUEUE_STOPPED: "stopped",
    Blockage.CLUSTER_QUEUE_MISSING: "missing",
    Blockage.CLUSTER_QUEUE_TERMINATING: "inactive",
    Blockage.CLUSTER_QUEUE_STOPPED: "stopped",
    Blockage.CLUSTER_QUEUE_INACTIVE: "inactive",
    Blockage.NAMESPACE_NOT_SELECTED: "inactive",
}


class View(QueueIndex):
    """The objects at one point in time, with the JobSets if known."""

    def __init__(self, stock: Stock, now: datetime, jobsets: JobSets | None = None) -> None:
        """``now`` is that time."""
        super().__init__(stock)
        self.now = now
        self.jobsets = jobsets or JobSets()

    @property
    def quotas(self) -> Quotas:
        """All quotas, and their usage."""
        return self.snapshot.quotas

    def of_cluster_queue(self, queue: ClusterQueue) -> QueueReport:
        """The summary of a ClusterQueue."""
        # An open LocalQueue, so that only the ClusterQueue can block.
        obstacle = blocked("", LocalQueue("", "", queue.name), queue, None)
        report = self._summary(queue, obstacle, self.inside.get(queue.name, ()))
        return {**report, "metadata": {"name": queue.name, "namespace": ""}, "queue": "ClusterQueue"}

    def of_local_queue(self, door: LocalQueue) -> QueueReport:
        """The summary of a LocalQueue."""
        queue = self.cluster_queues.get(door.cluster_queue)
        report = self._summary(queue, self.obstacle(door.namespace, door.name), self._behind(door))
        identity: Identity = {"name": door.name, "namespace": door.namespace}
        return {**report, "metadata": identity, "clusterQueue": door.cluster_queue}

    def describe_cluster_queue(self, queue: ClusterQueue) -> QueueDescription:
        """A ClusterQueue with what is in it."""
        return self._describe(self.of_cluster_queue(queue), queue, self.inside.get(queue.name, ()))

    def describe_local_queue(self, door: LocalQueue) -> QueueDescription:
        """A LocalQueue with what is in it."""
        return self._describe(
            self.of_local_queue(door), self.cluster_queues.get(door.cluster_queue), self._behind(door)
        )

    def _behind(self, door: LocalQueue) -> list[QueuedWorkload]:
        key = door.namespace, door.name
        return [workload for workload in self.stock.workloads() if (workload.namespace, workload.queue) == key]

    def _summary(
        self, queue: ClusterQueue | None, obstacle: Blocked | None, inside: Sequence[QueuedWorkload]
    ) -> QueueReport:
        holding = sum(workload.holds("QuotaReserved") for workload in inside)
        return {
            "apiVersion": API_VERSION,
            "kind": SUMMARY,
            "metadata": {"name": "", "namespace": ""},
            "queue": "LocalQueue",
            "clusterQueue": queue.name if queue is not None else "",
            "cohort": queue.cohort if queue is not None else "",
            "strategy": queue.strategy if queue is not None else "",
            "state": "active" if obstacle is None else _STATES[obstacle.reason],
            "reason": "" if obstacle is None else str(obstacle.reason),
            "message": "" if obstacle is None else obstacle.message,
            "pending": len(inside) - holding,
            "admitted": holding,
            "quotas": [] if queue is None else self._quotas(queue),
        }

    def _quotas(self, queue: ClusterQueue) -> list[QuotaReport]:
        found: list[QuotaReport] = []
        for (flavor, resource), quota in quotas_of(queue.groups).items():
            used = self.quotas.used(queue.name, flavor, resource)
            ceiling = self.quotas.ceiling(queue.name, flavor, resource).amount
            found.append(
                {
                    "flavor": flavor,
                    "resource": resource,
                    "used": used,
                    "nominal": quota.nominal,
                    "borrowed": max(0, used - quota.nominal),
                    "borrowable": None if ceiling is None else max(0, ceiling - quota.nominal),
                    "free": max(0, self.quotas.available(queue.name, flavor, resource)),
                }
            )
        return found

    def _describe(
        self, report: QueueReport, queue: ClusterQueue | None, inside: Iterable[QueuedWorkload]
    ) -> QueueDescription:
        ordered = self.ordered(queue) if queue is not None else []
        order = {uid: place.in_cluster_queue + 1 for uid, place in places(ordered, queue).items()} if queue else {}
        members = [self._member(workload, order.get(workload.uid)) for workload in inside]
        return {
            **report,
            "kind": DESCRIPTION,
            "members": sorted(members, key=_rank),
            "borrowers": self._borrowers(queue) if queue is not None else [],
            "stuck": self._stuck(report, queue, ordered),
        }

    def _stuck(self, report: QueueReport, queue: ClusterQueue | None, ordered: Sequence[QueuedWorkload]) -> list[str]:
        """Problems that block the whole queue, and JobSets without a Workload."""
        stuck = []
        head = head_of(ordered, queue) if queue is not None else None
        if queue is not None and head is not None:
            never = {head.uid} if self._never(head) else set()
            blocking = blocking_head(ordered, queue, self.now, never=never)
            stuck += [blocking.message] if blocking is not None else []
        identity = report["metadata"]
        if report["queue"] == "LocalQueue":
            doors = [(identity["namespace"], identity["name"])]
        else:
            doors = [key for key, door in self.local_queues.items() if door.cluster_queue == identity["name"]]
        return stuck + self._forgotten(doors)

    def _never(self, workload: QueuedWorkload) -> bool:
        """Whether a waiting Workload is of a JobSet that can never fit."""
        raw = self.jobsets.raw.get(workload.owner_uid)
        if raw is None:
            return False
        labels = self.stock.namespaces.get(workload.namespace)
        request = verdict.FitRequest(raw, workload.namespace, labels, workload.queue, new=False)
        return verdict.fit(request, self.snapshot)["verdict"] == "never"

    def _forgotten(self, doors: Collection[tuple[str, str]]) -> list[str]:
        """JobSets of these LocalQueues without a Workload of Kueue, each in a sentence."""
        known = {workload.owner_uid for workload in self.stock.workloads()}
        found = []
        for uid, raw in self.jobsets.raw.items():
            jobset, _ = read_jobset(raw)
            if uid not in known and (jobset.namespace, jobset.queue) in doors:
                stuck = self.unqueued(jobset, raw, self.now)
                found += [f"JobSet {jobset.namespace}/{jobset.name}: {stuck.message}"] if stuck is not None else []
        return sorted(found)

    def _member(self, workload: QueuedWorkload, position: int | None) -> MemberReport:
        obstacle = self.obstacle(workload.namespace, workload.queue)
        status = status_of(workload, self.now, queue_open=obstacle is None)
        stuck = stuck_workload(
            workload,
            self.jobsets.owner(workload),
            self.now,
            blocked=obstacle if status.phase.waits else None,
            ready_timeout=self.ready_timeout,
        )
        return {
            "position": position,
            "apiVersion": workload.owner_api_version if workload.owner_kind else names.API_VERSION,
            "kind": workload.owner_kind or "Workload",
            "name": workload.owner_name or workload.name,
            "namespace": workload.namespace,
            "workload": workload.name,
            "localQueue": workload.queue,
            "priority": workload.priority,
            "pods": sum(workload.pods.values()),
            "phase": status.phase,
            "reason": status.reason,
            "message": status.message,
            "detail": status.detail,
            "since": status.since,
            "cluster": workload.cluster,
            "stuck": stuck.message if stuck is not None else "",
            "trouble": str(stuck.trouble) if stuck is not None else "",
        }

    def _borrowers(self, queue: ClusterQueue) -> list[BorrowerReport]:
        found: list[BorrowerReport] = []
        for name in self.quotas.tree(queue.name):
            each = self.cluster_queues[name]
            found += [
                {
                    "clusterQueue": name,
                    "flavor": quota["flavor"],
                    "resource": quota["resource"],
                    "borrowed": quota["borrowed"],
                }
                for quota in self._quotas(each)
                if quota["borrowed"] and each.cohort
            ]
        return found


_HOLDING: Final = frozenset({Phase.ADMITTED, Phase.QUOTA_RESERVED, Phase.EVICTING})


def _rank(member: MemberReport) -> tuple[int, int, str, str]:
    """Workloads with quota, oldest first; waiting ones; others."""
    if member["phase"] in _HOLDING:
        return 0, 0, member["since"], member["workload"]
    if member["position"] is not None:
        return 1, member["position"], "", ""
    return 2, 0, member["since"], member["workload"]
