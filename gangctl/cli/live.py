"""Asking a cluster what it supports, for commands that otherwise work offline."""

from __future__ import annotations

import asyncio
import sys

import structlog

from gangctl.api.scheduling import Generation
from gangctl.cli.messages import note
from gangctl.client.client import Client
from gangctl.client.config import load_cluster
from gangctl.client.transport import Transport
from gangctl.controllers.discovery import prove, served_resources
from gangctl.errors import ClusterUnavailableError, ForbiddenError
from gangctl.gang.generation import pick_generation


async def discover_generation(client: Client, namespace: str) -> Generation:
    """The generation that a cluster serves, proved by a dry run in ``namespace`` where that is allowed.

    Raises :class:`ClusterUnavailableError` when no gang can be made there.
    """
    state = pick_generation(await served_resources(client))
    if state.generation is not None:
        try:
            state = await prove(client, state.generation, namespace)
        except ForbiddenError:
            note(f"not proved that pods keep their group: no right to create Jobs in namespace {namespace} (a dry run)")
    if state.generation is None:
        raise ClusterUnavailableError(state.reason, hint="--kube 1.37 answers for a Kubernetes you do not have here")
    return state.generation


async def _discover(kubeconfig: str | None, context: str | None) -> Generation:
    cluster = await load_cluster(kubeconfig=kubeconfig, context=context)
    async with Transport(cluster) as transport:
        return await discover_generation(Client(transport), cluster.namespace or "default")


def generation_of_cluster(kubeconfig: str | None, context: str | None) -> Generation:
    """The generation that the cluster of a kubeconfig serves."""
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(file=sys.stderr))
    return asyncio.run(_discover(kubeconfig, context))
