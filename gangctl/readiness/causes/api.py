"""Causes that break the all-or-nothing guarantee: no API, no stamps, pods that do not name their group."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gangctl.api.meta import GANG_REF
from gangctl.api.scheduling_versions import ADAPTERS
from gangctl.errors import plural
from gangctl.gang.config import read_config
from gangctl.gang.desired import names_another
from gangctl.gang.plan import replicated_job_pods
from gangctl.gang.reasons import Reason
from gangctl.kueue.names import GATE
from gangctl.readiness.causes.commands import Command
from gangctl.readiness.causes.context import Context, Finding, listed, oldest
from gangctl.readiness.reading import unix

_SHOWN: Final = 4


def _unplaced(context: Context) -> int:
    """Number of wanted pods without a node, existing or not."""
    if not context.runs:
        return 0
    return sum(max(0, group.wanted - sum(1 for pod in group.pods if pod.node)) for group in context.groups)


def api_unavailable(context: Context) -> Iterator[Finding]:
    """The cluster does not support gangs: stamped JobSets wait, others are scheduled pod by pod."""
    api = context.snapshot.api
    if api.available or context.snapshot.jobset.managed_elsewhere:
        return
    pods = _unplaced(context)
    if context.suspended and GATE in context.snapshot.jobset.gates:
        # Kueue waits for groups that cannot be created.
        pods = sum(group.wanted for group in context.groups)
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


def not_ganged(context: Context) -> Iterator[Finding]:
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


def field_dropped(context: Context) -> Iterator[Finding]:
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
