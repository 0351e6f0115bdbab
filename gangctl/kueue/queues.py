"""A JobSet in its queue: its current Workload, the order in which Kueue tries Workloads, and the head before others.

Priority first, then the time of queueing, then the UID (``baseCompareFunc`` of Kueue's ``pkg/cache/queue``, v0.19). A
StrictFIFO queue tries its head only, until that is admitted. A BestEffortFIFO queue skips Workloads that do not fit,
and retries all of them in the same order when usage or quotas change: so one order holds for both.

The shares of AdmissionFairSharing are not in the Workloads, and the boosts of priority (alpha) are not read: with those
the order is another, and no head is known (``unordered`` of the configuration).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from gangctl.errors import FieldError
from gangctl.gang.reasons import Reason
from gangctl.kueue.amounts import TimeFormat, moment
from gangctl.kueue.blocked import RESET_CHECKS, Blocked, Stuck
from gangctl.kueue.configuration import DEFAULT_ORDERING, KueueConfiguration, Ordering, PodsReady
from gangctl.kueue.objects import ClusterQueue, QueuedWorkload
from gangctl.kueue.states import (
    ADMISSION_CHECK,
    PODS_READY_TIMEOUT,
    QueuePhase,
    eviction_of,
    failed_checks,
    is_backed_off,
    phase_of,
)

MOST_PODSETS: Final = 18
"""Podsets of a Workload since Kueue 0.19."""

# Behind all others: what has no time is not stored yet.
_UNDATED: Final = datetime.max.replace(tzinfo=UTC)
_QUEUED: Final = frozenset(
    {QueuePhase.PENDING, QueuePhase.BACKOFF, QueuePhase.WAITING_FOR_PODS_READY, QueuePhase.BLOCKED}
)
_MOVING: Final = frozenset({ADMISSION_CHECK, PODS_READY_TIMEOUT})
_RECLAIMED: Final = "InCohortReclaimWhileBorrowing"
_NOT_TRIED: Final = ("", "PendingEvaluation", "Waiting", "WaitingForPodsReady")
"""Reasons of QuotaReserved of a Workload that Kueue has not tried, or not since it could."""


@dataclass(frozen=True, slots=True)
class Never:
    """Why a queue can never admit a JobSet: a reason of a fit report that begins with Never, and the arithmetic."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """State of a JobSet in Kueue; ``workload`` is None if Kueue has created none (yet), and if that is not known."""

    local_queue: str
    cluster_queue: str
    workload: QueuedWorkload | None = None
    blocked: Blocked | None = None
    opened: bool = False
    """Whether its queues have become active after what Kueue said last of it, which is not about them any more."""
    stuck: Stuck | None = None
    stuck_at: datetime | None = None
    """When time alone makes, or has made, it stuck; None if only a change can."""
    never: Never | None = None
    """None if it can be, and if that is unknown."""
    conflicts: tuple[FieldError, ...] = ()
    """While it waits: what keeps it from starting later, written into its pod templates by an update."""
    cluster: str = ""
    """The worker cluster on which MultiKueue runs it, or ran it; empty for none."""
    queues_known: bool = True
    """Whether ClusterQueues may be read."""
    workloads_known: bool = True
    """Whether Workloads may be read: without this right it may have one."""


def current(workloads: Iterable[QueuedWorkload]) -> QueuedWorkload | None:
    """The current one of Kueue's Workloads for one JobSet.

    One that has not finished before one that has, then one with quota, then the newest that is not being deleted.
    """

    def rank(workload: QueuedWorkload) -> tuple[bool, bool, bool, str, str]:
        finished, quota = workload.holds("Finished"), workload.holds("QuotaReserved")
        # Times of Kubernetes are RFC 3339 in UTC and whole seconds, so that they sort as text.
        return not finished, quota, not workload.deleting, workload.created, workload.name

    return max(workloads, key=rank, default=None)


def may_be_admitted(workload: QueuedWorkload | None) -> bool:
    """Whether a JobSet with this current Workload waits for quota; for one without any, Kueue may make it."""
    return workload is None or phase_of(workload).waits


def pods_ready(configuration: KueueConfiguration, podset_limit: int | None) -> PodsReady | None:
    """The timeouts of ``waitForPodsReady``; None if it is off or unknown."""
    ready = configuration.wait_for_pods_ready
    # It is on by default since 0.19, the first version that takes so many podsets.
    on = ready.on if ready.on is not None else podset_limit is not None and podset_limit >= MOST_PODSETS
    return ready if configuration.known and on else None


def queued_at(workload: QueuedWorkload, ordering: Ordering = DEFAULT_ORDERING) -> datetime:
    """The time that determines its position: of its creation, or of an eviction that moves it to the end of the queue.

    As GetQueueOrderTimestamp.
    """
    eviction, preempted = eviction_of(workload), workload.condition("Preempted")
    if eviction is not None and eviction.reason in ({ADMISSION_CHECK} if ordering.by_creation else _MOVING):
        return moment(eviction.since) or _UNDATED
    at = moment(preempted.since) if preempted.status and preempted.reason == _RECLAIMED else None
    if at is not None and not ordering.by_priority:
        # Where no priority decides, it comes after the one that it was preempted for.
        return at + timedelta(milliseconds=1)
    return moment(workload.created) or _UNDATED


def is_queued(workload: QueuedWorkload) -> bool:
    """Whether it is in the queue: without gates or quota, not suspended by its owner, not deactivated, not refused."""
    requeued = workload.condition("Requeued")
    # Kueue does not count its claims of devices: it stays out until they, or what Kueue knows of devices, change.
    refused = not requeued.status and requeued.reason == "Inadmissible"
    # The order is that of an open queue, whatever Kueue wrote while it was closed.
    return phase_of(workload, queue_open=True) in _QUEUED and not (
        workload.deleting or workload.holds("WaitingForReplacementPods") or refused or workload.has_variants
    )


def in_order(
    workloads: Iterable[QueuedWorkload], cluster_queue: ClusterQueue, ordering: Ordering = DEFAULT_ORDERING
) -> list[QueuedWorkload]:
    """The pending Workloads of one ClusterQueue, in the order in which Kueue tries them."""
    sticky = cluster_queue.strategy == "BestEffortFIFO"

    def place(workload: QueuedWorkload) -> tuple[bool, int, datetime, str]:
        # One for which others are being preempted stays first until they are gone.
        quota = workload.condition("QuotaReserved")
        preempts = not quota.status and "Pending the preemption of " in quota.message
        since = queued_at(workload, ordering)
        return not (sticky and preempts), -workload.priority, since, workload.uid

    return sorted((workload for workload in workloads if is_queued(workload)), key=place)


def head_of(ordered: Sequence[QueuedWorkload], cluster_queue: ClusterQueue) -> QueuedWorkload | None:
    """The Workload that blocks all others of a StrictFIFO queue, or None; ``ordered`` is from :func:`in_order`."""
    if cluster_queue.strategy != "StrictFIFO":
        return None
    return next((workload for workload in ordered if not _is_skipped(workload)), None)


def _is_skipped(workload: QueuedWorkload) -> bool:
    """Whether others may overtake it in a StrictFIFO queue."""
    foreign = workload.condition("QuotaReserved").message.startswith("workload namespace doesn't match ")
    # For any reason (backoffWaitingTimeExpired of Kueue).
    kept_out = "Requeued" in workload.conditions and not workload.holds("Requeued")
    return foreign or kept_out or is_backed_off(workload)


@dataclass(frozen=True, slots=True)
class Head:
    """The first Workload that waits in a StrictFIFO queue, at one time; ``behind`` are the others that wait."""

    workload: QueuedWorkload
    behind: int
    queue: ClusterQueue
    now: datetime
    ordering: Ordering = DEFAULT_ORDERING

    def effect(
        self, reader: str | None, *, joined: bool = False, impossible: bool = False, kept: bool = False
    ) -> Stuck | None:
        """Its effect on those behind it, and on one that has ``joined``.

        None if it blocks none, and if Kueue has neither found that it does not fit nor passes it over.
        ``reader`` is the namespace of the readers, None for those who may read all that the objects were read from.
        ``impossible`` is one that can never be admitted. ``kept`` texts have absolute times.
        """
        behind = self.behind + joined
        quota = self.workload.condition("QuotaReserved")
        failed = failed_checks(self.workload)
        if (not behind and not impossible) or (quota.reason in _NOT_TRIED and not failed):
            return None
        state, remedy = (
            "does not fit now",
            "it goes once quota is free; queueingStrategy BestEffortFIFO would let others pass",
        )
        if impossible:
            state = "can never fit"
            remedy = "delete or shrink it, raise the quota, or give the ClusterQueue queueingStrategy BestEffortFIFO"
        elif failed:
            state, remedy = f"is passed over because of checks that are not reset: {failed}", RESET_CHECKS
        # Kueue tries it again first, whatever quota is free.
        refused = phase_of(self.workload, queue_open=True) is QueuePhase.BLOCKED
        if refused and not (impossible or failed):
            state = "is refused by Kueue as it is, by its resources or a LimitRange"
            remedy = "delete it or change its resources, or give the ClusterQueue queueingStrategy BestEffortFIFO"
        since = moment(quota.since or self.workload.created)
        waited = f" {TimeFormat(self.now, kept).lasting(since)}" if since is not None else ""
        return Stuck(
            Reason.HEAD_BLOCKS_QUEUE,
            f'"{self.workload.title_for(reader)}" {state}, and is the head of StrictFIFO ClusterQueue '
            f'"{self.queue.name}"{waited}; {behind} behind it wait',
            remedy,
            waits=not (impossible or failed or refused),
        )

    def precedes(self, workload: QueuedWorkload) -> bool:
        """Whether Kueue tries it, and nothing else, before another Workload of its queue."""
        if workload.uid == self.workload.uid or not is_queued(workload):
            return False
        both = in_order([self.workload, workload], self.queue, self.ordering)
        return head_of(both, self.queue) is self.workload


def find_head(
    queue: ClusterQueue,
    inside: Iterable[QueuedWorkload],
    now: datetime,
    ordering: Ordering = DEFAULT_ORDERING,
) -> Head | None:
    """The head of a StrictFIFO queue with these Workloads; None for another strategy, and where nothing waits."""
    if queue.strategy != "StrictFIFO":
        return None
    ordered = in_order(inside, queue, ordering)
    first = head_of(ordered, queue)
    return None if first is None else Head(first, len(ordered) - 1, queue, now, ordering)
