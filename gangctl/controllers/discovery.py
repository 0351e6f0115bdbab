"""Watches which generation of the scheduling API the cluster serves, and reports changes.

The control plane may be upgraded, or its feature gates switched, while gangctl runs. The API server does not announce
it, so discovery and proof are repeated. After a change, everything that depends on the generation restarts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

import structlog

from gangctl.api.scheduling import GROUP, TESTED, ApiState, Feature, Generation
from gangctl.client.client import Client, Selection
from gangctl.client.resources import JOBS, MUTATING_ADMISSION_POLICIES, Resource
from gangctl.controllers.polling import PERIOD_SECONDS, Polling
from gangctl.controllers.writer import scheduling_resource, scheduling_resources
from gangctl.errors import ApiError, ForbiddenError, InvalidError, NotFoundError
from gangctl.gang.generation import (
    PROOF_NAME,
    ServedVersion,
    differences,
    dropped_options,
    evaluate_proof,
    evaluate_unreadable,
    pick_generation,
    proof_job,
    proof_workload,
)

CONFIRM_SECONDS: Final = 2.0
"""A starting API server does not list all its resources at once: a loss counts after two checks."""

log = structlog.get_logger(__name__)


_NO_OBJECT: Final = Selection(field_selector=f"metadata.name={PROOF_NAME}")
_UNTESTED: Final = {generation.value: generation for generation in Generation if generation not in TESTED}


async def served_resources(client: Client) -> dict[str, ServedVersion]:
    """What is served, by version of ``scheduling.k8s.io``."""
    served = {}
    for version in await client.discovery.group_versions(GROUP):
        resources = await client.discovery.resources(GROUP, version)
        names = frozenset(str(resource.get("name")) for resource in resources)
        compared = _UNTESTED.get(version) if "workloads" in names else None
        served[version] = ServedVersion(names) if compared is None else await _compare(client, compared, names)
    return served


async def _compare(client: Client, generation: Generation, resources: frozenset[str]) -> ServedVersion:
    try:
        document = await client.discovery.openapi_v3(f"apis/{generation.api_version}")
    except (ForbiddenError, NotFoundError) as error:
        # In the place of a difference: a version that cannot be compared is not used.
        unknown = f"they are unknown, because its OpenAPI document cannot be read ({error.reason})"
        return ServedVersion(resources, (unknown,))
    # By themselves: gangs do not need CompositePodGroups, and a difference in these leaves the rest usable.
    composite = differences(generation, document, composite=True)
    lacks = frozenset({Feature.COMPOSITE}) if composite else frozenset()
    return ServedVersion(resources, differences(generation, document), lacks)


async def prove(client: Client, generation: Generation, namespace: str) -> ApiState:
    """Create a tiny Job in ``namespace`` as a dry run, and evaluate which fields the server would have kept."""
    stored = await client.create(JOBS, proof_job(generation, namespace), namespace, dry_run=True)
    return evaluate_proof(generation, stored)


async def find_dropped(client: Client, generation: Generation, namespace: str) -> frozenset[Feature]:
    """Options of gangs that the server drops, as a dry run shows; none if it is refused."""
    if not generation.capabilities.constraints:
        return frozenset()
    workload = proof_workload(generation, namespace)
    resource = scheduling_resource(generation, "Workload")
    try:
        return dropped_options(await client.create(resource, workload, namespace, dry_run=True))
    except (ForbiddenError, InvalidError, NotFoundError) as refused:
        # Debug only, because each discovery repeats it.
        log.debug("a dry run to find out which options of gangs are kept was refused", error=str(refused))
        return frozenset()


async def discover(client: Client, own_namespace: str) -> ApiState:
    """Discover the generation, and prove by a dry run that pods keep their reference.

    Raises :class:`ApiError` when the server does not answer. A refused proof counts as no proof.
    """
    picked = pick_generation(await served_resources(client))
    if picked.generation is None:
        return picked
    # A dry run reads no stored object: the proof would succeed where no informer can list.
    if (unreadable := await _unreadable(client, picked.generation)) is not None:
        return unreadable
    try:
        proved = await prove(client, picked.generation, own_namespace)
    except (ForbiddenError, InvalidError, NotFoundError) as refused:
        reason = f"the dry-run proof in namespace {own_namespace} was refused ({refused.reason}): {refused}"
        return ApiState(None, reason)
    if proved.generation is None:
        return proved
    # Without PodGroups it is Kubernetes 1.35, where this API is off by default: there the webhook names the groups.
    policies = proved.generation.capabilities.pod_groups and await client.discovery.serves(MUTATING_ADMISSION_POLICIES)
    lacks = picked.lacks | await find_dropped(client, proved.generation, own_namespace)
    state = replace(proved, reason=picked.reason, policies=policies, lacks=lacks, parents=picked.parents)
    trouble = await _unlisted(client, proved.generation, state.composite) if state.composite else ""
    if trouble:
        # The rest is usable, and a cache of these would never be synced.
        reason = "; ".join(filter(None, (picked.reason, trouble)))
        return replace(state, reason=reason, lacks=lacks | {Feature.COMPOSITE})
    return state


async def _unreadable(client: Client, generation: Generation) -> ApiState | None:
    """List each kind: after an upgrade, this API server may be unable to decode some of its objects."""
    for resource in scheduling_resources(generation).values():
        try:
            await _list_none(client, resource)
        except ApiError as error:
            if (verdict := evaluate_unreadable(error.message)) is not None:
                return verdict
            raise
    return None


async def _unlisted(client: Client, generation: Generation, version: str) -> str:
    """Why CompositePodGroups cannot be listed: undecodable ones, or a ClusterRole that is older than gangctl."""
    try:
        await _list_none(client, scheduling_resources(generation, composite=version)["CompositePodGroup"])
    except ApiError as error:
        if isinstance(error, ForbiddenError | NotFoundError) or evaluate_unreadable(error.message) is not None:
            return f"CompositePodGroups in {version} cannot be listed: {error.message}"
        raise
    return ""


async def _list_none(client: Client, resource: Resource) -> None:
    # With a selector the watch cache answers, which has decoded all objects: while it is not ready, the API server
    # reads a list without one from etcd, page by page (shouldDelegateListOnNotReadyCache).
    await client.list(resource, selection=_NO_OBJECT)


class DiscoveryLoop(Polling):
    """Keeps :attr:`state` current; ``on_change`` is awaited with each new state, the first included."""

    def __init__(
        self,
        client: Client,
        own_namespace: str,
        on_change: Callable[[ApiState], Awaitable[None]],
        *,
        period_seconds: float = PERIOD_SECONDS,
        confirm_seconds: float = CONFIRM_SECONDS,
    ) -> None:
        """Check every ``period_seconds``, and at once when :meth:`trigger` is called.

        When gang scheduling has disappeared, report it only after a second check, ``confirm_seconds`` later.
        """
        super().__init__("gang scheduling", period_seconds)
        self._client = client
        self._own_namespace = own_namespace
        self._on_change = on_change
        self._confirm_seconds = confirm_seconds
        self.state = ApiState(None, "discovery has not finished yet")
        self.settled = asyncio.Event()
        """Set once the first check has succeeded."""

    async def _check(self) -> bool:
        await self._settle(await self._discover())
        return True

    async def _discover(self) -> ApiState:
        state = await discover(self._client, self._own_namespace)
        # Before the first result there is nothing that could have been lost.
        lost = state.lacks - self.state.lacks if self.settled.is_set() else frozenset()
        if lost or (self.state.available and not state.available):
            await asyncio.sleep(self._confirm_seconds)
            state = await discover(self._client, self._own_namespace)
        return state

    async def _settle(self, found: ApiState) -> None:
        if self.settled.is_set() and found == self.state:
            return
        if found.generation is None:
            log.warning("no gang scheduling API", reason=found.reason)
        else:
            if found.reason:
                log.warning("a part of the gang scheduling API is not used", reason=found.reason)
            log.info("gang scheduling API found", generation=found.generation.api_version)
        # Before the call, which enqueues all JobSets: they are reconciled with this state.
        self.state = found
        await self._on_change(found)
        # Set last: webhooks answer from the caches, which ``on_change`` has synced for this generation.
        self.settled.set()
