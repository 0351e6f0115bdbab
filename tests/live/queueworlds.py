"""The random clusters of :mod:`tests.live.nodeworlds` with the objects of a Kueue, and a gang in one of its queues."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from gangctl.kueue.names import (
    SLICE_SIZE,
    SLICE_TOPOLOGY,
    TOPOLOGY_PREFERRED,
    TOPOLOGY_REQUIRED,
    TOPOLOGY_UNCONSTRAINED,
)
from tests.controlplane.api import Object
from tests.fit.trees import API_VERSION, PRIORITY, QUEUE, Running, kueue
from tests.live.nodeworlds import DEDICATED, GPU, HOST, WORLD, ZONE, Chances, NodeWorld
from tests.live.nodeworlds import world as node_world

MANAGED: Final = "example.com/managed"
"""A label of namespaces: Kueue does not manage those where it is ``no``."""
SETTINGS: Final[Mapping[str, Any]] = {
    "manageJobsWithoutQueueName": True,
    "managedJobsNamespaceSelector": {
        "matchExpressions": [
            {"key": MANAGED, "operator": "NotIn", "values": ["no"]},
            {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", "kueue-system"]},
        ]
    },
}
"""Of Kueue's configuration, for all of these worlds."""
CLASS: Final[Object] = {
    "apiVersion": API_VERSION,
    "kind": "WorkloadPriorityClass",
    "metadata": {"name": "high"},
    "value": 10,
}
"""What all worlds share."""
_DOOR: Final = "q"


@dataclass(frozen=True)
class QueueWorld(NodeWorld):
    """Objects of the whole cluster are named after the namespace."""

    labels: Mapping[str, str]
    """Further ones of the namespace."""
    queues: tuple[Object, ...]
    """Kueue's, in the order in which they are created."""
    running: tuple[Running, ...]
    """Workloads of others, which hold quota."""

    @property
    def known(self) -> Iterator[Object]:
        """All objects but the JobSet."""
        namespace, *others = super().known
        yield {**namespace, "metadata": {**namespace["metadata"], "labels": {WORLD: self.name, **self.labels}}}
        yield from (*others, *self.queues)
        for workload in self.running:
            metadata = {"name": workload.name, "namespace": self.name}
            yield {**workload.raw, "metadata": metadata, "status": held(workload)}


def held(workload: Running) -> Object:
    """The status of a Workload that has quota, in a queue without checks."""
    return {key: value for key, value in workload.status("").items() if key != "admissionChecks"}


def world(seed: int) -> QueueWorld:
    """The world of a seed."""
    return _Draw(node_world(seed)).world()


