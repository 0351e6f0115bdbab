"""JobSet's controller, after ``reconcile`` of JobSet 0.12."""

from __future__ import annotations

from tests.search.facts import is_old, pods_at_once
from tests.search.state import Job, JobSet, State
from tests.search.views import Views


def sync(views: Views, state: State) -> State:
    """One reconcile of the JobSet."""
    jobset = state.jobset
    if jobset is None or jobset.deleting:
        return state
    jobs = list(state.jobs)
    own = [slot for slot, job in enumerate(jobs) if job is not None and job.owner == jobset.uid]
    if jobset.ended:
        return state._replace(jobs=tuple(_delete(jobs, [slot for slot in own if _is_active(jobs[slot])])))
    current = [slot for slot in own if (job := jobs[slot]) is not None and not is_old(jobset, slot, job)]
    jobs = _delete(jobs, [slot for slot in own if slot not in current])
    failed = [slot for slot in current if _finished(jobs[slot]) == "Failed"]
    if failed:
        return state._replace(jobset=_after_failure(views, jobset, failed[0]), jobs=tuple(jobs))
    complete = sum(_finished(jobs[slot]) == "Complete" for slot in current)
    if complete == len(jobs) or (complete and views.world.any_succeeds):
        return state._replace(jobset=jobset._replace(ended="Completed"))
    for slot in range(len(jobs)):
        job = jobs[slot]
        if not _may_start(views, jobset, state.jobs, slot):
            continue
        if job is None:
            jobs[slot] = _new(views, jobset, slot)
        elif slot in current and _is_active(job) and not job.deleting:
            jobs[slot] = _updated(views, jobset, slot, job)
    return state._replace(jobs=tuple(jobs))


def _finished(job: Job | None) -> str:
    return "" if job is None else job.finished


def _is_active(job: Job | None) -> bool:
    return job is not None and job.finished not in {"Complete", "Failed"}


def _delete(jobs: list[Job | None], slots: list[int]) -> list[Job | None]:
    """Delete Jobs in the foreground: each goes with its last pod, and only then another can have its name."""
    return [job._replace(deleting=True) if slot in slots and job is not None else job for slot, job in enumerate(jobs)]


def _after_failure(views: Views, jobset: JobSet, slot: int) -> JobSet:
    """The failure policy: fail, restart one Job, or all."""
    if jobset.restarts + sum(jobset.own) >= views.world.max_restarts:
        return jobset._replace(ended="Failed")
    if views.world.restart_job:
        own = (*jobset.own[:slot], jobset.own[slot] + 1, *jobset.own[slot + 1 :])
        return jobset._replace(own=own)
    return jobset._replace(restarts=jobset.restarts + 1)


def _may_start(views: Views, jobset: JobSet, jobs: tuple[Job | None, ...], slot: int) -> bool:
    """Whether the Jobs of the ReplicatedJob that it depends on are all ready."""
    dependency = views.world.jobs[views.world.slots[slot][0]].depends_on
    if not dependency:
        return True
    for other, (position, _) in enumerate(views.world.slots):
        if views.world.jobs[position].name != dependency:
            continue
        job = jobs[other]
        if job is None or job.owner != jobset.uid or job.deleting:
            return False
        ready = job.finished == "Complete" or job.succeeded + job.bound >= pods_at_once(views, jobset, other)
        if not ready:
            return False
    return True


def _new(views: Views, jobset: JobSet, slot: int) -> Job:
    position, _ = views.world.slots[slot]
    return Job(
        owner=jobset.uid,
        attempt=jobset.restarts,
        own=jobset.own[slot],
        size=views.world.jobs[position].parallelism + (jobset.resized if position == 0 else 0),
        group=views.group(jobset, slot),
        suspended=jobset.suspended,
    )


def _updated(views: Views, jobset: JobSet, slot: int, job: Job) -> Job:
    """A running Job after a resize, a suspension or a resume."""
    position, _ = views.world.slots[slot]
    size = views.world.jobs[position].parallelism + (jobset.resized if position == 0 else 0)
    return job._replace(size=size, suspended=jobset.suspended)
