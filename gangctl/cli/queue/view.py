"""From Kueue's objects to the reports: state, quotas, the order of a queue, and the JobSets behind it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from gangctl.api.jobset import read_jobset
from gangctl.api.meta import API_VERSION, JOBSET_UID, QUEUE_NAME
from gangctl.api.objects import Object, integer_at
from gangctl.api.pods import is_finished
from gangctl.cli.queue.report import (
    COHORT,
    DESCRIPTION,
    FREE,
    NAMESPACE,
    POSITIONS,
    SUMMARY,
    UNORDERED,
    USAGE,
    WITHOUT_WORKLOAD,
    BorrowerReport,
    MemberReport,
    QueueDescription,
    QueueIdentity,
    QueueReport,
    QuotaReport,
    State,
)
from gangctl.client.client import Client, Selection
from gangctl.client.resources import JOBSETS, PODS
from gangctl.cluster import kinds
from gangctl.cluster.queues import facts_of_job
from gangctl.cluster.stock import Stock
from gangctl.errors import ForbiddenError, NotFoundError
from gangctl.fit.tree import quotas_of
from gangctl.kueue import names
from gangctl.kueue.blocked import Blockage, Blocked, JobFacts, Stuck, blocked, selected
from gangctl.kueue.objects import ClusterQueue, LocalQueue, QueuedWorkload
from gangctl.kueue.queues import current, in_order
from gangctl.kueue.states import QueuePhase, status_of


@dataclass(slots=True)
class JobSets:
    """JobSets with a queue by UID, raw, and the number of remaining pods of evicted ones."""

    raw: dict[str, dict[str, Any]] = field(default_factory=dict)
    pods: dict[str, int] = field(default_factory=dict)
    unread: bool = False
    """Whether they may not be read."""

    def owner(self, workload: QueuedWorkload) -> JobFacts:
        """Known facts of the job of a Workload."""
        raw = self.raw.get(workload.owner_uid)
        return facts_of_job(read_jobset(raw)[0], self.pods.get(workload.owner_uid)) if raw is not None else JobFacts()


async def read_jobsets(client: Client, stock: Stock, namespace: str | None) -> JobSets:
    """The JobSets of the cluster; unknown if they may not be read."""
    try:
        page = await client.list(JOBSETS, namespace, selection=Selection(label_selector=QUEUE_NAME))
    except ForbiddenError:
        return JobSets(unread=True)
    except NotFoundError:
        # A cluster without JobSets has none.
        return JobSets()
    jobsets = JobSets({str(item["metadata"].get("uid")): item for item in page.items})
    # Without the right to read pods, what an evicted Workload waits for is not known.
    with suppress(ForbiddenError):
        for workload in stock.live_workloads():
            # Only the pods of an evicted Workload show whether it holds its quota unnecessarily.
            if workload.owner_uid in jobsets.raw and workload.holds("Evicted") and workload.holds("QuotaReserved"):
                jobsets.pods[workload.owner_uid] = await _pods(client, workload)
    return jobsets


async def _pods(client: Client, workload: QueuedWorkload) -> int:
    selection = Selection(label_selector=f"{JOBSET_UID}={workload.owner_uid}")
    page = await client.list(PODS, workload.namespace, selection=selection)
    return sum(not is_finished(item) for item in page.items)


_STATES: Final[Mapping[Blockage, State]] = {
    Blockage.LOCAL_QUEUE_MISSING: "missing",
    Blockage.LOCAL_QUEUE_STOPPED: "stopped",
    Blockage.CLUSTER_QUEUE_MISSING: "missing",
    Blockage.CLUSTER_QUEUE_TERMINATING: "inactive",
    Blockage.CLUSTER_QUEUE_STOPPED: "stopped",
    Blockage.CLUSTER_QUEUE_INACTIVE: "inactive",
    Blockage.NAMESPACE_NOT_SELECTED: "inactive",
}


class View:
    """The objects at one point in time, with the JobSets if known."""

    def __init__(self, stock: Stock, now: datetime, jobsets: JobSets | None = None) -> None:
        """``now`` is that time."""
        self.stock = stock
        self.now = now
        self.jobsets = jobsets or JobSets()

    def of_cluster_queue(self, queue: ClusterQueue) -> QueueReport:
        """The summary of a ClusterQueue."""
        # An open LocalQueue, so that only the ClusterQueue can block.
        closed = blocked("", LocalQueue("", "", queue.name), queue, None)
        status = self.stock.status_of("ClusterQueue", queue.name)
        report = self._summary(queue, closed, self.stock.inside(queue.name), status)
        return {**report, "metadata": {"name": queue.name, "namespace": ""}, "queue": "ClusterQueue"}

    def of_local_queue(self, door: LocalQueue) -> QueueReport:
        """The summary of a LocalQueue."""
        queue = self.stock.cluster_queue(door.cluster_queue)
        closed = self.stock.obstacle(door.namespace, door.name)
        status = self.stock.status_of("LocalQueue", door.name, door.namespace)
        report = self._summary(queue, closed, self._behind(door.namespace, door.name), status)
        identity: QueueIdentity = {"name": door.name, "namespace": door.namespace}
        unknown = list(report["unknown"])
        labels = self.stock.labels(door.namespace)
        # Labels that are not known close no queue.
        if closed is None and queue is not None and selected(queue.selector, labels, door.namespace) is None:
            unknown.append(NAMESPACE)
        return {**report, "metadata": identity, "clusterQueue": door.cluster_queue, "unknown": unknown}

    def _behind(self, namespace: str, name: str) -> list[QueuedWorkload]:
        inside = self.stock.workloads.by_index("local_queue", (namespace, name))
        return [workload for workload in inside if not workload.holds("Finished")]

    def _summary(
        self, queue: ClusterQueue | None, closed: Blocked | None, inside: Sequence[QueuedWorkload], status: Object
    ) -> QueueReport:
        pending = [workload for workload in inside if not workload.holds("QuotaReserved")]
        # Where not all Workloads are known, Kueue has counted those that are not.
        waiting = 0 if self.stock.heads_known else integer_at(status, "pendingWorkloads")
        holding = 0 if self.stock.snapshot.workloads_known else integer_at(status, "reservingWorkloads")
        return {
            "apiVersion": API_VERSION,
            "kind": SUMMARY,
            "metadata": {"name": "", "namespace": ""},
            "queue": "LocalQueue",
            "clusterQueue": queue.name if queue is not None else "",
            "cohort": queue.cohort if queue is not None else "",
            "strategy": queue.strategy if queue is not None else "",
            "state": "active" if closed is None else _STATES[closed.reason],
            "reason": "" if closed is None else str(closed.reason),
            "message": "" if closed is None else closed.message,
            "pending": max(len(pending), waiting),
            "admitted": max(len(inside) - len(pending), holding),
            "oldest": min(filter(None, (workload.created for workload in pending)), default=""),
            "quotas": [] if queue is None else self._quotas(queue),
            "unknown": [] if queue is None else [*self._unknown(queue), *self._unlisted(queue)],
        }

    def _unknown(self, queue: ClusterQueue) -> list[str]:
        """What of its quota is not known."""
        snapshot = self.stock.snapshot
        unknown = [] if snapshot.usage_known(queue.name) else [USAGE.format(snapshot.unseen)]
        lent = self._unlent(queue)
        return [*unknown, COHORT.format(lent)] if lent else unknown

    def _unlent(self, queue: ClusterQueue) -> str:
        """Why it is not known what its cohort lends; empty if it is."""
        if self.stock.snapshot.cohort_known(queue.name):
            return self.stock.trouble(kinds.COHORTS) if queue.cohort else ""
        return "the files have less than its ClusterQueues hold"

    def _unlisted(self, queue: ClusterQueue) -> list[str]:
        snapshot = self.stock.snapshot
        return [FREE.format(snapshot.unseen)] if snapshot.unlisted(queue.name, quotas_of(queue.groups)) else []

    def _quotas(self, queue: ClusterQueue) -> list[QuotaReport]:
        quotas: list[QuotaReport] = []
        unknown, unlent = self._unknown(queue), self._unlent(queue)
        usage_known = self.stock.snapshot.usage_known(queue.name)
        for (flavor, resource), quota in quotas_of(queue.groups).items():
            used = self.stock.snapshot.quotas.used(queue.name, flavor, resource) if usage_known else None
            ceiling = self.stock.snapshot.quotas.ceiling(queue.name, flavor, resource).amount
            free = max(0, self.stock.snapshot.quotas.available(queue.name, flavor, resource))
            free_known = not unknown and not self.stock.snapshot.unlisted(queue.name, [(flavor, resource)])
            quotas.append(
                {
                    "flavor": flavor,
                    "resource": resource,
                    "used": used,
                    "nominal": quota.nominal,
                    "borrowed": None if used is None else max(0, used - quota.nominal),
                    "borrowable": None if ceiling is None or unlent else max(0, ceiling - quota.nominal),
                    "free": free if free_known else None,
                }
            )
        return quotas

    def describe(self, report: QueueReport) -> QueueDescription:
        """A queue with what is in it."""
        identity, queue = report["metadata"], self.stock.cluster_queue(report["clusterQueue"])
        local = report["queue"] == "LocalQueue"
        inside = self._behind(**identity) if local else self.stock.inside(identity["name"])
        ordering = self.stock.configuration.ordering
        ordered = in_order(self.stock.tried(queue.name), queue, ordering) if queue is not None else []
        order = {workload.uid: number for number, workload in enumerate(ordered, 1)}
        members = sorted((self._member(workload, order.get(workload.uid)) for workload in inside), key=_rank)
        unknown = list(report["unknown"])
        setting = self.stock.configuration.unordered(queue) if queue is not None else ""
        if not self.stock.heads_known:
            unknown.append(POSITIONS.format(self.stock.snapshot.heads_unseen))
        elif setting and any(member["position"] is not None for member in members):
            unknown.append(UNORDERED.format(setting))
        if not self.stock.heads_known or setting:
            # Their order holds without a setting: what waits in other namespaces is between them.
            members = [{**member, "position": None} for member in members]
        if self.jobsets.unread:
            unknown.append(WITHOUT_WORKLOAD)
        return {
            **report,
            "kind": DESCRIPTION,
            "members": members,
            "borrowers": self._borrowers(queue) if queue is not None else [],
            "stuck": self._stuck(report, queue),
            "unknown": unknown,
        }

    def _stuck(self, report: QueueReport, queue: ClusterQueue | None) -> list[str]:
        """Problems that block the whole queue, and JobSets without a Workload."""
        head, blocking = None if queue is None else self.stock.heads.of(queue, self.now), None
        if head is not None:
            raw = self.jobsets.raw.get(head.workload.owner_uid)
            never = raw is not None and self.stock.never(raw, head.workload.namespace)
            blocking = head.effect(None, impossible=bool(never))
        stuck = [] if blocking is None else [blocking.message]
        identity = report["metadata"]
        if report["queue"] == "LocalQueue":
            doors = [(identity["namespace"], identity["name"])]
        else:
            leading = self.stock.local_queues.by_index("cluster_queue", identity["name"])
            doors = [(local_queue.namespace, local_queue.name) for local_queue in leading]
        return stuck + self._forgotten(frozenset(doors))

    def _forgotten(self, doors: Collection[tuple[str, str]]) -> list[str]:
        """JobSets of these LocalQueues without a Workload of Kueue that has not finished, each in a sentence."""
        messages = []
        for uid, raw in self.jobsets.raw.items():
            jobset, _ = read_jobset(raw)
            workload = current(self.stock.workloads_of(uid))
            if (workload is None or workload.holds("Finished")) and (jobset.namespace, jobset.queue) in doors:
                # A finished one is no member of its queue: Kueue may have finished it without a start.
                stuck = self._stuck_as(workload) if workload is not None else self.stock.unqueued(jobset, self.now)
                messages += [f"JobSet {jobset.namespace}/{jobset.name}: {stuck.message}"] if stuck is not None else []
        return sorted(messages)

    def _stuck_as(self, workload: QueuedWorkload, closed: Blocked | None = None) -> Stuck | None:
        return self.stock.stuck(workload, self.jobsets.owner(workload), self.now, blocked=closed)

    def _member(self, workload: QueuedWorkload, position: int | None) -> MemberReport:
        closed = self.stock.obstacle(workload.namespace, workload.queue)
        status = status_of(workload, self.now, queue_open=closed is None)
        stuck = self._stuck_as(workload, closed if status.phase.waits else None)
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
            "trouble": str(stuck.reason) if stuck is not None else "",
        }

    def _borrowers(self, queue: ClusterQueue) -> list[BorrowerReport] | None:
        if not self.stock.snapshot.usage_known(queue.name):
            return None
        borrowers: list[BorrowerReport] = []
        for name in self.stock.snapshot.quotas.tree(queue.name):
            borrower = self.stock.cluster_queue(name)
            if borrower is None or not borrower.cohort:
                continue
            borrowers += [
                {
                    "clusterQueue": name,
                    "flavor": quota["flavor"],
                    "resource": quota["resource"],
                    "borrowed": quota["borrowed"],
                }
                for quota in self._quotas(borrower)
                if quota["borrowed"]
            ]
        return borrowers


_HOLDING: Final = frozenset({QueuePhase.ADMITTED, QueuePhase.QUOTA_RESERVED, QueuePhase.EVICTING})


def _rank(member: MemberReport) -> tuple[int, int, str, str]:
    """Workloads with quota, oldest first; waiting ones; others."""
    if member["phase"] in _HOLDING:
        return 0, 0, member["since"], member["workload"]
    if member["position"] is not None:
        return 1, member["position"], "", ""
    return 2, 0, member["since"], member["workload"]
