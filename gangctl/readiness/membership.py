"""Members of gangs: pods and Jobs of the present JobSet, not of an earlier one with its name.

A pod is in the group that it names, in any attempt: the name has digits of the JobSet's UID, which distinguish it from
a JobSet that was deleted and created again under its name. A pod that names none is in its Job's group, unless it is
older than the JobSet. If any ReplicatedJob has a gang, pods of those without one are in no group.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

from gangctl.api.jobset import JobSet, ReplicatedJob
from gangctl.api.pods import FINISHED
from gangctl.api.requests import Extended
from gangctl.api.scheduling import NEWEST, Generation, Observed, Scheduled
from gangctl.gang.desired import JobProgress, find_unlinked, job_pods_left
from gangctl.gang.naming import Scope, family
from gangctl.gang.plan import GangPlan, PlannedJob, ungrouped_jobs
from gangctl.gang.validate import MAX_JOBS
from gangctl.readiness.facts import PodFacts, Refused, Snapshot, unix
from gangctl.readiness.result import PODS, Counts, Usage


def stages_to_come(jobset: JobSet, jobs: Iterable[JobProgress]) -> Mapping[str, Sequence[str]]:
    """ReplicatedJobs whose startup stage has not begun in this attempt, with the unfinished ones that they wait for.

    They have no Job while an earlier one has not finished, or suspended ones: JobSet creates all Jobs of a stage when
    it begins, and resumes then those that it made while it was suspended itself. The required status of a dependsOn is
    not stored, so one that waits for a ready one may wait for its end.
    """
    if not jobset.in_order and not any(rj.depends_on for rj in jobset.replicated_jobs):
        return {}
    # Jobs of the next attempt may be known before the status of the JobSet.
    present = [j for j in jobs if j.jobset_uid == jobset.uid and not j.deleting and j.attempt >= jobset.restarts]
    begun = {job.replicated_job for job in present if not job.suspended}
    complete = Counter(job.replicated_job for job in present if job.complete)
    unfinished = {rj.name for rj in jobset.replicated_jobs if complete[rj.name] < rj.replicas}
    waits: dict[str, Sequence[str]] = {}
    before: list[str] = []
    for rj in jobset.replicated_jobs:
        first = list(before) if jobset.in_order else [name for name in rj.depends_on if name in unfinished]
        if first and rj.name not in begun:
            waits[rj.name] = first
        if rj.name in unfinished:
            before.append(rj.name)
    return waits


def of_earlier_jobset(pod: PodFacts, jobset: JobSet) -> bool:
    """Whether a pod is older than the JobSet that it names: an earlier one of this name made it."""
    return 0 < pod.created < unix(jobset.created)


JobKey = tuple[str, int]
"""ReplicatedJob and index."""


TIMED_OUT: Final = "at plugin GangScheduling"
"""Of a pod of 1.35 that had a node, and waited there for the others of its gang; the text has a time."""
_NOT_NOMINATED: Final = re.compile(
    rf"(?<!group )preemption: (?:\d{{1,7}}/\d|not eligible due to preemptionPolicy)|{TIMED_OUT}"
)
"""Of a pod for which nothing was preempted (``preemption.go``), or whose wait for its gang on a node timed out."""


@dataclass(frozen=True, slots=True)
class Group:
    """One gang at run time, with its members. Pods are in the order of the snapshot."""

    name: str
    """Name in the plan; a JobSet without a plan is one group with the JobSet's name."""
    template: str
    """Empty without a plan."""
    scope: Scope | None
    """None without a plan: the pods are not placed together."""
    planned: tuple[PlannedJob, ...]
    """Its Jobs, in the order of the JobSet."""
    jobs: tuple[JobProgress, ...] = ()
    """Existing Jobs of this attempt that are not being deleted."""
    leaving_jobs: tuple[JobProgress, ...] = ()
    """Existing Jobs of an earlier attempt, or that are being deleted."""
    pods: tuple[PodFacts, ...] = ()
    """Pods of this attempt, neither finished nor being deleted."""
    leaving: tuple[PodFacts, ...] = ()
    """Pods of this attempt, not finished and being deleted."""
    earlier: tuple[PodFacts, ...] = ()
    """Unfinished pods of earlier attempts."""
    over: tuple[PodFacts, ...] = ()
    """Finished pods of this attempt; usually not all, because their Jobs count them."""
    unlinked: frozenset[JobKey] = frozenset()
    """Jobs whose pods name no group although one was planned: they are not placed with the others."""
    pod_group: Observed | None = None
    """None if it is missing, has another owner or is being deleted; always on 1.35, which has none."""
    desired: int = 0
    """Pods that exist at once if none has finished."""
    minimum: int = 0
    """Present minCount: the observed one, else the plan's; all wanted pods if none is enforced."""
    needed: int = 0
    """Pods that have to be placed before any can start: the minimum, or all that can still exist if these are fewer;
    of a sequenced JobSet without a plan, those of started stages."""
    wanted: int = 0
    """Pods that should exist now."""
    enough: int = 0
    """Pods with which it is ready: all that should exist, or the minCount that the user asked for."""
    succeeded: int = 0
    """Pods that have succeeded, as their Jobs count them."""

    @property
    def replicated_jobs(self) -> tuple[str, ...]:
        """Names of the ReplicatedJobs with pods in it, in the order of the JobSet."""
        return tuple(dict.fromkeys(job.replicated_job for job in self.planned))

    @property
    def scheduled(self) -> Scheduled | None:
        """What the scheduler wrote about its PodGroup; None if it wrote nothing yet."""
        return self.pod_group.scheduled if self.pod_group is not None else None

    def refuses(self, pod: PodFacts) -> bool:
        """Whether the scheduler has refused a pod, and has chosen no node for it since.

        The condition stays until the pod is bound. Before that it is nominated (``schedule_one.go``), and the condition
        of its group is true.
        """
        if not pod.refused or pod.node or pod.gates:
            return False
        # What could not be bound is said of a node that was chosen, and holds while the scheduler tries that again.
        if not pod.nominated or "running PreBind plugin " in pod.refusal:
            return True
        # Such a refusal takes the nomination away.
        since, placed = _NOT_NOMINATED.search(pod.refusal) is not None, self.scheduled
        if placed is None:
            # Pods of 1.35, and those in no group.
            return self.pod_group is not None or not since
        # The condition has the time of the first placement: a pod that was made anew is refused after it.
        return not placed.status or not (since or unix(placed.since) >= pod.refused_at)

    @property
    def rejected(self) -> Scheduled | None:
        """What the scheduler wrote of its PodGroup, if it has rejected the pods that are there.

        The condition stays and keeps its time while pods come and go. With each rejection the scheduler writes one of
        every pod, too (``submitPodGroupAlgorithmResult``): without these it is about pods that are gone.
        """
        scheduled = self.scheduled
        if scheduled is None or scheduled.status:
            return None
        since, waiting = unix(scheduled.since), [pod for pod in self.pods if not pod.node]
        about = any(pod.created <= since or self.refuses(pod) for pod in waiting)
        return scheduled if about else None

    @property
    def finished(self) -> bool:
        """Whether it had pods and gets no more in this attempt."""
        return self.desired > 0 and self.wanted == 0

    @property
    def spares_only(self) -> bool:
        """Whether all pods that it needs to be ready are on nodes, so that those without one delay nothing."""
        if self.enough >= self.wanted:
            return False
        return sum(1 for pod in self.bound if pod.node) >= max(self.enough, self.needed)

    @property
    def bound(self) -> tuple[PodFacts, ...]:
        """Pods that are placed together: without those of unlinked Jobs, unless there are no others."""
        if not self.unlinked or len(self.unlinked) == len(self.planned):
            return self.pods
        return tuple(pod for pod in self.pods if (pod.replicated_job, pod.job_index) not in self.unlinked)


