"""``pods/binding``: how a scheduler puts a pod on a node."""

from __future__ import annotations

from gangctl.sandbox import errors, writes
from gangctl.sandbox.errors import Cause
from gangctl.sandbox.kinds import ResourceKind
from gangctl.sandbox.objects import Object, copy, now
from gangctl.sandbox.writes import Write


async def bind(write: Write, body: Object) -> None:
    """Set the node of a pod and its condition PodScheduled, and copy the binding's annotations.

    StatusError: 404 without the pod, 409 when it has a node, is gated or is being deleted, 422 without a target.
    """
    target = body.get("target") or {}
    node = target.get("name", "")
    if not node:
        cause = Cause("FieldValueRequired", "target.name", "Required value")
        raise errors.invalid(_binding_kind(write), write.name, [cause])
    given_uid = (body.get("metadata") or {}).get("uid", "")

    def bound(old: Object) -> Object:
        _refuse(write, old, given_uid)
        new = copy(old)
        del new["metadata"]["resourceVersion"]
        annotations = (body.get("metadata") or {}).get("annotations") or {}
        if annotations:
            new["metadata"]["annotations"] = {**new["metadata"].get("annotations", {}), **annotations}
        new.setdefault("spec", {})["nodeName"] = node
        conditions = new.setdefault("status", {}).setdefault("conditions", [])
        conditions[:] = [each for each in conditions if each.get("type") != "PodScheduled"]
        conditions.append(
            {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now()}
        )
        return new

    await writes.change(write, bound)


def _refuse(write: Write, pod: Object, given_uid: str) -> None:
    metadata, spec = pod["metadata"], pod.get("spec") or {}
    if given_uid not in {"", metadata["uid"]}:
        why = f"Precondition failed: UID in precondition: {given_uid}, UID in object meta: {metadata['uid']}"
        raise errors.conflict(write.kind, write.name, why)
    if "deletionTimestamp" in metadata:
        raise _conflict(write, f"pod {write.name} is being deleted, cannot be assigned to a host")
    if spec.get("nodeName"):
        raise _conflict(write, f'pod {write.name} is already assigned to node "{spec["nodeName"]}"')
    if spec.get("schedulingGates"):
        raise _conflict(write, f"pod {write.name} has non-empty .spec.schedulingGates")


def _conflict(write: Write, why: str) -> errors.StatusError:
    message = f'Operation cannot be fulfilled on pods/binding "{write.name}": {why}'
    return errors.StatusError(409, "Conflict", message, {"name": write.name, "kind": "pods/binding"})


def _binding_kind(write: Write) -> ResourceKind:
    return ResourceKind("", "v1", "bindings", "Binding", verbs=write.kind.verbs)
