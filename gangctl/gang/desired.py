"""What should exist for one stored JobSet and its Jobs: the plan step of a reconcile. Pure.

The stamps are authoritative, because stamped Job templates are immutable. The configuration is resolved again only to
explain why there are no stamps, or that a configuration was written past the webhook; its options are not in stamps.

The scheduler does not count finished pods of a group. After one pod of a gang has succeeded, or failed permanently, a
replacement for another would wait permanently for a quorum that cannot be met (kubernetes issue 142330). So each
planned group carries its own minCount, the number of its pods that can still exist: whatever writes a group writes that
one. Where the field is immutable, a group with another number is replaced while no pod names it.

The pods of some Jobs do not name the group that was planned for them, and a Job's pod template is immutable. Kubernetes
1.36 does not have the field in which pods of 1.35 named their gang, so Jobs that exist during that upgrade lose it. A
Job that bypassed the webhook never had it. Another webhook may have set another group. Pods of such a Job are scheduled
without the gang, and no group may wait for them: a group counts only the pods that can name it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, NamedTuple

from gangctl.api.jobset import NONE, JobSet, ReplicatedJob
from gangctl.api.meta import GANG_REF, SKIP_LABEL
from gangctl.api.scheduling import CompositePodGroup, Generation, PodGroup
from gangctl.errors import FieldError, one_line
from gangctl.gang.naming import Scope, Stamp, group_name, read_stamp
from gangctl.gang.plan import (
    GangPlan,
    composite_of,
    group_names,
    job_pods,
    job_reference,
    make_plan,
    pods_that_can_exist,
    stored_stamps,
)
from gangctl.gang.reasons import Notice, Reason
from gangctl.gang.resolve import ClusterRules, resolve
from gangctl.gang.validate import check_jobs


class Lifecycle(StrEnum):
    """What should exist for a JobSet now."""

    PRESENT = "Present"
    KEPT = "Kept"
    """As present once its Workload exists, nothing before: the JobSet waits in a queue and will be resumed."""
    UNDECIDED = "Undecided"
    """As kept, also with ResourceClaims: whether it waits in a queue, or a check for its gang, is not known yet."""
    RETIRED = "Retired"
    """Nothing, after its pods are gone."""
    ENDING = "Ending"
    """Only lower minCounts: the JobSet is being deleted, and the garbage collector deletes the rest with it. Its Jobs
    may go on for as long as a finalizer of another controller holds it."""
    UNTOUCHED = "Untouched"
    """Do not manage: another controller does."""


_LASTING: Final = frozenset({Reason.CONFIG_IGNORED, Reason.INVALID_GANG_CONFIG, Reason.UNSUPPORTED_SCHEDULER})


@dataclass(frozen=True, slots=True)
class Assessment:
    """``unstamped`` means that a valid gang was requested, but there is no stamp."""

    lifecycle: Lifecycle
    plan: GangPlan | None
    notices: tuple[Notice, ...] = ()
    unstamped: bool = False

    @property
    def lacks_its_gang(self) -> bool:
        """Whether it asks for a gang and runs without: no stamp, an invalid configuration, or its pods' scheduler."""
        return self.unstamped or (self.plan is None and bool(self.lasting))

    @property
    def lasting(self) -> list[Notice]:
        """Those that stay true, until the configuration or the cluster changes: the others are about the creation."""
        return [notice for notice in self.notices if notice.reason in _LASTING]


def while_suspended(jobset: JobSet, *, queues: bool | None, early: bool | None = False) -> Lifecycle:
    """What should exist for a JobSet while it is suspended.

    ``queues`` is whether the cluster has Kueue. Kueue suspends a JobSet that waits in a queue, and resumes it later.
    Its groups stay after an eviction, so that the references of its pods remain valid; those with ResourceClaims do not
    (:func:`assess`). Before the first start there are no groups, unless ``early`` is set. Without Kueue the queue name
    is ignored, because only the user suspends JobSets. Both are None if unknown; unknown deletes nothing.
    """
    if not jobset.queue or queues is False:
        return Lifecycle.RETIRED
    if early:
        return Lifecycle.PRESENT
    return Lifecycle.UNDECIDED if queues is None or early is None else Lifecycle.KEPT


