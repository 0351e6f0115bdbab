"""The readiness of a JobSet's gangs, with causes: one function for the controller and the CLI.

Pure and deterministic: the result depends only on the snapshot and the previous result.

The phase of one group is for a JobSet that is neither suspended nor finished.
A group *needs* the pods that have to be placed together (:attr:`Group.needed`) to be placed at all, and *wants* all
pods that should exist now to be ready. Both are equal except for gangs that have grown beyond an immutable minCount:
additional pods never strand them, but they are ready only with these. A gang whose minCount was requested is ready with
that many pods (:attr:`Group.enough`).

The phase of the JobSet is that of its least advanced group; of running groups, the worst. Succeeded groups do not
count. Neither do groups that wait for their startup stage, while others are still starting; but a JobSet is not ready
without them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from gangctl.api.jobset import JobSet
from gangctl.gang.plan import level_of
from gangctl.gang.reasons import Reason
from gangctl.kueue.objects import QueuedWorkload
from gangctl.kueue.states import eviction_of
from gangctl.readiness import moments
from gangctl.readiness.causes import PROMISES, find_causes
from gangctl.readiness.causes.queue import evicted
from gangctl.readiness.facts import Snapshot, unix
from gangctl.readiness.membership import Group, Totals, members, nth, stages_to_come, totals, usage_of
from gangctl.readiness.moments import Life, Traces, shows_readiness, traces
from gangctl.readiness.result import Counts, GangPhase, GroupReadiness, Readiness


def phase_of_group(group: Group, totals: Totals, attempt: int, *, been_ready: bool, counting: bool) -> GangPhase:
    """The phase of a group; total.

    ``been_ready`` is whether it was ready before in this attempt; ``counting`` that the missing pods may have finished,
    and do not degrade it.
    """
    counts = totals.counts
    if group.finished:
        return GangPhase.SUCCEEDED
    # Before the others: while the attempt before is still there, missing pods are no loss of this one.
    if counts.created < counts.wanted and (group.earlier or any(job.attempt < attempt for job in group.leaving_jobs)):
        return GangPhase.RESTARTING
    if (after := _once_ready(counts, group, been_ready=been_ready, counting=counting)) is not None:
        return after
    if counts.created == 0 or totals.bound < group.needed:
        made = counts.created > 0 or group.jobs
        return GangPhase.WAITING_FOR_PODS if made else GangPhase.PENDING
    if totals.bound_placed < group.needed:
        return _unplaced(group, totals)
    return GangPhase.PARTIALLY_READY if counts.ready else GangPhase.STARTING


def _once_ready(counts: Counts, group: Group, *, been_ready: bool, counting: bool = False) -> GangPhase | None:
    """Ready, or Degraded of one that was; None of one that never was, and of one that wants no pods."""
    if counts.wanted > 0 and (counts.ready >= min(counts.wanted, group.enough) or counting):
        return GangPhase.READY
    return GangPhase.DEGRADED if been_ready else None


def _unplaced(group: Group, totals: Totals) -> GangPhase:
    """The phase if all needed pods exist, and not all of them have nodes."""
    if totals.free < group.needed:
        return GangPhase.GATED
    # Nodes that it holds are kept from other gangs, whatever the scheduler says of the other pods.
    if totals.bound_placed:
        return GangPhase.PARTIALLY_PLACED
    if totals.refused or group.rejected is not None:
        return GangPhase.UNSCHEDULABLE
    return GangPhase.SCHEDULING


ORDER: Final = (
    GangPhase.SUSPENDED,
    GangPhase.QUEUED,
    GangPhase.FAILED,
    GangPhase.TERMINATING,
    GangPhase.RESTARTING,
    GangPhase.GATED,
    GangPhase.PENDING,
    GangPhase.WAITING_FOR_PODS,
    GangPhase.SCHEDULING,
    GangPhase.UNSCHEDULABLE,
    GangPhase.PARTIALLY_PLACED,
    GangPhase.DEGRADED,
    GangPhase.STARTING,
    GangPhase.PARTIALLY_READY,
    GangPhase.READY,
    GangPhase.SUCCEEDED,
)
"""Sort key of phases: the deciding one first."""
_RANK: Final = {phase: rank for rank, phase in enumerate(ORDER)}
_FROM_THE_FIRST: Final = frozenset({GangPhase.DEGRADED, GangPhase.RESTARTING, GangPhase.FAILED})
"""Phases that a JobSet enters with its first group; others with the last."""


def rolled_up(groups: Sequence[GroupReadiness], to_come: Collection[str]) -> tuple[GangPhase, int]:
    """Phase of a JobSet, and since when it is in it; ``to_come`` are groups that wait for their startup stage."""
    if not groups:
        return GangPhase.PENDING, 0
    phase, since = _least(groups)
    if to_come and phase is not GangPhase.SUCCEEDED:
        begun = [group for group in groups if group.name not in to_come and group.phase is not GangPhase.SUCCEEDED]
        if begun:
            phase, since = _least(begun)
            phase = GangPhase.PARTIALLY_READY if phase is GangPhase.READY else phase
    return phase, since


def _least(groups: Sequence[GroupReadiness]) -> tuple[GangPhase, int]:
    phase = min((group.phase for group in groups), key=_RANK.__getitem__)
    times = [group.since for group in groups if group.phase is phase]
    return phase, min(times) if phase in _FROM_THE_FIRST else max(times)


def all_done(times: Sequence[int]) -> int:
    """The latest of several times, 0 if one of them is 0."""
    return max(times, default=0) if all(times) else 0


COUNTING_SECONDS: Final = 5
"""How long a Job may take to count a succeeded pod. Succeeded pods are not watched: until then a missing pod may have
succeeded, and the gang is not degraded."""
COUNTED_IN_A_SECOND: Final = 10
"""How many succeeded pods are surely counted in a second: the Job controller takes the finalizer of each off before it
counts the next 500 of a Job, and sends 20 requests a second (``--kube-api-qps``)."""


def evaluate(snapshot: Snapshot, now: float, before: Readiness | None = None, *, kept: bool = False) -> Readiness:
    """Phases, counts, times and causes of one JobSet; total.

    ``now`` and the times are Unix seconds. ``before`` is this process' previous result, if any. It has facts that no
    object has: that a gang was ready, and times whose traces are gone.
    ``kept`` is for stored texts: they contain times, others durations.
    """
    groups, jobset = members(snapshot), snapshot.jobset
    # A JobSet that was deleted and created again has the same key.
    before = before if before is not None and before.uid == jobset.uid else None
    free_at = _free_at(snapshot, int(now), before)
    # A result of an earlier attempt, or from before a suspension, says nothing of this one. For a finished JobSet Kueue
    # may no longer have the time of admission.
    earlier = before if before is not None and before.attempt == jobset.restarts else None
    memory = earlier if earlier is not None and (earlier.admitted_at == free_at or jobset.finished) else None
    # First: the result of one that has finished stays as it is, also while it is deleted.
    if jobset.finished:
        state = _finished(jobset, groups, int(now), memory)
    elif jobset.deleting:
        state = _terminating(jobset, groups, int(now), before)
    elif jobset.suspend:
        state = _suspended(snapshot, groups, int(now), before)
    elif jobset.managed_elsewhere or not snapshot.pods_known:
        state = _by_status(snapshot, groups, int(now), memory, free_at)
    else:
        state = _running(snapshot, groups, int(now), memory, free_at)
    readiness = _whole(snapshot, state, free_at, memory, earlier)
    # Without causes and usage: it waits for nothing and holds nothing, and there may be thousands of these.
    if readiness.phase.over:
        return readiness
    causes, later = find_causes(snapshot, groups, readiness, now, kept=kept)
    # Without pods there is nothing that could start in part.
    lost = next((cause for cause in causes if cause.reason in PROMISES and readiness.counts.desired), None)
    times = [float(group.counted_by) for group in readiness.groups if group.counted_by]
    if later is not None:
        times.append(later)
    shown = tuple(cause for cause in causes if cause.reason is Reason.CRASH_LOOP or not readiness.phase.settled)
    usage = usage_of(groups)
    return replace(readiness, causes=shown, lost=lost, usage=usage, look_again=min(times, default=None))


_Found = tuple[list[GroupReadiness], GangPhase, int]
"""The groups, and the JobSet's phase with its begin."""


