"""One run: a window in one variation, by one arm."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.day.arms import GPU, NAMESPACE, POOL, Arm, Ground, ground
from benchmarks.day.figures import Event
from benchmarks.day.kubelets import Kubelets
from benchmarks.day.windows import NODE_GPUS, Outage, Replay
from benchmarks.meters import Usage
from tests.controlplane.api import ApiClient, Object, path_of
from tests.live.cluster import JOBSETS

_NODES: Final = path_of("v1", "nodes")
_PODS: Final = path_of("v1", "pods", namespace=NAMESPACE)


@dataclass(frozen=True, slots=True)
class Played:
    """What happened: events and end in trace seconds, CPU in seconds by process."""

    events: list[Event]
    end: float
    cpu: Mapping[str, float]


async def play(arm: Arm, replay: Replay, checkout: Path | None = None) -> Played:
    """Start a control plane, submit every JobSet at its time, and end when all are done or at the last second."""
    async with ground(arm, replay, checkout) as place, Kubelets(place.plane.api, replay) as kubelets:
        api = place.plane.api
        for node in replay.nodes:
            await _add_node(api, node)
        # Before the clock begins: they hold their GPUs for the whole run.
        if replay.held:
            for node in replay.nodes:
                await api.create(_PODS, _holder(node, replay.held))
        # From here on: what the start of the control plane takes is no part of a run.
        before = _cpu(place)
        kubelets.begin()
        script = _Script(api, replay, kubelets)
        async with asyncio.TaskGroup() as group:
            jobsets = {each: arm.jobset(each, place.queues[each.queue]) for each in replay.demands}
            tasks = [group.create_task(script.submit(raw, each.submitted)) for each, raw in jobsets.items()]
            tasks += [group.create_task(script.lose(each)) for each in replay.outages]
            await script.over()
            # An outage may last longer than the run.
            for task in tasks:
                task.cancel()
        end = kubelets.now
        cpu = {name: seconds - before[name] for name, seconds in _cpu(place).items()}
        return Played(list(kubelets.events), end, cpu)


@dataclass(frozen=True, slots=True)
class _Script:
    """What happens at which second of the trace."""

    api: ApiClient
    replay: Replay
    kubelets: Kubelets

    async def submit(self, raw: Object, at: float) -> None:
        """Create a JobSet."""
        raw["metadata"]["namespace"] = NAMESPACE
        await self._until(at)
        await self.api.create(path_of(JOBSETS, "jobsets", namespace=NAMESPACE), raw)

    async def lose(self, outage: Outage) -> None:
        """The node is deleted and its pods fail, as with a machine that is gone; then it registers again."""
        await self._until(outage.begin)
        # First the node: the scheduler would place the next pods on it.
        await self.api.delete(f"{_NODES}/{outage.node}")
        self.kubelets.lose(outage.node)
        await self._until(outage.end)
        await _add_node(self.api, outage.node)
        self.kubelets.bring_back(outage.node)

    async def over(self) -> None:
        """Until all JobSets are done, or the last second."""
        try:
            async with asyncio.timeout((self.replay.last - self.kubelets.now) / self.replay.speed):
                await self.kubelets.all_done.wait()
        except TimeoutError:
            return

    async def _until(self, at: float) -> None:
        await asyncio.sleep(max(0.0, (at - self.kubelets.now) / self.replay.speed))


async def _add_node(api: ApiClient, name: str) -> None:
    resources = {"cpu": "96", "memory": "1Ti", "pods": "250", "ephemeral-storage": "1Ti", GPU: str(NODE_GPUS)}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "simulated"}
    body: Object = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", POOL: "yes"},
        },
        "status": {"capacity": resources, "allocatable": resources, "conditions": [ready]},
    }
    await api.create(_NODES, body)


def _holder(node: str, gpus: int) -> Object:
    """A pod of which no quota knows."""
    resources = {GPU: str(gpus)}
    container = {"name": "main", "image": "none", "resources": {"requests": resources, "limits": resources}}
    # Bound when it is created: the scheduler would choose the nodes, and each has to have one.
    spec = {"nodeName": node, "terminationGracePeriodSeconds": 0, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"holder-{node}"}, "spec": spec}


def _cpu(place: Ground) -> dict[str, float]:
    """Seconds that each process has taken, that of this benchmark and its kubelets included."""
    pids = {name: place.plane.process(name).pid for name in place.plane.components}
    pids |= {name: process.pid for name, process in place.guests.items()} | {"simulated kubelets": os.getpid()}
    return {name: Usage.of(pid).cpu_seconds for name, pid in pids.items()}
