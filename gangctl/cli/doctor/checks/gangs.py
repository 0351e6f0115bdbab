"""The gangs of this cluster, with the causes of ``gangctl why``: what they say of the scheduler and of what runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gangctl.api.meta import EXCLUSIVE_TOPOLOGY, JOBSET_NAME, NODE_SELECTOR_STRATEGY
from gangctl.api.objects import Object, controller_owner, text_at, within
from gangctl.api.quantity import parse_quantity
from gangctl.api.scheduling import Generation
from gangctl.cli.doctor.check import SWITCH_ON, Area, CheckOutcome, check, failed, ok, unknown, warning
from gangctl.cli.doctor.checks import canary
from gangctl.cli.doctor.cluster import Cluster, UnseenError, fact, generation, right, seen_or
from gangctl.cli.gangs.cluster import JobSetScope, ScopeReader
from gangctl.cli.gangs.state import GangState
from gangctl.client.client import Client, Selection
from gangctl.client.resources import JOBS, RESOURCE_QUOTAS, Resource
from gangctl.controllers.writer import scheduling_resource, scheduling_resources
from gangctl.errors import ClusterUnavailableError, plural
from gangctl.gang.desired import Lifecycle, desire
from gangctl.gang.diff import Kind
from gangctl.gang.reasons import Reason
from gangctl.readiness.causes import WAITING
from gangctl.readiness.causes.context import Command
from gangctl.readiness.facts import unix
from gangctl.readiness.result import Cause, Readiness

_COUNT: Final = "count/"
"""Before a resource, in a ResourceQuota: the number of its objects."""
_Wanted = tuple[str, Kind, str, bool]
"""Namespace, kind and name of an object, and whether it is of the next attempt."""
_NEW_SECONDS: Final = 60
"""Seconds within which JobSet's controller writes the status of a new JobSet."""
_LONG_SECONDS: Final = 300
"""Time after which terminating pods, or a remaining finalizer, are no longer normal."""


@dataclass(frozen=True, slots=True)
class ReadGangs:
    """All gangs that could be read: of the cluster, or of ``where``."""

    where: str
    count: int
    troubles: tuple[Cause, ...] = ()
    """What ``gangctl why`` finds of each, with the name of the gang before the message."""
    groups_heard: int = 0
    """PodGroups with a condition of the scheduler."""
    jobs_with_reference: int = 0
    jobsets_with_status: int = 0
    jobsets_without_status: tuple[str, ...] = ()
    """JobSets without a status, after the controller had time to write one."""
    left_out: tuple[str, ...] = ()
    """Missing right of each collection that was not read."""

    @property
    def counted(self) -> str:
        """Their number, and where they were read."""
        return f"{plural(self.count, 'gang')} {self.where}"

    def with_cause(self, *reasons: Reason) -> list[Cause]:
        """Those causes that have one of these reasons, and do not end by themselves."""
        causes = (cause for cause in self.troubles if cause.reason in reasons)
        # A gang that was made a moment ago waits for a controller or the scheduler, as on every busy cluster.
        return [cause for cause in causes if cause.blocking or cause.reason not in WAITING]

    def unread(self, *resources: str) -> CheckOutcome | None:
        """What follows where one of these resources, or of all, was not read: a part of the gangs proves nothing."""
        missing = [right for right in self.left_out if not resources or any(word in right for word in resources)]
        if missing:
            text = "not everything needed was read"
            return unknown(text, missing, remedy="get these rights, or ask your administrator")
        return None


@fact
async def _reader(cluster: Cluster) -> ScopeReader:
    """What has read the gangs of all namespaces, else of the selected one."""

    async def read(namespace: str | None) -> ScopeReader:
        reader = ScopeReader(cluster.client, JobSetScope(namespace))
        await reader.read()
        return reader

    try:
        return await cluster.widely(read)
    except ClusterUnavailableError as error:
        raise UnseenError(error.message) from error


