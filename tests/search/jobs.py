"""The Job controller and the kubelet, of one Job; after ``manageJob`` of Kubernetes 1.37."""

from __future__ import annotations

from collections.abc import Iterator

from tests.search.state import Job
from tests.search.world import ReplicatedJob


def _without_pods(job: Job) -> Job:
    """All pods are deleted: those without a node are gone at once."""
    return job._replace(waiting=0, bound=0, ending=job.ending + job.bound)


def completions_of(spec: ReplicatedJob, job: Job) -> int | None:
    """``completions`` of a Job, which a resize changes with ``parallelism``."""
    return None if spec.completions is None else spec.completions + job.size - spec.parallelism


def sync(spec: ReplicatedJob, job: Job) -> Job | None:
    """One sync of the Job controller; None if the Job is gone with its last pod."""
    if job.deleting:
        going = _without_pods(job)
        return going if going.ending else None
    if job.finished in {"Complete", "Failed"}:
        return job
    if job.finished == "Decided":
        going = _without_pods(job)
        return going if going.ending else going._replace(finished="Complete")
    if job.failed > spec.backoff and not spec.per_index:
        going = _without_pods(job)
        return going if going.ending else going._replace(finished="Failed")
    if job.suspended:
        return _without_pods(job)
    return _managed(spec, job)


def _managed(spec: ReplicatedJob, job: Job) -> Job:
    completions = completions_of(spec, job)
    active = job.waiting + job.bound
    if completions is None:
        wanted = active if job.succeeded else job.size
        done = bool(job.succeeded) and not active
    else:
        wanted = max(0, min(job.size, completions - job.succeeded - job.lost))
        done = job.succeeded + job.lost >= completions
    if done:
        # It ends once no pod is terminating.
        return job if job.ending or active else job._replace(finished="Failed" if job.lost else "Complete")
    if active > wanted:
        surplus = active - wanted
        waiting = min(surplus, job.waiting)
        bound = surplus - waiting
        return job._replace(waiting=job.waiting - waiting, bound=job.bound - bound, ending=job.ending + bound)
    return job._replace(waiting=job.waiting + wanted - active)


def pods(spec: ReplicatedJob, job: Job) -> Iterator[tuple[str, Job]]:
    """What can happen to its pods: the step, and the Job after it."""
    if job.ending:
        yield "pod.ends", job._replace(ending=0)
    if not job.bound or job.deleting or job.finished:
        return
    bound = job._replace(bound=job.bound - 1)
    succeeded = bound._replace(succeeded=job.succeeded + 1)
    yield "pod.succeeds", succeeded._replace(finished="Decided") if spec.leader_decides else succeeded
    yield "pod.evicted", bound._replace(failed=job.failed + 1, ending=job.ending + 1)
    yield "pod.fails", bound._replace(failed=job.failed + 1)
    if spec.per_index:
        yield "pod.index-fails", bound._replace(failed=job.failed + 1, lost=job.lost + 1)