def _free_at(snapshot: Snapshot, now: int, before: Readiness | None) -> int:
    """When it was allowed to start: admitted by Kueue, resumed or created; 0 if it is not."""
    jobset = snapshot.jobset
    if jobset.suspend and not jobset.finished:
        return 0
    workload = snapshot.queued_workload
    admitted = workload.conditions.get("Admitted") if workload is not None else None
    since = unix(admitted.since) if admitted is not None and admitted.status else 0
    since = since or (_begun_in_order(jobset, before) if jobset.in_order else 0)
    resumed = unix(jobset.resumed_at)
    if not (since or resumed or jobset.in_order or jobset.finished) and before is not None:
        # It was suspended before, and JobSet has not written yet that it is not.
        return before.admitted_at or now
    return since or resumed or unix(jobset.created)


def _begun_in_order(jobset: JobSet, before: Readiness | None) -> int:
    """When a JobSet was resumed that starts in order: JobSet says so only after its last stage; 0 if it never was."""
    if before is not None and before.admitted_at and before.attempt != jobset.restarts:
        # Its stages begin again with each restart.
        return before.admitted_at
    begun, suspended, resumed = map(unix, (jobset.stages_begun_at, jobset.suspended_at, jobset.resumed_at))
    return begun if 0 < suspended <= begun or begun <= resumed else 0