@fact
async def gangs(cluster: Cluster) -> ReadGangs:
    """The gangs that were read."""
    reader = await _reader(cluster)
    state, now = reader.state, cluster.now
    read = {source.resource.qualified_name for source in reader.readable}
    needed = ["pods", "jobs.batch"]
    if state.api.generation is not None:
        needed += [resource.qualified_name for resource in scheduling_resources(state.api.generation).values()]
    keys = state.followed()
    results = [result for key in keys if (result := state.readiness(key, now)) is not None]
    # The status of others is MultiKueue's, which writes none before they run in another cluster.
    jobsets = [stored for stored in state.jobsets.values() if not stored.jobset.managed_elsewhere]
    silent = [stored.jobset for stored in jobsets if not stored.raw.get("status")]
    return ReadGangs(
        where=f"in namespace {reader.scope.namespace}" if reader.scope.namespace else "in the cluster",
        count=len(keys),
        troubles=tuple(cause for result in results for cause in _troubles(result)),
        groups_heard=sum(1 for group in state.groups.values() if group.scheduled is not None),
        jobs_with_reference=sum(1 for job in state.jobs.values() if job.group),
        jobsets_with_status=len(jobsets) - len(silent),
        jobsets_without_status=tuple(
            sorted("/".join(jobset.key) for jobset in silent if now - unix(jobset.created) > _NEW_SECONDS)
        ),
        left_out=tuple(right("list", resource) for resource in needed if resource not in read),
    )


def _troubles(gang: Readiness) -> list[Cause]:
    causes = [*gang.causes, *([gang.lost] if gang.lost is not None and gang.lost not in gang.causes else [])]
    return [replace(cause, message=f"{gang.namespace}/{gang.name}: {cause.message}") for cause in causes]


def _lines(causes: Sequence[Cause]) -> list[str]:
    return [line for cause in causes for line in (cause.message, *cause.evidence[:1])]


@check(
    "scheduler-gate",
    Area.GANGS,
    "Does the scheduler place pods by their group?",
    "conditions of PodGroups and pods that exist",
)
async def scheduler_gate(cluster: Cluster) -> CheckOutcome:
    """A group with a condition of the scheduler is proof; pods placed without one prove the opposite."""
    read = await gangs(cluster)
    if blind := read.with_cause(Reason.SCHEDULING_GATE_OFF):
        return failed(
            "the scheduler ignores groups: it places pods one by one",
            _lines(blind),
            remedy=SWITCH_ON,
            command=Command.SCHEDULER_FLAGS.value,
        )
    if silent := read.with_cause(Reason.SCHEDULER_SILENT):
        return failed(
            "the scheduler writes no condition of pods that wait",
            _lines(silent),
            remedy="see whether kube-scheduler runs and is ready: without the API that its gates need it never is",
            command="kubectl -n kube-system logs -l component=kube-scheduler",
        )
    if errors := read.with_cause(Reason.SCHEDULER_ERROR):
        first = errors[0]
        return warning(
            "the scheduler reports errors for gangs", _lines(errors), remedy=first.remedy, command=first.command
        )
    made = await generation(cluster)
    if read.groups_heard and (made is None or made.capabilities.one_gate):
        return ok("the scheduler schedules groups", f"it has written conditions of {read.groups_heard} PodGroups")
    if (nothing := read.unread("podgroups", "pods")) is not None:
        return nothing
    if await seen_or(canary.canary(cluster), None) is not None:
        return await canary.all_or_nothing(cluster)
    if read.groups_heard:
        why = (
            "before Kubernetes 1.37 conditions of PodGroups do not show it: there are some without GangScheduling, too"
        )
    elif read.count and made is not None and not made.capabilities.pod_groups:
        why = "Kubernetes 1.35 has no PodGroups that the scheduler could say something of"
    else:
        why = f"the scheduler has not reported on any PodGroup {read.where} yet"
    return unknown(why, [read.counted], remedy="--canary shows it", command="gangctl doctor --canary")


@check(
    "exclusive-topology",
    Area.GANGS,
    "Does a gang wait for itself because of exclusive placement?",
    "JobSets, their pods and refusals",
)
async def exclusive_topology(cluster: Cluster) -> CheckOutcome:
    """JobSet admits followers after their leader is placed, and a gang is placed only as a whole."""
    read = await gangs(cluster)
    if causes := read.with_cause(Reason.EXCLUSIVE_TOPOLOGY_DEADLOCK):
        return failed(
            f"gangs wait for themselves: {EXCLUSIVE_TOPOLOGY} by webhook and a gang exclude each other",
            _lines(causes),
            remedy=f"create these JobSets again with {NODE_SELECTOR_STRATEGY}, or with the pod affinity that "
            "gangctl convert --replace-exclusive-topology writes in its place; gangctl refuses new ones",
            command=causes[0].command,
        )
    return read.unread("pods", "jobs") or ok("no gang waits for itself", read.counted)


