"""Nodes without machines: objects with capacity that are ready because their status says so."""

import asyncio
from collections.abc import Mapping

from tests.controlplane.api import ApiClient, Object, path_of

NODES = path_of("v1", "nodes")


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
) -> list[str]:
    """
    Create ready nodes and return their names.

    Names go on from the nodes that are there, so that a test may add more. `extended` are further resources, such as
    accelerators.
    """
    taken = {node["metadata"]["name"] for node in await api.list(NODES)}
    free = (name for index in range(len(taken) + count) if (name := f"{prefix}-{index}") not in taken)
    names = [name for name, _ in zip(free, range(count), strict=False)]
    resources = {"cpu": cpu, "memory": memory, "pods": str(pods), **(extended or {})}
    await asyncio.gather(*(_add_node(api, name, resources, labels or {}) for name in names))
    return names


async def remove_nodes(api: ApiClient, names: list[str]) -> None:
    await asyncio.gather(*(api.delete(f"{NODES}/{name}") for name in names))


async def _add_node(api: ApiClient, name: str, resources: Mapping[str, str], labels: Mapping[str, str]) -> None:
    body: Object = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **labels}},
    }
    await api.create(NODES, body)
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "played by the harness"}
    status = {"capacity": dict(resources), "allocatable": dict(resources), "conditions": [ready]}
    await api.patch(f"{NODES}/{name}/status", {"status": status}, kind="merge")
