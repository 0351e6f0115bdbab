"""Connections to a cluster: from a kubeconfig, and what the API server supports."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVar

import click

from gangctl.cli.messages import log_to_stderr, note
from gangctl.cli.options import ClusterFlags
from gangctl.client.client import Client
from gangctl.client.config import ClusterConfig, load_cluster
from gangctl.client.resources import JOBSETS, Resource
from gangctl.client.transport import Transport, TransportOptions
from gangctl.controllers.discovery import find_dropped, prove, served_resources
from gangctl.errors import (
    ClusterUnavailableError,
    ForbiddenError,
    GangctlError,
    InvalidError,
    NotFoundError,
    ServerError,
)
from gangctl.gang.generation import pick_generation
from gangctl.gang.resolve import ClusterRules

T = TypeVar("T")

UNLIMITED_SECONDS: Final = 10.0**9
"""Of a request without a limit: three decades."""
COMPLETION_SECONDS: Final = 2.0
"""Timeout of shell completion."""


def ask_cluster(flags: ClusterFlags, question: Callable[[Client, str], Awaitable[T]]) -> T:
    """Run ``question`` against a cluster, with a client and the context's namespace."""
    return connect(flags, lambda client, config: question(client, config.namespace or "default"))


def connect(flags: ClusterFlags, question: Callable[[Client, ClusterConfig], Awaitable[T]]) -> T:
    """The same, with the cluster's configuration."""
    log_to_stderr()

    async def ask() -> T:
        async with connected(flags) as (client, config):
            return await question(client, config)

    return asyncio.run(ask())


@asynccontextmanager
async def connected(flags: ClusterFlags) -> AsyncIterator[tuple[Client, ClusterConfig]]:
    """A client for a cluster, and the cluster's configuration; ConfigError if the kubeconfig does not have it."""
    config = await load_cluster(kubeconfig=flags.kubeconfig, context=flags.context)
    async with Transport(config, transport_options(flags)) as transport:
        yield Client(transport), config


def transport_options(flags: ClusterFlags) -> TransportOptions:
    """How long requests may take."""
    return TransportOptions(timeout_seconds=flags.request_seconds or UNLIMITED_SECONDS)


UNPROVED: Final = (ForbiddenError, InvalidError, NotFoundError, ServerError)
"""What a dry run of a Job is refused with, which proves nothing; the last where a webhook for Jobs does not answer."""


async def discover_rules(client: Client, namespace: str) -> ClusterRules:
    """The generation that a cluster serves and the options it keeps, by dry runs in ``namespace`` if these are allowed.

    Raises :class:`ClusterUnavailableError` if the cluster does not support gangs.
    """
    picked = state = pick_generation(await served_resources(client))
    if state.generation is not None:
        try:
            state = await prove(client, state.generation, namespace)
        except UNPROVED as refused:
            note(f"not proved that pods keep their group: a Job in namespace {namespace} (a dry run): {refused}")
    if state.generation is None:
        raise ClusterUnavailableError(state.reason, hint="--kube 1.37 answers for a Kubernetes you do not have here")
    # Those of the discovery: the state that the proof returns has none.
    lacks = picked.lacks | await find_dropped(client, state.generation, namespace)
    return ClusterRules(state.generation, lacks=lacks, known=True)


def no_jobsets() -> ClusterUnavailableError:
    """The error about a cluster without the API of JobSets."""
    return ClusterUnavailableError(
        f"the cluster does not serve JobSets ({JOBSETS.api_version})", hint="see https://jobset.sigs.k8s.io"
    )


async def names_in(client: Client, resource: Resource, namespace: str | None) -> list[str]:
    """The names of all objects of a namespace, or of all namespaces."""
    page = await client.list(resource, namespace)
    return [str(item["metadata"].get("name")) for item in page.items]


def names_of(context: click.Context, resource: Resource, incomplete: str) -> list[str]:
    """Objects of the namespace and cluster that the flags select so far, in order.

    Empty if they cannot be read: completion cannot report errors.
    """
    namespace, kubeconfig, name = (context.params.get(option) for option in ("namespace", "kubeconfig", "context"))

    async def ask() -> list[str]:
        # Around the connection, too: for it an exec plugin runs, which may wait for a person to log in.
        async with asyncio.timeout(COMPLETION_SECONDS), connected(ClusterFlags(kubeconfig, name)) as (client, config):
            home = (namespace or config.namespace or "default") if resource.namespaced else None
            return sorted(await names_in(client, resource, home))

    log_to_stderr()
    try:
        names = asyncio.run(ask())
    except (GangctlError, TimeoutError):
        return []
    return [candidate for candidate in names if candidate.startswith(incomplete)]
