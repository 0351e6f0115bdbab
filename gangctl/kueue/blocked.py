"""Why a JobSet does not get on in Kueue: a queue that admits nothing, and problems that do not end by themselves.

A queue is closed to any request, so ``never`` is no reason for it. The result is the first reason in Kueue's own order:
others show only after it is fixed. A problem has a name, evidence and a remedy: it is of one object, a Workload or a
JobSet without one. Waiting for quota is not a problem: it ends when others finish.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, NamedTuple

from gangctl.api.labelselector import NAMESPACE_NAME, holds
from gangctl.api.meta import QUEUE_NAME
from gangctl.gang.reasons import Reason
from gangctl.kueue import objects
from gangctl.kueue.amounts import TimeFormat, age, moment, span
from gangctl.kueue.names import MULTIKUEUE, PROVISIONING
from gangctl.kueue.states import (
    DEACTIVATED,
    FAILED_TO_START,
    PODS_READY_TIMEOUT,
    QueuePhase,
    eviction_of,
    failed_checks,
    lacks_class,
    phase_of,
)


class Blockage(StrEnum):
    """Stable, CamelCase."""

    LOCAL_QUEUE_MISSING = "LocalQueueMissing"
    LOCAL_QUEUE_STOPPED = "LocalQueueStopped"
    CLUSTER_QUEUE_MISSING = "ClusterQueueMissing"
    CLUSTER_QUEUE_TERMINATING = "ClusterQueueTerminating"
    CLUSTER_QUEUE_STOPPED = "ClusterQueueStopped"
    CLUSTER_QUEUE_INACTIVE = "ClusterQueueInactive"
    NAMESPACE_NOT_SELECTED = "NamespaceNotSelected"


@dataclass(frozen=True, slots=True)
class Blocked:
    """``message`` is one sentence with the blocking object and a remedy."""

    reason: Blockage
    message: str


UNQUEUED: Final = "it never starts without a queue: Kueue suspends every JobSet here (manageJobsWithoutQueueName)"
NAME_A_QUEUE: Final = f"set label {QUEUE_NAME} to a LocalQueue of its namespace"


def selects(selector: tuple[objects.SelectorTerm, ...] | None, labels: Mapping[str, str]) -> bool:
    """Whether a namespaceSelector takes a namespace with these labels; None, an absent selector, takes none."""
    return selector is not None and all(holds(term.key, term.operator, term.values, labels) for term in selector)


def selected(
    selector: tuple[objects.SelectorTerm, ...] | None, labels: Mapping[str, str] | None, namespace: str
) -> bool | None:
    """The same of a namespace by its name; None if labels decide that are not known."""
    if labels is not None or not selector:
        return selects(selector, labels or {})
    # Of a namespace that cannot be read this label alone is known: the API server sets it to the name.
    by_name = tuple(term for term in selector if namespace and term.key == NAMESPACE_NAME)
    if not selects(by_name, {NAMESPACE_NAME: namespace}):
        return False
    return True if by_name == selector else None


def blocked(
    queue_name: str,
    local_queue: objects.LocalQueue | None,
    cluster_queue: objects.ClusterQueue | None,
    namespace_labels: Mapping[str, str] | None,
    *,
    namespace: str = "",
) -> Blocked | None:
    """Why a LocalQueue of a namespace admits nothing, or None if it is open.

    ``local_queue`` and ``cluster_queue`` are None if they do not exist. Unknown labels are None, and block
    nothing; the same holds for a ClusterQueue that has no Active condition yet.
    """
    if local_queue is None:
        where = f'namespace "{namespace}"' if namespace else "the namespace"
        return Blocked(
            Blockage.LOCAL_QUEUE_MISSING,
            f'LocalQueue "{queue_name}" does not exist in {where}; create it, or name another queue',
        )
    if local_queue.stop_policy != "None":
        return Blocked(
            Blockage.LOCAL_QUEUE_STOPPED,
            f'LocalQueue "{queue_name}" is stopped (stopPolicy {local_queue.stop_policy}); it admits again with None',
        )
    if cluster_queue is None:
        return Blocked(
            Blockage.CLUSTER_QUEUE_MISSING,
            f'ClusterQueue "{local_queue.cluster_queue}" of LocalQueue "{queue_name}" does not exist; create it',
        )
    return _queue_blocked(cluster_queue) or _namespace_blocked(cluster_queue, namespace_labels, local_queue.namespace)


def is_inactive(queue: objects.ClusterQueue) -> bool:
    """Whether a ClusterQueue admits nothing, and Kueue schedules without it."""
    return _queue_blocked(queue) is not None


def _queue_blocked(queue: objects.ClusterQueue) -> Blocked | None:
    """Why a ClusterQueue admits nothing."""
    if queue.deleting:
        return Blocked(
            Blockage.CLUSTER_QUEUE_TERMINATING,
            f'ClusterQueue "{queue.name}" is being deleted, and goes once nothing in it holds quota; use another queue',
        )
    if queue.stop_policy != "None":
        return Blocked(
            Blockage.CLUSTER_QUEUE_STOPPED,
            f'ClusterQueue "{queue.name}" is stopped (stopPolicy {queue.stop_policy}); it admits again with None',
        )
    # "Stopped" is from before stopPolicy was removed; Kueue updates the condition soon.
    if queue.active is not None and not queue.active.status and queue.active.reason != "Stopped":
        why = queue.active.message.removeprefix("Can't admit new workloads: ").rstrip(".") or "it does not say why"
        return Blocked(
            Blockage.CLUSTER_QUEUE_INACTIVE,
            f'ClusterQueue "{queue.name}" is inactive ({queue.active.reason}): {why}',
        )
    return None


def unresolved(
    queue: objects.ClusterQueue,
    check: Callable[[str], objects.AdmissionCheck | None],
    flavor: Callable[[str], objects.ResourceFlavor | None],
    topologies: Collection[str] | None = None,
) -> Blocked | None:
    """Why Kueue makes a ClusterQueue inactive: what it names is missing, or a check is inactive, or two conflict.

    ``topologies`` are names of those that exist, None if they are unknown or not needed. A missing object counts only
    if Kueue has not written the Active condition yet, as in files.
    """
    names = [quotas.name for group in queue.groups for quotas in group.flavors]
    missing = [f'ResourceFlavor "{name}"' for name in dict.fromkeys(names) if flavor(name) is None]
    if topologies is not None:
        named = [known.topology for name in names if (known := flavor(name)) is not None and known.topology]
        missing += [f'Topology "{name}"' for name in named if name not in topologies]
    missing += [f'AdmissionCheck "{use.name}"' for use in queue.checks if check(use.name) is None]
    conditions = [(use.name, used.active) for use in queue.checks if (used := check(use.name)) is not None]
    stopped = [(name, active) for name, active in conditions if active is not None and not active.status]
    if missing and queue.active is None:
        problem = f"{missing[0]} does not exist; create it, or take it out of the queue"
    elif stopped:
        name, active = stopped[0]
        problem = f'AdmissionCheck "{name}" is inactive ({active.reason}): {active.message}'
    elif queue.active is None and (conflict := _conflict(queue, check)):
        problem = conflict
    else:
        return None
    return Blocked(Blockage.CLUSTER_QUEUE_INACTIVE, f'ClusterQueue "{queue.name}" is inactive: {problem.rstrip(".")}')


def _conflict(queue: objects.ClusterQueue, check: Callable[[str], objects.AdmissionCheck | None]) -> str:
    """Why Kueue takes the checks of a ClusterQueue for invalid, as updateQueueStatus; empty if it does not."""
    controllers = {use.name: known.controller for use in queue.checks if (known := check(use.name)) is not None}
    dispatching = [use for use in queue.checks if controllers.get(use.name) == MULTIKUEUE]
    every = {quotas.name for group in queue.groups for quotas in group.flavors}
    if len(dispatching) > 1:
        return "it has several AdmissionChecks of MultiKueue; keep one of them"
    if any(use.on_flavors and {*use.on_flavors} != every for use in dispatching):
        return "its AdmissionCheck of MultiKueue is for some flavors alone; take onFlavors out"
    if dispatching and PROVISIONING in controllers.values():
        return "it has AdmissionChecks of MultiKueue and of ProvisioningRequest; take one of them out"
    return ""


def _namespace_blocked(queue: objects.ClusterQueue, labels: Mapping[str, str] | None, namespace: str) -> Blocked | None:
    if queue.selector is None:
        return Blocked(
            Blockage.NAMESPACE_NOT_SELECTED,
            f'ClusterQueue "{queue.name}" selects no namespace: it has no namespaceSelector; {{}} selects all',
        )
    unmet = ", ".join(_shown(term) for term in queue.selector if selected((term,), labels, namespace) is False)
    if not unmet:
        return None
    return Blocked(
        Blockage.NAMESPACE_NOT_SELECTED,
        f'the namespaceSelector of ClusterQueue "{queue.name}" does not match the labels of the namespace: {unmet}',
    )


def _shown(term: objects.SelectorTerm) -> str:
    match term.operator:
        case "In" | "NotIn":
            return f"{term.key} {'in' if term.operator == 'In' else 'not in'} ({', '.join(term.values)})"
        case "Exists":
            return f"{term.key} exists"
        case "DoesNotExist":
            return f"{term.key} does not exist"


JOBSET_FRAMEWORK: Final = "jobset.x-k8s.io/jobset"
TIMEOUT: Final = timedelta(minutes=5)
"""How long Kueue may take for actions that usually take seconds."""
CREATION_TIMEOUT: Final = timedelta(seconds=30)
"""How long Kueue may take to make a Workload."""
OFTEN: Final = 3
"""Evictions by waitForPodsReady after which another try does not help."""
RESET_CHECKS: Final = (
    "set spec.active of its Workload to false and to true again, or delete the Workload: Kueue makes a new one"
)
"""What helps against checks that failed while the Workload had no quota."""


@dataclass(frozen=True, slots=True)
class Stuck:
    """``evidence`` is what was observed, ``remedy`` what to do; both are one sentence without its full stop."""

    reason: Reason
    evidence: str
    remedy: str
    waits: bool = False
    """Whether it ends when others finish, or by another try, without any action."""

    @property
    def message(self) -> str:
        """Both, for one line."""
        return f"{self.evidence}; {self.remedy}"


@dataclass(frozen=True, slots=True)
class JobFacts:
    """Facts of the job of a Workload; ``pods`` exist and have not finished, None if unknown."""

    finished: bool = False
    pods: int | None = None
    priority_class: str = ""
    """The WorkloadPriorityClass of its label, while it is suspended."""


class ReadyTimeouts(NamedTuple):
    """Kueue evicts a Workload of which not all pods are ready for so long (``waitForPodsReady``)."""

    start: timedelta
    """From its admission until they are ready for the first time."""
    recovery: timedelta
    """From then on; 0 for no limit."""


def stuck_at(workload: objects.QueuedWorkload, owner: JobFacts, timeouts: ReadyTimeouts | None) -> datetime | None:
    """When time alone makes, or has made, a Workload stuck that Kueue started; None if only a change of it can.

    ``timeouts`` are None if ``waitForPodsReady`` is off or unknown.
    """
    match phase_of(workload):
        # One that is deactivated holds no quota, whatever its status says (HasActiveQuotaReservation of Kueue).
        case QueuePhase.EVICTING if workload.active:
            since = moment(workload.condition("Evicted").since)
            # None is not known: only no pods at all are a proof that nothing uses the quota.
            return _after(since, TIMEOUT) if since is not None and owner.pods == 0 else None
        case QueuePhase.ADMITTED:
            limit = _unready(workload, timeouts)
            # At half of the timeout: then there is time left to find out why, before Kueue evicts it.
            return _after(limit[0], limit[1] / 2) if limit is not None else None
    return None


def _after(at: datetime, delay: timedelta) -> datetime | None:
    try:
        return at + delay
    except OverflowError:
        # No time has that year, and an object may have any.
        return None


def _unready(workload: objects.QueuedWorkload, timeouts: ReadyTimeouts | None) -> tuple[datetime, timedelta] | None:
    """Since when not all pods of an admitted Workload are ready, and how long that may last; None for no limit."""
    ready = workload.conditions.get("PodsReady")
    if ready is None or ready.status or timeouts is None:
        return None
    recovers = ready.reason == "WaitForRecovery"
    # Kueue counts a recovery from this condition, and the start from the admission.
    since = moment(ready.since if recovers else workload.conditions["Admitted"].since)
    timeout = timeouts.recovery if recovers else timeouts.start
    return (since, timeout) if since is not None and timeout else None


def stuck_workload(
    workload: objects.QueuedWorkload,
    owner: JobFacts,
    now: datetime,
    *,
    blocked: Blocked | None = None,
    timeouts: ReadyTimeouts | None = None,
    missing_priority_class: str = "",
    kept: bool = False,
) -> Stuck | None:
    """The problem of one Workload, or None.

    ``blocked`` is why its queue is closed; ``timeouts`` are as for :func:`stuck_at`. ``missing_priority_class`` is the
    WorkloadPriorityClass of the label of its suspended job if that does not exist. ``kept`` texts contain absolute
    times (:class:`~gangctl.kueue.amounts.TimeFormat`).
    """
    when = TimeFormat(now, kept)
    phase = phase_of(workload, queue_open=None if blocked is None else False)
    if lacks_class(workload, missing_priority_class) and workload.active and not workload.holds("Finished"):
        return _without_class(missing_priority_class)
    if phase.waits:
        return _waiting(workload, phase, when, blocked)
    due = stuck_at(workload, owner, timeouts)
    due = None if due is None or now < due else due
    match phase:
        case QueuePhase.EVICTING if workload.active:
            return _finished(workload, owner, now) if due is None else _evicted(when.ago(due - TIMEOUT))
        case QueuePhase.QUOTA_RESERVED:
            return _finished(workload, owner, now)
        case QueuePhase.ADMITTED:
            return _finished(workload, owner, now) or (_not_ready(workload, when, timeouts) if due else None)
        case QueuePhase.DEACTIVATED | QueuePhase.EVICTING:
            eviction = eviction_of(workload)
            # A user who deactivates a Workload knows it.
            if eviction is None or eviction.reason != DEACTIVATED or not eviction.cause:
                return None
            return Stuck(
                Reason.DEACTIVATED,
                f"evicted {eviction.words}: {eviction.message or eviction.cause}",
                "repair the cause, then set spec.active of its Workload to true",
            )
        case QueuePhase.FAILED if workload.conditions["Finished"].reason == FAILED_TO_START:
            why = workload.conditions["Finished"].message or "it does not say why"
            return Stuck(
                Reason.FAILED_TO_START,
                f"Kueue could not start it, and does not try again: {why}",
                "take what Kueue writes into the pod templates out of the JobSet (labels, node selectors of its "
                "flavors), and create it anew",
            )
    return None


def _waiting(
    workload: objects.QueuedWorkload, phase: QueuePhase, when: TimeFormat, blocked: Blocked | None
) -> Stuck | None:
    eviction = eviction_of(workload)
    if blocked is not None:
        return Stuck(Reason.QUEUE_BLOCKED, blocked.message, "nothing in this queue is admitted until then")
    # Kueue resets checks at an eviction alone: one that a controller changes after that stays so (kueue issue 3543).
    failed = failed_checks(workload)
    if failed and phase is QueuePhase.PENDING:
        return Stuck(
            Reason.FAILED_CHECK_WITHOUT_QUOTA,
            f"it holds no quota, and Kueue passes it over because of checks that are not reset: {failed}",
            RESET_CHECKS,
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
        waits=workload.requeue_count < OFTEN,
    )


def _evicted(ago: str) -> Stuck:
    return Stuck(
        Reason.EVICTED_HOLDS_QUOTA,
        f"it was evicted {ago} and has no pods, and still holds its quota (kueue issue 14811)",
        "delete its Workload: Kueue makes a new one, and the quota is free",
    )


def _finished(workload: objects.QueuedWorkload, owner: JobFacts, now: datetime) -> Stuck | None:
    since = age(workload.condition("QuotaReserved").since, now)
    if not owner.finished or owner.pods or since is None or since < TIMEOUT:
        return None
    return Stuck(
        Reason.FINISHED_HOLDS_QUOTA,
        f"its {workload.owner_kind or 'job'} has finished, and its Workload still holds quota",
        "see whether Kueue runs, and what it logs about this Workload; deleting it frees the quota",
    )


def _not_ready(workload: objects.QueuedWorkload, when: TimeFormat, timeouts: ReadyTimeouts | None) -> Stuck | None:
    limit = _unready(workload, timeouts)
    if limit is None:
        return None
    since, timeout = limit
    return Stuck(
        Reason.PODS_NOT_READY,
        f"its pods are not all ready {when.lasting(since, 'after')} ({workload.conditions['PodsReady'].reason}), and "
        f"Kueue evicts it {when.ahead(since + timeout)}",
        "find out which pods are not ready: waitForPodsReady of Kueue sets the timeout",
    )


def _without_class(name: str) -> Stuck:
    return Stuck(
        Reason.PRIORITY_CLASS_MISSING,
        f'WorkloadPriorityClass "{name}" of its label does not exist',
        "create it, or change the label kueue.x-k8s.io/priority-class",
    )


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
        return _without_class(missing_priority_class)
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
