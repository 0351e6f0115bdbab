"""Progress of a running gang, and the minCount that its remaining pods need.

The scheduler does not count finished pods of a group. After one pod of a gang has
succeeded, or failed permanently, a replacement for another would wait permanently for a
quorum that cannot be met (kubernetes issue 142330). If minCount is mutable, gangctl sets
it to the pods that can still exist; otherwise gangctl only reports that the gang is stuck.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gangctl.api.jobset import ReplicatedJob
from gangctl.gang.counting import job_pods, pods_that_can_exist
from gangctl.gang.plan import GangPlan


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
    beside_failed: int = 0
    """Pods that have not finished, of a Job that has failed ones, else 0: a replacement changes nothing but this."""
    group: str = ""
    """The group that its pods name (:func:`~gangctl.api.scheduling.named_group`), empty without one."""
    failed_indexes: int = 0
    """Indexes that exceeded ``backoffLimitPerIndex``: they get no more pods."""
    job_attempt: int = 0
    """How often this Job alone was restarted."""
    decided: bool = False
    """Its success policy was met (condition SuccessCriteriaMet): its other pods end, and it gets no more pods."""

    @property
    def key(self) -> tuple[str, int]:
        """ReplicatedJob and index."""
        return self.replicated_job, self.index


def is_of_attempt(job: JobProgress, rj: ReplicatedJob, restarts: int) -> bool:
    """Whether a Job is of its JobSet's current attempt, and of its own last one."""
    return job.attempt == restarts and job.job_attempt == rj.job_restarts(job.index)


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
        rj.parallelism, rj.completions, succeeded=job.succeeded, failed_indexes=job.failed_indexes
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


def target_min_counts(plan: GangPlan, jobs: Iterable[JobProgress]) -> dict[str, int]:
    """The minCount each PodGroup should have now, by group name; never below 1."""
    counts = {group.name: group.template.min_count for group in plan.groups}
    return {name: max(1, min(counts[name], left)) for name, left in pods_left(plan, jobs).items()}
