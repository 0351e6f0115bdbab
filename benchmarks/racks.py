"""A queue with a topology of 5,000 nodes, half of them in use, and gangs that need a domain of it."""

from __future__ import annotations

from typing import Any

from gangctl.fit.clusterstate import ClusterSnapshot, FitRequest, KnownNodes
from gangctl.fit.floor import NodeShape
from gangctl.kueue.objects import (
    ClusterQueue,
    Condition,
    FlavorQuotas,
    LocalQueue,
    Placement,
    PodSetAssignment,
    QueuedWorkload,
    Quota,
    ResourceFlavor,
    ResourceGroup,
    Topology,
)
from tests.fit.asking import CONFIGURATION, NAMESPACE, QUEUE, pods
from tests.jobsets import jobset

NODES = 5000
HOST, RACK, BLOCK = "kubernetes.io/hostname", "example.com/rack", "example.com/block"
IN_RACK, IN_BLOCK = 16, 320
GPU = "nvidia.com/gpu"
PODSETS = 10
GIBI = 2**30


def nodes() -> KnownNodes:
    """Nodes of 8 devices, each with some pods that Kueue does not place."""
    shapes = [
        NodeShape(
            f"n{number}",
            {HOST: f"n{number}", RACK: f"r{number // IN_RACK}", BLOCK: f"b{number // IN_BLOCK}", "pool": "racks"},
            (),
            {"cpu": 96_000, "memory": 1024 * GIBI, "pods": 110, GPU: 8},
        )
        for number in range(NODES)
    ]
    return KnownNodes(shapes, {shape.name: {"cpu": 500, "memory": GIBI, "pods": 5} for shape in shapes})


def placed(number: int) -> QueuedWorkload:
    """One whose pods fill half a rack."""
    hosts: dict[tuple[str, ...], int] = {(f"n{number * IN_RACK + each}",): 1 for each in range(IN_RACK // 2)}
    held = {GPU: 8 * len(hosts)}
    return QueuedWorkload(
        namespace="others",
        name=f"w{number}",
        uid=f"uid-{number}",
        cluster_queue="racks",
        assignments=(PodSetAssignment("main", {GPU: "racks"}, held, len(hosts)),),
        placements=(Placement(frozenset({"racks"}), (HOST,), hosts, {GPU: 8, "cpu": 64_000}),),
        conditions={"QuotaReserved": Condition(status=True)},
    )


def snapshot() -> ClusterSnapshot:
    """All but one rack are half full."""
    quotas = FlavorQuotas("racks", {"cpu": Quota(10**9), GPU: Quota(10**6)})
    return ClusterSnapshot(
        [
            ResourceFlavor("racks", node_labels={"pool": "racks"}, topology="racks"),
            Topology("racks", (BLOCK, RACK, HOST)),
            ClusterQueue("racks", groups=(ResourceGroup(("cpu", GPU), (quotas,)),), selector=()),
            LocalQueue(NAMESPACE, QUEUE, "racks"),
            *map(placed, range(NODES // IN_RACK - 1)),
        ],
        runtime_classes=(),
        queue_limit=18,
        configuration=CONFIGURATION,
        topologies_known=True,
        nodes=nodes(),
    )


def asking(count: int, mode: str, value: str, name: str = "w") -> dict[str, Any]:
    """A podset of whole nodes."""
    entry = pods(name, count, cpu="64", **{GPU: "8"})
    note = {f"kueue.x-k8s.io/podset-{mode}-topology": value}
    entry["template"]["spec"]["template"]["metadata"] = {"annotations": note}
    return entry


def questions() -> dict[str, FitRequest]:
    """Gangs by what is asked for."""
    asked = {
        "a rack": [asking(IN_RACK, "required", RACK)],
        "a rack that others have": [asking(IN_RACK, "required", RACK, name) for name in ("v", "w")],
        "more than a rack has": [asking(IN_RACK + 1, "required", RACK)],
        "any nodes, 1,000 of them": [asking(1000, "unconstrained", "true")],
        f"a rack for each of {PODSETS} podsets": [
            asking(IN_RACK // 2, "required", RACK, f"w{number}") for number in range(PODSETS)
        ],
    }
    return {what: FitRequest(jobset("js", *entries), NAMESPACE, {}, QUEUE) for what, entries in asked.items()}
