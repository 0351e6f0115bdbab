"""Sequenced startup: ReplicatedJobs that JobSet makes only once others are ready, or complete."""

from __future__ import annotations

from collections.abc import Iterable

from gangctl.api.jobset import JobSet
from gangctl.gang.progress import JobProgress


def stages_to_come(jobset: JobSet, jobs: Iterable[JobProgress]) -> frozenset[str]:
    """Names of the ReplicatedJobs whose turn has not come in this attempt.

    That is seen by their having no Job while one that goes before them has not finished: JobSet makes all Jobs of a
    stage the moment its turn comes.
    """
    if not jobset.in_order and not any(rj.depends_on for rj in jobset.replicated_jobs):
        return frozenset()
    begun: set[str] = set()
    complete: dict[str, int] = {}
    for job in jobs:
        if job.jobset_uid == jobset.uid and not job.deleting and job.attempt >= jobset.restarts:
            begun.add(job.replicated_job)
            complete[job.replicated_job] = complete.get(job.replicated_job, 0) + job.complete
    unfinished = {rj.name for rj in jobset.replicated_jobs if complete.get(rj.name, 0) < rj.replicas}
    to_come: set[str] = set()
    earlier: list[str] = []
    for rj in jobset.replicated_jobs:
        first = earlier if jobset.in_order else rj.depends_on
        if rj.name not in begun and any(name in unfinished for name in first):
            to_come.add(rj.name)
        if rj.name in unfinished and not earlier:
            # One that has not finished is enough for all that come after it.
            earlier.append(rj.name)
    return frozenset(to_come)
