"""The groups of the next attempt, which exist before they are needed.

A restart names new groups, and the scheduler holds its pods until these exist. They are
created while the attempt before them runs: a JobSet that restarts while gangctl is away
starts again, as a whole. Until then no pod names them, and the scheduler has nothing to do.
"""

from __future__ import annotations

from collections.abc import Iterator

from gangctl.api.jobset import ReplicatedJob
from gangctl.api.scheduling import PodGroup
from gangctl.gang.naming import group_name
from gangctl.gang.plan import GangPlan, group_names
from gangctl.gang.stamp import Scope, Stamp


def spare_groups(plan: GangPlan) -> tuple[PodGroup, ...]:
    """The groups that a restart would name which the failure policy still allows; none where it allows none.

    They wait for all their pods, whatever became of those of this attempt.
    """
    templates = {template.name: template for template in plan.workload.templates}
    spares: dict[str, PodGroup] = {}
    for rj, stamp in zip(plan.jobset.replicated_jobs, plan.stamps, strict=True):
        template = templates.get(stamp.template) if stamp is not None else None
        if stamp is None or template is None:
            continue
        for name in _next_names(plan, rj, stamp):
            spares[name] = PodGroup(plan.jobset.namespace, name, plan.workload.owner, plan.workload.name, template)
    return tuple(spares.values())


def _next_names(plan: GangPlan, rj: ReplicatedJob, stamp: Stamp) -> Iterator[str]:
    attempt, left = plan.jobset.restarts, plan.jobset.restarts_left
    if left.whole:
        yield from group_names(plan.uid, attempt + 1, rj, stamp)
    # The group of several Jobs outlives a restart of one of them.
    if stamp.scope is Scope.JOB and left.of_job(rj.name):
        for index in range(rj.replicas):
            yield group_name(stamp.base, plan.uid, attempt, index, rj.job_restarts(index) + 1)
