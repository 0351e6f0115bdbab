"""What a cluster says about renderings: its gangs, nodes that could have the head, what its queues can have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gangctl.api.scheduling import Generation
from gangctl.cli.cluster import ask_cluster, discover_generation
from gangctl.cli.kueuecluster import has_kueue, read_kueue
from gangctl.cli.kueuesnapshot import Stock
from gangctl.cli.messages import note
from gangctl.cli.options import ClusterFlags
from gangctl.client.client import Client
from gangctl.client.resources import NODES
from gangctl.errors import ClusterUnavailableError, ForbiddenError
from gangctl.fit.nodes import NodeShape, read_node


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What was seen. ``nodes`` is None where they may not be read, ``stock`` where there is no Kueue."""

    generation: Generation | None
    """None where the cluster has no gangs."""
    namespace: str
    """The context's."""
    nodes: tuple[NodeShape, ...] | None = None
    stock: Stock | None = None


def look_around(
    cluster: ClusterFlags, *, namespaces: Iterable[str] | None = None, kueue_namespace: str = ""
) -> Surroundings:
    """Ask a cluster. Its queues are read for ``namespaces``, of which an empty one is the context's; None for none."""

    async def ask(client: Client, own_namespace: str) -> Surroundings:
        generation = await _generation(client, own_namespace)
        nodes = await _nodes(client)
        stock = None
        if namespaces is not None:
            if await has_kueue(client):
                places = {each or own_namespace for each in namespaces}
                stock = await read_kueue(client, places, kueue_namespace=kueue_namespace)
            else:
                note("the cluster does not have Kueue: whether a queue covers the head is not asked")
        return Surroundings(generation, own_namespace, nodes, stock)

    return ask_cluster(cluster, ask)


async def _generation(client: Client, namespace: str) -> Generation | None:
    try:
        return await discover_generation(client, namespace)
    except ClusterUnavailableError as error:
        note(f"rendered for a cluster without gangs: {error}")
        return None


async def _nodes(client: Client) -> tuple[NodeShape, ...] | None:
    try:
        page = await client.list(NODES)
    except ForbiddenError as refused:
        note(f"whether a node is large enough for the head is not known: {refused}")
        return None
    return tuple(map(read_node, page.items))
