"""Nodes without machines: objects with capacity that are ready because their status says so."""

import asyncio
import itertools
from collections.abc import Mapping, Sequence

from tests.controlplane.api import ApiClient, Object, path_of

NODES = path_of("v1", "nodes")
_NUMBERS = itertools.count()


async def add_nodes(
    api: ApiClient,
    count: int,
    *,
    cpu: str = "4",
    memory: str = "16Gi",
    pods: int = 110,
    labels: Mapping[str, str] | None = None,
    prefix: str = "node",
    extended: Mapping[str, str] | None = None,
    taints: Sequence[Object] = (),
) -> list[str]:
    """
    Create ready nodes and return their names.

    No name comes twice in a process: pods of an earlier test may still be bound to a node that it has removed, and a
    node of that name would have them. `extended` are further resources, such as accelerators.
    """
    taken = {node["metadata"]["name"] for node in await api.list(NODES)}
    free = (name for index in _NUMBERS if (name := f"{prefix}-{index}") not in taken)
    names = list(itertools.islice(free, count))
    # Every kubelet reports storage, and gangctl's own pods request some.
    always = {"cpu": cpu, "memory": memory, "pods": str(pods), "ephemeral-storage": "100Gi"}
    resources = {**always, **(extended or {})}
    await asyncio.gather(*(_add_node(api, name, resources, labels or {}, taints) for name in names))
    return names


async def remove_nodes(api: ApiClient, names: list[str]) -> None:
    await asyncio.gather(*(api.delete(f"{NODES}/{name}") for name in names))


async def _add_node(
    api: ApiClient, name: str, resources: Mapping[str, str], labels: Mapping[str, str], taints: Sequence[Object]
) -> None:
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "played by the harness"}
    # All at once, as a kubelet registers itself: a scheduler that sees a node without capacity first may leave a gang
    # that it has refused for that waiting for more than a minute.
    body: Object = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **labels}},
        "spec": {"taints": list(taints)},
        "status": {"capacity": dict(resources), "allocatable": dict(resources), "conditions": [ready]},
    }
    await api.create(NODES, body)
