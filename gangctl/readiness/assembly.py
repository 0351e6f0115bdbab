"""The snapshot of one JobSet from collections of facts: informers, a listing, or files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from gangctl.api.jobset import JobSet
from gangctl.api.meta import GANG_REF
from gangctl.api.objects import Key
from gangctl.api.scheduling import Observed
from gangctl.gang.config import read_config
from gangctl.gang.desired import Assessment, JobProgress
from gangctl.gang.generation import ApiState
from gangctl.readiness.facts import NodeFacts, PodFacts, QueueFacts, Refused, Snapshot

_NOTHING: Final[Mapping[str, bool]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Collections:
    """Lookups in a cluster's objects; they never block, and if possible use one point in time."""

    jobs: Callable[[Key], Iterable[JobProgress]]
    """Child Jobs of JobSets with a name, also of earlier ones with that name."""
    pods: Callable[[Key], Iterable[PodFacts]]
    """Pods of JobSets with a name."""
    groups: Callable[[str, str, Sequence[str]], Mapping[str, Observed]]
    """PodGroups of a namespace that the JobSet with this UID controls or that have one of these names."""
    workload: Callable[[str, str], Observed | None]
    """The Workload of ``scheduling.k8s.io`` of a namespace and a name."""
    claimed: Callable[[str, str], str | None]
    """Name of another owner's Workload for the JobSet of a namespace and a name."""
    refused: Callable[[str, str, str], Refused | None] = lambda _namespace, _kind, _name: None
    """The last denied creation of the Job or JobSet of a namespace, kind and name."""
    nodes: Callable[[], Mapping[str, NodeFacts] | None] = lambda: None
    groups_known: bool = True
    """Whether Workloads and PodGroups may be read."""


def is_followed(jobset: JobSet) -> bool:
    """Whether a gang was requested, or is stamped."""
    return any(GANG_REF in rj.annotations for rj in jobset.replicated_jobs) or read_config(jobset)[0].asks_for_gangs


def assemble(
    jobset: JobSet,
    assessment: Assessment,
    api: ApiState,
    collections: Collections,
    *,
    queue: QueueFacts | None = None,
    fits_now: Mapping[str, bool] = _NOTHING,
    never_on_nodes: str = "",
) -> Snapshot:
    """All facts of one JobSet, without those of an earlier one of its name."""
    plan, namespace = assessment.plan, jobset.namespace
    names = [group.name for group in plan.groups] if plan is not None else []
    jobs = [job for job in collections.jobs(jobset.key) if job.jobset_uid == jobset.uid]
    about = [("JobSet", jobset.name), *(("Job", job.name) for job in _expected(jobset, jobs))]
    refusals = (collections.refused(namespace, kind, name) for kind, name in about)
    return Snapshot(
        jobset=jobset,
        assessment=assessment,
        jobs=jobs,
        pods=list(collections.pods(jobset.key)),
        groups=collections.groups(namespace, jobset.uid, names),
        workload=collections.workload(namespace, plan.workload.name) if plan is not None else None,
        api=api,
        queue=queue,
        nodes=collections.nodes(),
        refused=[each for each in refusals if each is not None and _concerns(each, jobset)],
        foreign_workload=collections.claimed(namespace, jobset.name) or "",
        groups_known=collections.groups_known,
        fits_now=fits_now,
        never_on_nodes=never_on_nodes,
    )


def _expected(jobset: JobSet, jobs: Sequence[JobProgress]) -> Sequence[JobProgress]:
    """Jobs whose pods may be denied now, without those of earlier attempts."""
    return [job for job in jobs if not job.complete and not job.deleting and job.attempt >= jobset.restarts]


def _concerns(refused: Refused, jobset: JobSet) -> bool:
    """Ignore denials of an earlier JobSet of this name."""
    return refused.kind != "JobSet" or refused.uid in {"", jobset.uid}
