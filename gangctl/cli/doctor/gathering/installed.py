"""Installed components: webhooks, Deployments, the Lease, Kueue."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from itertools import zip_longest
from typing import Any, Final

from gangctl.api.meta import SKIP_LABEL
from gangctl.api.objects import Object, condition_of, object_at, objects
from gangctl.cli.doctor.checks import hooks
from gangctl.cli.doctor.checks.gangctl import LEASE, is_ours, shards_of
from gangctl.cli.doctor.facts import Deployment, Lease, seen_or
from gangctl.cli.doctor.gathering.gatherer import Gatherer, all_of
from gangctl.client.client import Selection
from gangctl.client.resources import (
    LEASES,
    MUTATING_WEBHOOK_CONFIGURATIONS,
    NAMESPACES,
    VALIDATING_WEBHOOK_CONFIGURATIONS,
    Resource,
)
from gangctl.cluster import kinds
from gangctl.controllers.policy_sources import GANG_POLICIES
from gangctl.errors import ForbiddenError, NotFoundError
from gangctl.kueue.configuration import KueueConfiguration, read_configuration
from gangctl.kueue.names import GROUP, VERSION
from gangctl.kueue.objects import AdmissionCheck
from gangctl.kueue.reading import read_check
from gangctl.readiness.reading import unix
from gangctl.runtime.shards import MOST_SHARDS, lease_names

DEPLOYMENTS: Final = Resource("apps", "v1", "deployments", "Deployment")
ENDPOINT_SLICES: Final = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
OWN_NAMESPACE: Final = "gangctl-system"
JOBSET_NAMESPACE: Final = "jobset-system"
_SERVICE: Final = "kubernetes.io/service-name"


async def configurations(gatherer: Gatherer) -> tuple[dict[str, Any], ...]:
    """All of both kinds: others have to run after gangctl's."""
    resources = (MUTATING_WEBHOOK_CONFIGURATIONS, VALIDATING_WEBHOOK_CONFIGURATIONS)
    pages = await all_of(gatherer.client.list(each) for each in resources)
    return tuple(
        {**item, "kind": resource.kind} for resource, page in zip(resources, pages, strict=True) for item in page.items
    )


async def endpoints(gatherer: Gatherer) -> dict[tuple[str, str], int]:
    """Behind gangctl's and JobSet's webhooks."""
    everything = await gatherer.seen("configurations")
    services = sorted(hooks.services([*hooks.ours(everything), *hooks.of_jobset(everything)]))
    counts = await all_of(_ready(gatherer, *service) for service in services)
    return dict(zip(services, counts, strict=True))


async def _ready(gatherer: Gatherer, namespace: str, name: str) -> int:
    page = await gatherer.client.list(ENDPOINT_SLICES, namespace, selection=Selection(f"{_SERVICE}={name}"))
    found = [each for item in page.items for each in objects(item.get("endpoints"))]
    return sum(1 for each in found if object_at(each, "conditions").get("ready") is not False)


async def gangctl_namespace(gatherer: Gatherer) -> str:
    """From the flag, from its webhooks' Service, or the default outside of a cluster."""
    if gatherer.gangctl_namespace is not None:
        return gatherer.gangctl_namespace
    everything = seen_or(await gatherer.fact("configurations"), ())
    if services := hooks.services(hooks.ours(everything)):
        return min(services)[0]
    try:
        await gatherer.client.get(NAMESPACES, OWN_NAMESPACE)
    except NotFoundError:
        return "default"
    return OWN_NAMESPACE


async def deployments(gatherer: Gatherer) -> tuple[Deployment, ...]:
    """In the readable namespaces of gangctl, JobSet and Kueue; ForbiddenError if there are none."""
    everything = seen_or(await gatherer.fact("configurations"), ())
    known = {OWN_NAMESPACE, JOBSET_NAMESPACE, gatherer.kueue_namespace}
    mine = hooks.services([*hooks.ours(everything), *hooks.of_jobset(everything)])
    namespaces = sorted(known | {namespace for namespace, _ in mine})
    found = await asyncio.gather(*(_deployments(gatherer, each) for each in namespaces), return_exceptions=True)
    refused = [each for each in found if isinstance(each, BaseException)]
    for error in refused:
        if not isinstance(error, ForbiddenError) or len(refused) == len(found):
            raise error
    return tuple(deployment for each in found if isinstance(each, list) for deployment in each)


