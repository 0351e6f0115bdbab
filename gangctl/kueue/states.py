"""State of a Kueue Workload: one closed list of phases, for both sets of condition reasons.

Kueue 0.19 has two: the older one (Pending, Inadmissible, Waiting), and that of KEP-10852 behind the gate
``UnadmittedWorkloadsObservability``. A phase follows from the status of conditions first and from a reason second, and
is the same with both; a more specific reason is shown in addition, as Kueue wrote it.
Source: Kueue ``apis/kueue/v1beta2`` of v0.19.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Final

from gangctl.kueue.amounts import TimeFormat, moment
from gangctl.kueue.objects import Condition, QueuedWorkload

PODS_READY_TIMEOUT: Final = "PodsReadyTimeout"
ADMISSION_CHECK: Final = "AdmissionCheck"
DEACTIVATED: Final = "Deactivated"
FAILED_TO_START: Final = "FailedToStart"

BACKED_OFF: Final = frozenset({PODS_READY_TIMEOUT, ADMISSION_CHECK})
"""Evictions with a backoff; after others the Workload is queued at once, or not by itself."""
STOPPED: Final = frozenset({"ClusterQueueStopped", "LocalQueueStopped"})
"""Evictions that last as long as the queue is stopped."""
FAILED_CHECKS: Final = frozenset({"Retry", "Rejected"})
"""States of a check that has failed."""

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
    """Why Kueue evicted a Workload, from the condition Evicted and related ones.

    ``reason`` is Kueue's without its cause; ``cause`` is the underlying cause, or how it was preempted.
    """

    reason: str
    cause: str = ""
    message: str = ""
    since: str = ""

    @property
    def words(self) -> str:
        """Text after "evicted": its cause, or Kueue's reason if that is unknown."""
        words = _WORDS.get(self.reason, f"({self.reason})")
        if self.reason == "Preempted":
            return f"{words} {_PREEMPTED_FOR[self.cause]}" if self.cause in _PREEMPTED_FOR else words
        if not self.cause:
            return words
        return f"{words} {_CAUSES.get(self.cause, f'({self.cause})')}"


def eviction_of(workload: QueuedWorkload) -> Eviction | None:
    """The last eviction, until quota is reserved again."""
    evicted, preempted = workload.condition("Evicted"), workload.condition("Preempted")
    if not evicted.status:
        return None
    reason, _, cause = evicted.reason.partition(_DUE_TO)
    # Kueue writes how it was preempted into a condition of its own, and not behind DueTo.
    if reason == "Preempted" and preempted.status:
        cause = preempted.reason
    return Eviction(reason, cause, evicted.message, evicted.since)


class QueuePhase(StrEnum):
    """Stable, CamelCase; lower case in metrics."""

    PENDING = "Pending"
    BLOCKED = "Blocked"
    GATED = "Gated"
    ON_HOLD = "OnHold"
    BACKOFF = "Backoff"
    WAITING_FOR_PODS_READY = "WaitingForPodsReady"
    QUOTA_RESERVED = "QuotaReserved"
    ADMITTED = "Admitted"
    EVICTING = "Evicting"
    DEACTIVATED = "Deactivated"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"

    @property
    def sentence(self) -> str:
        """Description for users."""
        return _SENTENCES[self]

    @property
    def waits(self) -> bool:
        """Whether it has no quota, and may get some."""
        return self in _WAITS


_SENTENCES: Final[Mapping[QueuePhase, str]] = {
    QueuePhase.PENDING: "It waits in its queue for its turn, or for quota.",
    QueuePhase.BLOCKED: "Kueue does not consider it: its queue is closed to it, or its pods are refused as they are.",
    QueuePhase.GATED: "It is not queued until the gates on its JobSet are removed.",
    QueuePhase.ON_HOLD: "It gave its quota back and stays out of its queue until its owner wants it again.",
    QueuePhase.BACKOFF: "It was evicted, and is not tried again before some time has passed.",
    QueuePhase.WAITING_FOR_PODS_READY: "It waits until the pods of everything admitted before it are ready.",
    QueuePhase.QUOTA_RESERVED: "It has quota, and waits for its admission checks before it may start.",
    QueuePhase.ADMITTED: "It is admitted: its pods may run.",
    QueuePhase.EVICTING: "It is evicted, and holds its quota until its pods are gone, unless it is deactivated.",
    QueuePhase.DEACTIVATED: "It is deactivated, and not queued until spec.active is true again.",
    QueuePhase.SUCCEEDED: "It has finished, with success.",
    QueuePhase.FAILED: "It has finished, without success.",
}
_WAITS: Final = frozenset(
    {
        QueuePhase.PENDING,
        QueuePhase.BLOCKED,
        QueuePhase.GATED,
        QueuePhase.ON_HOLD,
        QueuePhase.BACKOFF,
        QueuePhase.WAITING_FOR_PODS_READY,
    }
)

