"""Names for completion: asked of the cluster, and given up where that takes longer than a person waits for a shell."""

from __future__ import annotations

import asyncio
from typing import Final

import click

from gangctl.cli.cluster import ask_cluster
from gangctl.cli.options import ClusterFlags
from gangctl.client.client import Client
from gangctl.client.resources import Resource
from gangctl.errors import GangctlError

PATIENCE_SECONDS: Final = 2.0


def names_of(context: click.Context, resource: Resource, incomplete: str) -> list[str]:
    """Objects of the namespace and cluster that the flags so far point at, in order.

    None where they cannot be read: completion has nowhere to complain.
    """
    namespace, kubeconfig, name = (context.params.get(each) for each in ("namespace", "kubeconfig", "context"))

    async def ask(client: Client, own_namespace: str) -> list[str]:
        async with asyncio.timeout(PATIENCE_SECONDS):
            page = await client.list(resource, namespace or own_namespace)
        return sorted(str(item["metadata"].get("name")) for item in page.items)

    try:
        found = ask_cluster(ClusterFlags(kubeconfig, name), ask)
    except (GangctlError, TimeoutError):
        return []
    return [each for each in found if each.startswith(incomplete)]
