"""Causes for a JobSet that waits in its Kueue queue, and problems that Kueue does not resolve."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from gangctl.errors import plural
from gangctl.gang.desired import listed
from gangctl.gang.reasons import Reason
from gangctl.kueue.blocked import Blockage
from gangctl.kueue.objects import QueuedWorkload
from gangctl.kueue.queues import QueueFacts
from gangctl.kueue.states import (
    ADMISSION_CHECK,
    PODS_READY_TIMEOUT,
    STOPPED,
    QueuePhase,
    QueueStatus,
    eviction_of,
    status_of,
)
from gangctl.readiness.causes.context import LONG, SOON, Command, Context, Suggestion
from gangctl.readiness.causes.kueuemessages import REMEDIES, Against, read_queue_refusal
from gangctl.readiness.causes.pods import MOST_STUCK, WHY_THEY_STAY, pod_stays, stays
from gangctl.readiness.facts import Snapshot, unix
from gangctl.readiness.result import Cause

_EVICTIONS: Final = {
    "Preempted": Reason.PREEMPTED,
    PODS_READY_TIMEOUT: Reason.EVICTED_AS_NOT_READY,
    ADMISSION_CHECK: Reason.WAITING_FOR_CHECK,
    "NodeFailures": Reason.NODE_LOST,
    **dict.fromkeys(STOPPED, Reason.QUEUE_BLOCKED),
}
"""By Kueue's reason."""


def evicted(snapshot: Snapshot) -> Reason | None:
    """Why Kueue evicted a JobSet that waits since then; None for others, and if gangctl has no reason for it."""
    workload, jobset = snapshot.queued_workload, snapshot.jobset
    eviction = eviction_of(workload) if workload is not None and jobset.suspend and not jobset.finished else None
    return _EVICTIONS.get(eviction.reason) if eviction is not None else None


def suspended(context: Context) -> Iterator[Cause]:
    """Suspended, and in no queue itself that could resume it."""
    jobset = context.snapshot.jobset
    if not jobset.suspend or jobset.deleting or context.snapshot.queue is not None:
        return
    evidence = ["spec.suspend is true"]
    leaving = sum(len(group.pods) + len(group.leaving) + len(group.earlier) for group in context.groups)
    if leaving:
        evidence.append(f"{plural(leaving, 'pod')} of it still exist, and are being deleted")
    owner = jobset.owner
    if jobset.queue and not owner and context.snapshot.kueue is None:
        yield context.cause(
            Reason.SUSPENDED,
            f'it is suspended, and names LocalQueue "{jobset.queue}": whether that will start it is not known here',
            evidence=evidence,
            # Resumed by hand, it would start past its quota until Kueue suspends it again.
            remedy="ask where Kueue's objects can be read, or add its LocalQueues, ClusterQueues and Workloads to the "
            "files; Kueue resumes it",
            command=context.suggest(Command.DESCRIBE_JOBSET),
            pods=_pods(context),
            blocking=False,
        )
        return
    if jobset.queue and context.snapshot.kueue is False:
        evidence.append(f'it names LocalQueue "{jobset.queue}", and there is no Kueue')
    yield context.cause(
        Reason.SUSPENDED,
        f"it is suspended until {owner}, which controls it, resumes it"
        if owner
        else "it is suspended, and no queue will start it",
        evidence=evidence,
        # What controls it undoes a change of the JobSet, or the JobSet would start past the queue of that object.
        remedy=f"see whether {owner} is suspended, or waits in a queue of Kueue"
        if owner
        else "set spec.suspend to false once it should run",
        command=context.suggest(Command.DESCRIBE_JOBSET if owner else Command.RESUME),
        pods=_pods(context),
    )


