"""Kueue problems that do not end by themselves, by name, with evidence and remedy.

Each function checks one object that can be stuck: a Workload, the head of a strict queue, a JobSet without a
Workload. Waiting for quota is not a problem: it ends when others finish.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from gangctl.gang.reasons import Reason
from gangctl.kueue.amounts import TimeFormat, age, moment, span
from gangctl.kueue.blocked import Blocked
from gangctl.kueue.objects import ClusterQueue, Condition, QueuedWorkload
from gangctl.kueue.order import NOT_LOOKED_AT, head_of
from gangctl.kueue.states import DEACTIVATED, FAILED_TO_START, PODS_READY_TIMEOUT, Phase, eviction_of, phase_of

JOBSET_FRAMEWORK: Final = "jobset.x-k8s.io/jobset"
TIMEOUT: Final = timedelta(minutes=5)
"""How long Kueue may take for actions that usually take seconds."""
CREATION_TIMEOUT: Final = timedelta(seconds=30)
"""How long Kueue may take to make a Workload."""


@dataclass(frozen=True, slots=True)
class Stuck:
    """``evidence`` is what was observed, ``remedy`` what to do; both are one sentence without its full stop."""

    reason: Reason
    evidence: str
    remedy: str

    @property
    def message(self) -> str:
        """Both, for one line."""
        return f"{self.evidence}; {self.remedy}"


@dataclass(frozen=True, slots=True)
class Owner:
    """Facts of the job of a Workload; ``pods`` exist and have not finished, None if unknown."""

    finished: bool = False
    pods: int | None = None


def stuck_workload(
    workload: QueuedWorkload,
    owner: Owner,
    now: datetime,
    *,
    blocked: Blocked | None = None,
    ready_timeout: timedelta | None = None,
    kept: bool = False,
) -> Stuck | None:
    """The problem of one Workload, or None.

    ``blocked`` is why its queue is closed. ``ready_timeout`` is that of Kueue's ``waitForPodsReady``, None if that is
    off or unknown. ``kept`` texts contain absolute times (:class:`~gangctl.kueue.amounts.TimeFormat`).
    """
    when = TimeFormat(now, kept)
    phase = phase_of(workload, queue_open=None if blocked is None else False)
    if phase.waits:
        return _waiting(workload, phase, when, blocked)
    match phase:
        case Phase.EVICTING:
            return _evicting(workload, owner, when) or _finished(workload, owner, now)
        case Phase.QUOTA_RESERVED:
            return _finished(workload, owner, now)
        case Phase.ADMITTED:
            return _finished(workload, owner, now) or _not_ready(workload, when, ready_timeout)
        case Phase.DEACTIVATED:
            return _deactivated(workload)
        case Phase.FAILED:
            return _failed(workload.conditions["Finished"])
        case _:
            return None


def _waiting(workload: QueuedWorkload, phase: Phase, when: TimeFormat, blocked: Blocked | None) -> Stuck | None:
    eviction = eviction_of(workload)
    if blocked is not None:
        return Stuck(Reason.QUEUE_BLOCKED, blocked.message, "nothing in this queue is admitted until then")
    failed = [check for check in workload.checks if check.state in {"Retry", "Rejected"}]
    if failed and phase is Phase.PENDING:
        names = ", ".join(f"{check.name} ({check.state})" for check in failed)
        return Stuck(
            Reason.FAILED_CHECK_WITHOUT_QUOTA,
            f"it holds no quota, and Kueue passes it over because of checks that are not reset: {names}",
            "set spec.active of its Workload to false and to true again, or delete the Workload: Kueue makes a new one",
        )
    if eviction is None or eviction.reason != PODS_READY_TIMEOUT:
        return None
    end = moment(workload.requeue_at)
    again = f", and it is tried again {when.ahead(end)}" if end is not None and (when.kept or end > when.now) else ""
    often = "once" if workload.requeue_count <= 1 else f"{workload.requeue_count} times"
    return Stuck(
        Reason.EVICTED_AS_NOT_READY,
        f"Kueue evicted it {often} because its pods were not all ready in time{again}",
        "find out which pods did not become ready; a JobSet with dependsOn counts as ready only once its last stage "
        "runs, so waitForPodsReady.timeout of Kueue must be longer than all stages before it",
    )


def _evicting(workload: QueuedWorkload, owner: Owner, when: TimeFormat) -> Stuck | None:
    evicted = workload.conditions.get("Evicted")
    since = None if evicted is None or not evicted.status else moment(evicted.since)
    if owner.pods != 0 or since is None or when.now - since < TIMEOUT:
        return None
    return Stuck(
        Reason.EVICTED_HOLDS_QUOTA,
        f"it was evicted {when.ago(since)} and has no pods, and still holds its quota (kueue issue 14811)",
        "delete its Workload: Kueue makes a new one, and the quota is free",
    )


def _finished(workload: QueuedWorkload, owner: Owner, now: datetime) -> Stuck | None:
    since = age(workload.conditions["QuotaReserved"].since, now)
    if not owner.finished or owner.pods or since is None or since < TIMEOUT:
        return None
    return Stuck(
        Reason.FINISHED_HOLDS_QUOTA,
        f"its {workload.owner_kind or 'job'} has finished, and its Workload still holds quota",
        "see whether Kueue runs, and what it logs about this Workload; deleting it frees the quota",
    )


def _not_ready(workload: QueuedWorkload, when: TimeFormat, timeout: timedelta | None) -> Stuck | None:
    ready = workload.conditions.get("PodsReady")
    if ready is None or ready.status or timeout is None:
        return None
    recovering = ready.reason == "WaitForRecovery"
    since = moment(ready.since if recovering else workload.conditions["Admitted"].since)
    if since is None or when.now - since < timeout / 2:
        return None
    return Stuck(
        Reason.PODS_NOT_READY,
        f"its pods are not all ready {when.lasting(since, 'after')} ({ready.reason}), and Kueue evicts it "
        f"{when.ahead(since + timeout)}",
        "find out which pods are not ready: waitForPodsReady of Kueue sets the timeout",
    )


def _deactivated(workload: QueuedWorkload) -> Stuck | None:
    """Only deactivation by Kueue: a user who deactivates a Workload knows it."""
    eviction = eviction_of(workload)
    if eviction is None or eviction.reason != DEACTIVATED or not eviction.cause:
        return None
    return Stuck(
        Reason.DEACTIVATED,
        f"evicted {eviction.words}: {eviction.message or eviction.cause}",
        "repair the cause, then set spec.active of its Workload to true",
    )


def _failed(finished: Condition) -> Stuck | None:
    if finished.reason != FAILED_TO_START:
        return None
    return Stuck(
        Reason.FAILED_TO_START,
        f"Kueue could not start it, and does not try again: {finished.message or 'it does not say why'}",
        "take what Kueue writes into the pod templates out of the JobSet (labels, node selectors of its flavors), "
        "and create it anew",
    )


def blocking_head(
    ordered: Sequence[QueuedWorkload],
    cluster_queue: ClusterQueue,
    now: datetime,
    *,
    never: Collection[str] = (),
    kept: bool = False,
    reader: str | None = None,
) -> Stuck | None:
    """The head of a StrictFIFO queue that others wait for although Kueue has found that it does not fit.

    ``ordered`` is the result of :func:`gangctl.kueue.order.in_order`; ``never`` are UIDs of those that can never fit.
    ``kept`` texts contain absolute times (:class:`~gangctl.kueue.amounts.TimeFormat`). A text for all who can read the
    namespace ``reader`` does not name what runs in another one.
    """
    head = head_of(ordered, cluster_queue)
    if head is None:
        return None
    impossible = head.uid in never
    return effect_of_head(head, len(ordered) - 1, cluster_queue, now, impossible=impossible, kept=kept, reader=reader)


def effect_of_head(
    head: QueuedWorkload,
    behind: int,
    cluster_queue: ClusterQueue,
    now: datetime,
    *,
    impossible: bool = False,
    kept: bool = False,
    reader: str | None = None,
) -> Stuck | None:
    """The same of a head that is known, with so many behind it; ``impossible`` if it can never fit."""
    if not behind and not impossible:
        return None
    quota = head.conditions.get("QuotaReserved")
    if quota is None or quota.reason in NOT_LOOKED_AT:
        return None
    since = moment(quota.since or head.created)
    name = f'"{head.title_for(reader)}"'
    if impossible:
        evidence = f'{name} can never fit, and is the head of StrictFIFO ClusterQueue "{cluster_queue.name}"'
        remedy = "delete or shrink it, raise the quota, or give the ClusterQueue queueingStrategy BestEffortFIFO"
    else:
        evidence = f'{name} does not fit now, and is the head of StrictFIFO ClusterQueue "{cluster_queue.name}"'
        remedy = "it goes once quota is free; queueingStrategy BestEffortFIFO would let others pass"
    waited = f" {TimeFormat(now, kept).lasting(since)}" if since is not None else ""
    return Stuck(Reason.HEAD_BLOCKS_QUEUE, f"{evidence}{waited}; {behind} behind it wait", remedy)


def without_workload(
    waited: timedelta,
    *,
    podsets: int,
    podset_limit: int | None = None,
    frameworks: Collection[str] | None = None,
    managed: bool | None = None,
    missing_priority_class: str = "",
    made: str = "",
) -> Stuck | None:
    """Why a queued, suspended JobSet has no Workload of Kueue after ``waited``; None is unknown.

    ``managed`` is whether Kueue's ``managedJobsNamespaceSelector`` selects its namespace, ``frameworks`` are those of
    ``integrations``, ``missing_priority_class`` is the WorkloadPriorityClass of its label if that does not exist.
    ``made`` is when the JobSet was created: if given, it is shown instead of ``waited``.
    """
    if waited < CREATION_TIMEOUT:
        return None
    if frameworks is not None and JOBSET_FRAMEWORK not in frameworks:
        return Stuck(
            Reason.FRAMEWORK_NOT_ENABLED,
            f"Kueue does not manage JobSets: {JOBSET_FRAMEWORK} is not among integrations.frameworks",
            "add it to Kueue's configuration and restart Kueue",
        )
    if managed is False:
        return Stuck(
            Reason.NAMESPACE_NOT_MANAGED,
            "Kueue does not manage this namespace: managedJobsNamespaceSelector of its configuration does not match",
            "label the namespace so that it matches, or use another one",
        )
    if missing_priority_class:
        return Stuck(
            Reason.PRIORITY_CLASS_MISSING,
            f'WorkloadPriorityClass "{missing_priority_class}" of its label does not exist',
            "create it, or change the label kueue.x-k8s.io/priority-class",
        )
    if podset_limit is not None and podsets > podset_limit:
        return Stuck(
            Reason.TOO_MANY_PODSETS,
            f"it has {podsets} replicatedJobs, and a Workload of this Kueue takes {podset_limit} podsets",
            "merge replicatedJobs, or split the JobSet",
        )
    return Stuck(
        Reason.WORKLOAD_MISSING,
        f"Kueue has made no Workload for it {f'since {made}' if made else f'in {span(waited)}'}",
        "see whether Kueue runs, and what it logs about this JobSet",
    )
