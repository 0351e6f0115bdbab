"""Running workloads that Kueue may preempt for a gang, and their order.

Source: Kueue 0.19 ``pkg/scheduler/preemption/common``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from gangctl.fit.tree import Node, Pair
from gangctl.kueue.amounts import moment
from gangctl.kueue.objects import ClusterQueue, QueuedWorkload
from gangctl.kueue.order import queued_at

LOWEST: Final = -(2**31) - 1
"""Below the priority of every workload: what is preempted for it is preempted for any."""
_LATEST: Final = datetime.max.replace(tzinfo=UTC)


class Why(StrEnum):
    """Reason of Kueue's condition Preempted."""

    IN_QUEUE = "InClusterQueue"
    RECLAIM = "InCohortReclamation"
    WHILE_BORROWING = "InCohortReclaimWhileBorrowing"
    FAIR = "InCohortFairSharing"


@dataclass(frozen=True, slots=True)
class Preemptor:
    """The gang for which others are preempted. ``since`` is its time of queueing, None for a new one."""

    queue: ClusterQueue
    priority: int
    since: datetime | None = None
    strategies: Sequence[str] | None = None
    """Of fair sharing; None without."""
    within_nominal: bool = True
    """Feature gate FairSharingPreemptWithinNominal."""

    def outranks(self, policy: str, workload: QueuedWorkload) -> bool:
        """Whether a policy of the queue allows to preempt a workload."""
        lower = workload.priority < self.priority
        match policy:
            case "Any":
                return True
            case "LowerPriority":
                return lower
            case "LowerOrNewerEqualPriority":
                older = self.since is not None and self.since < queued_at(workload)
                return lower or (workload.priority == self.priority and older)
        return False

    def order(self, each: Candidate) -> tuple[bool, bool, int, float, str]:
        """The order in which workloads are preempted, as a key."""
        workload = each.workload
        quota = workload.conditions.get("QuotaReserved")
        reserved = (moment(quota.since) if quota is not None else None) or _LATEST
        own = workload.cluster_queue == self.queue.name
        return not workload.holds("Evicted"), own, workload.priority, -reserved.timestamp(), workload.uid


@dataclass(slots=True)
class Candidate:
    """A workload that may be preempted, and what it uses; ``why`` is the reason if it is."""

    workload: QueuedWorkload
    held: Mapping[Pair, int]
    node: Node
    why: Why = Why.IN_QUEUE
    borrowing: bool = True
    """Whether it can be preempted although the preemptor borrows."""
    common: Node | None = None
    """The cohort that it has in common with the preemptor."""
