"""A small cluster in virtual time: JobSet, Job and kubelets, a scheduler, and Kueue with one ClusterQueue per team.

It writes what these controllers write, as far as gangctl reads it, and nothing that it does not read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import Any

from tests.cli.kueueobjects import flavor, local_queue
from tests.monitoring.weeks.gang import Gang, Shape
from tests.monitoring.weeks.kueue import AT_START, GPU, Object, Queue
from tests.monitoring.weeks.watched import START, Watched


class Cluster:
    """Everything that runs in a week. Times are seconds since its first minute."""

    def __init__(self, teams: dict[str, int], *, strategy: str = "StrictFIFO", ready_timeout: str = "") -> None:
        """``teams`` have one namespace and one ClusterQueue each: pods that its quota is for."""
        self.random = Random(20171106)
        self.queues = {name: Queue(self, name, pods, strategy) for name, pods in teams.items()}
        self.nodes = {f"node-{number}": _node(f"node-{number}") for number in range(16)}
        self._next_node = 0
        objects: list[Object] = [flavor(), *self.nodes.values()]
        for queue in self.queues.values():
            objects += [queue.raw, local_queue("q", queue.name, queue.name), _namespace(queue.name)]
        configuration: Object = {
            "apiVersion": "config.kueue.x-k8s.io/v1beta2",
            "kind": "Configuration",
            "integrations": {"frameworks": ["jobset.x-k8s.io/jobset"]},
        }
        if ready_timeout:
            configuration["waitForPodsReady"] = {"timeout": ready_timeout}
        self.watched = Watched([configuration, *objects])
        self.gangs: dict[str, Gang] = {}
        self.finished = 0

    @property
    def now(self) -> float:
        """Seconds since the first minute."""
        return self.watched.clock.now()

    @property
    def stamp(self) -> str:
        """The time as the API has it."""
        return (START + timedelta(seconds=int(self.now))).strftime("%Y-%m-%dT%H:%M:%SZ")

    def later(self, seconds: float, call: Callable[..., object], *args: Any) -> None:
        """Call it after some time."""
        asyncio.get_running_loop().call_later(seconds, call, *args)

    def submit(self, shape: Shape) -> Gang:
        """Create a JobSet."""
        gang = Gang(self, shape)
        self.gangs[shape.name] = gang
        gang.create()
        return gang

    def node(self) -> str:
        """The next node that is ready."""
        for _ in self.nodes:
            self._next_node += 1
            name = f"node-{self._next_node % len(self.nodes)}"
            if self.nodes[name]["status"]["conditions"][0]["status"] == "True":
                break
        return name

    def set_node(self, name: str, *, ready: bool) -> None:
        """A kubelet stops to answer, or answers again."""
        raw = self.nodes[name]
        reason = "KubeletReady" if ready else "NodeStatusUnknown"
        raw["status"]["conditions"] = [
            {
                "type": "Ready",
                "status": "True" if ready else "Unknown",
                "reason": reason,
                "lastTransitionTime": self.stamp,
            }
        ]
        self.watched.deliver(raw)

    def condition(self, raw: Object, kind: str, status: bool, reason: str, message: str = "") -> None:
        """Set a condition of an object, which is not delivered yet."""
        conditions = raw.setdefault("status", {}).setdefault("conditions", [])
        known = next((found for found in conditions if found["type"] == kind), None)
        text = "True" if status else "False"
        if known is None:
            known = {"type": kind}
            conditions.append(known)
        if known.get("status") != text:
            known |= {"status": text, "lastTransitionTime": self.stamp}
        known |= {"reason": reason or kind, "message": message}


def _node(name: str) -> Object:
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", **AT_START}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {},
        "status": {"allocatable": {"cpu": "96", GPU: "8", "pods": "110"}, "conditions": [ready]},
    }


def _namespace(name: str) -> Object:
    labels = {"kubernetes.io/metadata.name": name}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "uid": name, "labels": labels}}
