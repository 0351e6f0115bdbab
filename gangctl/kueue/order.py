"""Order in which Kueue tries the pending Workloads of a ClusterQueue.

Priority first, then the time of queueing, then the UID (``baseCompareFunc`` of Kueue's ``pkg/cache/queue``, v0.19). A
StrictFIFO queue tries its head only, until that is admitted. A BestEffortFIFO queue skips Workloads that do not fit,
and retries all of them in the same order when usage or quotas change: so one order holds for both.

The shares of AdmissionFairSharing and the boosts of priority (alpha) are not in the Workloads: with those the
order differs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from gangctl.kueue.amounts import moment
from gangctl.kueue.objects import ClusterQueue, QueuedWorkload
from gangctl.kueue.states import ADMISSION_CHECK, PODS_READY_TIMEOUT, Phase, eviction_of, is_backed_off, phase_of

_UNDATED: Final = datetime.max.replace(tzinfo=UTC)
_QUEUED: Final = frozenset({Phase.PENDING, Phase.BACKOFF, Phase.WAITING_FOR_PODS_READY, Phase.BLOCKED})


@dataclass(frozen=True, slots=True)
class Place:
    """Position of a Workload in its ClusterQueue, from 0 as in Kueue's visibility API.

    Others may overtake a ``skipped`` one: it backs off, or Kueue skipped it because it does not fit now.
    """

    workload: QueuedWorkload
    in_cluster_queue: int
    skipped: bool


def queued_at(workload: QueuedWorkload) -> datetime:
    """The time that determines its position: of its creation, or of an eviction that moves it to the end of the queue.

    With ``waitForPodsReady.requeuingStrategy.timestamp`` Creation, only evictions by admission checks would do that:
    that setting is not read.
    """
    eviction = eviction_of(workload)
    late = eviction is not None and eviction.reason in {ADMISSION_CHECK, PODS_READY_TIMEOUT}
    since = eviction.since if eviction is not None and late else workload.created
    return moment(since) or _UNDATED


def is_queued(workload: QueuedWorkload) -> bool:
    """Whether it is in the queue: without gates, not suspended by its owner, not deactivated, without quota."""
    return phase_of(workload, queue_open=True) in _QUEUED and not (
        workload.deleting or workload.holds("WaitingForReplacementPods")
    )


def in_order(workloads: Iterable[QueuedWorkload], cluster_queue: ClusterQueue) -> list[QueuedWorkload]:
    """The pending Workloads of one ClusterQueue, in the order in which Kueue tries them."""
    sticky = cluster_queue.strategy == "BestEffortFIFO"

    def place(workload: QueuedWorkload) -> tuple[bool, int, datetime, str]:
        return (
            not (sticky and _makes_room(workload)),
            -workload.priority,
            queued_at(workload),
            workload.uid,
        )

    return sorted((workload for workload in workloads if is_queued(workload)), key=place)


def _makes_room(workload: QueuedWorkload) -> bool:
    """Whether others are being preempted for it: it stays at the head of a BestEffortFIFO queue until they are gone."""
    quota = workload.conditions.get("QuotaReserved")
    return quota is not None and not quota.status and "Pending the preemption of " in quota.message


def places(ordered: Sequence[QueuedWorkload], cluster_queue: ClusterQueue) -> dict[str, Place]:
    """The position of each Workload, by UID, in the order of :func:`in_order`."""
    return {
        workload.uid: Place(workload, position, _skipped(workload, cluster_queue))
        for position, workload in enumerate(ordered)
    }


def head_of(ordered: Sequence[QueuedWorkload], cluster_queue: ClusterQueue) -> QueuedWorkload | None:
    """The Workload that blocks all others of a StrictFIFO queue, or None."""
    if cluster_queue.strategy != "StrictFIFO":
        return None
    return next((workload for workload in ordered if not _skipped(workload, cluster_queue)), None)


NOT_LOOKED_AT: Final = ("", "PendingEvaluation", "Waiting", "WaitingForPodsReady")
"""Reasons of QuotaReserved of a Workload that Kueue has not tried, or not since it could."""
_NOT_OF_THE_NAMESPACE: Final = "workload namespace doesn't match "


def _skipped(workload: QueuedWorkload, cluster_queue: ClusterQueue) -> bool:
    if is_backed_off(workload):
        return True
    quota = workload.conditions.get("QuotaReserved")
    if quota is None:
        return False
    if cluster_queue.strategy == "StrictFIFO":
        return quota.message.startswith(_NOT_OF_THE_NAMESPACE)
    return quota.reason not in NOT_LOOKED_AT and not _makes_room(workload)