class _Draw(Chances):
    def __init__(self, made: NodeWorld) -> None:
        self.made = made
        self.random = Random(f"{made.seed}-queues")
        self.roomy = self.some(0.6)
        """Whether quotas are large: otherwise few gangs get as far as the nodes."""
        self.flavors = [f"{made.name}-f{index}" for index in range(self.random.choice((1, 1, 2, 3)))]
        self.topology = self.some(0.3)
        self.cohort = f"{made.name}-c0" if self.some(0.5) else ""
        self.running: list[Running] = []

    def mistake(self, chance: float) -> bool:
        """Whether something closes a queue."""
        return self.some(chance / 4 if self.roomy else chance)

    def world(self) -> QueueWorld:
        made, name = self.made, self.made.name
        labels = {MANAGED: "no"} if self.mistake(0.06) else {}
        levels = [ZONE, HOST] if self.some(0.7) else [self.random.choice((ZONE, HOST))]
        objects = [self._flavor(flavor) for flavor in self.flavors if not self.mistake(0.02)]
        if self.topology and not self.mistake(0.03):
            objects.insert(0, kueue("Topology", name, {"levels": [{"nodeLabel": level} for level in levels]}))
        objects += self._cohorts()
        names = [f"{name}-q{index}" for index in range(self.random.randint(1, 3) if self.cohort else 1)]
        queues = [self._queue(queue) for queue in names]
        # The holders of the first one would be evicted.
        for queue in queues:
            self._run(queue)
        if self.mistake(0.06):
            queues[0]["spec"]["stopPolicy"] = "Hold"
        objects += queues[self.mistake(0.03) :]
        if not self.mistake(0.04):
            stop = {"stopPolicy": "Hold"} if self.mistake(0.05) else {}
            objects.append({**kueue("LocalQueue", _DOOR, {"clusterQueue": names[0], **stop})})
            objects[-1]["metadata"]["namespace"] = name
        there = {queue["metadata"]["name"] for queue in objects if queue["kind"] == "ClusterQueue"}
        running = tuple(workload for workload in self.running if workload.queue in there)
        jobset = self._jobset(levels)
        known = (made.seed, made.nodes, made.others, made.claims)
        return QueueWorld(*known, jobset, admitted=False, labels=labels, queues=tuple(objects), running=running)

    def _flavor(self, name: str) -> Object:
        spec: Object = {}
        if self.topology:
            spec = {"topologyName": self.made.name, "nodeLabels": {WORLD: self.made.name}}
        if self.some(0.4):
            spec.setdefault("nodeLabels", {})[ZONE] = self.random.choice("ab")
        if self.some(0.15):
            spec["nodeTaints"] = [DEDICATED]
        if self.some(0.15):
            spec["tolerations"] = [{"key": DEDICATED["key"], "operator": "Exists", "effect": "NoSchedule"}]
        return kueue("ResourceFlavor", name, spec)

    def _cohorts(self) -> list[Object]:
        """At most two levels; the lower one need not exist as an object."""
        if not self.cohort or self.some(0.4):
            return []
        above = f"{self.made.name}-c1"
        if self.some(0.4):
            lower = kueue("Cohort", self.cohort, {"parentName": above})
            return [kueue("Cohort", above, self._quotas(limits=False)), lower]
        return [kueue("Cohort", self.cohort, self._quotas(limits=False))]

    def _queue(self, name: str) -> Object:
        spec: Object = {
            "queueingStrategy": self.random.choice(("StrictFIFO", "BestEffortFIFO")),
            "flavorFungibility": {
                "whenCanBorrow": self.random.choice(("MayStopSearch", "TryNextFlavor")),
                "whenCanPreempt": self.random.choice(("MayStopSearch", "TryNextFlavor")),
            },
            **self._quotas(limits=bool(self.cohort)),
        }
        if not self.mistake(0.03):
            spec["namespaceSelector"] = self._selector()
        if self.cohort:
            spec["cohortName"] = self.cohort
        return kueue("ClusterQueue", name, spec)

    def _selector(self) -> Object:
        if self.roomy or self.some(0.5):
            return {}
        name = self.made.name
        if self.some(0.3):
            name = "none"
        operator = self.random.choice(("In", "In", "NotIn"))
        labels = {"matchLabels": {WORLD: name}}
        expression = {"key": WORLD, "operator": operator, "values": [name if operator == "In" else "none"]}
        return self.random.choice((labels, {"matchExpressions": [expression]}))

    def _quotas(self, *, limits: bool) -> Object:
        """Resource groups: all resources in one, or devices in a group of their own."""
        groups: list[tuple[list[str], Sequence[str]]] = [(["cpu"], self.flavors)]
        gpus = any(GPU in node["status"]["allocatable"] for node in self.made.nodes)
        if gpus and len(self.flavors) > 1 and self.some(0.4):
            groups = [(["cpu"], self.flavors[:1]), ([GPU], self.flavors[1:])]
        elif (gpus and not self.some(0.15)) or self.some(0.1):
            groups[0][0].append(GPU)
        if self.some(0.15):
            groups[0][0].append("pods")
        return {
            "resourceGroups": [
                {
                    "coveredResources": covered,
                    "flavors": [
                        {"name": flavor, "resources": [self._quota(resource, limits=limits) for resource in covered]}
                        for flavor in flavors
                    ],
                }
                for covered, flavors in groups
            ]
        }

    def _quota(self, resource: str, *, limits: bool) -> Object:
        nominal = self.random.choice((16, 32, 64) if self.roomy else (0, 4, 8, 16))
        quota: Object = {"name": resource, "nominalQuota": str(nominal)}
        if limits and self.some(0.3):
            quota["borrowingLimit"] = str(self.random.choice((0, 2, 8)))
        if limits and self.some(0.3):
            quota["lendingLimit"] = str(self.random.choice([limit for limit in (0, 2, 8) if limit <= nominal]))
        return quota

    def _run(self, queue: Object) -> None:
        """Workloads that hold quota of a queue, its own and what it borrows."""
        for _ in range(self.random.choice((0, 0, 0, 1) if self.roomy else (0, 0, 1, 2))):
            usage = {}
            for group in queue["spec"]["resourceGroups"]:
                flavor = self.random.choice(group["flavors"])["name"]
                for resource in group["coveredResources"]:
                    if resource == "cpu" or self.some(0.3):
                        usage[flavor, resource] = "1" if resource == "pods" else str(self.random.randint(1, 5))
            name = f"{self.made.name}-r{len(self.running)}"
            since = f"2026-01-01T10:{self.random.randint(0, 59):02}:00Z"
            self.running.append(Running(name, queue["metadata"]["name"], 20, usage, since))

    def _jobset(self, levels: Sequence[str]) -> Object:
        raw = self.made.jobset
        labels = {QUEUE: "typo" if self.mistake(0.03) else _DOOR}
        if self.mistake(0.06):
            labels = {}
        if self.some(0.15):
            labels[PRIORITY] = self.random.choice(("high", "high", "none"))
        raw["metadata"]["labels"] = labels
        if self.topology:
            for entry in raw["spec"]["replicatedJobs"]:
                if notes := self._topology_of(entry, levels):
                    entry["template"]["spec"]["template"]["metadata"]["annotations"] = notes
        return raw

    def _topology_of(self, entry: Object, levels: Sequence[str]) -> dict[str, str]:
        level = self.random.choice(levels) if not self.some(0.04) else "example.com/rack"
        match self.random.choice(("required", "required", "preferred", "unconstrained", "slices", "none")):
            case "required":
                return {TOPOLOGY_REQUIRED: level}
            case "preferred":
                return {TOPOLOGY_PREFERRED: level}
            case "unconstrained":
                return {TOPOLOGY_UNCONSTRAINED: "true"}
            case "slices":
                pods = entry["replicas"] * entry["template"]["spec"]["parallelism"]
                sizes = [size for size in range(1, pods + 1) if pods % size == 0 or self.some(0.1)]
                size = self.random.choice(sizes)
                return {SLICE_TOPOLOGY: level, SLICE_SIZE: str(size)}
        return {}
