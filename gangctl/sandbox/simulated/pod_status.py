"""The pod statuses that a kubelet reports, as strategic merge patches: conditions of other writers stay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gangctl.sandbox.objects import Object, now

KILLED: Final = 137
"""Exit code of a container that was ended from outside."""


def running(pod: Object) -> Object:
    """Every container runs and is ready."""
    moment = now()
    return {
        "phase": "Running",
        "startTime": moment,
        "hostIP": "127.0.0.1",
        "podIP": "127.0.0.1",
        "podIPs": [{"ip": "127.0.0.1"}],
        "conditions": [_condition(kind, "True") for kind in ("Initialized", "ContainersReady", "Ready")],
        "containerStatuses": _containers(pod["spec"]["containers"], {"running": {"startedAt": moment}}, ready=True),
        **_initialized(pod),
    }


def succeeded(pod: Object) -> Object:
    """Every container has ended well."""
    return _ended(pod, "Succeeded", 0, "Completed")


def failed(pod: Object, exit_code: int = 1) -> Object:
    """Every container has ended with this code."""
    return _ended(pod, "Failed", exit_code, "Error")


def _ended(pod: Object, phase: str, exit_code: int, reason: str) -> Object:
    why = "PodCompleted" if phase == "Succeeded" else "PodFailed"
    started = (pod.get("status") or {}).get("startTime")
    ended = {"exitCode": exit_code, "reason": reason, "startedAt": started, "finishedAt": now()}
    state = {"terminated": ended}
    return {
        "phase": phase,
        "conditions": [_condition(kind, "False", why) for kind in ("ContainersReady", "Ready")],
        "containerStatuses": _containers(pod["spec"]["containers"], state, ready=False),
    }


def _initialized(pod: Object) -> Object:
    """Init containers have run before a pod runs; those that restart always are sidecars and still run."""
    statuses: list[Object] = []
    for container in pod["spec"].get("initContainers") or []:
        moment = now()
        ended = {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": moment, "finishedAt": moment}}
        sidecar = container.get("restartPolicy") == "Always"
        statuses += _containers([container], {"running": {"startedAt": moment}} if sidecar else ended, ready=True)
    return {"initContainerStatuses": statuses} if statuses else {}


def _containers(containers: Sequence[Object], state: Object, *, ready: bool) -> list[Object]:
    return [
        {
            "name": container["name"],
            "image": container.get("image", ""),
            "imageID": "",
            "ready": ready,
            "started": ready,
            "restartCount": 0,
            "lastState": {},
            # A container is in one state: null removes the previous one.
            "state": {"running": None, "waiting": None, "terminated": None, **state},
        }
        for container in containers
    ]


def _condition(kind: str, status: str, reason: str = "") -> Object:
    condition = {"type": kind, "status": status, "lastTransitionTime": now()}
    return {**condition, "reason": reason} if reason else condition
