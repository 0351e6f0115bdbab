"""The plan of one JobSet as plain data: what ``gangctl plan -o json`` prints and what policies see as ``gang``.

The schema is published (``docs/plan.schema.json``, generated from the types below), so every
key is always present. To policies amounts are integers: milli-CPU, bytes, counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypedDict

from gangctl.api.jobset import JobSet, pod_path
from gangctl.api.meta import API_VERSION
from gangctl.api.objects import within
from gangctl.api.reportfields import QUANTITY
from gangctl.api.requests import as_integers, pod_requests, times, together
from gangctl.api.scheduling import Generation
from gangctl.errors import FieldError
from gangctl.gang.plan import (
    GangPlan,
    Level,
    PlannedJob,
    is_sequenced,
    level_of,
    replicated_job_pods,
    ungrouped_jobs,
)
from gangctl.gang.reasons import Notice

KIND: Final = "GangPlan"


class PlanIdentity(TypedDict):
    """Which JobSet this is the plan of."""

    name: str
    namespace: Annotated[str, "Empty when the manifest names none."]


class TemplateReport(TypedDict):
    """A kind of gang: one entry of the Workload."""

    name: str
    minCount: Annotated[int, "Pods that have to be schedulable together in each gang of this template."]
    priorityClassName: Annotated[str, "Priority class of the pods, empty for the cluster's default."]
    topologyKey: Annotated[str, "Node label whose value all pods of a gang share, empty without such a constraint."]
    disruption: Annotated[str, "single, all, or empty for the API's default."]
    resourceClaims: Annotated[list[str], "Names of ResourceClaims that all pods of a gang share."]


class GroupReport(TypedDict):
    """One gang: pods that start together or not at all."""

    name: Annotated[str, "Name of the PodGroup (on Kubernetes 1.35, which has none: a stable name for the gang)."]
    template: str
    minCount: int
    replicatedJobs: list[str]
    jobs: Annotated[list[str], "Names of the Jobs whose pods are the gang."]
    resources: Annotated[
        dict[str, int],
        "Sum of the effective requests of its pods.",
        QUANTITY,
    ]


class CompositeReport(TypedDict):
    """The parent of all gangs: they start together."""

    name: Annotated[str, "Name of the CompositePodGroup."]
    minGroupCount: Annotated[int, "Gangs that have to be schedulable together."]


class JobReport(TypedDict):
    """One child Job."""

    name: str
    replicatedJob: str
    index: int
    pods: Annotated[int, "Pods that exist at once: min(parallelism, completions)."]
    group: Annotated[str | None, "Name of its gang; null when its pods are scheduled one by one."]


class WarningReport(TypedDict):
    """A note for the user."""

    reason: Annotated[str, "Stable and CamelCase, the reason of the event in a cluster."]
    message: str
    warning: Annotated[bool, "Whether the event would be of type Warning."]


class PlanReport(TypedDict):
    """What one JobSet becomes."""

    apiVersion: Literal["gangctl.dev/v1alpha1"]
    kind: Literal["GangPlan"]
    metadata: PlanIdentity
    kubernetes: Annotated[str, "Kubernetes minor that serves the API generation."]
    apiGeneration: Annotated[str, "apiVersion of the objects."]
    level: Annotated[Level, "What the gangs consist of: all of the JobSet, ReplicatedJobs, single replicas."]
    sequenced: Annotated[bool, "Whether some replicated jobs are created only after others run."]
    queue: Annotated[str, "Kueue LocalQueue named on the JobSet, or empty."]
    totalPods: int
    gangedPods: int
    workload: Annotated[str | None, "Name of the Workload; null without gangs."]
    composite: CompositeReport | None
    templates: list[TemplateReport]
    groups: list[GroupReport]
    jobs: list[JobReport]
    warnings: list[WarningReport]


@dataclass(frozen=True, slots=True)
class Planned:
    """A JobSet with all decisions about it; ``plan`` is None without gangs."""

    jobset: JobSet
    plan: GangPlan | None
    notices: tuple[Notice, ...]
    generation: Generation


def planned_jobs(planned: Planned) -> Iterator[PlannedJob]:
    """Every child Job in JobSet's order, with or without gangs."""
    return planned.plan.jobs() if planned.plan is not None else ungrouped_jobs(planned.jobset)


