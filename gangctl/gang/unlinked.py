"""Jobs without a group reference: their pods do not name the group that was planned for them.

The pod template of a Job is immutable. Kubernetes 1.36 does not have the field in which
pods of 1.35 named their gang, so Jobs that exist during that upgrade lose it. A Job that
bypassed the webhook never had it. Another webhook may have set another group. Pods of such
a Job, present and future, are scheduled without the gang. No group may wait for them: a
group counts only the pods that can name it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from gangctl.api.jobset import JobSet
from gangctl.api.meta import GANG_REF
from gangctl.api.scheduling import Generation
from gangctl.errors import one_line
from gangctl.gang.plan import GangPlan, job_reference
from gangctl.gang.progress import JobProgress, is_of_attempt
from gangctl.gang.reasons import Notice, Reason
from gangctl.gang.stamp import Stamp, read_stamp

_LISTED: Final = 4


def is_linked(jobset: JobSet, job: JobProgress, generation: Generation) -> bool:
    """Whether the pods of one Job name the group that its JobSet's stamps plan for it, as ``generation`` has it."""
    rj = next((rj for rj in jobset.replicated_jobs if rj.name == job.replicated_job), None)
    stamp = read_stamp(rj.annotations, rj.annotation_path(GANG_REF)) if rj is not None else None
    if not isinstance(stamp, Stamp):
        return False
    planned = job_reference(
        job.jobset, job.jobset_uid, job.index, stamp, attempt=job.attempt, job_attempt=job.job_attempt
    )
    return job.group == planned.named(generation)


def find_unlinked(plan: GangPlan, jobs: Iterable[JobProgress], generation: Generation) -> tuple[JobProgress, ...]:
    """Jobs of the plan whose pods do not name the group that was planned, as ``generation`` has it.

    Without Jobs that are about to be replaced, and those of an attempt that is not planned yet.
    """
    seen = {job.key: job for job in jobs if job.jobset_uid == plan.uid and not job.deleting}
    by_name = {rj.name: rj for rj in plan.jobset.replicated_jobs}
    found = []
    for planned in plan.jobs() if seen else ():
        job = seen.get((planned.replicated_job, planned.index))
        if job is None or planned.reference is None:
            continue
        if not is_of_attempt(job, by_name[job.replicated_job], plan.jobset.restarts):
            continue
        if job.group != planned.reference.named(generation):
            found.append(job)
    return tuple(found)


def without(plan: GangPlan, unlinked: Sequence[JobProgress]) -> GangPlan:
    """The plan for the other Jobs: no group counts pods of unlinked Jobs; a group without other pods is removed."""
    if not unlinked:
        return plan
    lean = replace(plan, unlinked=frozenset(job.key for job in unlinked))
    pods: dict[str, int] = {}
    for job in lean.jobs():
        if job.reference is not None:
            pods[job.reference.group] = pods.get(job.reference.group, 0) + job.pods
    groups = tuple(
        group._replace(template=replace(group.template, min_count=min(group.template.min_count, pods[group.name])))
        for group in plan.groups
        if pods.get(group.name)
    )
    return replace(lean, groups=groups)


def names_another(job: JobProgress, generation: Generation) -> bool:
    """Whether the pods of an unlinked Job name a group in the format of ``generation``."""
    return bool(job.group) and ("/" in job.group) is not generation.capabilities.pod_groups


def unlinked_notices(unlinked: Iterable[JobProgress], generation: Generation) -> tuple[Notice, ...]:
    """Notices about unlinked Jobs that are not finished."""
    unfinished = [job for job in unlinked if not job.complete]
    notices = []
    if without_group := _listed(job for job in unfinished if not names_another(job, generation)):
        message = (
            f"Pods of Jobs {without_group} name no gang and are scheduled one by one: these Jobs were made when the "
            "cluster served another scheduling API, or past gangctl's webhook, and cannot be changed. What runs goes "
            "on; a restart of the JobSet, or creating it again, makes it a gang."
        )
        notices.append(Notice(Reason.FIELD_DROPPED, message))
    if elsewhere := [job for job in unfinished if names_another(job, generation)]:
        groups = ", ".join(sorted({one_line(job.group, 64) for job in elsewhere})[:_LISTED])
        message = (
            f"Pods of Jobs {_listed(elsewhere)} name {groups} and not the group of their gang, which goes without "
            "them: another client wrote spec.schedulingGroup into these Jobs before gangctl could. Find out which "
            "admission webhook or policy does it, and create the JobSet again."
        )
        notices.append(Notice(Reason.FIELD_DROPPED, message))
    return tuple(notices)


def _listed(jobs: Iterable[JobProgress]) -> str:
    names = sorted(job.name for job in jobs)
    return ", ".join(names[:_LISTED]) + (f" and {len(names) - _LISTED} more" if len(names) > _LISTED else "")