@fact
async def job_workloads(cluster: Cluster) -> tuple[str, ...]:
    """Workloads that the Job controller made for the Jobs of JobSets."""
    made = await generation(cluster)
    if made is None:
        return ()
    owned = {
        (str(item["metadata"].get("namespace")), str(owner.get("name"))): str(item["metadata"].get("name"))
        for item in await cluster.list_widely(scheduling_resource(made, "Workload"))
        if (owner := controller_owner(item["metadata"])) is not None and owner.get("kind") == "Job"
    }
    if not owned:
        return ()
    jobs = await cluster.list_widely(JOBS, Selection(JOBSET_NAME))
    children = {(text_at(item["metadata"], "namespace"), text_at(item["metadata"], "name")) for item in jobs}
    return tuple(f"{key[0]}/{name} of Job {key[1]}" for key, name in sorted(owned.items()) if key in children)


@check(
    "job-controller-gangs",
    Area.GANGS,
    "Does the Job controller make gangs of its own of JobSets' Jobs (WorkloadWithJob)?",
    "Workloads that a Job controls",
)
async def job_controller_gangs(cluster: Cluster) -> CheckOutcome:
    """On 1.36 the gate WorkloadWithJob makes a gang of each Job that names none, a JobSet's or not."""
    names = await job_workloads(cluster)
    if not names:
        return ok("no Workload is controlled by a JobSet's Job")
    return warning(
        "the Job controller makes gangs of its own of JobSets' Jobs: each Job starts as a whole, the JobSet does not",
        [f"Workload {name}" for name in names],
        remedy="switch WorkloadWithJob off on kube-controller-manager, or ask for a gang on these JobSets: a Job whose "
        "pods name a group is left alone",
        command="kubectl get workloads.scheduling.k8s.io -A",
    )


@check("priorities", Area.GANGS, "Have all pods of a gang the priority of their group?", "PodGroups and their pods")
async def priorities(cluster: Cluster) -> CheckOutcome:
    """The scheduler of 1.37 rejects a group whose pods have another priority."""
    read = await gangs(cluster)
    if causes := read.with_cause(Reason.PRIORITY_MISMATCH):
        return failed(
            "pods have another priority than their group: the scheduler never places them",
            _lines(causes),
            remedy=causes[0].remedy,
            command=causes[0].command,
        )
    return read.unread("podgroups", "pods") or ok("all pods have the priority of their gang", read.counted)


@dataclass(frozen=True, slots=True)
class Leaving:
    """A PodGroup that is being deleted, since when (Unix seconds), and what holds it."""

    name: str
    since: int
    finalizers: tuple[str, ...]


@fact
async def leaving(cluster: Cluster) -> tuple[Leaving, ...]:
    """PodGroups with a deletionTimestamp."""
    made = await generation(cluster)
    if made is None or not made.capabilities.pod_groups:
        return ()
    items = await cluster.list_widely(scheduling_resource(made, "PodGroup"))
    return tuple(
        Leaving(
            f"{text_at(metadata, 'namespace')}/{text_at(metadata, 'name')}",
            unix(metadata["deletionTimestamp"]),
            tuple(map(str, metadata.get("finalizers") or ())),
        )
        for metadata in (item["metadata"] for item in items)
        if metadata.get("deletionTimestamp")
    )


@check(
    "terminating-groups", Area.GANGS, "Do PodGroups hang while they are deleted?", "PodGroups with a deletionTimestamp"
)
async def terminating_groups(cluster: Cluster) -> CheckOutcome:
    """A finalizer protects a group while pods name it; if the controller's gate is off, it is never removed."""
    groups = await leaving(cluster)
    long = [group for group in groups if cluster.now - group.since > _LONG_SECONDS]
    if long:
        return failed(
            f"PodGroups hang in deletion for more than {_LONG_SECONDS // 60} minutes: their names cannot be used again",
            [f"PodGroup {group.name}: {', '.join(group.finalizers) or 'no finalizer'}" for group in long],
            remedy="end the pods that name them; where there are none, kube-controller-manager lacks the feature gate "
            "GenericWorkload or does not run",
            command=f"kubectl -n {long[0].name.partition('/')[0]} get pods",
        )
    if groups:
        return ok("no PodGroup hangs in deletion", *(f"PodGroup {group.name} is being deleted" for group in groups))
    return ok("no PodGroup is being deleted")


@dataclass(frozen=True, slots=True)
class ScarceQuota:
    """A limit of a ResourceQuota on one resource that gangs consist of, and how many objects its gangs still lack."""

    namespace: str
    name: str
    resource: str
    hard: int
    used: int
    lacking: int
    """Of the attempts that run."""
    lacking_next: int
    """Of their next attempts."""

    @property
    def title(self) -> str:
        """The limit, its use and what gangs lack in a line."""
        limit = f"ResourceQuota {self.namespace}/{self.name}: {self.used} of {self.hard} {self.resource} used"
        return f"{limit}; gangs lack {self.lacking} now, and {self.lacking_next} for a restart"