def requests_per_pod(raw: Mapping[str, Any]) -> tuple[list[dict[str, int]], list[FieldError]]:
    """Requests of one pod per ReplicatedJob, of a JobSet that was read without errors."""
    requests, errors = [], []
    for index, entry in enumerate((raw.get("spec") or {}).get("replicatedJobs") or ()):
        path = pod_path(index)
        amounts, problems = pod_requests(within(entry, "template", "spec", "template", "spec"))
        requests.append(as_integers(amounts))
        errors += [FieldError(f"{path}.{problem.path}", problem.kind, problem.detail) for problem in problems]
    return requests, errors


def _groups(planned: Planned, jobs: Iterable[PlannedJob], requests: Sequence[dict[str, int]]) -> list[GroupReport]:
    by_replicated_job = {rj.name: pod for rj, pod in zip(planned.jobset.replicated_jobs, requests, strict=True)}
    members: dict[str, list[PlannedJob]] = {}
    for job in jobs:
        if job.reference:
            members.setdefault(job.reference.group, []).append(job)
    groups: list[GroupReport] = []
    for group in planned.plan.groups if planned.plan else ():
        own = members[group.name]
        pods: dict[str, int] = {}
        for job in own:
            pods[job.replicated_job] = pods.get(job.replicated_job, 0) + job.pods
        groups.append(
            {
                "name": group.name,
                "template": group.template.name,
                "minCount": group.min_count,
                "replicatedJobs": list(pods),
                "jobs": [job.name for job in own],
                "resources": together([times(by_replicated_job[name], count) for name, count in pods.items()]),
            }
        )
    return groups


def plan_report(raw: Mapping[str, Any], planned: Planned) -> tuple[PlanReport, tuple[FieldError, ...]]:
    """The report on a JobSet, ``raw`` as it was read into ``planned``; the errors are of its pods' requests."""
    jobset, plan = planned.jobset, planned.plan
    requests, errors = requests_per_pod(raw)
    jobs = list(planned_jobs(planned))
    composite = plan.composite if plan is not None else None
    report: PlanReport = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": jobset.name, "namespace": jobset.namespace},
        "kubernetes": planned.generation.kubernetes,
        "apiGeneration": planned.generation.api_version,
        "level": level_of(plan),
        "sequenced": is_sequenced(jobset, jobset.replicated_jobs),
        "queue": jobset.queue,
        "totalPods": sum(map(replicated_job_pods, jobset.replicated_jobs)),
        "gangedPods": sum(job.pods for job in jobs if job.reference),
        "workload": plan.workload.name if plan else None,
        "composite": {"name": composite.name, "minGroupCount": composite.min_group_count} if composite else None,
        "templates": [
            {
                "name": template.name,
                "minCount": template.min_count,
                "priorityClassName": template.priority_class,
                "topologyKey": template.topology_key,
                "disruption": template.disruption,
                "resourceClaims": [claim.name for claim in template.claims],
            }
            for template in (plan.workload.templates if plan else ())
        ],
        "groups": _groups(planned, jobs, requests),
        "jobs": [
            {
                "name": job.name,
                "replicatedJob": job.replicated_job,
                "index": job.index,
                "pods": job.pods,
                "group": job.reference.group if job.reference else None,
            }
            for job in jobs
        ],
        "warnings": [
            {"reason": notice.reason.value, "message": notice.message, "warning": notice.is_warning}
            for notice in planned.notices
        ],
    }
    return report, tuple(errors)
