"""Who schedules: what runs beside JobSet and kube-scheduler, and what a JobSet says for it."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.day.volcano import GROUP_MIN_MEMBER, SCHEDULER, Volcano
from benchmarks.day.windows import NODE_GPUS, Demand, Replay
from tests.controlplane.api import Object, path_of
from tests.controlplane.minors import NEWEST
from tests.controlplane.plane import ControlPlane
from tests.controlplane.process import Process
from tests.jobsets import jobset, rj
from tests.live import kueue
from tests.live.gangctl import Gangctl, create_namespaces

NAMESPACE: Final = "day"
GPU: Final = "nvidia.com/gpu"
POOL: Final = "gangctl.dev/day"
QUEUE: Final = "cluster"
_TOPOLOGY: Final = "kueue.x-k8s.io/podset-unconstrained-topology"
# Jobs have a backoffLimit of 0: each lost node is a restart, and none may end a JobSet.
_MAX_RESTARTS: Final = 1000
_READY_TIMEOUT_SECONDS: Final = 1800.0
_LEAST_READY_TIMEOUT_SECONDS: Final = 10.0
"""What controllers take to start a gang is not compressed."""
_BACKOFF_SECONDS: Final = (60.0, 3600.0)


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to schedule."""

    name: str
    title: str
    gangctl: bool = False
    kueue: bool = False
    ready: bool = False
    """Kueue's waitForPodsReady."""
    topology: bool = False
    """Kueue assigns nodes."""
    volcano: bool = False

    def options(self, speed: float) -> dict[str, Any]:
        """What a control plane has for it: what can be compressed is."""
        options: dict[str, Any] = {
            "components": ("jobset", "kueue") if self.kueue else ("jobset",),
            "audit": False,
            # Whole seconds, 1 or more, is what the scheduler takes: of 1 and 10.
            "scheduler_configuration": {"podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 1},
        }
        if self.ready:
            options["kueue_gates"] = {"DisableWaitForPodsReady": False}
            options["kueue_configuration"] = {"waitForPodsReady": wait_for_pods_ready(speed)}
        return options

    def jobset(self, demand: Demand, queue: str) -> Object:
        """As its user would write it."""
        gpus = {GPU: str(demand.gpus_a_pod)}
        container = {"name": "main", "image": "none", "resources": {"requests": gpus, "limits": gpus}}
        pod: Object = {"containers": [container]}
        if self.volcano:
            pod["schedulerName"] = SCHEDULER
        workers = rj(
            *("workers", 1, demand.pods, demand.pods),
            pod=pod,
            annotations={GROUP_MIN_MEMBER: str(demand.pods)} if self.volcano else None,
        )
        if self.topology:
            workers["template"]["spec"]["template"]["metadata"] = {"annotations": {_TOPOLOGY: "true"}}
        mode = "Gang" if self.gangctl else None
        raw = jobset(demand.name, workers, mode=mode, failurePolicy={"maxRestarts": _MAX_RESTARTS})
        if self.kueue:
            raw["metadata"]["labels"] = {kueue.QUEUE_NAME: queue}
        return raw


ARMS: Final = {
    each.name: each
    for each in (
        Arm("scheduler", "kube-scheduler alone"),
        Arm("kueue", "Kueue alone", kueue=True),
        Arm("kueue-ready", "Kueue with waitForPodsReady", kueue=True, ready=True),
        Arm("gangctl", "gangctl", gangctl=True),
        Arm("gangctl-kueue", "gangctl with Kueue", gangctl=True, kueue=True),
        Arm("gangctl-topology", "gangctl with Kueue and topology", gangctl=True, kueue=True, topology=True),
        Arm("volcano", "Volcano", volcano=True),
    )
}


def wait_for_pods_ready(speed: float) -> dict[str, Any]:
    """Kueue's defaults of 30 minutes and of backoffs from a minute to an hour, compressed as far as they can be."""
    timeout = f"{max(_LEAST_READY_TIMEOUT_SECONDS, _READY_TIMEOUT_SECONDS / speed):.0f}s"
    least, most = (max(1, math.ceil(seconds / speed)) for seconds in _BACKOFF_SECONDS)
    strategy = {"backoffBaseSeconds": least, "backoffMaxSeconds": most}
    return {"timeout": timeout, "recoveryTimeout": timeout, "requeuingStrategy": strategy}


@dataclass(frozen=True)
class Ground:
    """A control plane for an arm, the processes beside it by name, and the LocalQueue of each queue of the trace."""

    plane: ControlPlane
    guests: Mapping[str, Process]
    queues: Mapping[str, str]


@asynccontextmanager
async def ground(arm: Arm, replay: Replay, checkout: Path | None = None) -> AsyncIterator[Ground]:
    """Start everything, without nodes; ``checkout`` is that of Volcano."""
    # A queue of a trace is any text, the name of a LocalQueue is not.
    names = {queue: f"queue-{number}" for number, queue in enumerate(sorted({d.queue for d in replay.demands}))}
    async with AsyncExitStack() as stack:
        plane = await stack.enter_async_context(ControlPlane.start(NEWEST, **arm.options(replay.speed)))
        guests: dict[str, Process] = {}
        await create_namespaces(plane, [NAMESPACE])
        if arm.kueue:
            await _make_queues(plane, len(replay.nodes) * NODE_GPUS, list(names.values()), topology=arm.topology)
        if arm.gangctl:
            if arm.kueue:
                await kueue.configure(plane)
            gangctl = await stack.enter_async_context(Gangctl(plane, "--log-level", "info"))
            guests["gangctl"] = gangctl.process
        if arm.volcano:
            if checkout is None:
                raise ValueError("Volcano needs a checkout")
            volcano = await stack.enter_async_context(Volcano(plane, checkout, replay.speed))
            guests |= volcano.processes
        yield Ground(plane, guests, names)


async def _make_queues(plane: ControlPlane, gpus: int, queues: list[str], *, topology: bool) -> None:
    """One ClusterQueue with all GPUs of the cluster, and a LocalQueue for each queue of the trace."""
    # A ResourceFlavor with a topologyName needs at least one label.
    flavor: Object = {"nodeLabels": {POOL: "yes"}}
    if topology:
        levels = [{"nodeLabel": "kubernetes.io/hostname"}]
        body: Object = {"apiVersion": kueue.API_VERSION, "kind": "Topology", "metadata": {"name": "nodes"}}
        await plane.api.create(path_of(kueue.API_VERSION, "topologies"), {**body, "spec": {"levels": levels}})
        flavor["topologyName"] = "nodes"
    await kueue.create(plane.api, "resourceflavors", QUEUE, spec=flavor)
    # All GPUs, those that others hold included: no quota knows of their pods.
    quota = {"name": GPU, "nominalQuota": str(gpus)}
    groups = [{"coveredResources": [GPU], "flavors": [{"name": QUEUE, "resources": [quota]}]}]
    spec = {"namespaceSelector": {}, "resourceGroups": groups}
    await kueue.create(plane.api, "clusterqueues", QUEUE, spec=spec)
    for name in queues:
        await kueue.create(plane.api, "localqueues", name, NAMESPACE, spec={"clusterQueue": QUEUE})
