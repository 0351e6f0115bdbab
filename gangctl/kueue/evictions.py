"""Why Kueue took quota back, from the condition Evicted and what stands beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gangctl.kueue.objects import QueuedWorkload

PODS_READY_TIMEOUT: Final = "PodsReadyTimeout"
ADMISSION_CHECK: Final = "AdmissionCheck"
DEACTIVATED: Final = "Deactivated"

BACKED_OFF: Final = frozenset({PODS_READY_TIMEOUT, ADMISSION_CHECK})
"""Evictions after which some time must pass; after others the Workload is queued at once, or not by itself at all."""
STOPPED: Final = frozenset({"ClusterQueueStopped", "LocalQueueStopped"})
"""Evictions that last as long as the queue is stopped."""

_DUE_TO: Final = "DueTo"

_WORDS: Final[Mapping[str, str]] = {
    "Preempted": "to free quota for another Workload",
    PODS_READY_TIMEOUT: "because its pods were not all ready in time",
    ADMISSION_CHECK: "because an admission check asked to try again later",
    "ClusterQueueStopped": "because its ClusterQueue was stopped",
    "LocalQueueStopped": "because its LocalQueue was stopped",
    "NodeFailures": "because nodes under its pods failed",
    "FlavorMigration": "because it was admitted in a better flavor",
    "EvictedOnManagerCluster": "on the cluster that manages it",
    DEACTIVATED: "because it was deactivated",
}
_CAUSES: Final[Mapping[str, str]] = {
    ADMISSION_CHECK: "by an admission check that rejected it",
    "RequeuingLimitExceeded": "after it was queued again too often",
    "MaximumExecutionTimeExceeded": "after its maximum execution time",
    "WaitForStart": "before its pods had all started",
    "WaitForRecovery": "before pods that failed had recovered",
}
_PREEMPTED_FOR: Final[Mapping[str, str]] = {
    "InClusterQueue": "of the same ClusterQueue that goes before it",
    "InCohortReclamation": "of its cohort that takes its own quota back",
    "InCohortFairSharing": "of its cohort, in fair shares",
    "InCohortReclaimWhileBorrowing": "of its cohort that goes before it and borrows",
}


@dataclass(frozen=True, slots=True)
class Eviction:
    """``reason`` is Kueue's without its cause; ``cause`` is what it was due to, or how it was preempted."""

    reason: str
    cause: str = ""
    message: str = ""
    since: str = ""

    @property
    def words(self) -> str:
        """What follows "evicted": its cause in words, or Kueue's reason where that is not known."""
        words = _WORDS.get(self.reason, f"({self.reason})")
        if self.reason == "Preempted":
            return f"{words} {_PREEMPTED_FOR[self.cause]}" if self.cause in _PREEMPTED_FOR else words
        if not self.cause:
            return words
        return f"{words} {_CAUSES.get(self.cause, f'({self.cause})')}"


def eviction_of(workload: QueuedWorkload) -> Eviction | None:
    """The last eviction, until quota is reserved again."""
    evicted = workload.conditions.get("Evicted")
    if evicted is None or not evicted.status:
        return None
    reason, _, cause = evicted.reason.partition(_DUE_TO)
    preempted = workload.conditions.get("Preempted")
    if reason == "Preempted" and preempted is not None and preempted.status:
        cause = preempted.reason
    return Eviction(reason, cause, evicted.message, evicted.since)