def renewal(suspended: Lifecycle) -> str:
    """How a user has groups replaced that pods name; ``suspended`` is the result of :func:`while_suspended`.

    Kueue resumes a suspended JobSet at once while its Workload is admitted. Deactivating that is an eviction.
    """
    if suspended is Lifecycle.RETIRED:
        return "suspend the JobSet, and resume it once its pods have ended"
    return "set spec.active of its Kueue Workload to false, and to true once its pods have ended"


WHETHER_SERVED: Final = (
    f"whether gangctl serves its namespace (label {SKIP_LABEL}, --namespace-selector) and its webhooks answer "
    "(gangctl doctor checks both)"
)
"""What a user is to look at where a JobSet is unstamped."""


def _lifecycle(jobset: JobSet, suspended: Lifecycle) -> Lifecycle:
    if jobset.managed_elsewhere:
        return Lifecycle.UNTOUCHED
    # Before `finished`: of a JobSet that is being deleted, the garbage collector deletes the rest.
    if jobset.deleting:
        return Lifecycle.ENDING
    if jobset.finished:
        return Lifecycle.RETIRED
    return suspended if jobset.suspend else Lifecycle.PRESENT


def assess(jobset: JobSet, rules: ClusterRules, suspended: Lifecycle = Lifecycle.RETIRED) -> Assessment:
    """Assess a stored JobSet; total, also for a JobSet that bypassed the webhook.

    ``suspended`` is the result of :func:`while_suspended`.
    """
    lifecycle = _lifecycle(jobset, suspended)
    if lifecycle is Lifecycle.UNTOUCHED:
        return Assessment(lifecycle, None, resolve(jobset, rules).notices)
    stamps, malformed = stored_stamps(jobset)
    # One with stamps was accepted: an elastic resize may have made it smaller than its minCount since.
    resolution = resolve(jobset, rules, resizable=any(stamps))
    notices = list(resolution.notices)
    if malformed:
        notices.append(Notice(Reason.INVALID_GANG_CONFIG, "; ".join(str(error) for error in malformed)))
    if not any(stamps):
        if resolution.errors:
            notices.append(Notice(Reason.INVALID_GANG_CONFIG, "; ".join(str(error) for error in resolution.errors)))
        return Assessment(lifecycle, None, tuple(notices), unstamped=any(resolution.stamps))
    if too_many := check_jobs(jobset):
        notices.append(Notice(Reason.INVALID_GANG_CONFIG, str(too_many[0])))
        return Assessment(lifecycle, None, tuple(notices))
    # Without the base: it is made from generateName, which an update may drop.
    changed = any(
        new is not None and (old is None or (old.scope, old.template) != (new.scope, new.template))
        for old, new in zip(stamps, resolution.stamps, strict=True)
    )
    if changed or resolution.errors or not resolution.config.asks_for_gangs:
        stays = "Which pods are a gang stays as it was decided. Groups that are made from now on have its options."
        if resolution.errors:
            # A feature gate that was switched off, or another Kubernetes, refuses what it accepted, too.
            why = "; ".join(str(error) for error in resolution.errors)
            message = (
                f"As it is now, this JobSet would be refused: {why}. Its gang configuration has changed since its "
                f"creation, or the cluster has. {stays}"
            )
        else:
            message = (
                f"The gang configuration is not the one decided upon at creation. {stays} Delete the JobSet and create "
                "it again."
            )
        notices.append(Notice(Reason.CONFIG_IGNORED, message))
    config = resolution.config if rules.composite else resolution.config.without_composite()
    plan = make_plan(jobset, stamps, config)
    if (
        lifecycle is Lifecycle.KEPT
        and plan is not None
        and any(template.claims for template in plan.workload.templates)
    ):
        # Its groups would keep their devices allocated, and the gang that is admitted in its place could not start.
        lifecycle = Lifecycle.RETIRED
    return Assessment(lifecycle, plan, tuple(notices))


class PlanOrErrors(NamedTuple):
    """The gang of a JobSet, None for none, with notices; or why it is refused."""

    plan: GangPlan | None
    notices: tuple[Notice, ...]
    errors: tuple[FieldError, ...] = ()


