"""What should exist for one JobSet, from the JobSet and its Jobs: the plan step of a reconcile. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gangctl.api.jobset import ReplicatedJob
from gangctl.api.scheduling import CompositePodGroup, Generation, PodGroup
from gangctl.gang.assess import Assessment
from gangctl.gang.composite import composite_of
from gangctl.gang.naming import group_name
from gangctl.gang.plan import GangPlan, group_names
from gangctl.gang.progress import JobProgress, pods_left, target_min_counts
from gangctl.gang.reasons import Notice
from gangctl.gang.stamp import Scope, Stamp
from gangctl.gang.unlinked import find_unlinked, unlinked_notices, without


def spare_groups(plan: GangPlan) -> tuple[PodGroup, ...]:
    """The groups of the next restart of the JobSet, or of one Job; none if the failure policy allows no restart.

    They are created during the attempt before them, so that a JobSet that restarts while gangctl is down still starts
    all or nothing. Until then no pod names them, and the scheduler ignores them.
    Their minCount includes all pods, also those that finished in this attempt.
    """
    templates = {template.name: template for template in plan.workload.templates}
    parents = {
        attempt: composite_of(plan.workload, attempt) for attempt in (plan.jobset.restarts, plan.jobset.restarts + 1)
    }
    spares: dict[str, PodGroup] = {}
    for rj, stamp in zip(plan.jobset.replicated_jobs, plan.stamps, strict=True):
        template = templates.get(stamp.template) if stamp is not None else None
        if stamp is None or template is None:
            continue
        for attempt, name in _next_names(plan, rj, stamp):
            composite = parents[attempt]
            parent = composite.name if composite is not None else ""
            spares[name] = PodGroup(
                plan.jobset.namespace, name, plan.workload.owner, plan.workload.name, template, parent
            )
    return tuple(spares.values())


def _next_names(plan: GangPlan, rj: ReplicatedJob, stamp: Stamp) -> Iterator[tuple[int, str]]:
    """Attempt of the JobSet, and name."""
    attempt, left = plan.jobset.restarts, plan.jobset.restarts_left
    if left.whole:
        yield from ((attempt + 1, name) for name in group_names(plan.uid, attempt + 1, rj, stamp))
    # The group of several Jobs outlives a restart of one of them.
    if stamp.scope is Scope.JOB and left.of_job(rj.name):
        for index in range(rj.replicas):
            yield attempt, group_name(stamp.base, plan.uid, attempt, index, rj.job_restarts(index) + 1)


@dataclass(frozen=True, slots=True)
class Desired:
    """The desired objects, and notices about the Jobs that are left out.

    ``plan`` is for the Jobs whose pods can name their group, None without a gang; the lifecycle decides whether its
    objects should exist now. ``min_counts`` holds each PodGroup's minCount by name. ``spares`` are the groups of the
    next attempt, which should exist when the gang runs.
    """

    assessment: Assessment
    plan: GangPlan | None = None
    min_counts: Mapping[str, int] = field(default_factory=dict)
    notices: tuple[Notice, ...] = ()
    spares: tuple[PodGroup, ...] = ()
    group_count: int = 0
    """minGroupCount of the CompositePodGroup: groups with pods that can still exist."""
    spare_composite: CompositePodGroup | None = None


def desire(assessment: Assessment, jobs: Sequence[JobProgress], generation: Generation) -> Desired:
    """The objects that should exist now; ``jobs`` may include those of an earlier JobSet of this name."""
    plan = assessment.plan
    if plan is None:
        return Desired(assessment)
    jobset = plan.jobset
    own = [job for job in jobs if job.jobset_uid == plan.uid]
    unlinked = find_unlinked(plan, own, generation)
    notices = () if jobset.finished else unlinked_notices(unlinked, generation)
    spares = spare_groups(plan) if generation.capabilities.pod_groups else ()
    plan = without(plan, unlinked)
    desired = Desired(assessment, plan, target_min_counts(plan, own), notices, spares)
    if plan.composite is None:
        return desired
    return replace(
        desired,
        group_count=max(1, sum(map(bool, pods_left(plan, own).values()))),
        spare_composite=composite_of(plan.workload, jobset.restarts + 1) if jobset.restarts_left.whole else None,
    )
