"""A minimum that cannot be reached: the scheduler waits for pods that will never be.

It does so before a pod enters its queue, so that there is no condition and no event to read: only counting shows it.
"""

from __future__ import annotations

from collections.abc import Iterator

from gangctl.gang.progress import job_pods_left
from gangctl.gang.reasons import Reason
from gangctl.readiness.causes.context import QUICK, Context, Finding, Until, are, oldest
from gangctl.readiness.causes.objects import PODGROUPS, gangs, where
from gangctl.readiness.membership import Group


def unreachable_minimum(context: Context) -> Iterator[Finding]:
    """Pods wait for a quorum that those which can still exist do not make."""
    if not context.runs:
        return
    tails: list[tuple[Group, int]] = []
    others: list[tuple[Group, int]] = []
    for group in gangs(context):
        possible = _possible(context, group)
        # The scheduler counts pods on their way out, too, as long as they are there.
        counted = len(group.bound) + len(group.leaving) + len(group.earlier)
        waits = any(not pod.node for pod in group.bound)
        if waits and max(possible, counted) < group.minimum:
            ended = group.succeeded + _failed(group) > 0 and group.minimum <= group.desired
            (tails if ended else others).append((group, possible))
    mutable = context.capabilities is not None and context.capabilities.min_count_mutable
    for found, tell in ((tails, _tail), (others, _too_many)):
        if not found:
            continue
        since = oldest(pod.created for group, _ in found for pod in group.bound if not pod.node)
        if mutable and context.now - since < QUICK:
            yield Until(since + QUICK)
        else:
            yield tell(context, found, since, mutable=mutable)


def _possible(context: Context, group: Group) -> int:
    """Pods that can still exist at once and name the group."""
    jobset = context.snapshot.jobset
    by_name = {rj.name: rj for rj in jobset.replicated_jobs}
    jobs = {job.key: job for job in (*group.leaving_jobs, *group.jobs)}
    return sum(
        job_pods_left(by_name[job.replicated_job], jobs.get((job.replicated_job, job.index)), jobset.restarts)
        for job in group.planned
        if (job.replicated_job, job.index) not in group.unlinked
    )


def _failed(group: Group) -> int:
    """Pods that failed and that the Job controller does not replace."""
    return sum(job.failed_indexes for job in group.jobs)


def _ended(group: Group) -> str:
    failed = _failed(group)
    return f"{group.succeeded} succeeded" + (f" and {failed} failed for good" if failed else "")


def _tail(context: Context, found: list[tuple[Group, int]], since: int, *, mutable: bool) -> Finding:
    group, possible = min(found, key=lambda each: each[0].name)
    waiting = [pod for each, _ in found for pod in each.bound if not pod.node]
    if mutable:
        remedy = (
            "gangctl's controller lowers minCount within a second: see whether it runs and has a leader; this command "
            "does it by hand"
        )
        patch = f'{{"spec":{{"schedulingPolicy":{{"gang":{{"minCount":{max(1, possible)}}}}}}}}}'
        command = context.kubectl(f"patch {PODGROUPS} {group.name} --type=merge -p '{patch}'")
    else:
        remedy = (
            "minCount cannot change on this Kubernetes (it can from 1.37 on): let the JobSet restart or create it "
            "again, from a checkpoint if it has one; failurePolicy with restartStrategy BlockingRecreate does it whole"
        )
        command = context.kubectl(f"get jobset {context.snapshot.jobset.name} -o jsonpath='{{.status}}'")
    return context.cause(
        Reason.GANG_TAIL_BLOCKED,
        f"{are(len(waiting), 'pod', 'waits', 'wait')} for a quorum that cannot be met again, because pods of the gang "
        "have finished",
        evidence=[
            f"group {each.name}: minCount {each.minimum}, {_ended(each)} and no longer count, "
            f"{left} can still exist, {len(each.bound)} are there"
            for each, left in sorted(found, key=lambda pair: pair[0].name)
        ]
        + ["the scheduler writes no condition and no event while a quorum is missing"],
        remedy=remedy,
        command=command,
        groups=[each for each, _ in found],
        pods=len(waiting),
        since=since,
    )


def _too_many(context: Context, found: list[tuple[Group, int]], since: int, *, mutable: bool) -> Finding:
    group, _ = min(found, key=lambda each: each[0].name)
    return context.cause(
        Reason.MIN_COUNT_UNREACHABLE,
        f"minCount of group {group.name} is {group.minimum}, and it can never have that many pods",
        evidence=[
            f"group {each.name}: minCount {each.minimum}, {left} pods can exist at once, {len(each.bound)} are there"
            for each, left in sorted(found, key=lambda pair: pair[0].name)
        ],
        remedy="gangctl's controller sets minCount to the pods that can exist: see whether it runs, and who else "
        "writes it"
        if mutable
        else "minCount cannot change on this Kubernetes: delete the JobSet and create it again",
        command=context.kubectl(f"get {where(context, group)} -o yaml --show-managed-fields"),
        groups=[each for each, _ in found],
        pods=sum(each.wanted for each, _ in found),
        since=since,
    )