@fact
async def quotas(cluster: Cluster) -> tuple[ScarceQuota, ...]:
    """ResourceQuotas on objects of gangs, where gangs were read."""
    reader = await _reader(cluster)
    served = reader.state.api.generation
    if served is None:
        return ()
    resources = scheduling_resources(served, composite=reader.state.api.composite)
    limits = [
        (item, kind, resource)
        for item in (await cluster.client.list(RESOURCE_QUOTAS, reader.scope.namespace)).items
        for kind, resource in resources.items()
        # Of the status: admission enforces what the quota controller has written there (CheckRequest).
        if f"{_COUNT}{resource.qualified_name}" in within(item, "status", "hard")
    ]
    wanted = [*_wanted(reader.state, served)] if limits else []
    return tuple([await _quota(cluster.client, *limit, wanted) for limit in limits])


async def _quota(
    client: Client, item: Object, kind: Kind, resource: Resource, wanted: Iterable[_Wanted]
) -> ScarceQuota:
    namespace, limit = text_at(item["metadata"], "namespace"), f"{_COUNT}{resource.qualified_name}"
    exist = {text_at(stored["metadata"], "name") for stored in (await client.list(resource, namespace)).items}
    lacking = [spare for place, of, name, spare in wanted if (place, of) == (namespace, kind) and name not in exist]
    hard, used = (int(parse_quantity(str(within(item, "status", part).get(limit, 0)))) for part in ("hard", "used"))
    spares = sum(lacking)
    return ScarceQuota(
        namespace, text_at(item["metadata"], "name"), resource.qualified_name, hard, used, len(lacking) - spares, spares
    )


def _wanted(state: GangState, served: Generation) -> Iterator[_Wanted]:
    """Every object that the gangs should have, of the attempt that runs and of the next one."""
    for jobset in (stored.jobset for stored in state.jobsets.values()):
        desired = desire(state.assessment(jobset), state.jobs.by_index("jobset", jobset.key), served)
        plan = desired.plan
        if plan is None or desired.assessment.lifecycle is not Lifecycle.PRESENT:
            continue
        yield jobset.namespace, "Workload", plan.workload.name, False
        groups = (group.name for group in plan.groups if group.name not in plan.finished)
        yield from ((jobset.namespace, "PodGroup", name, False) for name in groups)
        yield from ((jobset.namespace, "PodGroup", group.name, True) for group in desired.spares)
        for composite, spare in ((plan.composite, False), (desired.spare_composite, True)):
            if composite is not None:
                yield jobset.namespace, "CompositePodGroup", composite.name, spare


@check(
    "object-quotas",
    Area.GANGS,
    "Have ResourceQuotas room for the Workloads and PodGroups of gangs?",
    "ResourceQuotas on them, and what the gangs of their namespaces lack",
)
async def object_quotas(cluster: Cluster) -> CheckOutcome:
    """An object that a quota refuses is missing until another one is deleted."""
    limits = await quotas(cluster)
    small = [quota for quota in limits if quota.lacking + quota.lacking_next > quota.hard - quota.used]
    if small:
        return warning(
            "ResourceQuotas have no room for all objects of gangs",
            [quota.title for quota in small],
            remedy="raise them: a gang needs a Workload and its groups, and while it has restarts left the groups of "
            "its next attempt, without which it cannot restart while gangctl is down",
            command=f"kubectl -n {small[0].namespace} describe resourcequota {small[0].name}",
        )
    return (
        ok("ResourceQuotas have room for the objects of gangs", *(quota.title for quota in limits))
        if limits
        else ok("no ResourceQuota limits the objects of gangs")
    )


@check(
    "gangs-in-name-only",
    Area.GANGS,
    "Are there JobSets that ask for a gang, and whose pods come one by one?",
    "JobSets, their stamps and Jobs",
)
async def in_name_only(cluster: Cluster) -> CheckOutcome:
    """JobSets that bypassed gangctl, or lost their reference in an upgrade."""
    read = await gangs(cluster)
    causes = read.with_cause(
        Reason.NOT_GANGED, Reason.FIELD_DROPPED, Reason.POD_GROUP_MISSING, Reason.MIN_COUNT_UNREACHABLE
    )
    if causes:
        text, first = "JobSets ask for a gang, and are none", causes[0]
        return warning(text, _lines(causes), remedy=first.remedy, command=first.command)
    return read.unread() or ok("all gangs are whole", read.counted)
