"""Pods: admission by the plugins that every cluster has, the gang reference, and what may change.

The token volume of the service account is left out, and a service account of the name
``default`` need not exist: nothing here reads them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from gangctl.sandbox import errors
from gangctl.sandbox.kinds import ResourceKind
from gangctl.sandbox.objects import Object, copy, now
from gangctl.sandbox.rules import names, priorities
from gangctl.sandbox.rules.causes import Causes, spelled
from gangctl.sandbox.rules.metadata import validate_metadata, validate_metadata_update
from gangctl.sandbox.rules.pod_defaults import add_default_tolerations, default_pod, qos_class
from gangctl.sandbox.rules.pod_validation import validate_spec
from gangctl.sandbox.rules.world import World

__all__ = ["admit", "default_pod", "prepare_create", "prepare_update", "validate"]

_CHANGEABLE: Final = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` "
    "(only additions to existing tolerations),`spec.terminationGracePeriodSeconds` "
    "(allow it to be set to 1 if it was previously negative)"
)
_GATED: Final = {
    "type": "PodScheduled",
    "status": "False",
    "lastProbeTime": None,
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}


def prepare_create(pod: Object) -> None:
    """A new pod is pending, whatever its author says."""
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


def admit(kind: ResourceKind, pod: Object, world: World) -> None:
    """Service account, priority and tolerations of a new pod."""
    spec, metadata = pod["spec"], pod["metadata"]

    def forbid(why: str) -> errors.StatusError:
        return errors.forbidden(kind, metadata.get("name", ""), why)

    account = spec.get("serviceAccountName") or "default"
    namespace = metadata.get("namespace", "")
    if account != "default" and world("serviceaccounts", namespace, account) is None:
        raise forbid(f'error looking up service account {namespace}/{account}: serviceaccount "{account}" not found')
    spec["serviceAccountName"] = spec["serviceAccount"] = account
    _admit_priority(spec, world, forbid)
    add_default_tolerations(spec)


def _admit_priority(spec: Object, world: World, forbid: Callable[[str], errors.StatusError]) -> None:
    found = priorities.resolve(spec.get("priorityClassName", ""), world, forbid)
    if spec.get("priority") not in {None, found.value}:
        raise forbid(
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
            f"priority admission controller computed {found.value} from the given PriorityClass name"
        )
    if spec.get("preemptionPolicy") not in {None, found.preemption}:
        raise forbid(
            f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod spec; "
            f"priority admission controller computed {found.preemption} from the given PriorityClass name"
        )
    if found.class_name:
        spec["priorityClassName"] = found.class_name
    spec["priority"], spec["preemptionPolicy"] = found.value, found.preemption


def validate(new: Object, old: Object | None, subresource: str) -> Causes:
    """What is wrong with a pod, or with a change of one."""
    if old is None:
        causes = validate_metadata(new, names.dns_subdomain, namespaced=True)
        validate_spec(new["spec"], "spec", causes)
        if new["spec"].get("nodeName") and new["spec"].get("schedulingGates"):
            causes.forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared")
        return causes
    causes = validate_metadata_update(new, old)
    if subresource:
        return causes
    if new["spec"] == old["spec"]:
        return causes
    validate_spec(new["spec"], "spec", causes)
    _validate_change(new["spec"], old["spec"], causes)
    return causes


def _validate_change(new: Object, old: Object, causes: Causes) -> None:
    for field in ("containers", "initContainers"):
        if len(new.get(field) or ()) != len(old.get(field) or ()):
            causes.forbidden(f"spec.{field}", "pod updates may not add or remove containers")
            return
    munged = copy(new)
    _deadline(new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds"), causes)
    _tolerations(new.get("tolerations", []), old.get("tolerations", []), causes)
    _scheduling_gates(new.get("schedulingGates", []), old.get("schedulingGates", []), causes)
    for field in ("activeDeadlineSeconds", "tolerations", "schedulingGates"):
        _put_back(munged, old, field)
    for field in ("containers", "initContainers"):
        for container, before in zip(munged.get(field) or (), old.get(field) or (), strict=True):
            _put_back(container, before, "image")
    if old.get("schedulingGates"):
        _node_selector(new.get("nodeSelector", {}), old.get("nodeSelector", {}), causes)
        _put_back(munged, old, "nodeSelector")
        _put_back_node_affinity(munged, old)
    if munged != old:
        causes.forbidden(
            "spec", f"pod updates may not change fields other than {_CHANGEABLE}\n{_difference(munged, old)}"
        )


def _put_back(new: Object, old: Object, field: str) -> None:
    if field in old:
        new[field] = old[field]
    else:
        new.pop(field, None)


def _put_back_node_affinity(new: Object, old: Object) -> None:
    """A gated pod may be told more of its node."""
    before = old.get("affinity", {}).get("nodeAffinity")
    affinity = dict(new.get("affinity", {}))
    affinity.pop("nodeAffinity", None)
    if before is not None:
        affinity["nodeAffinity"] = before
    if affinity:
        new["affinity"] = affinity
    elif "affinity" not in old:
        new.pop("affinity", None)


def _deadline(new: Any, old: Any, causes: Causes) -> None:
    path = "spec.activeDeadlineSeconds"
    if new is None:
        if old is not None:
            causes.invalid(path, None, "must not update from a positive integer to nil value")
    elif old is not None and new > old:
        causes.invalid(path, new, "must be less than or equal to previous value")


def _tolerations(new: list[Object], old: list[Object], causes: Causes) -> None:
    plain = [{key: value for key, value in each.items() if key != "tolerationSeconds"} for each in new]
    for each in old:
        if {key: value for key, value in each.items() if key != "tolerationSeconds"} not in plain:
            causes.forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")
            return


def _scheduling_gates(new: list[Object], old: list[Object], causes: Causes) -> None:
    for index, gate in enumerate(new):
        if gate not in old:
            told = f"only deletion is allowed, but found new scheduling gate '{gate.get('name', '')}'"
            causes.forbidden(f"spec.schedulingGates[{index}].name", told)


def _node_selector(new: Object, old: Object, causes: Causes) -> None:
    if any(new.get(key) != value for key, value in old.items()):
        causes.invalid(
            "spec.nodeSelector", new, "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        )


def _difference(new: Object, old: Object) -> str:
    """The fields that differ, line by line; the server prints Go structs here."""
    lines = []
    for field in sorted(new.keys() | old.keys()):
        if new.get(field) != old.get(field):
            lines += [f'-  "{field}": {spelled(old.get(field))}', f'+  "{field}": {spelled(new.get(field))}']
    return "\n".join(lines) + "\n"
