"""Pods: defaults, admission by plugins, and what may change.

Priorities come from PriorityClasses, as in the Priority admission plugin. The token volume of the service account is
left out, and a service account of the name ``default`` need not exist: nothing here reads them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from gangctl.api.pods import SYSTEM_CLASSES
from gangctl.apiserver.metadata import Causes, validate_metadata
from gangctl.apiserver.pods import (
    containers,
    default_conditions,
    default_spec,
    validate_reference,
    validate_resource_names,
)
from gangctl.sandbox import errors
from gangctl.sandbox.kinds import ResourceKind
from gangctl.sandbox.objects import Object, now
from gangctl.sandbox.store import ObjectStore

_CONTAINER_STATUS: Final[Object] = {
    "state": {},
    "lastState": {},
    "ready": False,
    "restartCount": 0,
    "image": "",
    "imageID": "",
}
# What the DefaultTolerationSeconds plugin adds: by default a pod tolerates a lost node for five minutes.
_TOLERATED: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_TOLERATION_SECONDS: Final = 300


def default_pod(pod: Object) -> None:
    """Fill in a pod, in place."""
    spec = pod.setdefault("spec", {})
    default_spec(spec)
    for container in containers(spec):
        resources = container.get("resources", {})
        for name, limit in resources.get("limits", {}).items():
            resources.setdefault("requests", {}).setdefault(name, limit)
        if spec.get("hostNetwork"):
            for port in container.get("ports", ()):
                port.setdefault("hostPort", port.get("containerPort"))
    spec.setdefault("enableServiceLinks", True)
    default_conditions(pod, "lastProbeTime", "lastTransitionTime")
    for field in ("containerStatuses", "initContainerStatuses"):
        for status in pod.get("status", {}).get(field, ()):
            for name, value in _CONTAINER_STATUS.items():
                status.setdefault(name, dict(value) if isinstance(value, dict) else value)
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1


def add_default_tolerations(spec: Object) -> None:
    """Add the default tolerations of the admission plugin."""
    present: list[Any] = spec.get("tolerations", [])
    added = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _TOLERATION_SECONDS}
        for key in _TOLERATED
        if not any(
            toleration.get("key", "") in {key, ""} and toleration.get("effect", "") in {"NoExecute", ""}
            for toleration in present
        )
    ]
    if added:
        spec["tolerations"] = [*present, *added]


def qos_class(spec: Object) -> str:
    """Guaranteed, Burstable or BestEffort, from CPU and memory of all containers."""
    requested, limited, guaranteed = False, False, True
    for container in containers(spec):
        resources = container.get("resources", {})
        requests, limits = resources.get("requests", {}), resources.get("limits", {})
        requested |= any(name in requests for name in ("cpu", "memory"))
        limited |= any(name in limits for name in ("cpu", "memory"))
        for name in ("cpu", "memory"):
            if name not in limits or requests.get(name, limits[name]) != limits[name]:
                guaranteed = False
    if not requested and not limited:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


RESOURCE: Final = "priorityclasses.scheduling.k8s.io"


@dataclass(frozen=True, slots=True)
class Priority:
    """What a class stands for."""

    class_name: str = ""
    value: int = 0
    preemption: str = "PreemptLowerPriority"


def resolve(class_name: str, store: ObjectStore, forbid: Callable[[str], errors.StatusError]) -> Priority:
    """The priority of a class, or of the global default, or 0; ``forbid`` has the message for an unknown one."""
    if class_name in SYSTEM_CLASSES:
        return Priority(class_name, SYSTEM_CLASSES[class_name])
    if not class_name:
        marked = [stored.obj for stored in store.items(RESOURCE) if stored.obj.get("globalDefault")]
        # Of several, which only a race can create, the lowest counts.
        return min(map(_of, marked), key=lambda priority: priority.value, default=Priority())
    priority_class = store.find(RESOURCE, "", class_name)
    if priority_class is None:
        raise forbid(f"no PriorityClass with name {class_name} was found")
    return _of(priority_class)


def _of(found: Object) -> Priority:
    return Priority(
        found["metadata"]["name"], int(found.get("value", 0)), found.get("preemptionPolicy", "PreemptLowerPriority")
    )


__all__ = ["admit", "default_pod", "prepare_create", "prepare_update", "validate"]

_CHANGEABLE: Final = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` "
    "(only additions to existing tolerations),`spec.terminationGracePeriodSeconds` "
    "(allow it to be set to 1 if it was previously negative)"
)
_CHANGEABLE_FIELDS: Final = ("activeDeadlineSeconds", "tolerations", "schedulingGates")
_PLACE: Final = ("nodeSelector", "affinity")
_GATED: Final = {
    "type": "PodScheduled",
    "status": "False",
    "lastProbeTime": None,
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}


def prepare_create(pod: Object) -> None:
    """A new pod is pending."""
    spec = pod["spec"]
    status: Object = {"phase": "Pending", "qosClass": qos_class(spec)}
    if spec.get("schedulingGates"):
        status["conditions"] = [{**_GATED, "lastTransitionTime": now()}]
    pod["status"] = status


def prepare_update(new: Object, old: Object, subresource: str) -> None:
    """A status without a QoS class keeps it, and the priority stays what admission made it."""
    if subresource == "status":
        kept = old.get("status", {}).get("qosClass")
        if kept:
            new.setdefault("status", {}).setdefault("qosClass", kept)
        return
    for field in ("priority", "preemptionPolicy"):
        if field in old["spec"]:
            new["spec"].setdefault(field, old["spec"][field])


def admit(kind: ResourceKind, pod: Object, store: ObjectStore) -> None:
    """Service account, priority and tolerations of a new pod."""
    spec, metadata = pod["spec"], pod["metadata"]

    def forbid(why: str) -> errors.StatusError:
        # The name is generated later.
        return errors.forbidden(kind, metadata.get("name") or metadata.get("generateName", ""), why)

    account = spec.get("serviceAccountName") or "default"
    namespace = metadata.get("namespace", "")
    if account != "default" and store.find("serviceaccounts", namespace, account) is None:
        raise forbid(f'error looking up service account {namespace}/{account}: serviceaccount "{account}" not found')
    spec["serviceAccountName"] = spec["serviceAccount"] = account
    priority = resolve(spec.get("priorityClassName", ""), store, forbid)
    if priority.class_name:
        spec["priorityClassName"] = priority.class_name
    spec["priority"], spec["preemptionPolicy"] = priority.value, priority.preemption
    add_default_tolerations(spec)


def validate(new: Object, old: Object | None, subresource: str) -> Causes:
    """Errors of the gang of a new pod, or of a change of one."""
    causes = validate_metadata(new, old)
    if old is None:
        validate_resource_names(new["spec"], "spec", causes)
        validate_reference(new["spec"], "spec", causes)
        return causes
    gated = bool(old["spec"].get("schedulingGates"))
    if not subresource and _fixed(new["spec"], gated=gated) != _fixed(old["spec"], gated=gated):
        causes.forbidden("spec", f"pod updates may not change fields other than {_CHANGEABLE}")
    return causes


def _fixed(spec: Object, *, gated: bool) -> Object:
    """Changes of immutable fields; a gated pod may get more node selection."""
    changeable = {*_CHANGEABLE_FIELDS, *(_PLACE if gated else ())}
    fixed = {key: value for key, value in spec.items() if key not in changeable}
    for field in ("containers", "initContainers"):
        fixed[field] = [{**container, "image": ""} for container in spec.get(field) or ()]
    return fixed
