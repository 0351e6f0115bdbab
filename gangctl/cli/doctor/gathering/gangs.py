"""The gangs of a cluster with the causes of ``gangctl why``, and groups that are being deleted."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from gangctl.api.meta import JOBSET_NAME
from gangctl.api.objects import Object, controller_owner, text_at, within
from gangctl.api.quantity import parse_quantity
from gangctl.api.scheduling import Generation
from gangctl.cli.doctor.facts import Gangs, Leaving, Quota, Unseen, UnseenError, right
from gangctl.cli.doctor.gathering.cluster import generation
from gangctl.cli.doctor.gathering.gatherer import Gatherer
from gangctl.cli.gangs.cluster import Reader, Scope
from gangctl.cli.gangs.state import GangState
from gangctl.client.client import Client, Selection
from gangctl.client.resources import JOBS, RESOURCE_QUOTAS, Resource
from gangctl.controllers.writer import scheduling_resource, scheduling_resources
from gangctl.errors import ClusterUnavailableError, ForbiddenError
from gangctl.gang.desired import Lifecycle, desire
from gangctl.gang.diff import Kind
from gangctl.readiness.reading import unix
from gangctl.readiness.result import Cause, Readiness

_COUNT: Final = "count/"
"""Before a resource, in a ResourceQuota: the number of its objects."""
_Wanted = tuple[str, Kind, str, bool]
"""Namespace, kind and name of an object, and whether it is of the next attempt."""
_NEW_SECONDS: Final = 60
"""Seconds within which JobSet's controller writes the status of a new JobSet."""


async def read(gatherer: Gatherer) -> Reader:
    """What has read the gangs of all namespaces, else of the selected one."""
    reader = Reader(gatherer.client, Scope(None))
    try:
        await reader.read()
    except ForbiddenError:
        reader = Reader(gatherer.client, Scope(gatherer.namespace))
        await reader.read()
    except ClusterUnavailableError as error:
        raise UnseenError(Unseen(error.message)) from error
    return reader


async def gangs(gatherer: Gatherer) -> Gangs:
    """The gangs that were read."""
    reader: Reader = await gatherer.seen("read")
    where = f"in namespace {reader.scope.namespace}" if reader.scope.namespace else "in the cluster"
    return summary(reader.state, time.time(), where, [source.resource.qualified_name for source in reader.readable])


def summary(state: GangState, now: float, where: str, read: list[str]) -> Gangs:
    """Facts of a state as read so far."""
    keys = state.followed()
    found = [state.readiness(key, now) for key in keys]
    stored = [each for each in state.jobsets.values() if now - unix(each.jobset.created) > _NEW_SECONDS]
    with_status = {each.jobset.key for each in state.jobsets.values() if each.raw.get("status")}
    wanted = ["pods", "jobs.batch"]
    if state.api.generation is not None:
        wanted += [each.qualified_name for each in scheduling_resources(state.api.generation).values()]
    return Gangs(
        where=where,
        count=len(keys),
        troubles=tuple(trouble for each in found if each is not None for trouble in _troubles(each)),
        groups_heard=sum(1 for each in state.groups.values() if each.scheduled is not None),
        jobs_with_reference=sum(1 for each in state.jobs.values() if each.group),
        jobsets_with_status=len(with_status),
        jobsets_without_status=tuple(
            sorted("/".join(each.jobset.key) for each in stored if each.jobset.key not in with_status)
        ),
        left_out=tuple(right("list", each) for each in wanted if each not in read),
    )


def _troubles(gang: Readiness) -> list[Cause]:
    causes = [*gang.causes, *([gang.lost] if gang.lost is not None and gang.lost not in gang.causes else [])]
    name, why = f"{gang.namespace}/{gang.name}", f"gangctl why {gang.name}"
    return [replace(each, message=f"{name}: {each.message}", command=each.command or why) for each in causes]


async def job_workloads(gatherer: Gatherer) -> tuple[str, ...]:
    """Workloads that the Job controller made for the Jobs of JobSets."""
    found = await generation(gatherer)
    if found is None:
        return ()
    owned = {
        (str(item["metadata"].get("namespace")), str(owner.get("name"))): str(item["metadata"].get("name"))
        for item in await gatherer.list_widely(scheduling_resource(found, "Workload"))
        if (owner := controller_owner(item["metadata"])) is not None and owner.get("kind") == "Job"
    }
    if not owned:
        return ()
    jobs = await gatherer.list_widely(JOBS, Selection(JOBSET_NAME))
    children = {(text_at(item["metadata"], "namespace"), text_at(item["metadata"], "name")) for item in jobs}
    return tuple(f"{key[0]}/{name} of Job {key[1]}" for key, name in sorted(owned.items()) if key in children)


async def leaving(gatherer: Gatherer) -> tuple[Leaving, ...]:
    """PodGroups with a deletionTimestamp."""
    found = await generation(gatherer)
    if found is None or not found.capabilities.pod_groups:
        return ()
    return tuple(
        Leaving(
            f"{text_at(item['metadata'], 'namespace')}/{text_at(item['metadata'], 'name')}",
            unix(item["metadata"]["deletionTimestamp"]),
            tuple(map(str, item["metadata"].get("finalizers") or ())),
        )
        for item in await gatherer.list_widely(scheduling_resource(found, "PodGroup"))
        if item["metadata"].get("deletionTimestamp")
    )


async def quotas(gatherer: Gatherer) -> tuple[Quota, ...]:
    """ResourceQuotas on objects of gangs, where gangs were read."""
    reader: Reader = await gatherer.seen("read")
    served = reader.state.api.generation
    if served is None:
        return ()
    resources = scheduling_resources(served, composite=True)
    limits = [
        (item, kind, resource)
        for item in (await gatherer.client.list(RESOURCE_QUOTAS, reader.scope.namespace)).items
        for kind, resource in resources.items()
        if f"{_COUNT}{resource.qualified_name}" in within(item, "status", "hard")
    ]
    wanted = [*_wanted(reader.state, served)] if limits else []
    return tuple([await _quota(gatherer.client, *limit, wanted) for limit in limits])


async def _quota(client: Client, item: Object, kind: Kind, resource: Resource, wanted: Iterable[_Wanted]) -> Quota:
    namespace, limit = text_at(item["metadata"], "namespace"), f"{_COUNT}{resource.qualified_name}"
    exist = {text_at(stored["metadata"], "name") for stored in (await client.list(resource, namespace)).items}
    lacking = [spare for place, of, name, spare in wanted if (place, of) == (namespace, kind) and name not in exist]
    hard, used = (int(parse_quantity(str(within(item, "status", part).get(limit, 0)))) for part in ("hard", "used"))
    spares = sum(lacking)
    return Quota(
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
        yield from ((jobset.namespace, "PodGroup", group.name, False) for group in plan.groups)
        yield from ((jobset.namespace, "PodGroup", group.name, True) for group in desired.spares)
        for composite, spare in ((plan.composite, False), (desired.spare_composite, True)):
            if composite is not None:
                yield jobset.namespace, "CompositePodGroup", composite.name, spare