async def _deployments(gatherer: Gatherer, namespace: str) -> list[Deployment]:
    page = await gatherer.client.list(DEPLOYMENTS, namespace)
    return [_deployment(item, namespace) for item in page.items]


def _deployment(item: dict[str, Any], namespace: str) -> Deployment:
    spec, status = object_at(item, "spec"), object_at(item, "status")
    containers = objects(object_at(object_at(spec, "template"), "spec").get("containers"))
    return Deployment(
        namespace,
        str(item["metadata"].get("name", "")),
        tuple(str(each.get("image", "")) for each in containers),
        _number(spec.get("replicas"), 1),
        _number(status.get("readyReplicas"), 0),
        _shards([str(word) for each in containers for word in each.get("args") or []]),
    )


def _shards(arguments: list[str]) -> int:
    """The value of ``--shards`` in the arguments of gangctl; 1 if it is absent or invalid."""
    for word, following in zip_longest(arguments, arguments[1:], fillvalue=""):
        flag, _, value = word.partition("=")
        text = value or following
        if flag == "--shards" and text.isdecimal() and 1 <= int(text) <= MOST_SHARDS:
            return int(text)
    return 1


def _number(value: object, default: int) -> int:
    return value if isinstance(value, int) else default


async def leases(gatherer: Gatherer) -> dict[str, Lease]:
    """Leases of gangctl's leaders. Without the right to list, those that the Deployment's arguments imply."""
    namespace = await gatherer.seen("gangctl_namespace")
    try:
        page = await gatherer.client.list(LEASES, namespace)
    except ForbiddenError:
        names = lease_names(LEASE, shards_of(await gatherer.fact("deployments"), namespace) or 1)
        found = await all_of(_lease(gatherer, name, namespace) for name in names)
        return {name: each for name, each in zip(names, found, strict=True) if each is not None}
    items = {str(item["metadata"].get("name", "")): item for item in page.items}
    return {name: _read_lease(item) for name, item in items.items() if is_ours(name)}


async def _lease(gatherer: Gatherer, name: str, namespace: str) -> Lease | None:
    try:
        return _read_lease(await gatherer.client.get(LEASES, name, namespace))
    except NotFoundError:
        return None


def _read_lease(item: Mapping[str, Any]) -> Lease:
    spec = object_at(item, "spec")
    holder = str(spec.get("holderIdentity") or "")
    return Lease(holder, unix(spec.get("renewTime")), _number(spec.get("leaseDurationSeconds"), 0))


async def skipped(gatherer: Gatherer) -> tuple[str, ...]:
    """Namespaces in break-glass."""
    page = await gatherer.client.list(NAMESPACES, selection=Selection(f"{SKIP_LABEL}=true"))
    return tuple(sorted(str(item["metadata"].get("name", "")) for item in page.items))


async def policies(gatherer: Gatherer) -> dict[str, Object]:
    """The condition Ready of each GangPolicy by name, empty while it has none; none where their API is not served."""
    try:
        page = await gatherer.client.list(GANG_POLICIES)
    except NotFoundError:
        return {}
    return {str(item["metadata"].get("name", "")): condition_of(item, "Ready") for item in page.items}


async def kueue_versions(gatherer: Gatherer) -> tuple[str, ...]:
    """Versions of Kueue's API; none if it is not installed."""
    return tuple(await gatherer.client.discovery.group_versions(GROUP))


async def _has_kueue(gatherer: Gatherer) -> bool:
    return VERSION in await gatherer.seen("kueue_versions")


async def kueue_configuration(gatherer: Gatherer) -> KueueConfiguration:
    """From its ConfigMap."""
    if not await _has_kueue(gatherer):
        return read_configuration(None)
    try:
        found = await gatherer.client.get(kinds.CONFIG_MAPS, kinds.CONFIG_NAME, gatherer.kueue_namespace)
    except NotFoundError:
        return read_configuration(None)
    text = (found.get("data") or {}).get(kinds.CONFIG_KEY)
    return read_configuration(text if isinstance(text, str) else None)


async def kueue_checks(gatherer: Gatherer) -> tuple[AdmissionCheck, ...]:
    """All AdmissionChecks."""
    if not await _has_kueue(gatherer):
        return ()
    page = await gatherer.client.list(kinds.ADMISSION_CHECKS)
    return tuple(read_check(item) for item in page.items)