def plan_of(
    jobset: JobSet, rules: ClusterRules, *, accepted: bool, unstamped: bool, uid: str | None = None
) -> PlanOrErrors:
    """The gang of a JobSet that may be stored or not.

    One that was ``accepted`` is the gang of its stamps, refused now or not. Without stamps it is the one that it asks
    for, if there may be ``unstamped`` ones, as in files that were never applied; otherwise none.
    """
    if accepted and (not unstamped or any(stored_stamps(jobset)[0])):
        assessment = assess(jobset, rules)
        return PlanOrErrors(assessment.plan, assessment.notices)
    # An elastic resize may have made it smaller than its minCount.
    resolution = resolve(jobset, rules, resizable=accepted)
    if resolution.errors:
        return PlanOrErrors(None, resolution.notices, resolution.errors)
    return PlanOrErrors(make_plan(jobset, resolution.stamps, resolution.config, uid), resolution.notices)


@dataclass(frozen=True, slots=True)
class JobProgress:
    """The facts that gangctl stores of a child Job; ``attempt`` is the JobSet restart it was created in."""

    namespace: str
    name: str
    jobset: str
    jobset_uid: str
    replicated_job: str
    index: int
    attempt: int
    succeeded: int
    complete: bool
    deleting: bool
    failed: int = 0
    active: bool = False
    """Whether the Job has pods that have not finished, terminating ones included."""
    unfinished: int = 0
    """Pods that have not finished, of a Job with failed ones or of a work queue with a success, else 0: a replacement
    changes nothing but this, and a work queue gets no more pods than these."""
    group: str = ""
    """The group that its pods name (:func:`~gangctl.api.scheduling.named_group`), empty without one."""
    failed_indexes: int = 0
    """Indexes that exceeded ``backoffLimitPerIndex``: they get no more pods."""
    job_attempt: int = 0
    """How often this Job alone was restarted."""
    decided: bool = False
    """Its success policy was met (condition SuccessCriteriaMet): its other pods end, and it gets no more pods."""
    suspended: bool = False
    """Its own ``spec.suspend``: JobSet resumes the Jobs of a startup stage once the stage may begin."""
    uid: str = ""
    """A Job of another attempt has its name, and events about that one are kept for an hour."""

    @property
    def key(self) -> tuple[str, int]:
        """ReplicatedJob and index."""
        return self.replicated_job, self.index


def is_of_attempt(job: JobProgress, rj: ReplicatedJob, restarts: int) -> bool:
    """Whether a Job is of its JobSet's current attempt, and of its own last one."""
    return job.attempt == restarts and job.job_attempt == rj.job_restarts(job.index)


def with_own_restarts(jobset: JobSet, jobs: Iterable[JobProgress]) -> JobSet:
    """The JobSet with the restarts of single Jobs that the Jobs of its attempt have: by these their pods name a group.

    JobSet forgets its counts while its feature gate RestartJob is off, and keeps the Jobs.
    """
    labelled: dict[str, dict[int, int]] = {}
    for job in jobs:
        # Most have none, and a JobSet may have 50,000 Jobs.
        if job.job_attempt and not job.deleting and (job.jobset_uid, job.attempt) == (jobset.uid, jobset.restarts):
            labelled.setdefault(job.replicated_job, {})[job.index] = job.job_attempt
    if not labelled:
        return jobset
    own = (replace(rj, labelled=labelled.get(rj.name, {})) for rj in jobset.replicated_jobs)
    return replace(jobset, replicated_jobs=tuple(own))


def job_pods_left(rj: ReplicatedJob, job: JobProgress | None, restarts: int) -> int:
    """Pods one Job can still have at once in the attempt ``restarts``; one of another attempt counts in full.

    A Job of an earlier attempt is about to be replaced. One of a later attempt arrived before the update of its JobSet,
    and its pods name groups that are not planned yet.
    """
    if job is None or job.deleting or not is_of_attempt(job, rj, restarts):
        return job_pods(rj)
    if job.complete or job.decided:
        return 0
    return pods_that_can_exist(
        rj.parallelism,
        rj.completions,
        succeeded=job.succeeded,
        failed_indexes=job.failed_indexes,
        unfinished=job.unfinished,
    )


def pods_left(plan: GangPlan, jobs: Iterable[JobProgress]) -> Mapping[str, int]:
    """Pods that can still exist at once, by group name; a group that has finished has 0."""
    seen = {job.key: job for job in jobs if job.jobset_uid == plan.uid}
    by_name = {rj.name: rj for rj in plan.jobset.replicated_jobs}
    left: dict[str, int] = {group.name: 0 for group in plan.groups}
    for job in plan.jobs():
        if job.reference is not None and job.reference.group in left:
            known = seen.get((job.replicated_job, job.index))
            left[job.reference.group] += job_pods_left(by_name[job.replicated_job], known, plan.jobset.restarts)
    return left


