"""How many pods exist at once: the numbers behind every minCount.

A Job runs min(parallelism, completions) pods at a time, not ``parallelism``:
with fewer completions the rest is never created, and a gang that counted them
would wait permanently (KEP-1068 review, edge cases 1 to 5 of the scheduling API).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gangctl.api.jobset import JobSet, ReplicatedJob


def is_sequenced(jobset: JobSet, members: Sequence[ReplicatedJob]) -> bool:
    """Whether JobSet creates the Jobs of ``members`` one after another: a deadlock if they are one gang.

    With startupPolicy InOrder it always does. With dependsOn it does if a member
    depends on another member, directly or through ReplicatedJobs outside the gang.
    A dependency only on ReplicatedJobs outside the gang delays the gang without splitting it.
    """
    if jobset.in_order:
        return True
    names = {rj.name for rj in members}
    edges = {rj.name: rj.depends_on for rj in jobset.replicated_jobs}
    # Shared by all members: a path from one that reached no other member reaches none from the rest.
    seen: set[str] = set()
    for rj in members:
        waiting = list(rj.depends_on)
        while waiting:
            name = waiting.pop()
            if name in names:
                return True
            if name not in seen:
                seen.add(name)
                waiting.extend(edges.get(name, ()))
    return False


INT32_MAX: Final = 2**31 - 1


def pods_per_job(parallelism: int | None, completions: int | None) -> int:
    """Pods of one Job that exist at once, with batch/v1's defaults for what is unset."""
    wanted = 1 if parallelism is None else parallelism
    return wanted if completions is None else min(wanted, completions)


def job_pods(rj: ReplicatedJob) -> int:
    """Pods that exist at once in one Job of this ReplicatedJob."""
    return pods_per_job(rj.parallelism, rj.completions)


def replicated_job_pods(rj: ReplicatedJob) -> int:
    """Pods that exist at once in all Jobs of this ReplicatedJob."""
    return rj.replicas * job_pods(rj)


def pods_that_can_exist(
    parallelism: int | None, completions: int | None, *, succeeded: int = 0, failed_indexes: int = 0
) -> int:
    """Pods that an unfinished Job can still have at once (``manageJob`` of Kubernetes' Job controller).

    ``succeeded`` of its pods succeeded, and ``failed_indexes`` of its indexes failed permanently: they exceeded
    ``backoffLimitPerIndex``, and get no more pods. A Job without completions (a work queue) starts no
    pod after one has succeeded, so that every success lowers its number permanently.

    A suspended Job counts as running: its pods are created again on resume, and need a complete group.
    """
    at_once = pods_per_job(parallelism, completions)
    target = at_once if completions is None else completions
    return max(0, min(at_once, target - succeeded - failed_indexes))
