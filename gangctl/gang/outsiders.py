"""Jobs that missed their gang: they exist, and their pods do not name the group that was planned for them.

A pod template is settled when its Job is made. Kubernetes 1.36 does not know the field in
which pods of 1.35 named their gang, so the Jobs that live through that upgrade lose it; a
Job that was made past the webhook never had it. Pods of such a Job, present and future,
are scheduled one by one. Nothing may wait for them: a group counts the pods that can name it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from gangctl.api.scheduling import Generation
from gangctl.gang.build import ADAPTERS
from gangctl.gang.plan import GangPlan
from gangctl.gang.progress import JobProgress
from gangctl.gang.reasons import Notice, Reason

_LISTED: Final = 4


def find_outsiders(plan: GangPlan, jobs: Iterable[JobProgress], generation: Generation) -> tuple[JobProgress, ...]:
    """Jobs of the plan whose pods name no group in a way that ``generation`` knows; those about to be replaced not."""
    field = ADAPTERS[generation].reference_field
    planned = {(job.replicated_job, job.index) for job in plan.jobs() if job.reference is not None}
    return tuple(
        job
        for job in jobs
        if job.jobset_uid == plan.uid
        and job.key in planned
        and job.reference_field != field
        and not job.deleting
        and job.attempt >= plan.jobset.restarts
    )


def without(plan: GangPlan, outsiders: Sequence[JobProgress]) -> GangPlan:
    """The plan for the other Jobs: no group waits for an outsider's pods, and one of outsiders only is left out."""
    if not outsiders:
        return plan
    lean = replace(plan, outsiders=frozenset(job.key for job in outsiders))
    pods: dict[str, int] = {}
    for job in lean.jobs():
        if job.reference is not None:
            pods[job.reference.group] = pods.get(job.reference.group, 0) + job.pods
    groups = tuple(
        group._replace(template=replace(group.template, min_count=pods[group.name]))
        for group in plan.groups
        if pods.get(group.name)
    )
    return replace(lean, groups=groups)


def tell(outsiders: Iterable[JobProgress]) -> Notice | None:
    """What a person should know about outsiders that are not finished."""
    names = sorted(job.name for job in outsiders if not job.complete)
    if not names:
        return None
    listed = ", ".join(names[:_LISTED]) + (f" and {len(names) - _LISTED} more" if len(names) > _LISTED else "")
    message = (
        f"Pods of Jobs {listed} name no gang and are scheduled one by one: these Jobs were made when the cluster "
        "served another scheduling API, or past gangctl's webhook, and cannot be changed. What runs goes on; a restart "
        "of the JobSet, or creating it again, makes it a gang."
    )
    return Notice(Reason.FIELD_DROPPED, message)
