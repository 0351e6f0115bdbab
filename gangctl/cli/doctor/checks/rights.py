"""The rights of the user that gangctl's commands need."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from gangctl.cli.doctor.check import Area, Outcome, check, ok, warning
from gangctl.cli.doctor.checks import installed, kueue
from gangctl.cli.doctor.cluster import Cluster, all_of, fact, generation, right, seen_or
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
    RESOURCE_QUOTAS,
    VALIDATING_WEBHOOK_CONFIGURATIONS,
    Resource,
)
from gangctl.cluster import kinds
from gangctl.controllers.writer import scheduling_resources
from gangctl.kueue.names import VERSION

_REVIEWS: Final = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)
_GANGS: Final = "get, describe, why, wait, top"
_DOCTOR: Final = "doctor"
_Wanted = tuple[str, Resource, str, str]
"""Verb, resource, namespace (empty for all) and commands."""


@dataclass(frozen=True, slots=True)
class Right:
    """Whether the user has a right, and which commands need it."""

    verb: str
    resource: str
    namespace: str
    wanted_by: str
    allowed: bool

    @property
    def title(self) -> str:
        """The right as text."""
        return right(self.verb, self.resource, self.namespace)


@fact
async def rights(cluster: Cluster) -> tuple[Right, ...]:
    """Send an access review for each; the API server stores nothing."""
    queues = VERSION in await kueue.versions(cluster)
    own = await seen_or(installed.gangctl_namespace(cluster), installed.OWN_NAMESPACE)
    made = await generation(cluster)
    groups = scheduling_resources(made).values() if made is not None else ()
    wanted = list(_wanted(cluster.namespace, own, groups, queues=queues))
    answers = await all_of(_ask(cluster.client, *question[:3]) for question in wanted)
    return tuple(
        Right(verb, resource.qualified_name, namespace, commands, allowed)
        for (verb, resource, namespace, commands), allowed in zip(wanted, answers, strict=True)
    )


def _wanted(namespace: str, own: str, groups: Collection[Resource], *, queues: bool) -> Iterator[_Wanted]:
    for resource in (JOBSETS, JOBS, PODS, EVENTS, *groups):
        yield "list", resource, namespace, _GANGS
    for resource in (JOBSETS, JOBS, PODS, *groups):
        yield "watch", resource, namespace, "wait, top"
    yield "list", RESOURCE_QUOTAS, namespace, _DOCTOR
    yield "list", NODES, "", "describe, why, fit --fixed-nodes"
    yield "create", JOBS, namespace, "why, plan (a dry run proves that pods keep their group)"
    if queues:
        for resource in (kinds.LOCAL_QUEUES, kinds.QUEUED_WORKLOADS):
            yield "list", resource, namespace, "queue, fit"
        yield "list", kinds.CLUSTER_QUEUES, "", "queue, fit"
        yield "list", kinds.ADMISSION_CHECKS, "", _DOCTOR
    yield "create", JOBSETS, namespace, "doctor (a dry run asks gangctl's webhook), doctor --canary"
    yield "delete", JOBSETS, namespace, "doctor --canary"
    for resource in (MUTATING_WEBHOOK_CONFIGURATIONS, VALIDATING_WEBHOOK_CONFIGURATIONS, NAMESPACES):
        yield "list", resource, "", _DOCTOR
    for resource in (installed.DEPLOYMENTS, installed.ENDPOINT_SLICES):
        yield "list", resource, own, _DOCTOR
    yield "get", LEASES, own, _DOCTOR


async def _ask(client: Client, verb: str, resource: Resource, namespace: str) -> bool:
    attributes = {"verb": verb, "group": resource.group, "resource": resource.plural}
    if namespace:
        attributes["namespace"] = namespace
    body = {
        "apiVersion": _REVIEWS.api_version,
        "kind": _REVIEWS.kind,
        "metadata": {},
        "spec": {"resourceAttributes": attributes},
    }
    answer = await client.create(_REVIEWS, body)
    return (answer.get("status") or {}).get("allowed") is True


@check(
    "rights", Area.RIGHTS, "May you do what gangctl's commands do?", "SelfSubjectAccessReviews, which change nothing"
)
async def allowed(cluster: Cluster) -> Outcome:
    """Missing rights, each with the commands that need it."""
    asked = await rights(cluster)
    missing: dict[str, list[str]] = defaultdict(list)
    for wanted in asked:
        if not wanted.allowed:
            missing[wanted.wanted_by].append(wanted.title)
    if not missing:
        return ok("you may do all of it", f"{len(asked)} rights asked for")
    return warning(
        f"{sum(map(len, missing.values()))} of {len(asked)} rights are missing: these commands know less",
        [f"{commands}: {', '.join(titles)}" for commands, titles in missing.items()],
        remedy="manifests/tenants gives tenants what commands about their own gangs need; the rest is an operator's",
        command=f"kubectl auth can-i --list -n {cluster.namespace}",
    )