def members(snapshot: Snapshot) -> tuple[Group, ...]:
    """The groups of a JobSet in the order of its plan; one over all of it where there is no plan."""
    jobset, plan, generation = snapshot.jobset, snapshot.assessment.plan, snapshot.api.generation
    unlinked: frozenset[JobKey] = frozenset()
    if plan is None:
        # One group of all Jobs, limited to the maximum for gangs: replicas may be two billion.
        drafts = [_GroupDraft(jobset.name, "", None, 0, planned=list(islice(ungrouped_jobs(jobset), MAX_JOBS)))]
    else:
        drafts = _planned_drafts(plan)
        if generation is None:
            # Without a served version names cannot be compared with the plan: only that there is none is certain.
            unlinked = frozenset(job.key for job in snapshot.jobs if not job.group)
        else:
            unlinked = frozenset(job.key for job in find_unlinked(plan, snapshot.jobs, generation))
    roll = _Roll(jobset, drafts)
    # Before the pods: whether a pod is of an earlier JobSet follows from the group of its Job.
    for job in snapshot.jobs:
        roll.enter_job(job)
    for pod in snapshot.pods:
        roll.enter_pod(pod)
    replicated_jobs = {rj.name: rj for rj in jobset.replicated_jobs}
    to_come = stages_to_come(jobset, snapshot.jobs)
    return tuple(_group(snapshot, draft, replicated_jobs, unlinked, to_come) for draft in drafts)


