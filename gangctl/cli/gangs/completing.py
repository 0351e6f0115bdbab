"""Names for completion: asked of the cluster, and given up where that takes longer than a person waits for a shell."""

from __future__ import annotations

import asyncio
from typing import Final

from gangctl.cli.policy.cluster import ask_cluster
from gangctl.client.client import Client
from gangctl.client.resources import JOBSETS, Resource
from gangctl.errors import GangctlError

PATIENCE_SECONDS: Final = 2.0


def jobset_names(namespace: str | None, kubeconfig: str | None, context: str | None) -> list[str]:
    """JobSets of a namespace, in order."""
    return names_of(JOBSETS, namespace, kubeconfig, context)


def names_of(
    resource: Resource, namespace: str | None = None, kubeconfig: str | None = None, context: str | None = None
) -> list[str]:
    """Objects of a namespace, in order; none where they cannot be read: completion has nowhere to complain."""

    async def ask(client: Client, own_namespace: str) -> list[str]:
        async with asyncio.timeout(PATIENCE_SECONDS):
            page = await client.list(resource, namespace or own_namespace)
        return sorted(str(item["metadata"].get("name")) for item in page.items)

    try:
        return ask_cluster(kubeconfig, context, ask)
    except (GangctlError, TimeoutError):
        return []
