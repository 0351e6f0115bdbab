"""Problems of the Workload and the PodGroups of a gang: other owners, missing, being deleted.

A minimum that cannot be reached: the scheduler waits for pods that will never exist.
It does so before a pod enters its queue, without a condition or an event: only counting pods shows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from gangctl.api.scheduling import Observed
from gangctl.errors import plural
from gangctl.gang.desired import Lifecycle, job_pods_left
from gangctl.gang.reasons import Reason
from gangctl.readiness.causes.context import (
    QUICK,
    Command,
    Context,
    Suggestion,
    counted,
    listed,
    oldest,
    unplaced,
)
from gangctl.readiness.membership import Group
from gangctl.readiness.result import Cause

PROTECTION: Final = "scheduling.k8s.io/podgroup-protection"
PODGROUPS: Final = "podgroups.scheduling.k8s.io"
WORKLOADS: Final = "workloads.scheduling.k8s.io"
"""With the API group, because Kueue has Workloads, too."""


def gangs(context: Context) -> Sequence[Group]:
    """Groups that need an object."""
    if context.capabilities is None:
        return ()
    return [
        group
        for group in context.groups
        if group.scope is not None and len(group.unlinked) < len(group.planned) and not group.finished
    ]


_AT_LATEST: Final = "at the latest ten minutes after a change it missed"
_RENEW: Final = (
    "minCount cannot change on this Kubernetes (it can from 1.37 on): suspend the JobSet, and resume it once its pods "
    "have ended, which replaces its groups; on 1.35, where that does not help while it has restarts left, create it "
    "again. Pods begin again, from a checkpoint if they have one"
)


def name_conflict(context: Context) -> Iterator[Cause]:
    """Another owner's object has a planned name: gangctl neither adopts nor deletes it."""
    snapshot, plan = context.snapshot, context.snapshot.assessment.plan
    if plan is None or context.capabilities is None or not context.runs:
        return
    taken = snapshot.workload
    if taken is not None and taken.owner_uid != plan.uid:
        yield _conflict(context, "Workload", WORKLOADS, [taken], gangs(context))
    if not context.capabilities.pod_groups:
        return
    foreign = {name: found for name, found in snapshot.groups.items() if found.owner_uid != plan.uid}
    held = [group for group in gangs(context) if group.name in foreign]
    if held:
        yield _conflict(context, "PodGroup", PODGROUPS, [foreign[group.name] for group in held], held)


def _conflict(context: Context, kind: str, resource: str, found: Sequence[Observed], held: Sequence[Group]) -> Cause:
    names = listed(each.name for each in found)
    first = min(found, key=lambda each: each.name)
    kept = kind == "PodGroup" and any(each.deleting for each in found) and any(group.pods for group in held)
    return context.cause(
        Reason.NAME_CONFLICT,
        f"{kind} {names} has another owner, and a name that this gang needs",
        evidence=[f"{kind} {each.name} {_owner(each)}" for each in sorted(found, key=lambda each: each.name)],
        remedy="it is being deleted, and stays as long as these pods name it: suspend the JobSet, and resume it once "
        "they have ended"
        if kept
        else f"delete the {kind} if it is not needed, and gangctl makes its own; or create this JobSet again: its "
        "next UID gives it other names",
        command=context.suggest(Command.SUSPEND)
        if kept
        else context.suggest(Command.SHOW_GROUP, resource=resource, name=first.name),
        groups=held,
        pods=sum(group.wanted for group in held),
    )


def _owner(found: Observed) -> str:
    if found.owner_jobset:
        return f'is controlled by JobSet "{found.owner_jobset}" with UID {found.owner_uid}'
    return f"is controlled by an object with UID {found.owner_uid}" if found.owner_uid else "has no controller"


def pod_group_missing(context: Context) -> Iterator[Cause]:
    """The object that pods name is missing: the scheduler ignores the pods until it exists."""
    snapshot, capabilities = context.snapshot, context.capabilities
    present = snapshot.groups_known and snapshot.assessment.lifecycle is Lifecycle.PRESENT
    if capabilities is None or not context.runs or not present:
        return
    plan = snapshot.assessment.plan
    kind, missing = "PodGroup", [g for g in gangs(context) if g.name not in snapshot.groups]
    if not capabilities.pod_groups:
        kind, missing = "Workload", list(gangs(context)) if snapshot.workload is None else []
    if plan is None or not missing:
        return
    waiting = [pod for group in missing for pod in unplaced(group)]
    since = max(context.free_since, oldest(pod.created for pod in waiting))
    late = context.late(since, QUICK)
    names = [plan.workload.name] if kind == "Workload" else [group.name for group in missing]
    evidence = [f"there is no {kind} {listed(names)}"]
    if waiting:
        evidence.append(f"{plural(len(waiting), 'pod')} without a node wait for it, {context.lasting(since)}")
    if kind == "PodGroup" and snapshot.workload is None:
        evidence.append(f"there is no Workload {plan.workload.name} either")
    yield context.cause(
        Reason.POD_GROUP_MISSING,
        f"the {kind} that its pods name does not exist" if late else f"its {kind} is about to be made",
        evidence=evidence,
        remedy=f"gangctl's controller makes it, {_AT_LATEST}: see whether it runs and has a leader, and the JobSet's "
        "events for why it could not"
        if late
        else "wait: gangctl's controller makes it",
        command=context.suggest(Command.DESCRIBE_JOBSET),
        groups=missing,
        pods=sum(group.wanted for group in missing),
        since=since,
        blocking=late,
    )


