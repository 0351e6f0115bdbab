"""Checks of a request's object: type, name and namespace as in the URL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gangctl.sandbox import errors
from gangctl.sandbox.kinds import ResourceKind
from gangctl.sandbox.objects import Object, keep

_METADATA_TYPES: Final[Mapping[str, tuple[type, str]]] = {
    **dict.fromkeys(("name", "generateName", "namespace", "uid", "resourceVersion"), (str, "string")),
    **dict.fromkeys(("labels", "annotations"), (dict, "map[string]string")),
    "finalizers": (list, "[]string"),
    "ownerReferences": (list, "[]v1.OwnerReference"),
    "managedFields": (list, "[]v1.ManagedFieldsEntry"),
}
_OWNED_BY_SERVER: Final = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")


def settle_type(kind: ResourceKind, body: Object) -> None:
    """Fill in ``apiVersion`` and ``kind`` where they are missing; 400 when they are of something else."""
    api_version = body.get("apiVersion") or kind.api_version
    name = body.get("kind") or kind.kind
    if not isinstance(api_version, str) or not isinstance(name, str):
        raise errors.bad_request(f"the object provided is unrecognized (must be of type {kind.kind})")
    if (api_version, name) != (kind.api_version, kind.kind):
        version = api_version.rpartition("/")[2]
        raise errors.bad_request(f'{name} in version "{version}" cannot be handled as a {kind.kind}')
    body["apiVersion"], body["kind"] = api_version, name
    _check_metadata(kind, body)


def _check_metadata(kind: ResourceKind, body: Object) -> None:
    metadata = body.get("metadata")
    if metadata is None:
        metadata = body["metadata"] = {}
    if not isinstance(metadata, dict):
        raise wrong_json_type(kind, metadata, f"{kind.kind}.metadata", "v1.ObjectMeta")
    for field, (wanted, message) in _METADATA_TYPES.items():
        value = metadata.get(field)
        if value is not None and not isinstance(value, wanted):
            raise wrong_json_type(kind, value, f"ObjectMeta.metadata.{field}", message)
        # Go leaves empty values out.
        if not value:
            metadata.pop(field, None)
    for field in ("labels", "annotations"):
        for each in metadata.get(field, {}).values():
            if not isinstance(each, str):
                raise wrong_json_type(kind, each, f"ObjectMeta.metadata.{field}", "string")


def wrong_json_type(kind: ResourceKind, value: Any, field: str, wanted: str) -> errors.StatusError:
    """400 for a value of the wrong JSON type, as Go's decoder words it."""
    names = {bool: "bool", int: "number", float: "number", str: "string", list: "array", dict: "object"}
    found = names.get(type(value), "null")
    return errors.bad_request(
        f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: '
        f"json: cannot unmarshal {found} into Go struct field {field} of type {wanted}"
    )


def settle_place(kind: ResourceKind, namespace: str, body: Object, name: str | None = None) -> None:
    """Fill in the namespace of the URL, and check it and, for an update, the name; 400 when they differ."""
    metadata = body["metadata"]
    if not kind.namespaced:
        if metadata.pop("namespace", ""):
            raise errors.bad_request(_OTHER_NAMESPACE)
    elif metadata.setdefault("namespace", namespace) != namespace:
        if metadata["namespace"]:
            raise errors.bad_request(_OTHER_NAMESPACE)
        metadata["namespace"] = namespace
    if name is None:
        return
    given = metadata.get("name", "")
    if not given:
        raise errors.bad_request(
            f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )
    if given != name:
        raise errors.bad_request(f"the name of the object ({given}) does not match the name on the URL ({name})")


_OTHER_NAMESPACE: Final = "the namespace of the provided object does not match the namespace sent on the request"


def wipe_system_fields(metadata: Object) -> None:
    """Remove fields that a client cannot set on create."""
    for field in (*_OWNED_BY_SERVER, "generation"):
        metadata.pop(field, None)


def keep_system_fields(metadata: Object, old: Object) -> None:
    """Copy fields from the stored object that an update cannot change."""
    for field in (*_OWNED_BY_SERVER, "generation", "resourceVersion"):
        keep(metadata, old, field)