@dataclass(slots=True)
class _GroupDraft:
    """A group while its members are collected."""

    name: str
    template: str
    scope: Scope | None
    min_count: int
    planned: list[PlannedJob] = field(default_factory=list)
    jobs: dict[JobKey, JobProgress] = field(default_factory=dict)
    pods: list[PodFacts] = field(default_factory=list)
    attempts: dict[JobKey, int] = field(default_factory=dict)
    """The latest attempt of a Job among its pods."""


def _planned_drafts(plan: GangPlan) -> list[_GroupDraft]:
    drafts = {group.name: _GroupDraft(group.name, group.template.name, None, group.min_count) for group in plan.groups}
    stamps = {rj.name: stamp for rj, stamp in zip(plan.jobset.replicated_jobs, plan.stamps, strict=True)}
    for job in plan.jobs():
        stamp = stamps[job.replicated_job]
        if job.reference is not None and stamp is not None and (draft := drafts.get(job.reference.group)) is not None:
            draft.scope = stamp.scope
            draft.planned.append(job)
    return list(drafts.values())


class _Roll:
    """Finds the group of each Job and pod."""

    def __init__(self, jobset: JobSet, drafts: Iterable[_GroupDraft]) -> None:
        self._jobset = jobset
        self._by_name: dict[str, _GroupDraft] = {}
        self._by_job: dict[JobKey, _GroupDraft] = {}
        for draft in drafts:
            for job in draft.planned:
                self._by_job[job.replicated_job, job.index] = draft
                if job.reference is not None:
                    # A pod names a PodGroup, or on 1.35 the three parts of its reference.
                    for generation in (Generation.V1ALPHA1, NEWEST):
                        # By family, so that pods of earlier attempts are found, too: their group has another number.
                        self._by_name[family(job.reference.named(generation))] = draft

    def enter_job(self, job: JobProgress) -> None:
        """Take a Job in if it belongs to this JobSet, by its UID."""
        draft = self._by_job.get(job.key)
        if draft is not None and job.jobset_uid == self._jobset.uid:
            draft.jobs[job.key] = job

    def enter_pod(self, pod: PodFacts) -> None:
        """Take a pod in if it belongs to this JobSet, by its group name or creation time."""
        if pod.jobset != self._jobset.name or pod.namespace != self._jobset.namespace:
            return
        key = (pod.replicated_job, pod.job_index)
        draft = self._by_name.get(family(pod.group))
        if draft is None:
            draft = self._by_job.get(key)
            if draft is None or self._is_strange(pod, draft, draft.jobs.get(key)):
                return
        draft.pods.append(pod)
        if pod.attempt > draft.attempts.get(key, self._jobset.restarts):
            draft.attempts[key] = pod.attempt

    def _is_strange(self, pod: PodFacts, draft: _GroupDraft, job: JobProgress | None) -> bool:
        """Whether it is of an earlier JobSet of the name: it names that one's group, or is older than this one.

        A webhook may have given its Job another group than the planned one. Without a plan the name of a group is
        no evidence: the user may have written it.
        """
        if pod.group and draft.scope is not None:
            return job is None or job.group != pod.group
        return of_earlier_jobset(pod, self._jobset)