LISTED: Final = 4
"""Names in one sentence; more are counted."""


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
    unlinked = []
    # A new JobSet has no Jobs yet, and its plan may have 50,000.
    for planned in plan.jobs() if seen else ():
        job = seen.get((planned.replicated_job, planned.index))
        if job is None or planned.reference is None:
            continue
        if not is_of_attempt(job, by_name[job.replicated_job], plan.jobset.restarts):
            continue
        if job.group != planned.reference.named(generation):
            unlinked.append(job)
    return tuple(unlinked)


def counted(plan: GangPlan, jobs: Iterable[JobProgress], unlinked: Sequence[JobProgress] = ()) -> GangPlan:
    """The plan in which each group needs the pods that can still exist, at least 1.

    No group counts pods of unlinked Jobs, and one without other pods is removed.
    """
    if unlinked:
        # First of all: `jobs` leaves out the references of these.
        plan = replace(plan, unlinked=frozenset(job.key for job in unlinked))
        linked = {job.reference.group for job in plan.jobs() if job.reference is not None and job.pods}
        plan = replace(plan, groups=tuple(group for group in plan.groups if group.name in linked))
    left = pods_left(plan, jobs)
    composite = plan.composite
    if composite is not None:
        # The scheduler does not count a group whose pods have finished.
        composite = composite._replace(min_group_count=max(1, sum(map(bool, left.values()))))
    # The API accepts no minCount below 1; a group without pods is in `finished`.
    counts = {group.name: max(1, min(group.template.min_count, left[group.name])) for group in plan.groups}
    finished = frozenset(name for name, pods in left.items() if not pods)
    if not finished and composite == plan.composite and all(g.min_count == counts[g.name] for g in plan.groups):
        return plan
    groups = tuple(group._replace(min_count=counts[group.name]) for group in plan.groups)
    return replace(plan, groups=groups, composite=composite, finished=finished)


def counted_in_workload(plan: GangPlan) -> GangPlan:
    """The plan in which templates need what their groups need: Kubernetes 1.35 has no other place for the number.

    All groups of a template share it, so that the largest counts: with a smaller one a gang could start in part. For
    the same reason it stays as it is where the JobSet may restart: the next attempt shares it, too.
    """
    if plan.jobset.restarts_left != NONE:
        return plan
    most: dict[str, int] = {}
    for group in plan.groups:
        # Nothing waits for one that has finished: with its number the Workload would be replaced under the others.
        if group.name not in plan.finished:
            most[group.template.name] = max(group.min_count, most.get(group.template.name, 1))
    templates = tuple(
        replace(template, min_count=most.get(template.name, template.min_count)) for template in plan.workload.templates
    )
    return replace(plan, workload=replace(plan.workload, templates=templates))


def names_another(job: JobProgress, generation: Generation) -> bool:
    """Whether the pods of an unlinked Job name a group in the format of ``generation``."""
    return bool(job.group) and ("/" in job.group) is not generation.capabilities.pod_groups


def unlinked_notices(unlinked: Iterable[JobProgress], generation: Generation) -> tuple[Notice, ...]:
    """Notices about unlinked Jobs that are not finished."""
    unfinished = [job for job in unlinked if not job.complete]
    notices = []
    if without_group := listed(job.name for job in unfinished if not names_another(job, generation)):
        message = (
            f"Pods of Jobs {without_group} name no gang and are scheduled one by one: these Jobs were made when the "
            "cluster served another scheduling API, or past gangctl's webhook, and cannot be changed. What runs goes "
            "on; a restart of the JobSet, or creating it again, makes it a gang."
        )
        notices.append(Notice(Reason.FIELD_DROPPED, message))
    if elsewhere := [job for job in unfinished if names_another(job, generation)]:
        groups = ", ".join(sorted({one_line(job.group, 64) for job in elsewhere})[:LISTED])
        message = (
            f"Pods of Jobs {listed(job.name for job in elsewhere)} name {groups} and not the group of their gang, "
            "which goes without them: another client wrote spec.schedulingGroup into these Jobs before gangctl could. "
            "Find out which admission webhook or policy does it, and create the JobSet again."
        )
        notices.append(Notice(Reason.FIELD_DROPPED, message))
    return tuple(notices)


