"""A small cluster with racks, as files: a flavor with a Topology, its nodes, and JobSets that ask for a domain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tests.cli.kueueobjects import (
    CONFIGURATION,
    QUEUE,
    Object,
    cluster_queue,
    flavor,
    kueue,
    local_queue,
    workload,
)
from tests.jobsets import jobset, rj

BLOCK: Final = "example.com/block"
RACK: Final = "example.com/rack"
HOST: Final = "kubernetes.io/hostname"
PREFIX: Final = "kueue.x-k8s.io/podset-"


def node(
    name: str, rack: str, cpu: str = "1", *, ready: bool = True, spec: Object | None = None, **labels: str
) -> Object:
    """A node of ``block/rack``."""
    block, _, place = rack.partition("/")
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {BLOCK: block, RACK: place, HOST: name, "pool": "tas", **labels}},
        "spec": spec or {},
        "status": {
            "allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "10"},
            "conditions": [{"type": "Ready", "status": str(ready)}],
        },
    }


def pod(name: str, on: str, cpu: str = "1", owner: str = "", **annotations: str) -> Object:
    labels = {"jobset.sigs.k8s.io/jobset-name": owner} if owner else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "t", "labels": labels, "annotations": annotations},
        "spec": {"nodeName": on, "containers": [{"name": "m", "resources": {"requests": {"cpu": cpu}}}]},
        "status": {"phase": "Running"},
    }


def topology(*levels: str, name: str = "racks") -> Object:
    return kueue("Topology", name, spec={"levels": [{"nodeLabel": level} for level in levels]})


def placed(owner: str, hosts: Mapping[str, int], cpu: str = "1") -> Object:
    """A JobSet's Workload whose pods of so many CPUs are on hosts."""
    total = sum(hosts.values())
    made = workload(owner, "q", pods=total, held={"f": {"cpu": str(total * int(cpu))}})
    container = made["spec"]["podSets"][0]["template"]["spec"]["containers"][0]
    container["resources"] = {"requests": {"cpu": cpu}}
    made["status"]["admission"]["podSetAssignments"][0]["topologyAssignment"] = {
        "levels": [HOST],
        "slices": [
            {
                "domainCount": len(hosts),
                "valuesPerLevel": [{"individual": {"roots": list(hosts)}}],
                "podCounts": {"individual": list(hosts.values())},
            }
        ],
    }
    return made


def asking(pods: int, cpu: str = "1", pod: Any = None, name: str = "train", **notes: str) -> Object:
    """A JobSet in the queue; ``notes`` are annotations of Kueue's on its pods, dashes written as underscores."""
    entry = rj("w", 1, pods, pods, cpu=cpu, pod=pod)
    template = entry["template"]["spec"]["template"]
    template["metadata"] = {"annotations": {f"{PREFIX}{key.replace('_', '-')}": value for key, value in notes.items()}}
    made = jobset(name, entry)
    made["metadata"]["labels"] = {QUEUE: "q"}
    return made


def racks(*more: Object, cpu: str = "99", levels: tuple[str, ...] = (BLOCK, RACK, HOST), **spec: Any) -> list[Object]:
    """A queue with one flavor, whose Topology has these levels."""
    return [
        flavor("f", nodeLabels={"pool": "tas"}, topologyName="racks", **spec),
        topology(*levels),
        cluster_queue("cq", {"f": {"cpu": cpu}}),
        local_queue("q", "cq"),
        CONFIGURATION,
        *more,
    ]


TWO_RACKS: Final = [node("a0", "x/a"), node("a1", "x/a"), node("b0", "x/b"), node("b1", "x/b")]
"""Room for two pods each."""
IDLE: Final = pod("idle", "elsewhere")
"""Pods are known."""
