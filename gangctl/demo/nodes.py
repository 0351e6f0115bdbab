"""The demo's own nodes on a real cluster: objects that only its pods tolerate, and a simulated kubelet for them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any, Final

from gangctl.api.meta import JOBSET_NAME
from gangctl.client.client import Client
from gangctl.client.pacing import micro_time
from gangctl.client.resources import LEASES, NODES, PODS
from gangctl.demo import scenario
from gangctl.demo.acts import DEMO, Stage
from gangctl.errors import ConflictError, NotFoundError
from gangctl.sandbox.simulated import kubelet

_NODES: Final = 2
_LEASES: Final = "kube-node-lease"
_BEAT_SECONDS: Final = 10.0


def placement(namespace: str) -> scenario.Placement:
    """Only pods of the demo in ``namespace`` run on its own nodes."""
    toleration = {"key": DEMO, "operator": "Equal", "value": namespace, "effect": "NoSchedule"}
    return scenario.Placement(node_selector={DEMO: namespace}, tolerations=(toleration,))


@asynccontextmanager
async def own_nodes(client: Client, namespace: str) -> AsyncIterator[dict[str, int]]:
    """Add nodes while the context lasts: the capacity for pods of each. Their Leases are renewed, as by a kubelet."""
    places = {f"{namespace}-{i}": scenario.CPUS // _NODES for i in range(_NODES)}
    try:
        for name, cpus in places.items():
            await _add(client, name, namespace, cpus)
        beat = asyncio.create_task(_beat(client, tuple(places)), name="demo-nodes")
        try:
            yield places
        finally:
            beat.cancel()
            await asyncio.wait({beat})
    finally:
        for name in places:
            with suppress(NotFoundError):
                await client.delete(NODES, name)


async def _add(client: Client, name: str, namespace: str, cpus: int) -> None:
    taint = {"key": DEMO, "value": namespace, "effect": "NoSchedule"}
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", DEMO: namespace}
    await client.create(NODES, {"metadata": {"name": name, "labels": labels}, "spec": {"taints": [taint]}})
    resources = {"cpu": str(cpus), "memory": "16Gi", "pods": "110"}
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "played by gangctl demo",
        "lastTransitionTime": _moment(),
        "lastHeartbeatTime": _moment(),
    }
    status = {"capacity": resources, "allocatable": resources, "conditions": [ready]}
    await client.merge_patch(NODES, name, {"status": status}, subresource="status")
    # The node lifecycle controller taints every new node until it is ready.
    await client.merge_patch(NODES, name, {"spec": {"taints": [taint]}})


async def _beat(client: Client, names: Sequence[str]) -> None:
    """Renew the nodes' Leases, by which the control plane checks nodes; they are deleted with the nodes."""
    while True:
        for name in names:
            spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": micro_time(datetime.now(UTC))}
            node = await client.get(NODES, name)
            owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node["metadata"]["uid"]}
            metadata = {"name": name, "ownerReferences": [owner]}
            await client.apply(LEASES, {"metadata": metadata, "spec": spec}, _LEASES, force=True)
        await asyncio.sleep(_BEAT_SECONDS)


async def attend(stage: Stage, may_finish: bool) -> None:
    """Run bound pods, end those of complete JobSets if allowed, confirm deletions: one step for each at every poll."""
    pods = [pod for pod in await stage.pods() if pod["spec"].get("nodeName")]
    peers = Counter(map(_jobset, pods))
    for pod in pods:
        phase, metadata = pod["status"].get("phase"), pod["metadata"]
        with suppress(NotFoundError, ConflictError):
            if metadata.get("deletionTimestamp"):
                await stage.client.delete(
                    PODS, metadata["name"], metadata["namespace"], uid=metadata["uid"], grace_period_seconds=0
                )
            elif phase == "Pending":
                await _write(stage.client, pod, kubelet.running(pod))
            elif phase == "Running" and may_finish and peers[_jobset(pod)] >= scenario.PODS:
                await _write(stage.client, pod, kubelet.succeeded(pod))


async def _write(client: Client, pod: dict[str, Any], status: dict[str, Any]) -> None:
    """A merge patch replaces lists: include the conditions of other writers."""
    own = {condition["type"] for condition in status["conditions"]}
    others = [each for each in pod["status"].get("conditions") or [] if each["type"] not in own]
    patch = {
        "metadata": {"uid": pod["metadata"]["uid"]},
        "status": {**status, "conditions": [*others, *status["conditions"]]},
    }
    await client.merge_patch(PODS, pod["metadata"]["name"], patch, pod["metadata"]["namespace"], subresource="status")


def _jobset(pod: Mapping[str, Any]) -> str:
    return str((pod["metadata"].get("labels") or {}).get(JOBSET_NAME, ""))


def _moment() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
