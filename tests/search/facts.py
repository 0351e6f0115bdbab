"""Facts of a state that invariants are about: the gangs, and their pods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tests.search.invariants import Gang
from tests.search.known import shares_number
from tests.search.scheduler import is_ready, members, placed, policy_of
from tests.search.state import Job, JobSet, State
from tests.search.views import Views
from tests.search.world import STRAY

OVER: Final = frozenset({"Complete", "Decided", "Failed"})


def pods_at_once(views: Views, jobset: JobSet, slot: int) -> int:
    """Pods of a new Job."""
    position, _ = views.world.slots[slot]
    job = views.world.jobs[position]
    size = job.parallelism + (jobset.resized if position == 0 else 0)
    return size if job.completions is None else min(size, job.completions + (size - job.parallelism))


def can_exist(views: Views, jobset: JobSet, slot: int, job: Job | None) -> int:
    """Pods that a Job can still have at once; one that does not exist yet, or will be replaced, has all.

    From ``manageJob`` of Kubernetes' Job controller.
    """
    whole = pods_at_once(views, jobset, slot)
    if job is None or job.deleting or is_old(jobset, slot, job):
        return whole
    if job.finished == "Failed" and views.world.restart_job:
        return whole
    if job.finished in OVER:
        return 0
    completions = views.world.jobs[views.world.slots[slot][0]].completions
    if completions is None:
        return job.waiting + job.bound if job.succeeded else job.size
    completions += job.size - min(job.size, views.world.jobs[views.world.slots[slot][0]].parallelism)
    return max(0, min(job.size, completions - job.succeeded - job.lost))


def is_old(jobset: JobSet, slot: int, job: Job) -> bool:
    """Whether a Job is of another JobSet, or of an earlier attempt."""
    return job.owner != jobset.uid or job.attempt != jobset.restarts or job.own != jobset.own[slot]


def can_exist_in(views: Views, jobset: JobSet, jobs: Sequence[Job | None], group: str) -> int | None:
    """Pods that can still exist in a group of the present attempt; None for any other group."""
    slots = [slot for slot in range(len(jobs)) if views.group(jobset, slot) == group]
    if not slots:
        return None
    return sum(can_exist(views, jobset, slot, jobs[slot]) for slot in slots)


def gangs(views: Views, state: State) -> tuple[Gang, ...]:
    """The gangs of the present attempt, if the JobSet is to run; those whose Jobs have failed are left out.

    A JobSet that another controller holds in deletion runs on; no group is made for it any more.
    """
    jobset, jobs = state.jobset, state.jobs
    if jobset is None or jobset.ended or jobset.deleting in {"foreground", "orphan"}:
        return ()
    slots: dict[str, list[int]] = {}
    for slot in range(len(jobs)):
        slots.setdefault(views.group(jobset, slot), []).append(slot)
    return tuple(
        _gang(views, state, jobset, name, own)
        for name, own in slots.items()
        if name != STRAY
        and not any((job := jobs[slot]) is not None and job.finished == "Failed" for slot in own)
        and (not jobset.deleting or policy_of(state.objects, name) is not None)
    )


def _gang(views: Views, state: State, jobset: JobSet, name: str, slots: list[int]) -> Gang:
    objects, jobs = state.objects, state.jobs
    whole = sum(can_exist(views, jobset, slot, jobs[slot]) for slot in slots)
    own = [job for slot in slots if (job := jobs[slot]) is not None and not is_old(jobset, slot, job)]
    policy = policy_of(objects, name) if name else None
    return Gang(
        name,
        min_count=None if policy is None else policy.min_count,
        can_exist=whole,
        needed=min(whole, views.world.minimum or whole),
        members=members(jobs, name) if name else 0,
        waiting=sum(job.waiting for job in own),
        bound=sum(job.bound for job in own),
        ready=not name or is_ready(objects, jobs, name, views.world.devices),
        behind=_is_behind(views, state, name),
        timely=policy is None or policy.timely,
        shared=shares_number(
            has_groups=views.world.generation.capabilities.pod_groups,
            restarts_left=views.world.max_restarts - jobset.restarts - sum(jobset.own),
            replicas=max((job.replicas for job in views.world.jobs if job.mode == "ReplicatedGang"), default=1),
        ),
        parent=policy.parent if policy is not None else "",
        grown=jobset.resized * sum(views.world.slots[slot][0] == 0 for slot in slots),
    )


def _is_behind(views: Views, state: State, name: str) -> bool:
    """Whether it waits for a device of another gang, which has pods that have not finished."""
    having = placed(state.objects)
    if not views.world.devices or any(one.name == name for one in having):
        return False
    return sum(members(state.jobs, one.name) > 0 for one in having) >= views.world.devices


def spares(views: Views, state: State) -> tuple[dict[str, int | None], dict[str, int]]:
    """The groups of the next restart: minCounts of those that exist and can be used, and the number each needs.

    None is needed before the gang has been placed, or where a quota may refuse it; with claims there are none.
    """
    jobset, world = state.jobset, views.world
    if (
        jobset is None
        or jobset.suspended
        or jobset.deleting
        or jobset.ended
        or world.quota is not None
        or world.devices
    ):
        return {}, {}
    used = jobset.restarts + sum(jobset.own)
    if used >= world.max_restarts or not world.generation.capabilities.pod_groups:
        return {}, {}
    current = {views.group(jobset, slot) for slot in range(len(state.jobs))}
    groups = {one.name: one for one in state.objects if one.kind == "PodGroup"}
    if not any(name in groups and groups[name].placed for name in current):
        return {}, {}
    following = jobset._replace(restarts=jobset.restarts + 1)
    if world.restart_job:
        following = jobset._replace(own=tuple(own + 1 for own in jobset.own))
    needed: dict[str, int] = {}
    for slot in range(len(state.jobs)):
        name = views.group(following, slot)
        if name not in current and name != STRAY:
            needed[name] = needed.get(name, 0) + pods_at_once(views, jobset, slot)
    parents = {one.name for one in state.objects if one.kind == "CompositePodGroup"}
    usable = {name: one for name, one in groups.items() if not one.parent or one.parent in parents}
    if world.minimum:
        needed = {name: min(pods, world.minimum) for name, pods in needed.items()}
    return {name: dict(one.counts)[""] for name, one in usable.items()}, needed
