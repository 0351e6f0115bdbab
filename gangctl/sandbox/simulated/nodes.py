"""Nodes without machines: objects with capacity, ready because their status says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from gangctl.sandbox.api import Api
from gangctl.sandbox.caller import Caller
from gangctl.sandbox.kinds import MINORS
from gangctl.sandbox.objects import Object, copy, name_of, now

_CALLER: Final = Caller("system:sandbox:nodes", ("system:masters",))


async def add_nodes(
    api: Api,
    count: int,
    *,
    cpu: str = "4",
    memory: str = "16Gi",
    pods: int = 110,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
    extended: Mapping[str, str] | None = None,
    prefix: str = "node",
) -> list[str]:
    """Add ready nodes; returns their names, numbered after existing ones. ``extended`` are further resources."""
    kind = api.kind("nodes")
    taken = {name_of(node) for node in (await api.list(kind)).items}
    free = (name for index in range(len(taken) + count) if (name := f"{prefix}-{index}") not in taken)
    names = [name for name, _ in zip(free, range(count), strict=False)]
    resources = {"cpu": cpu, "memory": memory, "pods": str(pods), **(extended or {})}
    for name in names:
        node: Object = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **(labels or {})},
            },
            "spec": {"taints": [dict(taint) for taint in taints]} if taints else {},
        }
        created = copy(await api.create(kind, "", node, _CALLER))
        created["status"] = {
            "nodeInfo": {
                "kubeletVersion": MINORS[api.registry.minor].release,
                "operatingSystem": "linux",
                "architecture": "amd64",
            },
            "capacity": dict(resources),
            "allocatable": dict(resources),
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True",
                    "reason": "KubeletReady",
                    "message": "played by the sandbox",
                    "lastTransitionTime": now(),
                }
            ],
        }
        await api.update(kind, "", name, created, _CALLER, subresource="status")
    return names