def in_queue(context: Context) -> Iterator[Cause]:
    """Its state in Kueue, unless it is admitted and started."""
    facts, jobset = context.snapshot.queue, context.snapshot.jobset
    if facts is None or jobset.deleting:
        return
    if facts.stuck_at is not None:
        context.changes.append(facts.stuck_at.timestamp())
    yield from _stuck(context, facts)
    yield from _conflicting(context, facts)
    if facts.workload is None:
        yield from _without_workload(context, facts)
        return
    # Not True for all others: a queue that is not known has nothing that blocks it, either.
    queue_open = False if facts.blocked is not None else facts.opened or None
    status = status_of(facts.workload, context.clock, queue_open=queue_open, kept=context.kept)
    if status.phase.waits and (facts.never or facts.blocked is not None):
        yield from _closed(context, facts, status)
    elif facts.stuck is None or facts.stuck.reason is Reason.PODS_NOT_READY:
        yield from _phase_causes(context, facts, facts.workload, status)


def _pods(context: Context) -> int:
    return sum(group.wanted for group in context.groups)


def _show_queue(context: Context, facts: QueueFacts) -> Suggestion:
    """The command about its LocalQueue; gangctl's needs one that exists, and the right to read ClusterQueues."""
    missing = facts.blocked is not None and facts.blocked.reason is Blockage.LOCAL_QUEUE_MISSING
    if missing or not facts.queues_known or not facts.local_queue:
        return context.suggest(Command.LOCAL_QUEUES)
    return context.suggest(Command.QUEUE, queue=facts.local_queue)


def _show_workload(context: Context, workload: QueuedWorkload) -> Suggestion:
    return context.suggest(Command.QUEUED_WORKLOAD, name=workload.name)


def _stuck(context: Context, facts: QueueFacts) -> Iterator[Cause]:
    """Problems that Kueue does not resolve, by the names of the queue commands."""
    stuck = facts.stuck
    # `_closed` reports a closed queue.
    if stuck is None or (stuck.reason is Reason.QUEUE_BLOCKED and facts.blocked is not None):
        return
    name = "PodsReady" if stuck.reason is Reason.PODS_NOT_READY else "QuotaReserved"
    status = facts.workload.conditions.get(name) if facts.workload is not None else None
    yield context.cause(
        stuck.reason,
        stuck.evidence,
        evidence=_stated(facts),
        remedy=stuck.remedy,
        command=_show_queue(context, facts) if facts.workload is None else _show_workload(context, facts.workload),
        pods=_pods(context),
        since=unix(status.since) if status is not None else 0,
        blocking=not stuck.waits,
    )


_UNREAD: Final = "Workloads of Kueue may not be read: whether it has one, and what Kueue says of it, is not known"


def _stated(facts: QueueFacts) -> list[str]:
    """What Kueue says of it, as far as that is known."""
    if facts.workload is None:
        return ["it has no Workload of Kueue" if facts.workloads_known else _UNREAD]
    return _kueue_conditions(facts.workload)


def _kueue_conditions(workload: QueuedWorkload) -> list[str]:
    """Its conditions that differ from those of an admitted one, with Kueue's messages."""
    texts = []
    for name in ("QuotaReserved", "Admitted", "Evicted", "Requeued", "PodsReady", "Finished"):
        condition = workload.conditions.get(name)
        # An admitted Workload has these two as False or not at all, and the others as True.
        if condition is not None and (condition.status is (name in {"Evicted", "Finished"})):
            texts.append(
                f"{name}={condition.status}, reason {condition.reason or 'none'}: {condition.message or 'no message'}"
            )
    return texts


def _conflicting(context: Context, facts: QueueFacts) -> Iterator[Cause]:
    """It waits, and its start will fail, or its pods will find no nodes: an update has made it what CREATE refuses."""
    if not facts.conflicts:
        return
    first, *more = facts.conflicts
    others = f", and {plural(len(more), 'other field')}" if more else ""
    yield context.cause(
        Reason.QUEUE_CONFLICT,
        f"its pod templates conflict with its queue, and once admitted it may never run: {first.path}{others}",
        evidence=[str(error) for error in facts.conflicts],
        remedy="change the pod templates while it is suspended, or create it again without the conflict",
        command=context.suggest(Command.DESCRIBE_JOBSET),
        pods=_pods(context),
    )


