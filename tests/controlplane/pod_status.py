"""The pod statuses a kubelet reports, as strategic merge patches: conditions that others wrote are kept."""

import datetime as dt

from tests.controlplane.api import Object, Objects


def running(pod: Object) -> Object:
    state = {"running": {"startedAt": now()}}
    return {
        "phase": "Running",
        "startTime": now(),
        "podIP": "127.0.0.1",
        "podIPs": [{"ip": "127.0.0.1"}],
        "conditions": [_condition(kind, "True") for kind in ("Initialized", "ContainersReady", "Ready")],
        "containerStatuses": _containers(pod["spec"]["containers"], state, ready=True),
        **_init_containers(pod),
    }


def waiting(pod: Object, reason: str, message: str = "", *, restarts: int = 0) -> Object:
    """Containers that do not start for a reason of the kubelet's, or do not stay if they were restarted."""
    state = {"waiting": {"reason": reason, "message": message}}
    return {
        "phase": "Running" if restarts else "Pending",
        "startTime": now(),
        "conditions": [
            _condition("Initialized", "True"),
            *(_condition(kind, "False", "ContainersNotReady") for kind in ("ContainersReady", "Ready")),
        ],
        "containerStatuses": [
            {**each, "restartCount": restarts} for each in _containers(pod["spec"]["containers"], state, ready=False)
        ],
    }


def unready(pod: Object) -> Object:
    """Containers that run while their readiness probe says no."""
    state = {"running": {"startedAt": now()}}
    conditions = [_condition(kind, "False", "ContainersNotReady") for kind in ("ContainersReady", "Ready")]
    return {
        **running(pod),
        "conditions": [_condition("Initialized", "True"), *conditions],
        "containerStatuses": _containers(pod["spec"]["containers"], state, ready=False),
    }


def succeeded(pod: Object) -> Object:
    return _ended(pod, "Succeeded", exit_code=0, reason="Completed")


def failed(pod: Object, exit_code: int) -> Object:
    return _ended(pod, "Failed", exit_code=exit_code, reason="Error")


def _ended(pod: Object, phase: str, *, exit_code: int, reason: str) -> Object:
    ready_reason = "PodCompleted" if phase == "Succeeded" else "PodFailed"
    state = {"terminated": {"exitCode": exit_code, "reason": reason, "finishedAt": now()}}
    return {
        "phase": phase,
        "conditions": [_condition(kind, "False", ready_reason) for kind in ("ContainersReady", "Ready")],
        "containerStatuses": _containers(pod["spec"]["containers"], state, ready=False),
    }


def _init_containers(pod: Object) -> Object:
    """Init containers have run before the pod is Running; those that restart always are sidecars and still run."""
    statuses: Objects = []
    for container in pod["spec"].get("initContainers") or []:
        sidecar = container.get("restartPolicy") == "Always"
        ended = {"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": now()}}
        statuses += _containers([container], {"running": {"startedAt": now()}} if sidecar else ended, ready=True)
    return {"initContainerStatuses": statuses} if statuses else {}


def _containers(containers: Objects, state: Object, *, ready: bool) -> Objects:
    return [
        {
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "ready": ready,
            "started": ready,
            "restartCount": 0,
            # A null removes the state before: a container is in exactly one.
            "state": {"running": None, "waiting": None, "terminated": None, **state},
        }
        for container in containers
    ]


def _condition(kind: str, status: str, reason: str | None = None) -> Object:
    condition = {"type": kind, "status": status, "lastTransitionTime": now()}
    return condition if reason is None else {**condition, "reason": reason}


def now() -> str:
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
