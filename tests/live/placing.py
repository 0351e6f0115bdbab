"""What kube-scheduler has left to do, by its own account: when it can place nothing more, nothing moves."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tests.controlplane.api import ApiClient, Object, path_of
from tests.controlplane.plane import ADMIN, ControlPlane
from tests.controlplane.wait import NotYet, read_until, wait_for

_PENDING: Final = re.compile(r'^scheduler_pending_pods\{queue="(\w+)"\} (\S+)$', re.MULTILINE)
_BINDING: Final = re.compile(r'^scheduler_goroutines\{operation="binding"\} (\S+)$', re.MULTILINE)
_PODS: Final = path_of("v1", "pods")
_PROBES: Final = "default"
"""Namespace of the pods that show how far the scheduler has got."""


def metrics_address(plane: ControlPlane) -> str:
    """Where the scheduler of a plane serves its metrics: a host and a port."""
    flags = plane.process("kube-scheduler").command
    (port,) = (flag.partition("=")[2] for flag in flags if flag.startswith("--secure-port="))
    return f"127.0.0.1:{port}"


@dataclass(frozen=True)
class Queues:
    """Pods that have no node, as the scheduler counts them."""

    pods: Mapping[str, int]
    """By queue."""
    binding: int
    """Pods that have been given a node and are not bound yet, those that wait for the rest of their gang included."""

    @property
    def busy(self) -> int:
        """Pods whose turn it is."""
        return self.pods.get("active", 0) + self.pods.get("pending", 0)

    @property
    def again(self) -> int:
        """Pods that were refused and are tried again after a moment, because something has happened since."""
        return self.pods.get("backoff", 0)

    @property
    def total(self) -> int:
        """Pods in any queue; one that is being looked at is in none."""
        return sum(self.pods.values())


async def queues(plane: ControlPlane) -> Queues:
    """Read the scheduler's metrics."""
    user = plane.site.user(ADMIN, ["system:masters"])
    client = ApiClient(f"https://{metrics_address(plane)}", ca=plane.ca, user=user)
    try:
        text = await client.text("/metrics")
    finally:
        await client.close()
    binding = _BINDING.search(text)
    pods = {name: int(float(count)) for name, count in _PENDING.findall(text)}
    return Queues(pods, int(float(binding[1])) if binding else 0)


async def nothing_to_place(plane: ControlPlane, *, full: bool = False, held: bool = False) -> None:
    """
    Wait until the scheduler has looked at all that has happened up to now, and can place none of the pods there are.

    It has refused a pod that is created now, which tells that it has heard of everything before it; no pod waits for
    its turn, and each pod without a node is in a queue of those that wait for something else to happen.

    Where nobody gives capacity back, it is ``full``: once every pod without a node has been refused, that some are
    tried again changes nothing. Gangs are, for ever: each that is refused makes the scheduler try the others again.
    With ``held`` pods may also hold a place until the rest of their gang has one.
    """
    probe = await plane.api.create(path_of("v1", "pods", namespace=_PROBES), _probe())
    path = path_of("v1", "pods", namespace=_PROBES, name=probe["metadata"]["name"])
    try:
        await read_until(lambda: plane.api.get(path), is_refused, "the scheduler to refuse a pod")

        async def placed() -> bool:
            before = await _without_node(plane)
            now = await queues(plane)
            left = now.busy + (0 if full else now.again)
            if left or len(before) != now.total + (now.binding if held else 0):
                raise NotYet(f"{len(before)} pods have no node, {now}")
            if full and not held and not all(before.values()):
                raise NotYet(f"{sum(before.values())} of {len(before)} pods have been refused")
            return before.keys() == (await _without_node(plane)).keys()

        await wait_for(placed, "the scheduler to have nothing left to place", interval=0.1)
    finally:
        await plane.api.delete(path, grace=0)


def _probe() -> Object:
    container = {"name": "main", "image": "none"}
    # No node has it.
    spec = {"nodeSelector": {"test.gangctl.dev/probe": "none"}, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "probe-"}, "spec": spec}


def is_refused(pod: Object) -> bool:
    """Whether the scheduler has found no node: Unschedulable, or SchedulerError where it tried a group too early."""
    conditions = pod["status"].get("conditions") or []
    return any((each["type"], each["status"]) == ("PodScheduled", "False") for each in conditions)


async def _without_node(plane: ControlPlane) -> dict[str, bool]:
    """Pods that the scheduler is to find a node for: whether it has refused them, by UID."""
    pods = await plane.api.list(_PODS, fieldSelector="spec.nodeName=,status.phase=Pending")
    return {
        pod["metadata"]["uid"]: is_refused(pod)
        for pod in pods
        if pod["spec"]["schedulerName"] == "default-scheduler" and not pod["metadata"].get("deletionTimestamp")
    }