def _without_workload(context: Context, facts: QueueFacts) -> Iterator[Cause]:
    """Kueue creates the Workload shortly after the JobSet; the queue may already be stopped."""
    jobset = context.snapshot.jobset
    if not jobset.suspend:
        return
    if facts.never or facts.blocked is not None:
        yield from _closed(context, facts, QueueStatus(QueuePhase.PENDING, since=jobset.created))
        return
    if facts.stuck is not None:
        return
    since = unix(jobset.created)
    if not facts.workloads_known:
        yield context.cause(
            Reason.WAITING_FOR_QUOTA,
            f'it waits in LocalQueue "{facts.local_queue}", for what is not known',
            evidence=[_UNREAD],
            remedy="get the right to list workloads.kueue.x-k8s.io",
            command=_show_queue(context, facts),
            pods=_pods(context),
            since=since,
            blocking=False,
        )
        return
    context.changes.append(since + SOON)
    yield context.cause(
        Reason.WAITING_FOR_QUOTA,
        f'Kueue has made no Workload for it yet, for LocalQueue "{facts.local_queue}"',
        evidence=["it has no Workload of Kueue", f"the JobSet {context.old(since)}"],
        remedy="wait; if none comes, see whether Kueue runs and manages JobSets and this namespace",
        command=_show_queue(context, facts),
        pods=_pods(context),
        since=since,
        blocking=False,
    )


def _closed(context: Context, facts: QueueFacts, status: QueueStatus) -> Iterator[Cause]:
    """It never fits, or not before the queue is opened."""
    # Too many podsets never fit, with any quota.
    if facts.never and (facts.stuck is None or facts.stuck.reason is not Reason.TOO_MANY_PODSETS):
        yield context.cause(
            Reason.NEVER_FITS,
            "its queue can never admit it, whatever else finishes",
            evidence=[facts.never.message, *_stated(facts)],
            remedy=REMEDIES.get(facts.never.reason, "put right what it says, or use another queue"),
            command=context.suggest(Command.FIT),
            pods=_pods(context),
            since=unix(status.since),
        )
    if facts.blocked is not None:
        yield context.cause(
            Reason.QUEUE_BLOCKED,
            f"its queue admits nothing now: {facts.blocked.message.partition(';')[0]}",
            evidence=[facts.blocked.message, *_stated(facts)],
            remedy="ask its owner to open it, or use another one: nothing in it is admitted until then",
            command=_show_queue(context, facts),
            pods=_pods(context),
            since=unix(status.since),
        )


_WAITS: Final[dict[QueuePhase, tuple[Reason, bool, str, str]]] = {
    QueuePhase.PENDING: (
        Reason.WAITING_FOR_QUOTA,
        False,
        "it waits in its queue for its turn, or for quota",
        "wait: quota comes back when others finish; the command shows what is short",
    ),
    QueuePhase.WAITING_FOR_PODS_READY: (
        Reason.WAITING_FOR_QUOTA,
        False,
        "it waits until the pods of everything that Kueue admitted before it are ready",
        "wait; if it takes long, see which JobSet before it does not become ready (waitForPodsReady.blockAdmission)",
    ),
    QueuePhase.ON_HOLD: (
        Reason.WAITING_FOR_QUOTA,
        True,
        "it gave its quota back, and stays out of its queue until its owner wants it again",
        "ask the person who put it on hold",
    ),
    QueuePhase.BLOCKED: (
        Reason.QUEUE_BLOCKED,
        True,
        "Kueue does not consider it: its queue is closed to it, or its pods are refused as they are",
        "put right what Kueue says of it",
    ),
    QueuePhase.BACKOFF: (
        Reason.QUEUE_BACKOFF,
        False,
        "it was evicted, and Kueue does not try it again before some time has passed",
        "wait; find out meanwhile why it was evicted",
    ),
    QueuePhase.DEACTIVATED: (
        Reason.SUSPENDED,
        True,
        "a user has deactivated its Workload, which is not queued until spec.active is true again",
        "set spec.active of its Workload to true",
    ),
    QueuePhase.FAILED: (
        Reason.FAILED_TO_START,
        True,
        "Kueue counts it as finished without success, and does not start it any more",
        "delete the JobSet and create it again",
    ),
}
"""Reason, whether it does not end by itself, meaning, and remedy."""


