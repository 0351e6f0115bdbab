"""The cells of what runs: Pods, Jobs, Workloads, PodGroups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from gangctl.sandbox.objects import Object
from gangctl.sandbox.tables.columns import (
    AGE,
    NONE,
    Printer,
    age,
    columns,
    duration,
    is_true,
    joined,
    metadata,
    moment_of,
    since,
    spec,
    status,
)

Container = Mapping[str, Any]


def _pod(obj: Object) -> list[Any]:
    fields, state = spec(obj), status(obj)
    containers = list(state.get("containerStatuses") or ())
    inits = list(state.get("initContainerStatuses") or ())
    sidecars = {each["name"] for each in fields.get("initContainers") or () if each.get("restartPolicy") == "Always"}
    initializing = _initializing(inits, sidecars, len(fields.get("initContainers") or ()))
    conditions = state.get("conditions") or ()
    ready = sum(bool(each.get("ready")) for each in inits if each["name"] in sidecars and each.get("started"))
    if initializing is None or is_true(conditions, "Initialized"):
        counted = [*containers, *(each for each in inits if each["name"] in sidecars)]
        ready += sum(bool(each.get("ready") and _state(each, "running")) for each in containers)
    else:
        counted = inits
    gates = [each["conditionType"] for each in fields.get("readinessGates") or ()]
    return [
        f"{ready}/{len(fields.get('containers') or ()) + len(sidecars)}",
        _pod_status(obj, containers, initializing),
        _restarts(counted),
        age(obj),
        next((each["ip"] for each in state.get("podIPs") or ()), NONE),
        fields.get("nodeName") or NONE,
        state.get("nominatedNodeName") or NONE,
        f"{sum(is_true(conditions, gate) for gate in gates)}/{len(gates)}" if gates else NONE,
    ]


def _state(container: Container, name: str) -> Mapping[str, Any] | None:
    found: Mapping[str, Any] | None = (container.get("state") or {}).get(name)
    return found


def _ended(terminated: Mapping[str, Any]) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    signal = terminated.get("signal")
    return f"Signal:{signal}" if signal else f"ExitCode:{terminated.get('exitCode', 0)}"


def _initializing(inits: Iterable[Container], sidecars: set[str], count: int) -> str | None:
    """The status that the first init container gives the pod that has neither ended well nor is a running sidecar."""
    for index, each in enumerate(inits):
        terminated, waiting = _state(each, "terminated"), _state(each, "waiting") or {}
        if terminated is not None and not terminated.get("exitCode"):
            continue
        if each["name"] in sidecars and each.get("started"):
            continue
        if terminated is not None:
            return f"Init:{_ended(terminated)}"
        reason = waiting.get("reason")
        return f"Init:{reason}" if reason and reason != "PodInitializing" else f"Init:{index}/{count}"
    return None


def _pod_status(pod: Object, containers: list[Container], initializing: str | None) -> str:
    state = status(pod)
    conditions = state.get("conditions") or ()
    reason = state.get("reason") or state.get("phase", "")
    if any(each.get("type") == "PodScheduled" and each.get("reason") == "SchedulingGated" for each in conditions):
        reason = "SchedulingGated"
    reason = initializing or reason
    if initializing is None or is_true(conditions, "Initialized"):
        reason = _of_containers(containers, reason, is_ready=is_true(conditions, "Ready"))
    if metadata(pod).get("deletionTimestamp"):
        if state.get("reason") == "NodeLost":
            return "Unknown"
        if state.get("phase") not in {"Succeeded", "Failed"}:
            return "Terminating"
    return str(reason)


def _of_containers(containers: list[Container], reason: str, *, is_ready: bool) -> str:
    running, failed = False, ""
    for each in reversed(containers):
        terminated, waiting = _state(each, "terminated"), _state(each, "waiting") or {}
        if waiting.get("reason"):
            reason = str(waiting["reason"])
        elif terminated is not None:
            reason = _ended(terminated)
            failed = reason if terminated.get("exitCode") else failed
        elif each.get("ready") and _state(each, "running") is not None:
            running = True
    if reason == "Completed":
        if running and is_ready:
            return "Running"
        return failed or ("NotReady" if running else reason)
    return reason


def _restarts(containers: Iterable[Container]) -> str:
    listed = list(containers)
    count = sum(int(each.get("restartCount") or 0) for each in listed)
    ended = ((each.get("lastState") or {}).get("terminated") or {} for each in listed)
    last = max((str(each["finishedAt"]) for each in ended if each.get("finishedAt")), default="")
    return f"{count} ({since(last)} ago)" if count and last else str(count)


def _job(obj: Object) -> list[Any]:
    fields, state = spec(obj), status(obj)
    template = spec(fields.get("template") or {}).get("containers") or ()
    return [
        _job_status(obj),
        _completions(fields, state.get("succeeded", 0)),
        _job_duration(state),
        age(obj),
        ",".join(each["name"] for each in template),
        ",".join(each.get("image", "") for each in template),
        _selector(fields.get("selector") or {}),
    ]


def _job_status(job: Object) -> str:
    conditions = status(job).get("conditions")
    for kind in ("Complete", "Failed"):
        if is_true(conditions, kind):
            return kind
    if metadata(job).get("deletionTimestamp"):
        return "Terminating"
    states = ("Suspended", "FailureTarget", "SuccessCriteriaMet")
    return next((kind for kind in states if is_true(conditions, kind)), "Running")


def _completions(fields: Mapping[str, Any], succeeded: int) -> str:
    if fields.get("completions") is not None:
        return f"{succeeded}/{fields['completions']}"
    parallelism = fields.get("parallelism") or 0
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job_duration(state: Mapping[str, Any]) -> str:
    start, end = moment_of(state.get("startTime")), moment_of(state.get("completionTime"))
    if start is None:
        return ""
    return since(state["startTime"]) if end is None else duration((end - start).total_seconds())


def _selector(selector: Mapping[str, Any]) -> str:
    labels = {key: f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()}
    for each in selector.get("matchExpressions") or ():
        key, values = each["key"], ",".join(sorted(each.get("values") or ()))
        forms = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "DoesNotExist": f"!{key}"}
        labels[key] = forms.get(each["operator"], key)
    return joined(labels[key] for key in sorted(labels))


def _pod_group(condition: str, workload: Callable[[Mapping[str, Any]], str | None]) -> Printer:
    """``workload`` finds the name of its Workload in its spec."""

    def cells(obj: Object) -> list[Any]:
        policy = "Gang" if (spec(obj).get("schedulingPolicy") or {}).get("gang") is not None else "Basic"
        found = {each["type"]: each for each in status(obj).get("conditions") or ()}
        state = "Pending"
        if condition in found:
            state = "Scheduled" if found[condition]["status"] == "True" else "Unschedulable"
        if "DisruptionTarget" in found:
            state = found["DisruptionTarget"]["reason"]
        return [policy, workload(spec(obj)) or NONE, state, age(obj)]

    return Printer(columns("Policy", "Workload", "Status", "Age"), cells)


def _workload_of_v1alpha2(fields: Mapping[str, Any]) -> str | None:
    reference = (fields.get("podGroupTemplateRef") or {}).get("workload") or {}
    return reference.get("workloadName")


def _workload_of_v1beta1(fields: Mapping[str, Any]) -> str | None:
    return (fields.get("workloadRef") or {}).get("workloadName")


PRINTERS: Final[Mapping[str, Printer]] = {
    "pods": Printer(
        columns(*("Ready", "Status", "Restarts", "Age"), wide=("IP", "Node", "Nominated Node", "Readiness Gates")),
        _pod,
    ),
    "jobs.batch": Printer(
        columns("Status", "Completions", "Duration", "Age", wide=("Containers", "Images", "Selector")), _job
    ),
    "workloads.scheduling.k8s.io": Printer((AGE,), lambda obj: [age(obj)]),
}
"""By resource."""

POD_GROUPS: Final[Mapping[str, Printer]] = {
    "v1alpha2": _pod_group("PodGroupScheduled", _workload_of_v1alpha2),
    **dict.fromkeys(("v1beta1", "v1"), _pod_group("PodGroupInitiallyScheduled", _workload_of_v1beta1)),
}
"""By version."""

_ENDS: Final = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}


def row_conditions(pod: Object) -> list[Object]:
    """The conditions of a pod's row: that it has ended."""
    phase = status(pod).get("phase")
    if phase not in _ENDS:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": _ENDS[phase]}]