def _by_name(readiness: Readiness | None) -> Mapping[str, GroupReadiness]:
    return {group.name: group for group in readiness.groups} if readiness is not None else {}


def _finished(jobset: JobSet, groups: Sequence[Group], now: int, before: Readiness | None) -> _Found:
    """The finished JobSet; groups whose pods all succeeded before it failed have succeeded."""
    succeeded = jobset.outcome != "Failed"
    outcome = GangPhase.SUCCEEDED if succeeded else GangPhase.FAILED
    since = unix(jobset.finished_at) or _same(before, outcome) or now
    known = _by_name(before)
    states = []
    for group in groups:
        # It gets no more pods: they would be counted as missing.
        counts = replace(totals(group, runs=False).counts, wanted=0)
        phase = GangPhase.SUCCEEDED if succeeded or group.finished else GangPhase.FAILED
        own = known.get(group.name)
        at = own.since if own is not None and own.phase is phase else since
        states.append(_group(group, phase, at, counts, own))
    return states, outcome, since


def _terminating(jobset: JobSet, groups: Sequence[Group], now: int, before: Readiness | None) -> _Found:
    """The JobSet is there until its Jobs and pods are gone: a deletion in the foreground, or a finalizer."""
    phase = GangPhase.TERMINATING
    since = unix(jobset.deleted_at) or _same(before, phase) or now
    known = _by_name(before)
    states = []
    for group in groups:
        own = GangPhase.SUCCEEDED if group.finished else phase
        states.append(_group(group, own, since, totals(group, runs=False).counts, known.get(group.name)))
    return states, phase, since


def _suspended(snapshot: Snapshot, groups: Sequence[Group], now: int, before: Readiness | None) -> _Found:
    jobset = snapshot.jobset
    phase = GangPhase.SUSPENDED
    if jobset.queue and (snapshot.queue is not None or snapshot.kueue is None):
        phase = GangPhase.GATED if jobset.gates else GangPhase.QUEUED
    # A group that ran has not waited since its creation; JobSet is about to write the time.
    made = 0 if jobset.resumed_at else unix(jobset.created)
    since = unix(jobset.suspended_at)
    if jobset.in_order:
        # JobSet ends the condition only after the last stage: one that is stopped before keeps its earlier time.
        since = max(since, _stopped_at(snapshot.queued_workload, before, phase, now))
    since = since or _same(before, phase) or made or now
    states = [_group(group, phase, since, totals(group, runs=False).counts, None) for group in groups]
    return states, phase, since


def _stopped_at(workload: QueuedWorkload | None, before: Readiness | None, phase: GangPhase, now: int) -> int:
    """When Kueue evicted it, or else when this process saw that it does not run any more; 0 if neither is known."""
    eviction = eviction_of(workload) if workload is not None else None
    if eviction is not None:
        return unix(eviction.since)
    admitted = workload.conditions.get("Admitted") if workload is not None else None
    if admitted is not None and not admitted.status:
        return unix(admitted.since)
    return now if before is not None and before.admitted_at else _same(before, phase)


def _same(before: Readiness | None, phase: GangPhase) -> int:
    return before.since if before is not None and before.phase is phase else 0