_REFUSED: Final = {
    Against.QUEUE: "Kueue finds nothing in its queue that could hold it, whatever else finishes",
    Against.NODES: "Kueue finds no nodes in the topology of its queue that its pods may use",
    Against.ROOM: "it waits in its queue until the topology has room for it",
}


def _phase_causes(
    context: Context, facts: QueueFacts, workload: QueuedWorkload, status: QueueStatus
) -> Iterator[Cause]:
    match status.phase:
        case QueuePhase.GATED:
            yield from _gated(context, workload, status)
        case QueuePhase.QUOTA_RESERVED:
            yield from _checks(context, workload, status)
        case QueuePhase.ADMITTED:
            yield from _admitted(context, workload, status)
        case QueuePhase.EVICTING:
            yield _evicting(context, workload, status)
        case QueuePhase.PENDING if refusal := read_queue_refusal(workload.condition("QuotaReserved").message):
            waits = refusal.against is Against.ROOM
            yield context.cause(
                Reason.WAITING_FOR_QUOTA if waits else Reason.NEVER_FITS,
                _REFUSED[refusal.against],
                evidence=[f'LocalQueue "{facts.local_queue}"', *_kueue_conditions(workload)],
                remedy=refusal.remedy,
                command=context.suggest(Command.FIT) if facts.queues_known else _show_workload(context, workload),
                pods=_pods(context),
                since=unix(status.since),
                blocking=not waits,
            )
        case phase if phase in _WAITS and not (phase is QueuePhase.FAILED and not context.snapshot.jobset.suspend):
            reason, blocking, message, remedy = _WAITS[phase]
            yield context.cause(
                reason,
                message,
                evidence=[f'LocalQueue "{facts.local_queue}"', status.detail, *_kueue_conditions(workload)],
                remedy=remedy,
                command=context.suggest(Command.FIT)
                if reason is Reason.WAITING_FOR_QUOTA and facts.queues_known
                else _show_workload(context, workload),
                pods=_pods(context),
                since=unix(status.since),
                blocking=blocking,
            )
        case _:
            return


def _gated(context: Context, workload: QueuedWorkload, status: QueueStatus) -> Iterator[Cause]:
    """Gates on the JobSet: their owners remove them."""
    names = ", ".join(workload.gates or context.snapshot.jobset.gates)
    since = unix(status.since) or context.free_since
    yield context.cause(
        Reason.ADMISSION_GATED,
        f"it is not queued before gate {names} is removed from it"
        if names
        else "it is not queued before it is ungated",
        evidence=[f"annotation kueue.x-k8s.io/admission-gated-by: {names}", *_kueue_conditions(workload)],
        remedy=f"ask the owner of {names or 'the gate'}; if there is none, take the name out of the annotation",
        command=context.suggest(Command.JOBSET_ANNOTATIONS),
        pods=_pods(context),
        since=since,
        blocking=bool(names) or context.late(since, SOON),
    )


_UNPLACED: Final = (
    "see the events SecondPassFailed of its Workload: nodes that were added need the labels of all levels of the "
    "topology, room in the domain that is asked for, and no taint that the pods do not tolerate"
)


def _checks(context: Context, workload: QueuedWorkload, status: QueueStatus) -> Iterator[Cause]:
    """It has reserved quota, and its admission checks are not all ready."""
    waiting = workload.unready_checks
    refused = any(check.state in {"Retry", "Rejected"} for check in waiting)
    names = ", ".join(check.name for check in waiting)
    states = [f"check {c.name} is {c.state}{f': {c.message}' if c.message else ''}" for c in waiting]
    ready = max((unix(check.since) for check in workload.checks), default=0)
    # Once all are ready Kueue admits it at once, unless it has still to place its pods in a topology (second pass).
    unplaced = not waiting and ready > 0 and context.late(ready, SOON)
    remedy = "wait for the controller of the check, named by spec.controllerName of the AdmissionCheck"
    if workload.nominated:
        remedy = "wait: the first worker cluster that admits it runs it; the command says which of them can"
        flags = [part for name in workload.nominated for part in ("--worker", name)]
        command = context.suggest(Command.FIT_WORKERS, workers=flags)
    elif waiting:
        command = context.suggest(Command.ADMISSION_CHECK, name=waiting[0].name)
    else:
        command = _show_workload(context, workload)
        remedy = _UNPLACED if unplaced else "wait: Kueue admits it"
    yield context.cause(
        Reason.WAITING_FOR_CHECK,
        f"it holds quota, and waits for admission check {names}"
        if names
        else "its admission checks are ready, and Kueue has found no place for its pods in the topology of its queue"
        if unplaced
        else "it holds quota, and is about to start",
        evidence=[*states, status.detail],
        remedy="put right what the check says: Kueue gives the quota back, and queues it again" if refused else remedy,
        command=command,
        pods=_pods(context),
        since=ready if unplaced else unix(status.since),
        blocking=refused or (unplaced and context.late(ready, LONG)),
    )


