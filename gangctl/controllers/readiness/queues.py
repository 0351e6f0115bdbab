"""The state of a JobSet in Kueue, as input of readiness, from the cached objects of Kueue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from gangctl.api.jobset import JobSet
from gangctl.api.objects import Key
from gangctl.controllers.queues.view import QueueView
from gangctl.kueue.blocked import selects
from gangctl.kueue.moments import age
from gangctl.kueue.objects import ClusterQueue, QueuedWorkload
from gangctl.kueue.order import head_of, in_order
from gangctl.kueue.states import phase_of
from gangctl.kueue.stuck import Owner, Stuck, blocking_head, stuck_workload, without_workload
from gangctl.readiness.facts import QueueFacts

HEAD_SECONDS: Final = 5.0
"""How long the head of a strict queue is cached: thousands may wait behind it, and finding it sorts them."""


@dataclass(frozen=True, slots=True)
class _Head:
    """``uid`` is of the Workload, empty where nothing waits; ``stuck`` is its effect on those behind it."""

    uid: str
    stuck: Stuck | None
    until: datetime


class QueueStatuses:
    """Answers from ``view``; ``never`` returns why a JobSet can never be admitted, where that was found.

    ``on_head`` is called with the name of a ClusterQueue whose head has changed.
    """

    def __init__(
        self, view: QueueView, never: Callable[[Key], str], on_head: Callable[[str], None] = lambda _: None
    ) -> None:
        """Start with empty caches."""
        self._view = view
        self._never = never
        self._on_head = on_head
        self._heads: dict[str, _Head] = {}

    def of(self, jobset: JobSet, pods: int, now: datetime) -> QueueFacts | None:
        """The facts of a JobSet with this many pods left; None without a queue, and without Kueue."""
        if not jobset.queue or not self._view.present:
            return None
        queue_key = jobset.namespace, jobset.queue
        workload = current(self._view.workloads_of(jobset.uid))
        cluster_queue = (workload.cluster_queue if workload is not None else "") or self._view.cluster_queue_of(
            queue_key
        )
        waits = not jobset.finished and (workload is None or phase_of(workload).waits)
        obstacle = self._view.obstacle(queue_key) if waits else None
        never = self._never(jobset.key) if waits and jobset.suspend else ""
        head = self._head(cluster_queue, now)
        if workload is None:
            stuck = self._unqueued(jobset, now)
        else:
            owner = Owner(jobset.finished, pods)
            stuck = stuck_workload(workload, owner, now, blocked=obstacle, ready_timeout=self._timeout(), kept=True)
            if stuck is None and waits and not never and head is not None and head.uid != workload.uid:
                stuck = head.stuck
        cluster = workload.cluster if workload is not None else ""
        return QueueFacts(jobset.queue, cluster_queue, workload, obstacle, stuck, never, cluster)

    def forget(self) -> None:
        """Another replica leads."""
        self._heads.clear()

    def _timeout(self) -> timedelta | None:
        seconds = self._view.facts.pods_ready_seconds
        return None if seconds is None else timedelta(seconds=seconds)

    def _unqueued(self, jobset: JobSet, now: datetime) -> Stuck | None:
        """Why Kueue has made no Workload for it; the label with its priority class is neither kept nor checked."""
        waited = age(jobset.created, now)
        if waited is None or not jobset.suspend or jobset.finished:
            return None
        configuration, labels = self._view.snapshot.configuration, self._view.labels(jobset.namespace)
        selector = configuration.managed_namespaces
        return without_workload(
            waited,
            podsets=len(jobset.replicated_jobs),
            podset_limit=self._view.facts.podset_limit,
            frameworks=configuration.frameworks if configuration.known else None,
            managed=None if selector is None or labels is None else selects(selector, labels),
            made=jobset.created,
        )

    def _head(self, name: str, now: datetime) -> _Head | None:
        """The head of a strict queue, if anything waits in it."""
        queue = self._view.snapshot.quotas.queue(name)
        if queue is None or queue.strategy != "StrictFIFO":
            return None
        known = self._heads.get(name)
        if known is not None and now < known.until:
            return known
        found = self._find_head(queue, now)
        self._heads[name] = found
        if known is not None and known.uid != found.uid:
            self._on_head(name)
        return found

    def _find_head(self, queue: ClusterQueue, now: datetime) -> _Head:
        until = now + timedelta(seconds=HEAD_SECONDS)
        ordered = in_order(self._view.inside(queue.name), queue)
        head = head_of(ordered, queue)
        if head is None:
            return _Head("", None, until)
        never = {head.uid} if self._never((head.namespace, head.owner_name)) else set[str]()
        return _Head(head.uid, blocking_head(ordered, queue, now, never=never, kept=True), until)


def current(workloads: list[QueuedWorkload]) -> QueuedWorkload | None:
    """The current one of Kueue's Workloads for one JobSet: with quota, else the newest that is not being deleted."""

    def rank(workload: QueuedWorkload) -> tuple[bool, bool, str, str]:
        return workload.holds("QuotaReserved"), not workload.deleting, workload.created, workload.name

    return max(workloads, key=rank, default=None)