def _group(group: Group, phase: GangPhase, since: int, counts: Counts, before: GroupReadiness | None) -> GroupReadiness:
    """A JobSet that does not run, without its earlier times."""
    return GroupReadiness(
        name=group.name,
        template=group.template,
        replicated_jobs=group.replicated_jobs,
        phase=phase,
        since=since,
        counts=counts,
        placed_at=before.placed_at if before is not None else 0,
        first_ready_at=before.first_ready_at if before is not None else 0,
        ready_at=before.ready_at if before is not None else 0,
        been_ready=before is not None and before.been_ready,
    )


def _running(snapshot: Snapshot, groups: Sequence[Group], now: int, memory: Readiness | None, free_at: int) -> _Found:
    jobset = snapshot.jobset
    known = _by_name(memory)
    restarted = unix(jobset.restarting_at or jobset.restarted_at)
    # The condition stays while the JobSet is suspended. Without it the begin of a restart is not known.
    begun = max(restarted, free_at) if restarted or not jobset.restarts else 0
    recovered = _recovered(snapshot)
    # Of all groups: one Job controller counts the pods of all of them.
    within = COUNTING_SECONDS + sum(group.desired for group in groups) // COUNTED_IN_A_SECOND
    states = []
    for group in groups:
        life = Life(begun, jobset.restarts, now, known.get(group.name))
        states.append(_running_group(group, life, recovered=recovered, within=within))
    return states, *rolled_up(states, _to_come(snapshot, [group for group in groups if not group.pods]))


def _to_come(snapshot: Snapshot, empty: Sequence[Group]) -> Collection[str]:
    """Of groups without pods those that wait for their startup stage."""
    stages = stages_to_come(snapshot.jobset, snapshot.jobs)
    return {group.name for group in empty if stages.keys() >= set(group.replicated_jobs)} if stages else ()


def _by_status(snapshot: Snapshot, groups: Sequence[Group], now: int, memory: Readiness | None, free_at: int) -> _Found:
    """A JobSet whose pods are not known: its status counts ready Jobs.

    They may not be read, or are not here: MultiKueue copies the status that the JobSet has on its worker cluster.
    """
    workload = snapshot.queued_workload
    conditions = workload.conditions if workload is not None else {}
    recovered, known = _recovered(snapshot), _by_name(memory)
    states = []
    for group in groups:
        counts, own = _reported(snapshot.jobset, group), known.get(group.name)
        been = recovered or (own is not None and own.been_ready)
        phase, since = GangPhase.PENDING, free_at if snapshot.pods_known else 0
        after = _once_ready(counts, group, been_ready=been)
        if after is GangPhase.READY or (not counts.wanted and group.desired):
            phase = GangPhase.READY
            ready = conditions.get("PodsReady")
            since = unix(ready.since) if ready is not None and ready.status else since
        else:
            phase = after or (GangPhase.PARTIALLY_READY if counts.ready else phase)
        if own is not None:
            since = own.since if own.phase is phase else now
        been = been or phase is GangPhase.READY
        states.append(replace(_group(group, phase, since, counts, own), been_ready=been))
    pending = [group for group, state in zip(groups, states, strict=True) if state.phase is GangPhase.PENDING]
    return states, *rolled_up(states, _to_come(snapshot, pending))


def _reported(jobset: JobSet, group: Group) -> Counts:
    """Pods of the Jobs that its status counts as ready and as succeeded: other ready pods are not counted there.

    The status does not say which Jobs of a ReplicatedJob these are: the first ones are taken for them.
    """
    ready = finished = 0
    for job in group.planned:
        jobs_ready, jobs_succeeded = jobset.reported.get(job.replicated_job, (0, 0))
        if job.index < jobs_succeeded:
            finished += job.pods
        elif job.index < jobs_succeeded + jobs_ready:
            ready += job.pods
    wanted = max(0, group.desired - finished)
    return Counts(group.desired, group.minimum, wanted, created=ready, placed=ready, ready=ready, finished=finished)


def _recovered(snapshot: Snapshot) -> bool:
    """Whether Kueue observed all pods ready since admission: it records that with waitForPodsReady."""
    workload = snapshot.queued_workload
    ready = workload.conditions.get("PodsReady") if workload is not None else None
    # The condition is of the admission: Kueue does not evaluate it anew when JobSet restarts the pods.
    if ready is None or snapshot.jobset.restarts:
        return False
    return ready.status or ready.reason == "WaitForRecovery"


