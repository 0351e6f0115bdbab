"""Causes that break the all-or-nothing guarantee: no API, no stamps, pods without group, an old scheduler."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from gangctl.api.meta import GANG_REF
from gangctl.api.scheduling_versions import ADAPTERS
from gangctl.errors import plural
from gangctl.gang.config import read_config
from gangctl.gang.desired import names_another
from gangctl.gang.plan import replicated_job_pods
from gangctl.gang.reasons import Reason
from gangctl.readiness.causes.context import LATE, SOON, Command, Context, listed, oldest
from gangctl.readiness.causes.objects import about_group, gangs
from gangctl.readiness.membership import Group
from gangctl.readiness.reading import unix
from gangctl.readiness.result import Cause


def scheduling_gate_off(context: Context) -> Iterator[Cause]:
    """Pods were placed, but their group has no condition: the scheduler does not support groups.

    From Kubernetes 1.36 on it writes the group's condition in the cycle in which it places the pods, and places none
    before the minimum fits.
    """
    if context.capabilities is None or not context.runs:
        return
    evaluate = _partial_since if not context.capabilities.pod_groups else _without_condition_since
    partly: list[tuple[Group, int]] = []
    whole: list[tuple[Group, int]] = []
    for group in gangs(context):
        since = evaluate(group)
        if not since:
            continue
        partial = _placed(group) < group.minimum and any(not pod.node for pod in group.bound)
        patience = SOON if partial else LATE
        if context.late(since, patience):
            (partly if partial else whole).append((group, since))
    if partly:
        yield _gate_off(context, partly, partial=True)
    if whole:
        yield _gate_off(context, whole, partial=False)


def _placed(group: Group) -> int:
    return sum(1 for pod in group.bound if pod.node)


def _without_condition_since(group: Group) -> int:
    """Since when pods of a group without a condition are placed, 0 if that proves nothing."""
    placed = [pod.placed_at for pod in group.bound if pod.node and pod.placed_at]
    found = group.pod_group
    if found is None or found.scheduled is not None or not placed:
        return 0
    # A group that was created again has no condition either, and may get none while its pods run.
    return max(placed) if unix(found.created) <= min(placed) else 0


def _partial_since(group: Group) -> int:
    """Since when a group is placed in part although all its pods existed; the only evidence before 1.36."""
    placed = [pod for pod in group.bound if pod.node and pod.placed_at]
    left = [pod for pod in group.bound if not pod.node]
    clean = not (group.succeeded or group.leaving or group.earlier or group.over)
    if not clean or not placed or not left or len(placed) >= group.minimum:
        return 0
    first = min(pod.placed_at for pod in placed)
    return max(pod.placed_at for pod in placed) if all(0 < pod.created <= first for pod in left) else 0


def _gate_off(context: Context, found: Sequence[tuple[Group, int]], *, partial: bool) -> Cause:
    groups = [group for group, _ in found]
    since = min(at for _, at in found)
    capabilities = context.capabilities
    condition = "PodGroupInitiallyScheduled" if capabilities and capabilities.min_count_mutable else "PodGroupScheduled"
    evidence = [
        f"group {group.name}: {_placed(group)} of {plural(len(group.bound), 'pod')} have nodes, {group.minimum} "
        f"must start together, and the last was placed {context.ago(at)}"
        for group, at in sorted(found, key=lambda each: each[0].name)[:4]
    ]
    if capabilities is not None and capabilities.pod_groups:
        evidence.append(f"{plural(len(groups), 'PodGroup')} without condition {condition}")
    gates = "GenericWorkload" if capabilities and capabilities.min_count_mutable else "GenericWorkload, GangScheduling"
    return context.cause(
        Reason.SCHEDULING_GATE_OFF,
        "the scheduler places the pods of a gang one by one: it does not look at groups"
        if partial
        else "the scheduler has placed all pods without looking at their group: another time it may place some only",
        evidence=evidence,
        remedy=f"start kube-scheduler with --feature-gates that enable {gates}, the same as kube-apiserver",
        command=context.suggest(Command.SCHEDULER_FLAGS)
        if partial
        else about_group(context, Command.SHOW_GROUP, groups[0]),
        groups=groups,
        pods=sum(len(group.bound) - _placed(group) for group in groups),
        since=since,
        blocking=partial,
    )


_SHOWN: Final = 4


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
        remedy="enable the feature gate GenericWorkload on kube-apiserver, kube-scheduler and kube-controller-manager, "
        "and serve the version of scheduling.k8s.io that has Workloads (--runtime-config)",
        command=context.suggest(Command.API_VERSIONS),
        pods=pods,
        blocking=pods > 0,
    )


def not_ganged(context: Context) -> Iterator[Cause]:
    """A gang was requested, but the JobSet has no stamp and no Workload: pods are scheduled one by one."""
    assessment, jobset = context.snapshot.assessment, context.snapshot.jobset
    if assessment.plan is not None or jobset.deleting or jobset.managed_elsewhere or context.snapshot.foreign_workload:
        return
    if not read_config(jobset)[0].asks_for_gangs or any(rj.annotations.get(GANG_REF) for rj in jobset.replicated_jobs):
        return
    pods = _unplaced(context)
    why = [notice.message for notice in assessment.notices]
    if assessment.unstamped:
        why.append("no replicatedJob has the annotation that gangctl's webhook writes when a JobSet is created")
    empty = not any(replicated_job_pods(rj) for rj in jobset.replicated_jobs)
    if assessment.unstamped:
        remedy = (
            "see that gangctl's webhooks are registered and answer, then delete the JobSet and create it again: what "
            "was decided at creation cannot be changed"
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
        command=context.suggest(Command.OWN_WEBHOOKS if assessment.unstamped else Command.PLAN),
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
