"""Delete: preconditions, finalizers of propagation, graceful termination of pods, dry runs.

An object with finalizers, or a pod with a grace period, stays and gets a
deletionTimestamp. The garbage collector and the kubelet do the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from gangctl.api.objects import copy
from gangctl.api.pods import is_finished
from gangctl.sandbox import errors
from gangctl.sandbox.kinds import ResourceKind
from gangctl.sandbox.objects import Object, now
from gangctl.sandbox.registry import ObjectRequest
from gangctl.sandbox.requests import DeleteOptions
from gangctl.sandbox.store import Stored, from_storage, in_version, to_storage

FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"
# They have a Delete of their own in the API server, which sets the deletionTimestamp alone.
_WITHOUT_GRACE: Final = frozenset({"namespaces", "customresourcedefinitions"})
# DefaultTerminationGracePeriodSeconds of k8s.io/api/core/v1.
_POD_GRACE: Final = 30
# addConditionAndDeletePod of pkg/registry/core/pod/storage/eviction.go.
_EVICTED: Final = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}
# Their storage has ReturnDeletedObject.
_RETURNED: Final = frozenset({"pods", "services", "serviceaccounts", "resourcequotas"})
# immortalNamespaces of the NamespaceLifecycle plugin.
FIRST_NAMESPACES: Final = ("default", "kube-public", "kube-system")
"""The namespaces that every cluster has and keeps."""


@dataclass(slots=True)
class Deletion(ObjectRequest[DeleteOptions]):
    """State of one delete."""


@dataclass(frozen=True, slots=True)
class Deleted:
    """The result: the object's last state, frozen, and whether it is gone."""

    stored: Stored
    gone: bool


async def delete(deletion: Deletion) -> Deleted:
    """Delete an object, or mark it; StatusError 404 without it, 409 if a precondition fails, or a webhook's."""
    store, kind = deletion.backend.store, deletion.kind
    while True:
        stored = store.get(kind.storage, deletion.key)
        if stored is None:
            raise errors.not_found(kind, deletion.name)
        old = from_storage(kind, stored.obj)
        _check_preconditions(deletion, old)
        attributes = deletion.attributes("DELETE", old, options_object(deletion.options))
        # Mutating webhooks are called for deletions, too; what they return is not used, as there is no new object.
        await deletion.backend.admission.mutate(attributes, old)
        await deletion.backend.admission.validate(attributes, None)
        # Webhooks were called meanwhile: if it has changed, preconditions and webhooks are for the new state.
        if store.get(kind.storage, deletion.key) is stored:
            break
    if deletion.kind.qualified_name == "namespaces" and deletion.name in FIRST_NAMESPACES:
        raise errors.forbidden(deletion.kind, deletion.name, "this namespace may not be deleted")
    return _carry_out(deletion, stored, old)


async def evict(deletion: Deletion) -> Deleted:
    """Delete a pod, with a condition that says why; StatusError as :func:`delete`."""
    store, kind, options = deletion.backend.store, deletion.kind, deletion.options
    stored = store.get(kind.storage, deletion.key)
    if stored is None:
        raise errors.not_found(kind, deletion.name)
    conditions = (stored.obj.get("status") or {}).get("conditions") or []
    if options.dry_run or any(_EVICTED.items() <= condition.items() for condition in conditions):
        return await delete(deletion)
    _check_preconditions(deletion, stored.obj)
    new = copy(stored.obj)
    others = [condition for condition in conditions if condition["type"] != _EVICTED["type"]]
    evicted = {**_EVICTED, "lastProbeTime": None, "lastTransitionTime": now()}
    new["status"] = {**new.get("status", {}), "conditions": [*others, evicted]}
    # Before the deletion: a podFailurePolicy that ignores disruptions reads the condition of the terminating pod.
    stored = store.put(kind.storage, deletion.key, new)
    if options.resource_version is not None:
        # What was asked for is the pod before the condition.
        options = replace(options, resource_version=str(stored.revision))
    return await delete(replace(deletion, options=options))


def _check_preconditions(deletion: Deletion, old: Object) -> None:
    """StatusError 409 if the object is another one than the request names."""
    options = deletion.options
    for field, value, name, what in (
        ("uid", options.uid, "UID", "deleted and then recreated"),
        ("resourceVersion", options.resource_version, "ResourceVersion", "modified"),
    ):
        record = old["metadata"][field]
        if value not in {None, record}:
            why = f"the {name} in the precondition ({value}) does not match the {name} in record ({record})"
            raise errors.precondition_failed(deletion.kind, deletion.name, f"{why}. The object might have been {what}")