def _group(
    snapshot: Snapshot,
    draft: _GroupDraft,
    replicated_jobs: Mapping[str, ReplicatedJob],
    unlinked: frozenset[JobKey],
    to_come: Collection[str],
) -> Group:
    restarts = snapshot.jobset.restarts
    jobs: list[JobProgress] = []
    leaving_jobs: list[JobProgress] = []
    for job in draft.jobs.values():
        (leaving_jobs if job.deleting or job.attempt < restarts else jobs).append(job)
    pods, leaving, earlier, over = _sorted_pods(draft, restarts)
    progress = _progress(draft, over)
    left: dict[JobKey, int] = {}
    for planned in draft.planned:
        key = (planned.replicated_job, planned.index)
        left[key] = max(0, job_pods_left(replicated_jobs[planned.replicated_job], progress.get(key), restarts))
    wanted = sum(left.values())
    own = frozenset(key for key in left if key in unlinked)
    pod_group = snapshot.groups.get(draft.name) if draft.scope is not None else None
    if pod_group is not None and (pod_group.deleting or pod_group.owner_uid != snapshot.jobset.uid):
        pod_group = None
    minimum = _minimum(snapshot, draft, pod_group, own, wanted)
    if draft.scope is None:
        needed = sum(count for (name, _), count in left.items() if name not in to_come)
    elif len(own) == len(draft.planned):
        needed = min(minimum, wanted)
    else:
        needed = min(minimum, sum(count for key, count in left.items() if key not in own))
    desired = sum(max(0, job.pods) for job in draft.planned)
    asked = 0 < draft.min_count < desired and not own
    return Group(
        name=draft.name,
        template=draft.template,
        scope=draft.scope,
        planned=tuple(draft.planned),
        jobs=tuple(jobs),
        leaving_jobs=tuple(leaving_jobs),
        pods=tuple(pods),
        leaving=tuple(leaving),
        earlier=tuple(earlier),
        over=tuple(over),
        unlinked=own,
        pod_group=pod_group,
        desired=desired,
        minimum=minimum,
        needed=needed,
        wanted=wanted,
        enough=min(wanted, draft.min_count) if asked else wanted,
        succeeded=sum(progress[job.key].succeeded for job in jobs),
    )


def _sorted_pods(
    draft: _GroupDraft, restarts: int
) -> tuple[list[PodFacts], list[PodFacts], list[PodFacts], list[PodFacts]]:
    """Active, terminating, earlier and finished pods; see :class:`Group`."""
    pods: list[PodFacts] = []
    leaving: list[PodFacts] = []
    earlier: list[PodFacts] = []
    over: list[PodFacts] = []
    latest = draft.attempts
    for pod in draft.pods:
        of_now = pod.attempt >= restarts
        # Pods of the next attempt may be known before the status of the JobSet: informers have no common order.
        if latest and of_now:
            of_now = pod.attempt >= latest.get((pod.replicated_job, pod.job_index), restarts)
        if pod.phase in FINISHED:
            if of_now:
                over.append(pod)
        elif not of_now:
            earlier.append(pod)
        else:
            (leaving if pod.deleting else pods).append(pod)
    return pods, leaving, earlier, over


def _progress(draft: _GroupDraft, over: Iterable[PodFacts]) -> dict[JobKey, JobProgress]:
    """The Jobs, with succeeded pods that their Job has not counted yet."""
    succeeded: dict[JobKey, int] = {}
    for pod in over:
        if pod.phase == "Succeeded":
            key = (pod.replicated_job, pod.job_index)
            succeeded[key] = succeeded.get(key, 0) + 1
    # A pod has its phase before the Job controller counts it.
    counted = dict(draft.jobs)
    for key, count in succeeded.items():
        job = counted.get(key)
        if job is not None and job.succeeded < count:
            counted[key] = replace(job, succeeded=count)
    return counted


def _minimum(
    snapshot: Snapshot, draft: _GroupDraft, pod_group: Observed | None, unlinked: frozenset[JobKey], wanted: int
) -> int:
    if draft.scope is None or len(unlinked) == len(draft.planned):
        return wanted
    if pod_group is not None:
        # Not the plan's: the scheduler goes by the object as it is.
        return dict(pod_group.min_counts).get("", draft.min_count)
    # From 1.36 on the scheduler does not read Workloads.
    workload = snapshot.workload if snapshot.api.generation is Generation.V1ALPHA1 else None
    if workload is not None and workload.owner_uid == snapshot.jobset.uid:
        return dict(workload.min_counts).get(draft.template, draft.min_count)
    # The group that gangctl is about to make counts no pods that do not name it.
    return draft.min_count - sum(job.pods for job in draft.planned if (job.replicated_job, job.index) in unlinked)


