"""Create, update and patch: decode, drop, default, admit, validate, store.

Webhooks are called in between, so the stored object may change: a write without a
resourceVersion is retried on the new state, one with a resourceVersion is a conflict.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

import orjson

from gangctl.api.objects import copy, same
from gangctl.apiserver.metadata import FieldCause
from gangctl.sandbox import errors, managed, payloads
from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.kinds import ResourceKind
from gangctl.sandbox.objects import Object, generated_name, now, uid
from gangctl.sandbox.patches import PatchType
from gangctl.sandbox.registry import ObjectRequest
from gangctl.sandbox.requests import Attributes, WriteOptions
from gangctl.sandbox.rules import quotas
from gangctl.sandbox.store import Stored, from_storage, in_version, to_storage

_NOT_COUNTED: Final = frozenset({"metadata", "status", "apiVersion", "kind"})
_NOT_WITH_STATUS: Final = {
    "pods": ("ownerReferences",),
    "podgroups": ("labels", "annotations", "finalizers", "ownerReferences"),
}
"""Metadata that a write of the status leaves as it is; of kinds with a definition that is all of it."""


@dataclass(slots=True)
class Write(ObjectRequest[WriteOptions]):
    """State of one create, update or patch."""

    operation: managed.Operation = "Update"
    patching: bool = False


def _attributes(write: Write, operation: Literal["CREATE", "UPDATE"], old: Object | None) -> Attributes:
    options: Object = {"apiVersion": "meta.k8s.io/v1", "kind": f"{operation.title()}Options"}
    return write.attributes(operation, old, options | option_fields(write.options))


def option_fields(options: WriteOptions) -> Object:
    """Options as a client would have written them."""
    fields: Object = {}
    if options.dry_run:
        fields["dryRun"] = ["All"]
    if options.field_manager:
        fields["fieldManager"] = options.field_manager
    if options.field_validation:
        fields["fieldValidation"] = options.field_validation
    return fields


async def create(write: Write, body: Object) -> Stored:
    """Create ``body``, which becomes the store's.

    StatusError: 400 for what cannot be it, 403 and 404 for its namespace, 409 when the name is taken, 422 when invalid.
    """
    kind = write.kind
    payloads.settle_type(kind, body)
    payloads.settle_place(kind, write.namespace, body)
    if body["metadata"].get("resourceVersion"):
        raise StatusError(500, "", "resourceVersion should not be set on objects to be created")
    body["metadata"].pop("resourceVersion", None)
    payloads.wipe_system_fields(body["metadata"])
    write.name = body["metadata"].get("name", "")
    _drop_and_default(write, body)
    if write.operation == "Update":
        # Fields that admission adds afterwards have no manager.
        managed.track(kind, None, body, managed.manager_of(write.caller, write.options))
    # Before webhooks, as the NamespaceLifecycle plugin is ordered.
    _check_namespace(write)
    write.backend.registry.rules(kind).plugins(body, write.backend.store)
    body = await _mutate(write, "CREATE", body, None)
    return await _finish_create(write, body)


async def _finish_create(write: Write, body: Object) -> Stored:
    metadata = body["metadata"]
    generated = not metadata.get("name") and bool(metadata.get("generateName"))
    # After mutation, as in rest.BeforeCreate of the API server: mutating webhooks see no uid.
    metadata["uid"], metadata["creationTimestamp"] = uid(), now()
    if generated:
        metadata["name"] = _free_name(write, metadata["generateName"])
    rules = write.backend.registry.rules(write.kind)
    rules.prepare_create(body)
    if write.kind.generation:
        metadata["generation"] = 1
    write.name = metadata.get("name", "")
    rules.admit(body, None, write.subresource, write.backend.store)
    _refuse_invalid(write, body, None)
    await write.backend.admission.validate(_attributes(write, "CREATE", None), body)
    # The namespace may have been deleted during the webhook calls.
    _check_namespace(write)
    # From here to the end there is no await: two requests must not take the last place of a quota, or the same name.
    quotas.check(write.kind, body, write.backend.store)
    stored = to_storage(write.kind, body)
    taken = write.backend.store.get(write.kind.storage, write.key)
    if taken is not None:
        raise errors.already_exists(write.kind, write.name, ending="deletionTimestamp" in taken.obj["metadata"])
    if write.options.dry_run:
        return in_version(write.kind, Stored(stored, 0))
    return in_version(write.kind, write.backend.store.put(write.kind.storage, write.key, stored))


def _free_name(write: Write, prefix: str) -> str:
    while True:
        name = generated_name(prefix)
        if write.backend.store.get(write.kind.storage, (write.namespace, name)) is None:
            return name


async def update(write: Write, body: Object) -> tuple[Stored, bool]:
    """Replace an object by ``body``; returns whether it was created instead, which few kinds allow.

    StatusError: 404 without it, 409 when ``body`` is based on another version, 422 when invalid.
    """
    kind = write.kind
    payloads.settle_type(kind, body)
    payloads.settle_place(kind, write.namespace, body, write.name)
    given = body["metadata"].get("resourceVersion", "")
    if given and not (str(given).isascii() and str(given).isdigit()):
        raise StatusError(500, "", f'strconv.ParseUint: parsing "{given}": invalid syntax')
    # Only a write without a version is retried, with the client's original body.
    source = None if given else orjson.dumps(body)
    if write.backend.store.get(kind.storage, write.key) is None and kind.create_on_update and not write.subresource:
        if source is None or body["metadata"].get("uid"):
            raise errors.conflict(kind, write.name)
        if (created := await create_first(write, body)) is not None:
            return created, True
        body = orjson.loads(source)
    attempts = [body]

    def replacement(old: Object) -> Object:
        del old
        return attempts.pop() if attempts or source is None else orjson.loads(source)

    return await change(write, replacement, required=not kind.unconditional_update), False


async def create_first(write: Write, body: Object) -> Stored | None:
    """Create an object; None if another request has created it meanwhile, as in GuaranteedUpdate of the API server."""
    try:
        return await create(write, body)
    except StatusError as error:
        if error.reason != "AlreadyExists" or write.backend.store.get(write.kind.storage, write.key) is None:
            raise
        return None


async def patch(write: Write, patch_type: PatchType, apply: Callable[[Object], Object]) -> Stored:
    """Change an object by ``apply``, which returns a new one for the frozen old one; 404 without it."""
    write.patching = True

    def patched(old: Object) -> Object:
        new = apply(old)
        payloads.settle_type(write.kind, new)
        payloads.settle_place(write.kind, write.namespace, new, write.name)
        return new

    write.operation = "Apply" if patch_type == "apply" else "Update"
    return await change(write, patched)


async def change(write: Write, make: Callable[[Object], Object], *, required: bool = False) -> Stored:
    """Replace the stored object by the result of ``make``, and retry after concurrent writes.

    ``required``: a resourceVersion must be given.
    """
    store, kind = write.backend.store, write.kind
    while True:
        stored = store.get(kind.storage, write.key)
        if stored is None:
            raise errors.not_found(kind, write.name)
        old = from_storage(kind, stored.obj)
        new = make(old)
        # First: preconditions are compared by their types.
        _drop_and_default(write, new)
        given = _check_preconditions(write, new, old, required=required)
        new = await _prepared_update(write, new, old)
        # Compared by identity: what is stored is frozen, so that each write makes another object.
        if store.get(kind.storage, write.key) is stored:
            return _put(write, new, old, stored)
        if given:
            raise errors.conflict(kind, write.name)


def _check_preconditions(write: Write, new: Object, old: Object, *, required: bool) -> bool:
    """Whether ``new`` has a resourceVersion; 409 if it is not that of ``old``."""
    metadata, current = new["metadata"], old["metadata"]
    given = metadata.get("resourceVersion", "")
    if not given and required:
        why = "Invalid value: 0: must be specified for an update"
        raise errors.invalid(write.kind, write.name, [FieldCause("FieldValueInvalid", "metadata.resourceVersion", why)])
    if metadata.get("uid", "") not in {"", current["uid"]}:
        raise _other_uid(write, metadata["uid"], current["uid"])
    if given and given != current["resourceVersion"]:
        raise errors.conflict(write.kind, write.name)
    # Fields that a patch does not change come from the stored object.
    return bool(given) and not write.patching


def _other_uid(write: Write, given: str, current: str) -> StatusError:
    if write.patching:
        cause = FieldCause("FieldValueInvalid", errors.UID_FIELD, f'Invalid value: "{given}": field is immutable')
        return errors.invalid(write.kind, write.name, [cause])
    why = f"Precondition failed: UID in precondition: {given}, UID in object meta: {current}"
    return errors.conflict(write.kind, write.name, why)


async def _prepared_update(write: Write, new: Object, old: Object) -> Object:
    new = _separate(write, new, old)
    # The API server's own change of a pod by a binding has no manager.
    if write.operation == "Update" and write.subresource != "binding":
        managed.track(write.kind, old, new, managed.manager_of(write.caller, write.options), write.subresource)
    new = await _mutate(write, "UPDATE", new, old)
    # Again: a webhook may have changed fields that this endpoint does not write.
    new = _separate(write, new, old)
    rules = write.backend.registry.rules(write.kind)
    rules.prepare_update(new, old, write.subresource)
    _count_generation(write, new, old)
    rules.admit(new, old, write.subresource, write.backend.store)
    if not same(new, old):
        _refuse_invalid(write, new, old)
    await write.backend.admission.validate(_attributes(write, "UPDATE", old), new)
    return new


def _put(write: Write, new: Object, old: Object, stored: Stored) -> Stored:
    kind, store = write.kind, write.backend.store
    if _ends(new, old):
        if write.options.dry_run:
            return Stored(new, stored.revision)
        # Watches get the last stored state; the client that ended it gets what it wrote.
        end = store.remove(kind.storage, write.key)
        new["metadata"]["resourceVersion"] = str(end.revision)
        return Stored(new, end.revision)
    if write.options.dry_run:
        return Stored(new, stored.revision)
    if same(new, old):
        # Nothing is written, so that no watch gets an event.
        return in_version(kind, stored)
    return in_version(kind, store.put(kind.storage, write.key, to_storage(kind, new)))


def _ends(new: Object, old: Object) -> bool:
    """Whether an update removes the last finalizer of an object that waits for nothing else."""
    metadata = old["metadata"]
    if "deletionTimestamp" not in metadata or new["metadata"].get("finalizers"):
        return False
    if (new.get("spec") or {}).get("finalizers") and new["kind"] == "Namespace":
        return False
    # A pod with a grace period waits for its kubelet, which deletes it with a period of 0.
    return not metadata.get("deletionGracePeriodSeconds")


def _separate(write: Write, new: Object, old: Object) -> Object:
    """Restrict a request to the fields of its endpoint: everything but the status, or the status."""
    payloads.keep_system_fields(new["metadata"], old["metadata"])
    if write.subresource == "binding":
        return new
    if write.subresource == "status":
        return _status_only(write.kind, new, old)
    if write.subresource == "finalize":
        finalizers = (new.get("spec") or {}).get("finalizers")
        new = copy(old)
        new["spec"] = {**(new.get("spec") or {}), "finalizers": finalizers or []}
        if not finalizers:
            del new["spec"]["finalizers"]
        return new
    if write.kind.has_status:
        _take(new, old, "status")
    return new


def _status_only(kind: ResourceKind, new: Object, old: Object) -> Object:
    kept = copy(old)
    if "status" in new:
        kept["status"] = new["status"]
    else:
        kept.pop("status", None)
    if kind.custom:
        managed_fields = new["metadata"].get("managedFields")
        if managed_fields is not None:
            kept["metadata"]["managedFields"] = managed_fields
    else:
        kept["metadata"] = new["metadata"]
        for field in _NOT_WITH_STATUS.get(kind.plural, ()):
            _take(kept["metadata"], old["metadata"], field)
    return kept


def _take(new: Object, old: Object, field: str) -> None:
    if field in old:
        new[field] = copy(old[field])
    else:
        new.pop(field, None)


def _count_generation(write: Write, new: Object, old: Object) -> None:
    kind = write.kind
    if not kind.generation or write.subresource == "binding":
        return
    # Without the subresource the status is a field like any other (customResourceStrategy).
    uncounted = _NOT_COUNTED if kind.has_status or not kind.custom else _NOT_COUNTED - {"status"}
    if any(not same(new.get(key), old.get(key)) for key in (new.keys() | old.keys()) - uncounted):
        new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


async def _mutate(write: Write, operation: Literal["CREATE", "UPDATE"], obj: Object, old: Object | None) -> Object:
    mutated = await write.backend.admission.mutate(_attributes(write, operation, old), obj)
    if mutated is not obj:
        mutated.setdefault("metadata", {})
        # What a webhook wrote is not the client's: no warnings.
        _drop_and_default(write, mutated, warn=False)
        if operation == "CREATE":
            write.backend.registry.rules(write.kind).plugins(mutated, write.backend.store)
    return mutated


def _drop_and_default(write: Write, obj: Object, *, warn: bool = True) -> None:
    rules = write.backend.registry.rules(write.kind)
    unknown = rules.decode(obj)
    if warn and unknown:
        warnings = [f'unknown field "{path}"' for path in unknown]
        if write.options.field_validation == "Strict":
            subject = f'{write.kind.kind} in version "{write.kind.version}" cannot be handled as a {write.kind.kind}: '
            raise errors.bad_request(f"{subject}strict decoding error: {', '.join(warnings)}")
        if write.options.field_validation != "Ignore":
            write.warnings.extend(warnings)
    rules.default(obj)


def _refuse_invalid(write: Write, new: Object, old: Object | None) -> None:
    rules = write.backend.registry.rules(write.kind)
    causes = list(rules.validate(new, old, write.subresource))
    if not causes and not new["metadata"].get("name"):
        why = "Required value: name or generateName is required"
        causes.append(FieldCause("FieldValueRequired", "metadata.name", why))
    if causes:
        raise errors.invalid(write.kind, write.name, causes)


def _check_namespace(write: Write) -> None:
    if not write.kind.namespaced:
        return
    namespace = write.backend.store.find("namespaces", "", write.namespace)
    if namespace is None:
        raise errors.not_found(write.backend.registry.named("namespaces"), write.namespace)
    if "deletionTimestamp" in namespace["metadata"]:
        raise errors.namespace_terminating(write.kind, write.name, write.namespace)
