"""The gangs of a cluster with the causes of ``gangctl why``, and groups that are being deleted."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, Final

from gangctl.api.meta import JOBSET_NAME
from gangctl.api.objects import controller_owner
from gangctl.cli.doctor.facts import Gangs, Leaving, Unseen, UnseenError, right
from gangctl.cli.doctor.gathering.cluster import generation
from gangctl.cli.doctor.gathering.gatherer import Gatherer
from gangctl.cli.gangs.cluster import Reader, Scope
from gangctl.cli.gangs.state import GangState
from gangctl.client.client import Selection
from gangctl.client.resources import JOBS
from gangctl.controllers.writer import scheduling_resource, scheduling_resources
from gangctl.errors import ClusterUnavailableError, ForbiddenError
from gangctl.readiness.reading import unix
from gangctl.readiness.result import Cause, Readiness

_NEW_SECONDS: Final = 60
"""Seconds within which JobSet's controller writes the status of a new JobSet."""


async def gangs(gatherer: Gatherer) -> Gangs:
    """Of all namespaces, else of the selected one."""
    reader, where = Reader(gatherer.client, Scope(None)), "in the cluster"
    try:
        state = await reader.read()
    except ForbiddenError:
        namespace = gatherer.namespace
        reader, where = Reader(gatherer.client, Scope(namespace)), f"in namespace {namespace}"
        state = await reader.read()
    except ClusterUnavailableError as error:
        raise UnseenError(Unseen(error.message)) from error
    return summary(state, time.time(), where, [each.resource.qualified_name for each in reader.readable])


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
    children = {(_text(item, "namespace"), _text(item, "name")) for item in jobs}
    return tuple(f"{key[0]}/{name} of Job {key[1]}" for key, name in sorted(owned.items()) if key in children)


async def leaving(gatherer: Gatherer) -> tuple[Leaving, ...]:
    """PodGroups with a deletionTimestamp."""
    found = await generation(gatherer)
    if found is None or not found.capabilities.pod_groups:
        return ()
    return tuple(
        Leaving(
            f"{_text(item, 'namespace')}/{_text(item, 'name')}",
            unix(item["metadata"]["deletionTimestamp"]),
            tuple(map(str, item["metadata"].get("finalizers") or ())),
        )
        for item in await gatherer.list_widely(scheduling_resource(found, "PodGroup"))
        if item["metadata"].get("deletionTimestamp")
    )


def _text(item: dict[str, Any], key: str) -> str:
    return str(item["metadata"].get(key) or "")