def pod_group_terminating(context: Context) -> Iterator[Cause]:
    """Its PodGroup is being deleted, and cannot be created again before it is gone."""
    capabilities, uid = context.capabilities, context.snapshot.jobset.uid
    if capabilities is None or not capabilities.pod_groups or not context.runs:
        return
    going = {n for n, found in context.snapshot.groups.items() if found.deleting and found.owner_uid == uid}
    held = [group for group in gangs(context) if group.name in going]
    if not held:
        return
    waiting = [pod for group in held for pod in unplaced(group)]
    keepers = [pod for group in held for pod in (*group.pods, *group.leaving, *group.earlier)]
    evidence = [f"PodGroup {listed(group.name for group in held)} has a deletionTimestamp"]
    if keepers:
        names = listed(pod.name for pod in keepers)
        evidence.append(f"{plural(len(keepers), 'pod')} that have not ended name it and keep it: {names}")
    else:
        evidence.append(f"no pod is seen that names it: only the finalizer {PROTECTION} can keep it")
    yield context.cause(
        Reason.POD_GROUP_TERMINATING,
        "its PodGroup is being deleted, and cannot be made anew before it is gone",
        evidence=evidence,
        remedy="it goes with the last pod that names it, and gangctl makes the next one at once; if none is left, see "
        f"that kube-controller-manager has the feature gate GenericWorkload: it takes the finalizer {PROTECTION} off",
        command=context.suggest(Command.SHOW_GROUP, resource=PODGROUPS, name=min(going)),
        groups=held,
        pods=len(waiting),
        # Pods of a group that is being deleted are still scheduled: the scheduler's conditions apply.
        blocking=not keepers or (bool(waiting) and not any(pod.refused for pod in waiting)),
    )


def foreign_workload(context: Context) -> Iterator[Cause]:
    """Another owner's Workload exists for this JobSet, which gangctl respects; other pods have no gang."""
    name = context.snapshot.foreign_workload
    if not name:
        return
    alone = context.snapshot.assessment.plan is None
    waiting = [pod for group in context.groups for pod in unplaced(group)] if alone and context.runs else []
    outside = [pod for pod in waiting if not pod.group]
    evidence = [f"spec.controllerRef of Workload {name} names JobSet {context.snapshot.jobset.name}"]
    if outside:
        evidence.append(f"{plural(len(outside), 'pod')} of it name no group, and have no node")
    yield context.cause(
        Reason.FOREIGN_WORKLOAD,
        f'Workload "{name}" of another owner is for this JobSet'
        + (", so gangctl makes no gang of it" if alone else ", beside that of gangctl"),
        evidence=evidence,
        remedy="see that its owner also puts the pods into its groups; or delete it and create the JobSet again",
        command=context.suggest(Command.SHOW_GROUP, resource=WORKLOADS, name=name),
        pods=len(waiting),
        blocking=bool(outside),
    )


def about_group(context: Context, command: Command, group: Group) -> Suggestion:
    """A command about the object with a group's minCount: its PodGroup, before 1.36 the Workload."""
    plan, capabilities = context.snapshot.assessment.plan, context.capabilities
    if plan is not None and capabilities is not None and not capabilities.pod_groups:
        return context.suggest(command, resource=WORKLOADS, name=plan.workload.name)
    return context.suggest(command, resource=PODGROUPS, name=group.name)


def unreachable_minimum(context: Context) -> Iterator[Cause]:
    """Pods wait for a quorum that the pods which can still exist do not reach."""
    if not context.runs:
        return
    tails: list[tuple[Group, int]] = []
    others: list[tuple[Group, int]] = []
    for group in gangs(context):
        possible = _possible(context, group)
        waits = any(not pod.node for pod in group.bound)
        if waits and max(possible, counted(group)) < group.minimum:
            ended = group.succeeded + _failed(group) > 0 and group.minimum <= group.desired
            (tails if ended else others).append((group, possible))
    mutable = context.capabilities is not None and context.capabilities.min_count_mutable
    for found, cause_of in ((tails, _tail), (others, _too_many)):
        if not found:
            continue
        since = oldest(pod.created for group, _ in found for pod in group.bound if not pod.node)
        if not mutable or context.late(since, QUICK):
            yield cause_of(context, found, since, mutable=mutable)


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


def _tail(context: Context, found: list[tuple[Group, int]], since: int, *, mutable: bool) -> Cause:
    group, possible = min(found, key=lambda each: each[0].name)
    waiting = [pod for each, _ in found for pod in each.bound if not pod.node]
    if mutable:
        remedy = (
            f"gangctl's controller lowers minCount, {_AT_LATEST}: see whether it runs and has a leader; this command "
            "does it by hand"
        )
        command = context.suggest(Command.LOWER_MIN_COUNT, name=group.name, count=max(1, possible))
    else:
        remedy = _RENEW
        command = context.suggest(Command.JOBSET_STATUS)
    return context.cause(
        Reason.GANG_TAIL_BLOCKED,
        f"{plural(len(waiting), 'pod waits', 'pods wait')} for a quorum that cannot be met again, because pods of the "
        "gang have finished",
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


def _too_many(context: Context, found: list[tuple[Group, int]], since: int, *, mutable: bool) -> Cause:
    group, _ = min(found, key=lambda each: each[0].name)
    return context.cause(
        Reason.MIN_COUNT_UNREACHABLE,
        f"minCount of group {group.name} is {group.minimum}, and it can never have that many pods",
        evidence=[
            f"group {each.name}: minCount {each.minimum}, at most {plural(left, 'pod')} at once, "
            f"{len(each.bound)} there"
            for each, left in sorted(found, key=lambda pair: pair[0].name)
        ],
        remedy="gangctl's controller sets minCount to the pods that can exist: see whether it runs, and who else "
        "writes it"
        if mutable
        else _RENEW,
        command=about_group(context, Command.SHOW_WRITERS, group),
        groups=[each for each, _ in found],
        pods=sum(each.wanted for each, _ in found),
        since=since,
    )