_PENDING_REASONS: Final = frozenset(
    {
        "",
        "Pending",
        "PendingEvaluation",
        "WaitingForQuota",
        "ExceedsMaxQuota",
        "NoMatchingFlavor",
        "TopologyPlacementFailed",
        "WaitingForPreemptedWorkloads",
        # Not from the reason, which lags behind: from spec.active, and the state of the queue.
        "Deactivated",
        "Inadmissible",
        "Misconfigured",
        "Suspended",
    }
)
_BLOCKED_REASONS: Final = frozenset({"Inadmissible", "Misconfigured", "Suspended"})

_OF_THE_QUEUE: Final = re.compile(
    r"(Local|Cluster)Queue \S+ (doesn't exist|is inactive|not found|is stopped|is terminating or missing)"
    r"|workload namespace |invalid namespace selector"
)
_OF_THE_PODS: Final = re.compile(r"resources validation failed|resources didn't satisfy LimitRange")
"""Pending in the older set, but Suspended or Misconfigured in the newer one: only the message, which is the same in
both, distinguishes these."""


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """``reason`` and ``message`` are Kueue's own, ``since`` is RFC 3339, ``detail`` is derived from the rest."""

    phase: QueuePhase
    reason: str = ""
    message: str = ""
    since: str = ""
    detail: str = ""

    @property
    def label(self) -> str:
        """The phase, with the reason if gangctl does not know it."""
        known = self.phase is not QueuePhase.PENDING or self.reason in _PENDING_REASONS
        return str(self.phase) if known else f"{self.phase} ({self.reason})"


def phase_of(workload: QueuedWorkload, *, queue_open: bool | None = None) -> QueuePhase:
    """The phase of a Workload.

    ``queue_open`` is whether the queue admits anything (:func:`gangctl.kueue.blocked.blocked`), if the caller
    knows: Kueue updates a Workload after its queue was stopped or opened only when it syncs the Workload again, and a
    new one has no conditions.
    """
    finished = workload.condition("Finished")
    # Before the others: Kueue leaves them as they are when a Workload finishes.
    if finished.status:
        return QueuePhase.SUCCEEDED if finished.reason == "Succeeded" else QueuePhase.FAILED
    # Before Deactivated: its pods are not gone yet.
    if workload.holds("QuotaReserved") and (workload.holds("Evicted") or not workload.active):
        return QueuePhase.EVICTING
    if not workload.active:
        return QueuePhase.DEACTIVATED
    if workload.holds("Admitted"):
        return QueuePhase.ADMITTED
    if workload.holds("QuotaReserved"):
        return QueuePhase.QUOTA_RESERVED
    return _unreserved(workload, queue_open)


def _unreserved(workload: QueuedWorkload, queue_open: bool | None) -> QueuePhase:
    quota = workload.condition("QuotaReserved")
    # Before the queue: its owner keeps it out, whatever the queue admits.
    if quota.reason == "OnHold":
        return QueuePhase.ON_HOLD
    # Kueue alternates between "gated" and "queue stopped": the constant fact decides.
    if queue_open is False:
        return QueuePhase.BLOCKED
    if workload.gates or quota.reason == "AdmissionGated":
        return QueuePhase.GATED
    if _is_blocked(workload, quota, known_open=queue_open is True):
        return QueuePhase.BLOCKED
    if is_backed_off(workload):
        return QueuePhase.BACKOFF
    if quota.reason in {"Waiting", "WaitingForPodsReady"}:
        return QueuePhase.WAITING_FOR_PODS_READY
    return QueuePhase.PENDING


def _is_blocked(workload: QueuedWorkload, quota: Condition, *, known_open: bool) -> bool:
    if _OF_THE_PODS.match(quota.message):
        return True
    of_the_queue = _OF_THE_QUEUE.match(quota.message) is not None
    if quota.reason in _BLOCKED_REASONS:
        return not (of_the_queue and known_open)
    requeued = workload.condition("Requeued")
    stopped = not requeued.status and requeued.reason in STOPPED
    return (of_the_queue or stopped) and not known_open


def is_backed_off(workload: QueuedWorkload) -> bool:
    """Whether it was evicted and is not tried before ``requeue_at``."""
    requeued = workload.conditions.get("Requeued")
    if requeued is None:
        return bool(workload.requeue_at)
    return not requeued.status and requeued.reason in BACKED_OFF