def listed(names: Iterable[str]) -> str:
    """The first names in order, and the number of the others."""
    ordered = sorted(set(names))
    more = len(ordered) - LISTED
    return ", ".join(ordered[:LISTED]) + (f" and {more} more" if more > 0 else "")


def spare_groups(plan: GangPlan) -> tuple[PodGroup, ...]:
    """The groups of the next restart of the JobSet, or of one Job; none if the failure policy allows no restart.

    They are created during the attempt before them, so that a JobSet that restarts while gangctl is down still starts
    all or nothing. Until then no pod names them, and the scheduler ignores them.
    Their minCount includes all pods, also those that finished in this attempt.

    A group whose claims come from a template has none: its claims would be made with it and count in quotas, and its
    pods could not start while the devices are allocated to the group before it, which only gangctl deletes.
    """
    templates = {template.name: template for template in plan.workload.templates}
    parents = {
        attempt: composite_of(plan.workload, attempt) for attempt in (plan.jobset.restarts, plan.jobset.restarts + 1)
    }
    spares: dict[str, PodGroup] = {}
    for rj, stamp in zip(plan.jobset.replicated_jobs, plan.stamps, strict=True):
        template = templates.get(stamp.template) if stamp is not None else None
        if stamp is None or template is None or any(claim.template for claim in template.claims):
            continue
        for attempt, name in _next_names(plan, rj, stamp):
            composite = parents[attempt]
            parent = composite.name if composite is not None else ""
            spares[name] = PodGroup(
                plan.jobset.namespace,
                name,
                plan.workload.owner,
                plan.workload.name,
                template,
                template.min_count,
                parent,
            )
    return tuple(spares.values())


def _next_names(plan: GangPlan, rj: ReplicatedJob, stamp: Stamp) -> Iterator[tuple[int, str]]:
    """Attempt of the JobSet, and name."""
    attempt, left = plan.jobset.restarts, plan.jobset.restarts_left
    if left.whole:
        # The Jobs of the next attempt are labelled by the status of the JobSet alone.
        anew = replace(rj, labelled={})
        yield from ((attempt + 1, name) for name in group_names(plan.uid, attempt + 1, anew, stamp))
    # The group of several Jobs outlives a restart of one of them.
    if stamp.scope is Scope.JOB and left.of_job(rj.name):
        for index in range(rj.replicas):
            yield attempt, group_name(stamp.base, plan.uid, attempt, index, rj.job_restarts(index) + 1)


@dataclass(frozen=True, slots=True)
class Desired:
    """The desired objects, and notices about the Jobs that are left out.

    ``plan`` is for the Jobs whose pods can name their group, None without a gang; the lifecycle decides whether its
    objects should exist now. ``spares`` are the groups of the next attempt, which should exist when the gang runs.
    ``named`` are the groups that unfinished pods name (:func:`~gangctl.api.scheduling.named_group`).
    """

    assessment: Assessment
    plan: GangPlan | None = None
    notices: tuple[Notice, ...] = ()
    spares: tuple[PodGroup, ...] = ()
    spare_composite: CompositePodGroup | None = None
    named: frozenset[str] = frozenset()


def desire(assessment: Assessment, jobs: Sequence[JobProgress], generation: Generation) -> Desired:
    """The objects that should exist now; ``jobs`` may include those of an earlier JobSet of this name."""
    plan = assessment.plan
    if plan is None:
        return Desired(assessment)
    jobset = plan.jobset
    own = [job for job in jobs if job.jobset_uid == plan.uid]
    unlinked = find_unlinked(plan, own, generation)
    notices = () if jobset.finished else unlinked_notices(unlinked, generation)
    # Pods that have finished need no group, although they still name one.
    named = frozenset(job.group for job in own if job.active and job.group)
    now = counted(plan, own, unlinked)
    if not generation.capabilities.pod_groups:
        return Desired(assessment, counted_in_workload(now), notices, named=named)
    if jobset.suspend:
        # No attempt follows while it waits, and the gang that runs in its place may need their quota.
        return Desired(assessment, now, notices, named=named)
    spare = composite_of(plan.workload, jobset.restarts + 1) if jobset.restarts_left.whole else None
    return Desired(assessment, now, notices, spare_groups(plan), spare, named)
