"""Which of the rights that gangctl's commands need the user has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gangctl.api.scheduling import Generation
from gangctl.cli.doctor.facts import Right
from gangctl.cli.doctor.gathering.cluster import generation
from gangctl.cli.doctor.gathering.gatherer import Gatherer, all_of
from gangctl.cli.doctor.gathering.installed import DEPLOYMENTS, ENDPOINT_SLICES, OWN_NAMESPACE
from gangctl.client.client import Client
from gangctl.client.resources import (
    EVENTS,
    JOBS,
    JOBSETS,
    LEASES,
    MUTATING_WEBHOOK_CONFIGURATIONS,
    NAMESPACES,
    NODES,
    PODS,
    VALIDATING_WEBHOOK_CONFIGURATIONS,
    Resource,
)
from gangctl.controllers.queues import sources
from gangctl.controllers.writer import scheduling_resources
from gangctl.kueue.names import VERSION

REVIEWS: Final = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)
_GANGS: Final = "get, describe, why, wait, top"
_DOCTOR: Final = "doctor"
Wanted = tuple[str, Resource, str, str]
"""Verb, resource, namespace (empty for all) and commands."""


async def rights(gatherer: Gatherer) -> tuple[Right, ...]:
    """Send an access review for each; the API server stores nothing."""
    queues = VERSION in await gatherer.seen("kueue_versions")
    own = await gatherer.fact("gangctl_namespace")
    own = own if isinstance(own, str) else OWN_NAMESPACE
    wanted = list(_wanted(gatherer.place.namespace, own, await generation(gatherer), queues=queues))
    allowed = await all_of(_ask(gatherer.client, *each[:3]) for each in wanted)
    return tuple(
        Right(verb, resource.qualified_name, namespace, commands, each)
        for (verb, resource, namespace, commands), each in zip(wanted, allowed, strict=True)
    )


def _wanted(namespace: str, own: str, found: Generation | None, *, queues: bool) -> Iterator[Wanted]:
    groups = list(scheduling_resources(found).values()) if found is not None else []
    for resource in (JOBSETS, JOBS, PODS, EVENTS, *groups):
        yield "list", resource, namespace, _GANGS
    for resource in (JOBSETS, JOBS, PODS, *groups):
        yield "watch", resource, namespace, "wait, top"
    yield "list", NODES, "", "describe, why, fit --fixed-nodes"
    yield "create", JOBS, namespace, "why, plan (a dry run proves that pods keep their group)"
    if queues:
        for resource in (sources.LOCAL_QUEUES, sources.QUEUED_WORKLOADS):
            yield "list", resource, namespace, "queue, fit"
        yield "list", sources.CLUSTER_QUEUES, "", "queue, fit"
        yield "list", sources.ADMISSION_CHECKS, "", _DOCTOR
    yield "create", JOBSETS, namespace, "doctor (a dry run asks gangctl's webhook), doctor --canary"
    yield "delete", JOBSETS, namespace, "doctor --canary"
    for resource in (MUTATING_WEBHOOK_CONFIGURATIONS, VALIDATING_WEBHOOK_CONFIGURATIONS, NAMESPACES):
        yield "list", resource, "", _DOCTOR
    for resource in (DEPLOYMENTS, ENDPOINT_SLICES):
        yield "list", resource, own, _DOCTOR
    yield "get", LEASES, own, _DOCTOR


async def _ask(client: Client, verb: str, resource: Resource, namespace: str) -> bool:
    attributes = {"verb": verb, "group": resource.group, "resource": resource.plural}
    if namespace:
        attributes["namespace"] = namespace
    body = {
        "apiVersion": REVIEWS.api_version,
        "kind": REVIEWS.kind,
        "metadata": {},
        "spec": {"resourceAttributes": attributes},
    }
    answer = await client.create(REVIEWS, body)
    return (answer.get("status") or {}).get("allowed") is True
