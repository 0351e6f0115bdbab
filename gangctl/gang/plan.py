"""The plan of one JobSet with its stamps: templates, groups, the group of every Job, and the objects of a version.

It is for one attempt: a restart of the JobSet has another plan with other groups. ``minCount`` is the number of pods
that exist at once, so that a gang starts with all its pods or not at all, unless its minCount says that fewer are
enough. A Job runs min(parallelism, completions) pods at a time: with fewer completions the rest is never created, and a
gang that counted them would wait permanently (KEP-1068 review, edge cases 1 to 5 of the scheduling API).

With a CompositePodGroup (KEP-6012) all gangs start together, each placed as a whole: the scheduler starts as many
groups as minGroupCount says, or none. It does not count a group whose pods have finished: then a pod that is replaced
in another would wait permanently. minGroupCount is immutable on Kubernetes 1.37, so that a CompositePodGroup with too
large a one is deleted and created again; pods that run do not need it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Final, Literal

from gangctl.api.jobset import JobSet, ReplicatedJob
from gangctl.api.meta import GANG_REF
from gangctl.api.scheduling import (
    CompositePodGroup,
    CompositeTemplate,
    Generation,
    Owner,
    PodGroup,
    Reference,
    Template,
    Workload,
)
from gangctl.api.scheduling_versions import ADAPTERS, composite_pod_group
from gangctl.errors import FieldError
from gangctl.gang import naming
from gangctl.gang.config import GangConfig
from gangctl.gang.naming import Scope, Stamp, read_stamp


def is_sequenced(
    jobset: JobSet, members: Sequence[ReplicatedJob], whole: Iterable[Sequence[ReplicatedJob]] = ()
) -> bool:
    """Whether JobSet creates the Jobs of ``members`` one after another: a deadlock if they are one gang.

    With startupPolicy InOrder it does if there are several. With dependsOn it does if a member
    depends on another member, directly or through ReplicatedJobs outside the gang.
    A dependency only on ReplicatedJobs outside the gang delays the gang without splitting it.
    What depends on a ReplicatedJob of one of the gangs in ``whole``, each of which starts with all its pods or not at
    all, depends on all of its ReplicatedJobs.
    """
    if jobset.in_order:
        return len(members) > 1
    if not any(rj.depends_on for rj in members):
        return False
    names = {rj.name for rj in members}
    edges = {rj.name: rj.depends_on for rj in jobset.replicated_jobs}
    for gang in whole:
        edges |= dict.fromkeys((rj.name for rj in gang), tuple(name for rj in gang for name in rj.depends_on))
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


def is_split(jobset: JobSet, members: Sequence[ReplicatedJob]) -> bool:
    """Whether ``members`` in a gang of the whole JobSet are a gang for each ReplicatedJob instead: sequenced ones.

    A single one in order, too: the stamps of JobSets in clusters say so.
    """
    return jobset.in_order or is_sequenced(jobset, members)


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
    parallelism: int | None,
    completions: int | None,
    *,
    succeeded: int = 0,
    failed_indexes: int = 0,
    unfinished: int = 0,
) -> int:
    """Pods that an unfinished Job can still have at once (``manageJob`` of Kubernetes' Job controller).

    ``succeeded`` of its pods succeeded, and ``failed_indexes`` of its indexes failed permanently: they exceeded
    ``backoffLimitPerIndex``, and get no more pods. A Job without completions (a work queue) starts no pod after one has
    succeeded: it keeps those that are ``unfinished``.

    A suspended Job counts as running: its pods are created again on resume, and need a complete group.
    """
    at_once = pods_per_job(parallelism, completions)
    if completions is None:
        return min(at_once, unfinished) if succeeded else at_once
    return max(0, min(at_once, completions - succeeded - failed_indexes))


_SEVERAL: Final = 2


def composite_template(templates: Sequence[Template], groups: int) -> CompositeTemplate:
    """The parent of all templates of a Workload, from which ``groups`` groups are made."""
    taken = {template.name for template in templates}
    # A replicated job may have the name, too.
    name = next(candidate for candidate in naming.numbered("all") if candidate not in taken)
    # All have the same class: `check_composite` refuses others.
    # The scheduler preempts what is below the highest group with `all`. A gang of pods that may go alone is not that.
    disruption = "all" if all(template.disruption == "all" for template in templates) else ""
    return CompositeTemplate(name, groups, templates[0].priority_class, disruption)


def composite_of(workload: Workload, attempt: int) -> CompositePodGroup | None:
    """The CompositePodGroup of one attempt, None where the Workload has no template for it."""
    if workload.composite is None:
        return None
    name = naming.group_name(naming.base_name(workload.owner.name), workload.owner.uid, attempt)
    template = workload.composite
    return CompositePodGroup(
        workload.namespace, name, workload.owner, workload.name, template, template.min_group_count
    )


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """One child Job: its name, its pods at once, and the group they belong to (None: no gang)."""

    name: str
    replicated_job: str
    index: int
    pods: int
    reference: Reference | None


@dataclass(frozen=True, slots=True)
class GangPlan:
    """Plan of one JobSet. ``stamps`` has one entry per ReplicatedJob."""

    jobset: JobSet
    uid: str
    stamps: tuple[Stamp | None, ...]
    workload: Workload
    groups: tuple[PodGroup, ...]
    names: tuple[tuple[str, ...], ...]
    """Names of the groups of each ReplicatedJob: none without a gang, one for each Job, or one for all of them."""
    composite: CompositePodGroup | None = None
    """Parent of all groups."""
    unlinked: frozenset[tuple[str, int]] = frozenset()
    """ReplicatedJob and index of Jobs whose pods name no group, although one was planned."""
    finished: frozenset[str] = frozenset()
    """Names of groups that get no more pods: they may stay, but are not created."""

    def jobs(self) -> Iterator[PlannedJob]:
        """Every child Job in JobSet's order."""
        jobset, workload = self.jobset.name, self.workload.name
        for rj, stamp, names in zip(self.jobset.replicated_jobs, self.stamps, self.names, strict=True):
            prefix, pods = f"{jobset}-{rj.name}-", job_pods(rj)
            reference = None
            for index in range(rj.replicas):
                # One reference for all Jobs of a shared group: a JobSet may have 50,000 of them.
                if stamp is not None and (stamp.scope is Scope.JOB or reference is None):
                    own = index if stamp.scope is Scope.JOB else None
                    key = replica_key(self.jobset.restarts, own, rj.job_restarts(index))
                    reference = Reference(workload, stamp.template, names[own or 0], key)
                outside = (rj.name, index) in self.unlinked
                yield PlannedJob(f"{prefix}{index}", rj.name, index, pods, None if outside else reference)


def ungrouped_jobs(jobset: JobSet) -> Iterator[PlannedJob]:
    """Every child Job in JobSet's order, without gangs."""
    for rj in jobset.replicated_jobs:
        for index in range(rj.replicas):
            yield PlannedJob(f"{jobset.name}-{rj.name}-{index}", rj.name, index, job_pods(rj), None)


def replica_key(attempt: int, index: int | None, job_attempt: int = 0) -> str:
    """Distinguishes the groups of one template on 1.35, which has no PodGroups: a DNS label."""
    if index is None:
        return f"{attempt}"
    return f"{index}-{attempt}" + (f"-{job_attempt}" if job_attempt else "")


def group_names(uid: str, attempt: int, rj: ReplicatedJob, stamp: Stamp | None) -> tuple[str, ...]:
    """Names of the groups that the Jobs of a ReplicatedJob are in, each once."""
    if stamp is None or rj.replicas == 0:
        return ()
    if stamp.scope is not Scope.JOB:
        return (naming.group_name(stamp.base, uid, attempt),)
    alone = rj.restarted or rj.labelled
    restarts = map(rj.job_restarts, range(rj.replicas)) if alone else repeat(0, rj.replicas)
    return naming.replica_names(stamp.base, uid, attempt, restarts)


def job_reference(
    jobset: str, uid: str, index: int, stamp: Stamp, *, attempt: int = 0, job_attempt: int = 0
) -> Reference:
    """The reference of one Job's pods, from the Job's own metadata alone."""
    own = index if stamp.scope is Scope.JOB else None
    group = naming.group_name(stamp.base, uid, attempt, own, job_attempt)
    key = replica_key(attempt, own, job_attempt)
    return Reference(naming.workload_name(jobset, uid), stamp.template, group, key)


def stored_stamps(jobset: JobSet) -> tuple[tuple[Stamp | None, ...], tuple[FieldError, ...]]:
    """The stamps of a JobSet, and errors for those that gangctl cannot have written."""
    stamps: list[Stamp | None] = []
    errors: list[FieldError] = []
    for rj in jobset.replicated_jobs:
        stamp = read_stamp(rj.annotations, rj.annotation_path(GANG_REF))
        if isinstance(stamp, FieldError):
            errors.append(stamp)
            stamp = None
        stamps.append(stamp)
    return tuple(stamps), tuple(errors)


def templates_of(jobset: JobSet, stamps: Sequence[Stamp | None], config: GangConfig) -> dict[str, Template]:
    """Templates in ReplicatedJob order by name, with options of their own or those of all; none without pods."""
    firsts: dict[str, ReplicatedJob] = {}
    sizes: dict[str, int] = {}
    for rj, stamp in zip(jobset.replicated_jobs, stamps, strict=False):
        if stamp is None or rj.replicas == 0:
            continue
        pods = job_pods(rj) if stamp.scope is Scope.JOB else replicated_job_pods(rj)
        firsts.setdefault(stamp.template, rj)
        sizes[stamp.template] = sizes.get(stamp.template, 0) + pods
    templates = {}
    for name, first in firsts.items():
        gang, key, pods = config.gang(name), config.topology_key(name), sizes[name]
        disruption = (config.options if gang is None else gang).disruption or ""
        # After an elastic resize the gang may have fewer pods than its minCount.
        count = pods if gang is None else min(gang.min_count or pods, pods)
        if pods > 0:
            claims = gang.claims() if gang is not None else ()
            templates[name] = Template(name, count, first.priority_class, key, disruption, claims)
    return templates


def make_plan(
    jobset: JobSet, stamps: Sequence[Stamp | None], config: GangConfig, uid: str | None = None
) -> GangPlan | None:
    """Plan for a JobSet with these stamps, or None when no group would have a pod.

    ``uid`` replaces the JobSet's own, for previews of one that does not exist yet.
    """
    templates = templates_of(jobset, stamps, config)
    if not templates:
        return None
    real = uid or jobset.uid or naming.UID_PLACEHOLDER
    owner = Owner(jobset.name, real)
    names = tuple(
        group_names(real, jobset.restarts, rj, stamp) for rj, stamp in zip(jobset.replicated_jobs, stamps, strict=True)
    )
    # By name: the ReplicatedJobs of one gang have the same group.
    grouped = {
        name: template
        for stamp, own in zip(stamps, names, strict=True)
        if stamp is not None and (template := templates.get(stamp.template)) is not None
        for name in own
    }
    name = naming.workload_name(jobset.name, real)
    together = config.options.composite and len(grouped) >= _SEVERAL
    above = composite_template(tuple(templates.values()), len(grouped)) if together else None
    workload = Workload(jobset.namespace, name, owner, tuple(templates.values()), above)
    composite = composite_of(workload, jobset.restarts)
    parent = composite.name if composite is not None else ""
    groups = tuple(
        PodGroup(jobset.namespace, name, owner, workload.name, template, template.min_count, parent)
        for name, template in grouped.items()
    )
    return GangPlan(jobset, real, tuple(stamps), workload, groups, names, composite)


def build_objects(plan: GangPlan, generation: Generation) -> list[dict[str, Any]]:
    """The Workload, then its groups, in the order in which they have to be created."""
    adapter = ADAPTERS[generation]
    objects = [adapter.workload(plan.workload)]
    if plan.composite is not None:
        objects.append(composite_pod_group(plan.composite))
    if generation.capabilities.pod_groups:
        objects += [adapter.pod_group(group) for group in plan.groups]
    return objects


Level = Literal["None", "JobSet", "ReplicatedJob", "Replica", "Mixed"]


_LEVELS: Final[dict[Scope, Level]] = {
    Scope.JOBSET: "JobSet",
    Scope.REPLICATED_JOB: "ReplicatedJob",
    Scope.JOB: "Replica",
}


def level_of(plan: GangPlan | None) -> Level:
    """What the gangs of a plan consist of."""
    if plan is None:
        return "None"
    templates = {template.name for template in plan.workload.templates}
    scopes = {stamp.scope for stamp in plan.stamps if stamp and stamp.template in templates}
    return _LEVELS[scopes.pop()] if len(scopes) == 1 else "Mixed"