def pod_denials(snapshot: Snapshot, groups: Iterable[Group]) -> Mapping[str, Refused]:
    """The last denial of a pod, by Job; those of these groups without the ones that are over."""
    denied = {refused.name: refused for refused in snapshot.refused if refused.kind == "Job"}
    for group in groups if denied else ():
        newest: dict[JobKey, int] = {}
        for pod in (*group.pods, *group.leaving):
            key = (pod.replicated_job, pod.job_index)
            newest[key] = max(pod.created, newest.get(key, 0))
        for job in group.planned:
            # A pod that was made since shows that it is over.
            if job.name in denied and newest.get((job.replicated_job, job.index), 0) > denied[job.name].at:
                del denied[job.name]
    return denied


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts for users, and facts of the pods that are placed together (:attr:`Group.bound`), which determine phases.

    Times are sorted.
    """

    counts: Counts
    bound: int
    """Pods placed together that exist."""
    bound_placed: int
    free: int
    """Existing pods on a node or without gates."""
    refused: int
    """Pods without a node that the scheduler has rejected."""
    refused_at: int
    """When the first of these was rejected, 0 if unknown."""
    created_at: Sequence[int]
    """Of the pods placed together."""
    placed_at: Sequence[int]
    """Of the pods placed together; the creation time if unknown."""
    ready_at: Sequence[int]
    """Of all ready pods."""


def totals(group: Group, *, runs: bool) -> Totals:
    """The sum over its pods, in one pass: a gang may have 10,000.

    ``runs`` is whether they should run: pods of a gang that should end do not wait.
    A pod is ready only on a node, so that there are never more ready than placed pods.
    """
    bound = group.bound
    placed = bound_placed = free = refused = refused_at = 0
    placed_times: list[int] = []
    ready_times = [pod.ready_at for pod in group.pods if pod.ready and pod.node]
    for pod in bound:
        if pod.node:
            bound_placed += 1
            placed_times.append(pod.placed_at or pod.created)
        elif pod.gates:
            continue
        elif group.refuses(pod):
            refused += 1
            refused_at = min(refused_at or pod.refused_at, pod.refused_at or refused_at)
        free += 1
    # Where no Job is unlinked `bound` is the same tuple: a second pass over the pods is not needed.
    placed = bound_placed if bound is group.pods else sum(1 for pod in group.pods if pod.node)
    counts = Counts(
        desired=group.desired,
        minimum=group.minimum,
        wanted=group.wanted,
        created=len(group.pods),
        placed=placed,
        ready=len(ready_times),
        finished=group.succeeded,
        stranded=placed if runs and bound_placed < group.needed else 0,
    )
    return Totals(
        counts=counts,
        bound=len(bound),
        bound_placed=bound_placed,
        free=free,
        refused=refused,
        refused_at=refused_at,
        created_at=sorted(pod.created for pod in bound),
        placed_at=sorted(placed_times),
        ready_at=sorted(ready_times),
    )


def usage_of(groups: Iterable[Group]) -> tuple[Usage, ...]:
    """What the pods of some groups hold on nodes, by resource; pods of earlier attempts hold theirs until they end."""
    allocated: Counter[Extended] = Counter()
    ready: Counter[Extended] = Counter()
    for group in groups:
        for pods in (group.pods, group.leaving, group.earlier):
            # By shape first: a gang may have 10,000 pods, and those of one shape share the tuple.
            allocated.update(pod.extended for pod in pods if pod.node)
        ready.update(pod.extended for pod in group.pods if pod.node and pod.ready)
    sums: dict[str, list[int]] = {}
    for place, pods_of in enumerate((allocated, ready)):
        for extended, count in pods_of.items():
            for resource, amount in ((PODS, 1), *extended):
                sums.setdefault(resource, [0, 0])[place] += count * amount
    return tuple(Usage(resource, *sums[resource]) for resource in sorted(sums))


def nth(times: Sequence[int], number: int) -> int:
    """The time at which the given number was reached; 0 if there are fewer times.

    >>> nth([10, 20, 30], 2), nth([10], 2), nth([10], 0)
    (20, 0, 0)
    """
    return times[number - 1] if 0 < number <= len(times) else 0