def _carry_out(deletion: Deletion, stored: Stored, old: Object) -> Deleted:
    store, kind = deletion.backend.store, deletion.kind
    finalizers = _finalizers(deletion, old)
    grace = _grace(kind, old, deletion.options.grace_seconds)
    waits = bool(finalizers) or grace > 0 or (kind.plural == "namespaces" and bool(_spec(old).get("finalizers")))
    if not waits:
        if deletion.options.dry_run:
            obj = _marked(kind, old, finalizers, grace) if kind.qualified_name == "pods" else old
            return Deleted(Stored(obj, stored.revision), gone=True)
        if kind.qualified_name == "pods":
            # Only pods terminate gracefully, possibly in zero seconds: they are marked before their removal.
            store.put(kind.storage, deletion.key, _marked(kind, old, finalizers, grace))
        return Deleted(in_version(kind, store.remove(kind.storage, deletion.key)), gone=True)
    new = _marked(kind, old, finalizers, grace)
    if deletion.options.dry_run:
        return Deleted(Stored(new, stored.revision), gone=False)
    # A second delete is no change: a write would send it to all watches.
    if new == old:
        return Deleted(in_version(kind, stored), gone=False)
    return Deleted(in_version(kind, store.put(kind.storage, deletion.key, to_storage(kind, new))), gone=False)


def _marked(kind: ResourceKind, old: Object, finalizers: list[str], grace: int) -> Object:
    new = copy(old)
    metadata = new["metadata"]
    metadata["finalizers"] = finalizers
    if not finalizers:
        del metadata["finalizers"]
    if "deletionTimestamp" not in metadata:
        metadata["deletionTimestamp"] = _in_seconds(grace)
        if kind.plural not in _WITHOUT_GRACE:
            metadata["deletionGracePeriodSeconds"] = grace
            # As in rest.BeforeDelete: controllers treat the object differently from here on.
            if metadata.get("generation", 0) > 0:
                metadata["generation"] += 1
    elif grace < metadata.get("deletionGracePeriodSeconds", 0):
        metadata["deletionTimestamp"] = _in_seconds(grace)
        metadata["deletionGracePeriodSeconds"] = grace
    if kind.plural == "namespaces":
        new["status"] = {**(new.get("status") or {}), "phase": "Terminating"}
    return new


def _finalizers(deletion: Deletion, old: Object) -> list[str]:
    finalizers = list(old["metadata"].get("finalizers") or [])
    propagation = deletion.options.propagation
    if propagation is None:
        if ORPHAN in finalizers or FOREGROUND in finalizers:
            return finalizers
        # batch/v1 Jobs have OrphanDependents as default (DefaultGarbageCollectionPolicy).
        propagation = "Orphan" if deletion.kind.qualified_name == "jobs.batch" else "Background"
    kept = [finalizer for finalizer in finalizers if finalizer not in {ORPHAN, FOREGROUND}]
    match propagation:
        case "Orphan":
            kept.append(ORPHAN)
        case "Foreground":
            kept.append(FOREGROUND)
        case "Background":
            pass
    return kept


def _grace(kind: ResourceKind, old: Object, asked: int | None) -> int:
    """Grace period of a pod in seconds; other objects are deleted at once."""
    if kind.qualified_name != "pods":
        return 0
    grace = asked if asked is not None else _spec(old).get("terminationGracePeriodSeconds", _POD_GRACE)
    # No kubelet has containers to stop, so no kubelet would end the wait.
    if not _spec(old).get("nodeName") or is_finished(old):
        grace = 0
    # CheckGracefulDelete of pods takes a negative period as one second.
    grace = max(grace, 1) if grace < 0 else grace
    pending = old["metadata"].get("deletionGracePeriodSeconds")
    if "deletionTimestamp" in old["metadata"] and pending is not None:
        # A second delete may shorten the grace period, not extend it; without its own one it has no effect.
        return min(grace, pending) if asked is not None else int(pending)
    return int(grace)


def _spec(obj: Object) -> Object:
    return obj.get("spec") or {}


def _in_seconds(seconds: int) -> str:
    return f"{datetime.now(UTC) + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%SZ}"


def options_object(options: DeleteOptions) -> Object:
    """``metav1.DeleteOptions`` as a client writes them."""
    body: Object = {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}
    if options.dry_run:
        body["dryRun"] = ["All"]
    if options.grace_seconds is not None:
        body["gracePeriodSeconds"] = options.grace_seconds
    if options.propagation is not None:
        body["propagationPolicy"] = options.propagation
    preconditions = {"uid": options.uid, "resourceVersion": options.resource_version}
    given = {key: value for key, value in preconditions.items() if value is not None}
    if given:
        body["preconditions"] = given
    return body


def answer(kind: ResourceKind, deleted: Deleted) -> Object:
    """Response of a DELETE: the object while it waits, otherwise a Status for most kinds."""
    obj = deleted.stored.obj
    if not deleted.gone or kind.qualified_name in _RETURNED:
        return obj
    metadata = obj["metadata"]
    details = {"name": metadata["name"], "group": kind.group, "kind": kind.plural, "uid": metadata["uid"]}
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {key: value for key, value in details.items() if value},
    }
