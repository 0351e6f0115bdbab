"""Problems of the objects of a gang: other owners, missing, being deleted; no API, no stamps, pods without group.

A minimum that cannot be reached: the scheduler waits for pods that will never exist. It does so before a pod enters its
queue, without a condition or an event: only counting pods shows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from gangctl.api.scheduling import GATES, Observed
from gangctl.api.scheduling_versions import ADAPTERS
from gangctl.errors import plural
from gangctl.gang.config import read_config
from gangctl.gang.desired import WHETHER_SERVED, Lifecycle, listed, names_another, renewal, while_suspended
from gangctl.gang.plan import replicated_job_pods
from gangctl.gang.reasons import Reason
from gangctl.readiness.causes.context import QUICK, Command, Context, Suggestion, counted, oldest, unplaced
from gangctl.readiness.facts import is_stamped, unix
from gangctl.readiness.membership import Group, pod_denials, stages_to_come
from gangctl.readiness.result import Cause

PROTECTION: Final = "scheduling.k8s.io/podgroup-protection"
PODGROUPS: Final = "podgroups.scheduling.k8s.io"
WORKLOADS: Final = "workloads.scheduling.k8s.io"
"""With the API group, because Kueue has Workloads, too."""
_SHOWN: Final = 4
_AT_LATEST: Final = "at the latest ten minutes after a change it missed"


def _renewal(context: Context) -> tuple[str, Suggestion | None]:
    """What has groups replaced that pods name, and the command that begins it, if it is known."""
    jobset, workload = context.snapshot.jobset, context.snapshot.queued_workload
    suspended = while_suspended(jobset, queues=context.snapshot.kueue)
    if suspended is Lifecycle.RETIRED:
        return renewal(suspended), context.suggest(Command.SUSPEND)
    # Where Workloads may not be read, its name is not known.
    command = context.suggest(Command.DEACTIVATE, name=workload.name) if workload is not None else None
    return renewal(suspended), command


def _renewed(context: Context) -> str:
    """The remedy where minCount cannot change."""
    return (
        f"minCount cannot change on this Kubernetes (it can from 1.37 on): {_renewal(context)[0]}, which replaces its "
        "groups; on 1.35, where that does not help while it has restarts left, or while another replica that is a gang "
        "needs more pods, create it again. Pods begin again, from a checkpoint if they have one"
    )


def gangs(context: Context) -> Sequence[Group]:
    """Groups that need an object."""
    if context.capabilities is None:
        return ()
    return [
        group
        for group in context.groups
        if group.scope is not None and len(group.unlinked) < len(group.planned) and not group.finished
    ]


def name_conflict(context: Context) -> Iterator[Cause]:
    """Another owner's object has a planned name: gangctl neither adopts nor deletes it."""
    snapshot, plan = context.snapshot, context.snapshot.assessment.plan
    if plan is None or context.capabilities is None:
        return
    taken = snapshot.workload
    if taken is not None and taken.owner_uid != plan.uid:
        yield _conflict(context, "Workload", WORKLOADS, [taken], gangs(context))
    if not context.capabilities.pod_groups:
        return
    foreign = {name: pod_group for name, pod_group in snapshot.groups.items() if pod_group.owner_uid != plan.uid}
    if held := [group for group in gangs(context) if group.name in foreign]:
        yield _conflict(context, "PodGroup", PODGROUPS, [foreign[group.name] for group in held], held)


def _conflict(context: Context, kind: str, resource: str, found: Sequence[Observed], held: Sequence[Group]) -> Cause:
    names, whose = listed(taken.name for taken in found), "another" if any(one.owner_uid for one in found) else "no"
    # The finalizer podgroup-protection keeps a PodGroup while unfinished pods name it, also pods of another owner.
    renewing, renew = _renewal(context)
    show = context.suggest(Command.SHOW_GROUP, resource=resource, name=min(taken.name for taken in found))
    kept = kind == "PodGroup" and any(taken.deleting for taken in found) and any(group.pods for group in held)
    owners = []
    for taken in sorted(found, key=lambda taken: taken.name):
        owner = f"is controlled by an object with UID {taken.owner_uid}" if taken.owner_uid else "has no controller"
        if taken.owner_jobset:
            owner = f'is controlled by JobSet "{taken.owner_jobset}" with UID {taken.owner_uid}'
        owners.append(f"{kind} {taken.name} {owner}")
    return context.cause(
        Reason.NAME_CONFLICT,
        f"{kind} {names} has {whose} owner, and a name that this gang needs",
        evidence=owners,
        remedy=f"it is being deleted, and stays as long as these pods name it: {renewing}"
        if kept
        else f"delete the {kind} if it is not needed, and gangctl makes its own; or create this JobSet again: its "
        "next UID gives it other names",
        command=renew if kept and renew is not None else show,
        groups=held,
        pods=sum(group.wanted for group in held),
    )


