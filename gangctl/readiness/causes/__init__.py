"""Why a gang is not ready: causes with evidence and remedy, the most likely first.

Each cause is a small function in a module by subject.

Causes that never end by themselves and explain all others come first: without an API there are no groups, without
groups the scheduler writes no condition. A rejection by the scheduler counts only if no earlier cause explains it. Lost
nodes come after it, because their pods are replaced and then rejected. Then come containers, which can fail only on a
node. Causes that end by themselves, such as a queue or starting containers, come after those that do not. Causes that
delay nothing now, such as a lost guarantee while all pods run, come last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from gangctl.errors import plural
from gangctl.gang.reasons import Reason
from gangctl.readiness.causes import deletion, jobs, objects, pods, queue, refusals, scheduler, starting
from gangctl.readiness.causes.context import LATE, Command, Context, Finder
from gangctl.readiness.facts import Snapshot
from gangctl.readiness.membership import Group
from gangctl.readiness.result import Cause, GangPhase, Readiness

ALWAYS: Final[tuple[Finder, ...]] = (
    queue.suspended,
    queue.in_queue,
    jobs.jobs_not_suspended,
    objects.api_unavailable,
    objects.not_ganged,
    objects.field_dropped,
    scheduler.scheduling_gate_off,
    objects.foreign_workload,
    deletion.jobset_deleted,
    pods.pods_terminating,
    pods.node_lost,
    pods.preempted,
    pods.troubles,
    pods.crash_loops,
    pods.node_unhealthy,
    starting.starting,
)
WHILE_IT_RUNS: Final[tuple[Finder, ...]] = (
    objects.name_conflict,
    objects.pod_group_missing,
    objects.pod_group_terminating,
    objects.unreachable_minimum,
    jobs.exclusive_deadlock,
    jobs.job_creation_refused,
    jobs.pod_creation_refused,
    jobs.waiting_for_stage,
    jobs.pods_missing,
    pods.pods_failed,
    pods.pods_rejected,
    pods.pods_gated,
    pods.restarting,
    refusals.refused,
    scheduler.scheduler_silent,
    scheduler.binding,
)
"""Of a gang whose pods should exist now. In any order: the ranking decides."""
WHILE_PODS_ARE_UNKNOWN: Final[tuple[Finder, ...]] = tuple(
    finder for finder in WHILE_IT_RUNS if finder not in {jobs.pod_creation_refused, jobs.pods_missing}
)
"""Of :data:`WHILE_IT_RUNS` those that find nothing in pods that are not there."""

PROMISES: Final[Mapping[Reason, Finder]] = {
    Reason.NOT_GANGED: objects.not_ganged,
    Reason.FIELD_DROPPED: objects.field_dropped,
    Reason.SCHEDULING_GATE_OFF: scheduler.scheduling_gate_off,
}
"""Causes that break the all-or-nothing guarantee, also reported for ready gangs."""
WHILE_READY: Final[tuple[Finder, ...]] = (*PROMISES.values(), pods.crash_loops)
"""Of a gang that is ready now, or has finished."""

MOST_CAUSES: Final = 16
"""Causes kept per JobSet: the most likely. Hundreds of groups may have different messages."""


TIERS: Final[tuple[tuple[str, tuple[Reason, ...]], ...]] = (
    ("nothing starts before a user resumes it", (Reason.SUSPENDED, Reason.DEACTIVATED, Reason.FAILED_TO_START)),
    ("it can never be admitted", (Reason.NEVER_FITS,)),
    (
        "its queue is closed, or Kueue cannot take it",
        (
            Reason.QUEUE_BLOCKED,
            Reason.FRAMEWORK_NOT_ENABLED,
            Reason.NAMESPACE_NOT_MANAGED,
            Reason.PRIORITY_CLASS_MISSING,
            Reason.TOO_MANY_PODSETS,
            Reason.QUEUE_CONFLICT,
            Reason.WORKLOAD_MISSING,
            Reason.FAILED_CHECK_WITHOUT_QUOTA,
            Reason.EVICTED_HOLDS_QUOTA,
            Reason.FINISHED_HOLDS_QUOTA,
        ),
    ),
    ("there are no gangs here", (Reason.API_UNAVAILABLE,)),
    ("this JobSet is none", (Reason.NOT_GANGED, Reason.FOREIGN_WORKLOAD)),
    ("its pods are outside of their groups", (Reason.FIELD_DROPPED,)),
    ("its groups are not there", (Reason.NAME_CONFLICT, Reason.POD_GROUP_MISSING, Reason.POD_GROUP_TERMINATING)),
    ("a quorum cannot be met", (Reason.GANG_TAIL_BLOCKED, Reason.MIN_COUNT_UNREACHABLE)),
    ("the scheduler knows no groups, or refuses this one whatever is free", (Reason.SCHEDULING_GATE_OFF,)),
    ("pods and group contradict each other", (Reason.PRIORITY_MISMATCH,)),
    ("pods wait for each other in a circle", (Reason.EXCLUSIVE_TOPOLOGY_DEADLOCK,)),
    ("what it needs is refused", (Reason.JOB_CREATION_REFUSED, Reason.POD_CREATION_REFUSED)),
    ("it is held back on purpose", (Reason.ADMISSION_GATED, Reason.PODS_GATED)),
    ("another Workload comes first", (Reason.HEAD_BLOCKS_QUEUE, Reason.WAITING_FOR_CHECK)),
    ("a volume is not there", (Reason.VOLUME_NOT_BOUND,)),
    ("no domain is large enough", (Reason.TOPOLOGY_TOO_SMALL,)),
    (
        "the scheduler refuses",
        (Reason.UNSCHEDULABLE, Reason.SCALE_UP_REFUSED, Reason.SCHEDULER_ERROR, Reason.SCHEDULER_SILENT),
    ),
    ("what was placed is lost", (Reason.NODE_LOST, Reason.PREEMPTED)),
    ("containers fail", (Reason.IMAGE_PULL, Reason.CONTAINER_CONFIG, Reason.CRASH_LOOP)),
    ("a node has a problem, and is ready", (Reason.NODE_UNHEALTHY,)),
    ("containers take long, perhaps because they wait for those that fail", (Reason.NOT_READY, Reason.STARTING)),
    (
        "something is late that usually comes by itself",
        (Reason.PODS_MISSING, Reason.PODS_TERMINATING, Reason.RESTARTING, Reason.WAITING_FOR_STAGE),
    ),
    (
        "Kueue's word for what the causes before it explain",
        (Reason.EVICTED_AS_NOT_READY, Reason.PODS_NOT_READY, Reason.WAITING_FOR_QUOTA, Reason.QUEUE_BACKOFF),
    ),
    ("nothing was found", (Reason.UNKNOWN,)),
)
"""Tiers of causes that do not end by themselves; within a tier, the one with more affected pods is first."""

WAITING: Final[tuple[Reason, ...]] = (
    Reason.EVICTED_AS_NOT_READY,
    Reason.HEAD_BLOCKS_QUEUE,
    Reason.WAITING_FOR_CHECK,
    Reason.QUEUE_BACKOFF,
    Reason.ADMISSION_GATED,
    Reason.WAITING_FOR_QUOTA,
    Reason.RESTARTING,
    Reason.PREEMPTED,
    Reason.PODS_TERMINATING,
    Reason.POD_GROUP_MISSING,
    Reason.PODS_GATED,
    Reason.SCHEDULER_BACKOFF,
    Reason.SCALE_UP_RUNNING,
    Reason.SCHEDULER_SILENT,
    Reason.VOLUME_NOT_BOUND,
    Reason.PODS_MISSING,
    Reason.STARTING,
    Reason.NOT_READY,
    Reason.WAITING_FOR_STAGE,
)
"""Causes that end by themselves, in the order in which they end; unlisted reasons delay nothing, and come last."""

_TIER: Final = {reason: place for place, (_, reasons) in enumerate(TIERS) for reason in reasons}
_WAIT: Final = {reason: place for place, reason in enumerate(WAITING)}


def place_of(cause: Cause) -> tuple[object, ...]:
    """Sort key of causes; a total order, so that the order of finding does not matter."""
    places = _TIER if cause.blocking else _WAIT
    return (
        not cause.blocking,
        places.get(cause.reason, len(places)),
        -cause.pods,
        _TIER.get(cause.reason, len(_TIER)),
        cause.reason.value,
        cause.groups,
        cause.message,
        cause.evidence,
    )


def find_causes(
    snapshot: Snapshot, groups: Sequence[Group], readiness: Readiness, now: float, *, kept: bool = False
) -> tuple[tuple[Cause, ...], float | None]:
    """Why it is not ready, and when (Unix seconds) time alone changes the result; total.

    ``groups`` are all of the JobSet (:func:`gangctl.readiness.membership.members`); ``readiness`` is theirs,
    without causes. Of a settled one only those :data:`WHILE_READY`. ``kept`` texts contain times, others
    durations.
    """
    context = Context(snapshot, [group for group in groups if not group.finished], readiness, now, len(groups), kept)
    if readiness.phase.settled:
        finders: Sequence[Finder] = WHILE_READY
    else:
        running = WHILE_IT_RUNS if snapshot.pods_known else (*WHILE_PODS_ARE_UNKNOWN, pods.unread)
        finders = (*ALWAYS, *running) if context.runs else ALWAYS
    causes = [cause for finder in finders for cause in finder(context)]
    if not causes and not readiness.phase.settled:
        causes = [_elsewhere(context) if snapshot.jobset.managed_elsewhere else _unknown(context)]
    later = min((at for at in context.changes if at > now), default=None)
    return tuple(sorted(causes, key=place_of)[:MOST_CAUSES]), later


def _unknown(context: Context) -> Cause:
    """The fallback cause."""
    snapshot, counts, phase = context.snapshot, context.readiness.counts, context.readiness.phase
    looked = [
        "the JobSet and its queue",
        plural(len(snapshot.jobs), "Job"),
        plural(len(snapshot.pods), "pod") if snapshot.pods_known else "no pods, which may not be read",
        plural(len(snapshot.groups), "PodGroup") if snapshot.groups_known else "no PodGroups, which may not be read",
        plural(len(snapshot.nodes), "node") if snapshot.nodes is not None else "no nodes",
        plural(len(snapshot.refused), "refusal"),
    ]
    # An elastic JobSet may have none for a while.
    empty = counts.desired == 0 and phase is GangPhase.PENDING
    return context.cause(
        Reason.UNKNOWN,
        "it has no pods: all of its replicated jobs are configured to have none"
        if empty
        else f"it is {phase.value}, and nothing that was looked at says why",
        evidence=[
            f"{counts.wanted} pods wanted, {counts.created} created, {counts.placed} on nodes, {counts.ready} ready",
            f"looked at: {', '.join(looked)}",
        ],
        remedy="give it replicas, parallelism and completions above 0 once it should run"
        if empty
        else "read the events of the JobSet, its Jobs and pods",
        command=context.suggest(Command.DESCRIBE_JOBSET),
        pods=max(0, counts.wanted - counts.ready),
        since=context.readiness.since,
        blocking=not empty and context.late(context.readiness.since, LATE),
    )


def _elsewhere(context: Context) -> Cause:
    """Another controller manages it, so that its Jobs and pods are not in this cluster."""
    jobset, queue = context.snapshot.jobset, context.snapshot.queue
    cluster = queue.cluster if queue is not None else ""
    return context.cause(
        Reason.UNKNOWN,
        f"MultiKueue runs it on worker cluster {cluster}, where its groups and pods are"
        if cluster
        else "another controller runs it, perhaps on another cluster: nothing is known of its pods here",
        evidence=[f"spec.managedBy is {jobset.managed_by}"],
        remedy="ask that cluster: --context takes the name that your kubeconfig has for it"
        if cluster
        else "look where that controller runs it",
        command=context.suggest(Command.WHY_WORKER, cluster=cluster)
        if cluster
        else context.suggest(Command.DESCRIBE_JOBSET),
        blocking=False,
    )
