"""The cells of what runs: Pods, Jobs, Workloads, PodGroups."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
    metadata,
    moment_of,
    pairs,
    since,
    spec,
    status,
)


def _pod(obj: Object) -> list[Any]:
    fields, state = spec(obj), status(obj)
    sidecars = {each["name"] for each in fields.get("initContainers") or () if each.get("restartPolicy") == "Always"}
    containers = list(state.get("containerStatuses") or ())
    counted = [*containers, *(each for each in state.get("initContainerStatuses") or () if each["name"] in sidecars)]
    ready = sum(bool(each.get("ready") and _state(each, "running")) for each in counted)
    gates = [each["conditionType"] for each in fields.get("readinessGates") or ()]
    return [
        f"{ready}/{len(fields.get('containers') or ()) + len(sidecars)}",
        _pod_status(obj, containers),
        str(sum(int(each.get("restartCount") or 0) for each in counted)),
        age(obj),
        next((each["ip"] for each in state.get("podIPs") or ()), NONE),
        fields.get("nodeName") or NONE,
        state.get("nominatedNodeName") or NONE,
        f"{sum(is_true(state.get('conditions'), gate) for gate in gates)}/{len(gates)}" if gates else NONE,
    ]


def _state(container: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return (container.get("state") or {}).get(name) or {}


def _pod_status(pod: Object, containers: list[Mapping[str, Any]]) -> str:
    """The status of a pod whose containers run together and end together, as those of the simulated kubelet do."""
    state = status(pod)
    if metadata(pod).get("deletionTimestamp") and state.get("phase") not in _ENDS:
        return "Terminating"
    if any(each.get("reason") == "SchedulingGated" for each in state.get("conditions") or ()):
        return "SchedulingGated"
    reasons = (_state(each, "terminated").get("reason") for each in containers)
    return str(next(filter(None, reasons), None) or state.get("reason") or state.get("phase", ""))


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
        pairs((fields.get("selector") or {}).get("matchLabels") or {}),
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
