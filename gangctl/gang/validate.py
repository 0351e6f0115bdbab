"""Checks for gangs that can never be scheduled."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

from gangctl.api.jobset import JobSet, ReplicatedJob
from gangctl.api.meta import DEFAULT_SCHEDULER, EXCLUSIVE_TOPOLOGY, GANG_MODE, NODE_SELECTOR_STRATEGY
from gangctl.api.scheduling import MAX_TEMPLATES, Capabilities
from gangctl.errors import ErrorKind, FieldError, one_line, plural
from gangctl.gang.counting import INT32_MAX, job_pods, replicated_job_pods
from gangctl.gang.reasons import Notice, Reason

MAX_JOBS: Final = 50_000
"""Jobs in one JobSet with gangs: every one of them is planned in memory, by JobSet's controller too."""

_LISTED: Final = 8
"""Replicated jobs spelled out in one message."""

Group = Sequence[ReplicatedJob]
"""ReplicatedJobs whose pods share a template."""


def _pod_spec(rj: ReplicatedJob, field: str) -> str:
    return f"{rj.path}.template.spec.template.spec.{field}"


def _variants(group: Iterable[ReplicatedJob], values: Iterable[str]) -> str:
    pairs = islice(zip(group, values, strict=False), _LISTED)
    return ", ".join(f'"{one_line(rj.name, 64)}" has "{one_line(value, 64)}"' for rj, value in pairs)


def check_schedulers(group: Group) -> list[FieldError]:
    """All pods of one group must use one scheduler: a scheduler places only its own pods."""
    schedulers = [rj.scheduler or DEFAULT_SCHEDULER for rj in group]
    odd = next((rj for rj, name in zip(group, schedulers, strict=True) if name != schedulers[0]), None)
    if odd is None:
        return []
    detail = f"all pods of one gang need the same scheduler: {_variants(group, schedulers)}"
    return [FieldError(_pod_spec(odd, "schedulerName"), ErrorKind.INVALID, detail)]


def _check_priority(group: Group, capabilities: Capabilities) -> tuple[list[FieldError], list[Notice]]:
    classes = [rj.priority_class for rj in group]
    if classes.count(classes[0]) == len(classes):
        return [], []
    odd = next(rj for rj in group if rj.priority_class != classes[0])
    variants = _variants(group, classes)
    if capabilities.uniform_priority:
        detail = f"all pods of one gang need the same priority class, or the scheduler refuses the gang: {variants}"
        return [FieldError(_pod_spec(odd, "priorityClassName"), ErrorKind.INVALID, detail)], []
    message = f"Pods of one gang have different priority classes, which Kubernetes 1.37 refuses: {variants}."
    return [], [Notice(Reason.MIXED_PRIORITY, message)]


def _check_exclusive(jobset: JobSet, group: Group) -> list[FieldError]:
    """Exclusive placement by webhook admits a Job's followers only after its leader is scheduled.

    The leader of a gang is scheduled only with its followers, so any Job with more than one pod deadlocks.
    """
    for rj in group:
        holder = rj.annotations if EXCLUSIVE_TOPOLOGY in rj.annotations else jobset.annotations
        by_selector = NODE_SELECTOR_STRATEGY in rj.annotations or NODE_SELECTOR_STRATEGY in jobset.annotations
        if EXCLUSIVE_TOPOLOGY not in holder or by_selector or job_pods(rj) <= 1:
            continue
        on_template = holder is rj.annotations
        path = rj.annotation_path(EXCLUSIVE_TOPOLOGY) if on_template else f"metadata.annotations[{EXCLUSIVE_TOPOLOGY}]"
        pods = plural(job_pods(rj), "pod")
        detail = (
            f'deadlocks with the gang of replicated job "{rj.name}" ({pods} per Job): JobSet admits '
            "followers only after their leader is scheduled, and the gang is scheduled only as a whole. "
            f"Use {NODE_SELECTOR_STRATEGY}, or pod affinity: gangctl convert --to annotations "
            "--replace-exclusive-topology writes it"
        )
        return [FieldError(path, ErrorKind.FORBIDDEN, detail)]
    return []


def check_groups(
    jobset: JobSet, groups: Iterable[Group], capabilities: Capabilities
) -> tuple[list[FieldError], list[Notice]]:
    """Rules on the pods that share a group; a ReplicatedJob without replicas has no pods and is not checked."""
    errors: list[FieldError] = []
    notices: list[Notice] = []
    for group in groups:
        present = [rj for rj in group if rj.replicas > 0]
        if not present:
            continue
        refused, noticed = _check_priority(present, capabilities)
        errors += refused
        notices += noticed
        errors += _check_exclusive(jobset, present)
    return errors, notices


def check_job_scheduling(members: Iterable[ReplicatedJob]) -> list[FieldError]:
    """A Job's own gang (``spec.scheduling``, KEP-5547) beside a gang of the JobSet: its pods can name one group only.

    The Job controller of 1.37 ignores the field where the pod template names a group already.
    """
    return [
        FieldError(
            f"{rj.path}.template.spec.scheduling",
            ErrorKind.FORBIDDEN,
            f"asks for a gang of each Job, and {GANG_MODE} for one of the JobSet: pods name one group only. Remove "
            f'this field, or set {GANG_MODE}: "Off" on this replicated job',
        )
        for rj in members
        if rj.job_scheduling
    ]


def check_jobs(jobset: JobSet) -> list[FieldError]:
    """The number of Jobs, in or out of gangs, that one JobSet may have: replicas alone could be two billion."""
    jobs = sum(rj.replicas for rj in jobset.replicated_jobs)
    if jobs <= MAX_JOBS:
        return []
    detail = f"{jobs} Jobs, but a JobSet with gangs may have at most {MAX_JOBS}: use fewer Jobs with more pods each"
    return [FieldError("spec.replicatedJobs", ErrorKind.TOO_MANY, detail)]


def check_templates(jobset: JobSet, groups: Sequence[Group]) -> list[FieldError]:
    """Limits of one Workload: eight templates, and int32 for every minCount."""
    errors = []
    if len(groups) > MAX_TEMPLATES:
        detail = (
            f"{len(groups)} replicated jobs with a gang of their own, but a Workload holds at most {MAX_TEMPLATES}: "
            "use a JobSet-wide gang, merge replicated jobs into one with more replicas, or split the JobSet"
        )
        errors.append(FieldError("spec.replicatedJobs", ErrorKind.TOO_MANY, detail))
    for group in groups:
        pods = sum(replicated_job_pods(rj) for rj in group)
        if pods > INT32_MAX:
            path = "spec.replicatedJobs" if len(group) > 1 else jobset.replicated_jobs[group[0].index].path
            errors.append(
                FieldError(path, ErrorKind.INVALID, f"{pods} pods in one gang, at most {INT32_MAX} are possible")
            )
    return errors
