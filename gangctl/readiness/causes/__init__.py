"""Why a gang is not ready: causes with evidence and remedy, the most likely first.

Each cause is a small function in a module by subject; :mod:`.ranking` sorts them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from gangctl.errors import plural
from gangctl.gang.reasons import Reason
from gangctl.readiness.causes import api, jobs, objects, pods, queue, scheduler
from gangctl.readiness.causes.context import LATE, Command, Context, Finder
from gangctl.readiness.causes.ranking import place_of
from gangctl.readiness.facts import Snapshot
from gangctl.readiness.membership import Group
from gangctl.readiness.result import Cause, Readiness

FINDERS: Final[tuple[Finder, ...]] = (
    queue.suspended,
    queue.in_queue,
    api.api_unavailable,
    api.not_ganged,
    api.field_dropped,
    objects.name_conflict,
    objects.pod_group_missing,
    objects.pod_group_terminating,
    objects.foreign_workload,
    objects.unreachable_minimum,
    api.scheduling_gate_off,
    jobs.exclusive_deadlock,
    jobs.job_creation_refused,
    jobs.pod_creation_refused,
    jobs.waiting_for_stage,
    jobs.pods_missing,
    pods.pods_gated,
    pods.restarting,
    pods.pods_terminating,
    scheduler.refused,
    scheduler.scheduler_silent,
    pods.node_lost,
    pods.preempted,
    pods.troubles,
    pods.starting,
    pods.not_ready,
)
"""In any order: the ranking decides."""

PROMISES: Final[Mapping[Reason, Finder]] = {
    Reason.NOT_GANGED: api.not_ganged,
    Reason.FIELD_DROPPED: api.field_dropped,
    Reason.SCHEDULING_GATE_OFF: api.scheduling_gate_off,
}
"""Causes that break the all-or-nothing guarantee, also reported for ready gangs."""

MOST_CAUSES: Final = 16
"""Causes kept per JobSet: the most likely. Hundreds of groups may have different messages."""


def find_causes(
    snapshot: Snapshot, groups: Sequence[Group], readiness: Readiness, now: float, *, kept: bool = False
) -> tuple[tuple[Cause, ...], float | None]:
    """Why it is not ready, and when (Unix seconds) time alone changes the result; total.

    ``groups`` are all of the JobSet (:func:`gangctl.readiness.membership.members`); ``readiness`` is theirs,
    without causes. ``kept`` texts contain times, others durations.
    """
    context = _context(snapshot, groups, readiness, now, kept=kept)
    causes = [each for finder in FINDERS for each in finder(context)]
    return _ranked(context, causes or list(_unknown(context)))


def find_broken_promises(
    snapshot: Snapshot, groups: Sequence[Group], readiness: Readiness, now: float, *, kept: bool = False
) -> tuple[tuple[Cause, ...], float | None]:
    """As :func:`find_causes`, only causes that break the guarantee: also of a ready gang."""
    context = _context(snapshot, groups, readiness, now, kept=kept)
    return _ranked(context, [each for finder in PROMISES.values() for each in finder(context)])


def _context(snapshot: Snapshot, groups: Sequence[Group], readiness: Readiness, now: float, *, kept: bool) -> Context:
    return Context(snapshot, [group for group in groups if not group.finished], readiness, now, len(groups), kept)


def _ranked(context: Context, causes: Sequence[Cause]) -> tuple[tuple[Cause, ...], float | None]:
    ranked = sorted(causes, key=place_of)[:MOST_CAUSES]
    return tuple(ranked), min((at for at in context.changes if at > context.now), default=None)


def _unknown(context: Context) -> Iterator[Cause]:
    """The fallback cause. A JobSet that another controller manages has none."""
    snapshot, jobset = context.snapshot, context.snapshot.jobset
    if jobset.managed_elsewhere:
        yield _elsewhere(context)
        return
    counts, phase = context.readiness.counts, context.readiness.phase
    looked = [
        "the JobSet and its queue",
        plural(len(snapshot.jobs), "Job"),
        plural(len(snapshot.pods), "pod"),
        plural(len(snapshot.groups), "PodGroup") if snapshot.groups_known else "no PodGroups, which may not be read",
        plural(len(snapshot.nodes), "node") if snapshot.nodes is not None else "no nodes",
        plural(len(snapshot.refused), "refusal"),
    ]
    late = context.late(context.readiness.since, LATE)
    yield context.cause(
        Reason.UNKNOWN,
        f"it is {phase.value}, and nothing that was looked at says why",
        evidence=[
            f"{counts.wanted} pods wanted, {counts.created} created, {counts.placed} on nodes, {counts.ready} ready",
            f"looked at: {', '.join(looked)}",
        ],
        remedy="read the events of the JobSet, its Jobs and pods",
        command=context.suggest(Command.DESCRIBE_JOBSET),
        pods=max(0, counts.wanted - counts.ready),
        since=context.readiness.since,
        blocking=late,
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
