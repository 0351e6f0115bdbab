"""Pods: admission by the plugins that every cluster has, the gang reference, and what may change.

The token volume of the service account is left out, and a service account of the name
``default`` need not exist: nothing here reads them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gangctl.sandbox import errors
from gangctl.sandbox.kinds import ResourceKind
from gangctl.sandbox.objects import Object, now
from gangctl.sandbox.rules import priorities
from gangctl.sandbox.rules.causes import Causes
from gangctl.sandbox.rules.metadata import validate_metadata
from gangctl.sandbox.rules.pod_defaults import add_default_tolerations, default_pod, qos_class
from gangctl.sandbox.rules.references import validate_reference
from gangctl.sandbox.rules.world import World

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
    if found.class_name:
        spec["priorityClassName"] = found.class_name
    spec["priority"], spec["preemptionPolicy"] = found.value, found.preemption


def validate(new: Object, old: Object | None, subresource: str) -> Causes:
    """Errors of the gang of a new pod, or of a change of one."""
    causes = validate_metadata(new, old)
    if old is None:
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