def _running_group(group: Group, life: Life, *, recovered: bool, within: int) -> GroupReadiness:
    """The readiness of a group whose Jobs count succeeded pods ``within`` so many seconds."""
    sum_ = totals(group, runs=True)
    evidence = traces(group)
    been = _been_ready(group, evidence, life.before, recovered=recovered)
    failed = sum(job.failed for job in group.jobs)
    counted_by = _counted_by(group, sum_, life, failed, within) if been else 0
    counting = life.now < counted_by
    phase = phase_of_group(group, sum_, life.attempt, been_ready=been, counting=counting)
    been = been or phase is GangPhase.READY
    return GroupReadiness(
        name=group.name,
        template=group.template,
        replicated_jobs=group.replicated_jobs,
        phase=phase,
        since=moments.since(phase, group, sum_, evidence, life),
        counts=sum_.counts,
        placed_at=moments.placed_at(group, sum_, been, life),
        first_ready_at=(life.before.first_ready_at if life.before else 0) or nth(sum_.ready_at, 1),
        ready_at=moments.ready_at(group, sum_, been, life),
        been_ready=been,
        counted_by=counted_by if counting else 0,
        failed=life.before.failed if counting and life.before is not None else failed,
    )


def _been_ready(group: Group, found: Traces, before: GroupReadiness | None, *, recovered: bool) -> bool:
    """Whether it was ready before in this attempt, with at least its present size."""
    if before is None:
        return recovered or shows_readiness(group, found)
    if before.been_ready:
        return group.desired <= before.counts.desired
    return found.turned > 0 and shows_readiness(group, found)


def _counted_by(group: Group, sum_: Totals, life: Life, failed: int, within: int) -> int:
    """Until when the only problem is missing pods that may have succeeded; 0 otherwise."""
    counts, before = sum_.counts, life.before
    if before is None or before.phase is not GangPhase.READY or group.leaving:
        return 0
    if counts.created >= counts.wanted or counts.ready < counts.created:
        return 0
    if before.written_at is not None:
        # The object has these counts where the controller has seen the pods go, and waits. Without gangctl nothing
        # updates it, and Jobs have counted their pods long ago.
        seen = (before.counts.wanted, before.counts.created) == (counts.wanted, counts.created)
        return before.written_at + within if seen and before.written_at else 0
    # A pod that has failed is a loss, and others may be, which are counted as slowly as those that succeed.
    by = life.now + (COUNTING_SECONDS if failed > before.failed else within)
    # With another number of wanted pods the Job has counted one: what is missing then is missing since now.
    return min(by, before.counted_by) if before.counted_by and before.counts.wanted == counts.wanted else by


def _whole(
    snapshot: Snapshot, found: _Found, free_at: int, memory: Readiness | None, earlier: Readiness | None
) -> Readiness:
    """``earlier`` is the previous result of this attempt, ``memory`` the same if it is of this admission."""
    jobset, (groups, phase, since) = snapshot.jobset, found
    # A group that has succeeded before it was observed, or ready, has no time, and must not hide those of the others.
    placed = [group.placed_at for group in groups if group.phase is not GangPhase.SUCCEEDED or group.placed_at]
    ready = [group.ready_at for group in groups if group.phase is not GangPhase.SUCCEEDED or group.ready_at]
    firsts = [group.first_ready_at for group in groups if group.first_ready_at]
    been = bool(groups) and all(group.been_ready or group.phase is GangPhase.SUCCEEDED for group in groups)
    return Readiness(
        namespace=jobset.namespace,
        name=jobset.name,
        uid=jobset.uid,
        phase=phase,
        since=since,
        counts=sum((group.counts for group in groups), Counts()),
        groups=tuple(groups),
        level=level_of(snapshot.assessment.plan),
        local_queue=jobset.queue,
        cluster_queue=snapshot.queue.cluster_queue if snapshot.queue is not None else "",
        cluster=snapshot.queue.cluster if snapshot.queue is not None else "",
        attempt=jobset.restarts,
        job_restarts=tuple(rj.restarted for rj in jobset.replicated_jobs),
        created_at=unix(jobset.created),
        admitted_at=free_at,
        placed_at=all_done(placed),
        first_ready_at=min(firsts, default=0),
        ready_at=all_done(ready),
        been_ready=been or (memory is not None and memory.been_ready),
        ready_before=earlier is not None and (earlier.ready_before or (memory is None and earlier.been_ready)),
        evicted=evicted(snapshot),
        runs_between=any(rj.after_end for rj in jobset.replicated_jobs),
        deleting=jobset.deleting,
    )
