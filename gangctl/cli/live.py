"""Asking a cluster what it supports, for commands that otherwise work offline."""

from __future__ import annotations

import asyncio
import sys

import structlog

from gangctl.api.scheduling import GROUP, Generation
from gangctl.client.client import Client
from gangctl.client.config import load_cluster
from gangctl.client.transport import Transport
from gangctl.errors import ClusterUnavailableError
from gangctl.gang.generation import pick_generation


async def discover_generation(client: Client) -> Generation:
    """The generation that a cluster serves; read-only, so without the proof that pods keep their reference."""
    served = {}
    for version in await client.discovery.group_versions(GROUP):
        resources = await client.discovery.resources(GROUP, version)
        served[version] = frozenset(str(resource.get("name")) for resource in resources)
    state = pick_generation(served)
    if state.generation is None:
        raise ClusterUnavailableError(state.reason, hint="--kube 1.37 answers for a Kubernetes you do not have here")
    return state.generation


async def _discover(kubeconfig: str | None, context: str | None) -> Generation:
    cluster = await load_cluster(kubeconfig=kubeconfig, context=context)
    async with Transport(cluster) as transport:
        return await discover_generation(Client(transport))


def generation_of_cluster(kubeconfig: str | None, context: str | None) -> Generation:
    """The generation that the cluster of a kubeconfig serves."""
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(file=sys.stderr))
    return asyncio.run(_discover(kubeconfig, context))