def _admitted(context: Context, workload: QueuedWorkload, status: QueueStatus) -> Iterator[Cause]:
    """Admitted, and still suspended: Kueue is about to unsuspend it."""
    if not context.snapshot.jobset.suspend:
        return
    since = unix(status.since)
    late = context.late(since, SOON)
    yield context.cause(
        # Then it is a problem of the cluster: alerts and events leave out what a user has suspended.
        Reason.FAILED_TO_START if context.late(since, LONG) else Reason.SUSPENDED,
        "Kueue has admitted it, and it is still suspended",
        evidence=[f"admitted {context.ago(since)}", "spec.suspend is true"],
        remedy="see what Kueue logs about this JobSet: it sets spec.suspend to false, and may be refused"
        if late
        else "wait: Kueue sets spec.suspend to false",
        command=_show_workload(context, workload),
        pods=_pods(context),
        since=since,
        blocking=late,
    )


def _evicting(context: Context, workload: QueuedWorkload, status: QueueStatus) -> Cause:
    eviction = eviction_of(workload)
    words = eviction.words if eviction is not None else "because it was deactivated"
    preempted = eviction is not None and eviction.reason == "Preempted"
    follows, held, lines = _holding(context, unix(eviction.since)) if eviction is not None else ("", "", ())
    if follows:
        remedy = f"{held}{'; it holds its quota until then' if workload.active else ''}"
    elif preempted:
        remedy = (
            "wait: it is queued again; a higher WorkloadPriorityClass, or quota of its own, keeps it from preemption"
        )
    else:
        remedy = f"wait for its pods to end{'; it holds its quota until then' if workload.active else ''}"
    return context.cause(
        Reason.PREEMPTED if preempted else Reason.QUEUE_BACKOFF,
        f"Kueue has evicted it {words}, and {follows or 'its pods are being deleted'}",
        evidence=[*lines, eviction.message if eviction is not None else "", *_kueue_conditions(workload)],
        remedy=remedy,
        command=_show_workload(context, workload),
        pods=_pods(context),
        since=unix(status.since),
        blocking=bool(follows),
    )


def _holding(context: Context, evicted: int) -> tuple[str, str, Sequence[str]]:
    """What keeps an eviction from its end, the remedy and evidence; empty while it takes its time."""
    late = context.late(evicted, LONG)
    # JobSet suspends them within seconds, and nothing else does.
    running = [job.name for group in context.groups for job in group.jobs if job.active and not job.suspended]
    if running and late:
        remedy = "see whether JobSet's controller runs (namespace jobset-system), and read the events of the JobSet"
        return f"JobSet has not suspended {listed(running)}", remedy, ()
    pods = [pod for group in context.groups for pod in (*group.pods, *group.leaving, *group.earlier)]
    if (left := [pod.name for pod in pods if not pod.deleting]) and late:
        why = f"the Job controller has not deleted {plural(len(left), 'pod')}: {listed(left)}"
        return why, "see whether kube-controller-manager runs, and read the events of the Jobs", ()
    if stuck := sorted((pod for pod in pods if pod_stays(context, pod)), key=lambda pod: (pod.deleted_at, pod.name)):
        lines = [stays(context, pod) for pod in stuck[:MOST_STUCK]]
        return plural(len(stuck), "pod does not end", "pods do not end"), WHY_THEY_STAY, lines
    return "", "", ()