def pod_group_missing(context: Context) -> Iterator[Cause]:
    """The object that pods name is missing, or its parent: the scheduler ignores the pods until it exists.

    A group without pods is left out while the API server rejects its pods: what rejects them, such as a PriorityClass
    that does not exist, may reject the group, too, and is a cause of its own.
    """
    snapshot, capabilities = context.snapshot, context.capabilities
    present = snapshot.groups_known and snapshot.assessment.lifecycle is Lifecycle.PRESENT
    if capabilities is None or not present:
        return
    plan = snapshot.assessment.plan
    denied = pod_denials(snapshot, context.groups)
    groups = [g for g in gangs(context) if g.pods or not any(job.name in denied for job in g.jobs)]
    kind, missing = "PodGroup", [g for g in groups if g.name not in snapshot.groups]
    names = [group.name for group in missing]
    if plan is None:
        return
    if not capabilities.pod_groups:
        kind, missing, names = "Workload", groups if snapshot.workload is None else [], [plan.workload.name]
    elif plan.composite is not None and snapshot.composite_missing:
        # Pods that have a node keep it: while gangs finish, gangctl itself replaces the parent of the others.
        kind, missing = "CompositePodGroup", [g for g in groups if not g.pods or unplaced(g)]
        names = [plan.composite.name]
    if not missing:
        return
    waiting = [pod for group in missing for pod in unplaced(group)]
    since = max(context.free_since, oldest(pod.created for pod in waiting))
    late = context.late(since, QUICK)
    evidence = [f"there is no {kind} {listed(names)}"]
    if waiting:
        evidence.append(f"{plural(len(waiting), 'pod')} without a node wait for it, {context.lasting(since)}")
    if kind != "Workload" and snapshot.workload is None:
        evidence.append(f"there is no Workload {plan.workload.name} either")
    yield context.cause(
        Reason.POD_GROUP_MISSING,
        f"the {kind} that its {'groups' if kind == 'CompositePodGroup' else 'pods'} name does not exist"
        if late
        else f"its {kind} is about to be made",
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
    if capabilities is None or not capabilities.pod_groups:
        return
    going = {n for n, pod_group in context.snapshot.groups.items() if pod_group.deleting and pod_group.owner_uid == uid}
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
    tails: list[tuple[Group, int]] = []
    others: list[tuple[Group, int]] = []
    ordered: list[tuple[Group, int]] = []
    stages = stages_to_come(context.snapshot.jobset, context.snapshot.jobs)
    for group in gangs(context):
        after = _after_own(group, stages)
        possible = sum(
            left
            for planned, _, left in context.expected[group.name]
            if (planned.replicated_job, planned.index) not in group.unlinked and planned.replicated_job not in after
        )
        waits = any(not pod.node for pod in group.bound)
        # What terminates counts for the scheduler until it is gone, although no other pod takes its place.
        if waits and max(possible, counted(group)) < group.minimum:
            ended = group.succeeded + _failed(group) > 0 and group.minimum <= group.desired
            (ordered if after else tails if ended else others).append((group, possible))
    mutable = context.capabilities is not None and context.capabilities.min_count_mutable
    for groups, cause_of in (
        (tails, partial(_tail, mutable=mutable)),
        (others, partial(_too_many, mutable=mutable)),
        (ordered, partial(_in_circle, stages=stages)),
    ):
        if not groups:
            continue
        groups.sort(key=lambda pair: pair[0].name)
        since = oldest(pod.created for group, _ in groups for pod in group.bound if not pod.node)
        # Where minCount can change, the controller is about to lower it; a stage may just have begun.
        if not (mutable or groups is ordered) or context.late(since, QUICK):
            yield cause_of(context, groups, since)


def _failed(group: Group) -> int:
    """Pods that failed and that the Job controller does not replace."""
    return sum(job.failed_indexes for job in group.jobs)


def _tail(context: Context, found: list[tuple[Group, int]], since: int, *, mutable: bool) -> Cause:
    group, possible = found[0]
    waiting = [pod for held, _ in found for pod in held.bound if not pod.node]
    remedy, command = _renewed(context), context.suggest(Command.JOBSET_STATUS)
    if mutable:
        remedy = (
            f"gangctl's controller lowers minCount, {_AT_LATEST}: see whether it runs and has a leader; this command "
            "does it by hand"
        )
        command = context.suggest(Command.LOWER_MIN_COUNT, name=group.name, count=max(1, possible))
    return context.cause(
        Reason.GANG_TAIL_BLOCKED,
        f"{plural(len(waiting), 'pod waits', 'pods wait')} for a quorum that cannot be met again, because pods of the "
        "gang have finished",
        evidence=[
            f"group {held.name}: minCount {held.minimum}, {held.succeeded} succeeded"
            + (f" and {failed} failed for good" if (failed := _failed(held)) else "")
            + f" and no longer count, {left} can still exist, {len(held.bound)} are there"
            for held, left in found
        ]
        + ["the scheduler writes no condition and no event while a quorum is missing"],
        remedy=remedy,
        command=command,
        groups=[held for held, _ in found],
        pods=len(waiting),
        since=since,
    )


def _after_own(group: Group, stages: Mapping[str, Sequence[str]]) -> Sequence[str]:
    """Its ReplicatedJobs that JobSet makes only after others of it."""
    names = group.replicated_jobs
    return [name for name in names if any(first in names for first in stages.get(name, ()))]


def _in_circle(
    context: Context, found: list[tuple[Group, int]], since: int, *, stages: Mapping[str, Sequence[str]]
) -> Cause:
    """JobSet starts the ReplicatedJobs of one gang one after another: its webhook was not asked for that update."""
    return context.cause(
        Reason.MIN_COUNT_UNREACHABLE,
        "its pods wait for each other: JobSet makes some of them after the others are ready, and these start only "
        "together with them",
        evidence=[
            f"group {held.name}: minCount {held.minimum}, {plural(left, 'pod')} before the others"
            for held, left in found
        ]
        + [f"{name} waits for {listed(stages[name])}" for held, _ in found for name in _after_own(held, stages)],
        remedy="delete the JobSet and create it again: gangctl then makes a gang of each replicated job; with entries "
        "of several in gangctl.dev/gangs, or option composite, leave these or the order out",
        command=about_group(context, Command.SHOW_WRITERS, found[0][0]),
        groups=[held for held, _ in found],
        pods=sum(held.wanted for held, _ in found),
        since=since,
    )


def _too_many(context: Context, found: list[tuple[Group, int]], since: int, *, mutable: bool) -> Cause:
    group, _ = found[0]
    return context.cause(
        Reason.MIN_COUNT_UNREACHABLE,
        f"minCount of group {group.name} is {group.minimum}, and it can never have that many pods",
        evidence=[
            f"group {held.name}: minCount {held.minimum}, at most {plural(left, 'pod')} at once, "
            f"{len(held.bound)} there"
            for held, left in found
        ],
        remedy="gangctl's controller sets minCount to the pods that can exist: see whether it runs, and who else "
        "writes it"
        if mutable
        else _renewed(context),
        command=about_group(context, Command.SHOW_WRITERS, group),
        groups=[held for held, _ in found],
        pods=sum(held.wanted for held, _ in found),
        since=since,
    )


def _unplaced(context: Context) -> int:
    """Number of wanted pods without a node, existing or not."""
    if not context.runs:
        return 0
    return sum(max(0, group.wanted - sum(1 for pod in group.pods if pod.node)) for group in context.groups)


def api_unavailable(context: Context) -> Iterator[Cause]:
    """The cluster does not support gangs: stamped JobSets wait, others are scheduled pod by pod."""
    api = context.snapshot.api
    if api.available or context.snapshot.jobset.managed_elsewhere:
        return
    pods = _unplaced(context)
    yield context.cause(
        Reason.API_UNAVAILABLE,
        "this cluster cannot make gangs: it has no scheduling API that gangctl can rely on",
        evidence=[api.reason],
        remedy=f"enable the feature gate {GATES} on kube-apiserver, kube-scheduler and kube-controller-manager, "
        "and serve the version of scheduling.k8s.io that has Workloads (--runtime-config)",
        command=context.suggest(Command.API_VERSIONS),
        pods=pods,
        blocking=pods > 0,
    )


def not_ganged(context: Context) -> Iterator[Cause]:
    """A gang was requested, but the JobSet has no valid stamp and no Workload: pods are scheduled one by one."""
    assessment, jobset = context.snapshot.assessment, context.snapshot.jobset
    if assessment.plan is not None or jobset.deleting or jobset.managed_elsewhere or context.snapshot.foreign_workload:
        return
    # Pods that name a group of their user's own, or for which JobSet makes one, are not scheduled one by one.
    elsewhere = any(notice.reason in {Reason.USER_MANAGED, Reason.UPSTREAM_SCHEDULING} for notice in assessment.notices)
    asks = read_config(jobset)[0].asks_for_gangs
    if not assessment.lacks_its_gang and (is_stamped(jobset) or elsewhere or not asks):
        return
    pods = _unplaced(context)
    why = [notice.message for notice in assessment.notices]
    empty = not any(replicated_job_pods(rj) for rj in jobset.replicated_jobs)
    if assessment.unstamped:
        why.append("no replicatedJob has the annotation that gangctl's webhook writes when a JobSet is created")
        remedy = (
            f"see {WHETHER_SERVED}; then delete the JobSet and create it again: what was decided at creation cannot "
            "be changed"
        )
    elif empty:
        remedy = "give its replicated jobs replicas, parallelism and completions above 0, in a new JobSet"
    else:
        remedy = "correct what prevents a gang, in a new JobSet: what was decided at creation cannot be changed"
    yield context.cause(
        Reason.NOT_GANGED,
        "it has no pods, and so no gang"
        if empty
        else "it asks for a gang and is none: its pods are scheduled one by one",
        evidence=why,
        remedy=remedy,
        command=context.suggest(Command.NAMESPACE_LABELS if assessment.unstamped else Command.PLAN),
        pods=pods,
        since=unix(jobset.created),
        blocking=pods > 0,
    )


def field_dropped(context: Context) -> Iterator[Cause]:
    """Pods of a planned group that do not name it: they are scheduled without it, and not counted."""
    generation = context.snapshot.api.generation
    if generation is None:
        return
    held = [group for group in context.groups if group.unlinked or any(not pod.group for pod in group.pods)]
    jobs = [job for group in held for job in group.jobs if job.key in group.unlinked and not job.complete]
    outside = [
        pod
        for group in held
        if group.scope is not None
        for pod in group.pods
        if not pod.group or (pod.replicated_job, pod.job_index) in group.unlinked
    ]
    if not outside and not jobs:
        return
    elsewhere = sorted(f"Job {job.name} names {job.group}" for job in jobs if names_another(job, generation))
    dropped = sorted({job.name for job in jobs if not names_another(job, generation)})
    field = ADAPTERS[generation].reference_field
    evidence = elsewhere[:_SHOWN]
    remedies = []
    if elsewhere:
        remedies.append(
            f"find out which admission webhook or policy writes spec.{field} into Jobs of JobSets, and create the "
            "JobSet again without it"
        )
    if dropped:
        evidence.append(f"Jobs {listed(dropped)} have no spec.{field} in their pod template")
    if dropped or not elsewhere:
        remedies.append(
            "such Jobs were made when the cluster served another scheduling API, with the feature gate GenericWorkload "
            "off, or past gangctl's webhook; what runs goes on, and a restart of the JobSet, or creating it again, "
            "makes it a gang"
        )
    waiting = [pod for pod in outside if not pod.node]
    if alone := [pod for pod in outside if not pod.group]:
        evidence.append(
            f"{plural(len(alone), 'pod')} without spec.{field}, {sum(not pod.node for pod in alone)} of them without a "
            f"node: {listed(pod.name for pod in alone)}"
        )
    yield context.cause(
        Reason.FIELD_DROPPED,
        "pods of it do not name their gang, and are scheduled without it",
        evidence=evidence,
        remedy="; ".join(remedies),
        command=context.suggest(Command.JOBS),
        groups=held,
        pods=len(outside),
        since=oldest(pod.created for pod in outside),
        blocking=bool(waiting),
    )