def lacks_class(workload: QueuedWorkload, label: str) -> bool:
    """Whether Kueue has still to give a Workload the WorkloadPriorityClass of its job's label.

    Until it has, it neither starts nor stops the job (``updateWorkloadPriorities``).
    """
    if not label or workload.pod_priority:
        return False
    # The API server refuses a first class once quota is reserved.
    return workload.priority_class != label if workload.priority_class else not workload.holds("QuotaReserved")


def failed_checks(workload: QueuedWorkload) -> str:
    """The checks with which Kueue does not try a Workload, with their states; empty if there are none."""
    return ", ".join(f"{check.name} ({check.state})" for check in workload.checks if check.state in FAILED_CHECKS)


def status_of(
    workload: QueuedWorkload, now: datetime, *, queue_open: bool | None = None, kept: bool = False
) -> QueueStatus:
    """The phase with its details; a backoff's end is compared with ``now``.

    ``kept`` texts contain absolute times (:class:`~gangctl.kueue.amounts.TimeFormat`).
    """
    phase = phase_of(workload, queue_open=queue_open)
    condition = _deciding(workload, phase)
    return QueueStatus(
        phase,
        reason=condition.reason,
        message=condition.message,
        since=condition.since or workload.created,
        detail=_detail(workload, phase, TimeFormat(now, kept)),
    )


_DECIDING: Final[Mapping[QueuePhase, str]] = {
    QueuePhase.QUOTA_RESERVED: "Admitted",
    QueuePhase.ADMITTED: "Admitted",
    QueuePhase.EVICTING: "Evicted",
    QueuePhase.DEACTIVATED: "Evicted",
    QueuePhase.SUCCEEDED: "Finished",
    QueuePhase.FAILED: "Finished",
}


def _deciding(workload: QueuedWorkload, phase: QueuePhase) -> Condition:
    """The condition with the reason, or an empty one."""
    name = _DECIDING.get(phase, "QuotaReserved")
    if phase is not QueuePhase.QUOTA_RESERVED:
        return workload.condition(name)
    # It waits for checks since it has reserved quota; before there are checks, no other condition has the time.
    reserved = workload.condition("QuotaReserved")
    return replace(workload.conditions.get(name, reserved), since=reserved.since)


def _detail(workload: QueuedWorkload, phase: QueuePhase, when: TimeFormat) -> str:
    match phase:
        case QueuePhase.QUOTA_RESERVED:
            return _checks(workload, when)
        case QueuePhase.BACKOFF:
            return _backoff(workload, when)
        case QueuePhase.ADMITTED:
            ready = workload.conditions.get("PodsReady")
            return "" if ready is None or ready.status else f"not all of its pods are ready ({ready.reason})"
        case QueuePhase.GATED:
            return f"gated by {', '.join(workload.gates)}" if workload.gates else ""
        case QueuePhase.SUCCEEDED | QueuePhase.FAILED:
            return ""
        case _:
            eviction = eviction_of(workload)
            return "" if eviction is None else f"evicted {eviction.words}"


def _checks(workload: QueuedWorkload, when: TimeFormat) -> str:
    waiting = workload.unready_checks
    if not waiting:
        return ""
    shown = ", ".join(f"{c.name} ({c.state}: {c.message})" if c.message else f"{c.name} ({c.state})" for c in waiting)
    words = f"waits for {'check' if len(waiting) == 1 else 'checks'} {shown}"
    if workload.nominated:
        words += f"; it waits in the queues of worker clusters {', '.join(workload.nominated)}"
    # A check with a retry delay keeps the quota until then: Kueue checks the time first.
    end = moment(workload.requeue_at) if any(check.state == "Retry" for check in waiting) else None
    return f"{words}; it is evicted {when.ahead(end)}" if end is not None and _is_shown(end, when) else words


def _backoff(workload: QueuedWorkload, when: TimeFormat) -> str:
    eviction = eviction_of(workload) or Eviction("")
    why = f"evicted {eviction.words}; " if eviction.reason else ""
    end = moment(workload.requeue_at)
    again = (
        "is tried again"
        if end is None
        else f"is tried again {when.ahead(end)}"
        if _is_shown(end, when)
        else "is about to be tried again"
    )
    return f"{why}{again}{f', for the {_ordinal(workload.requeue_count)} time' if workload.requeue_count else ''}"


def _is_shown(end: datetime, when: TimeFormat) -> bool:
    """Whether to show the end of a backoff: it is in the future, or shown as an absolute time."""
    return when.kept or end > when.now


def _ordinal(count: int) -> str:
    suffix = "th" if count % 100 in {11, 12, 13} else {1: "st", 2: "nd", 3: "rd"}.get(count % 10, "th")
    return f"{count}{suffix}"
