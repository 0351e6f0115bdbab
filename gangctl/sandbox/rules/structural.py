"""Structural schemas of CustomResourceDefinitions: pruning, defaulting, validation.

A schema is the plain JSON of ``openAPIV3Schema``. Messages are those of the API extensions server.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gangctl.sandbox.errors import Cause
from gangctl.sandbox.objects import copy
from gangctl.sandbox.rules.causes import Causes
from gangctl.sandbox.rules.celrules import check_rules, has_rules
from gangctl.sandbox.rules.schema_values import check_value

Schema = Mapping[str, Any]

NOT_CHECKED: Final = Cause(
    "FieldValueInvalid",
    "<nil>",
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
)
METADATA_FIELDS: Final = frozenset(
    {
        *("annotations", "creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "finalizers"),
        *("generateName", "generation", "labels", "managedFields", "name", "namespace", "ownerReferences"),
        *("resourceVersion", "selfLink", "uid"),
    }
)
_KEEP: Final = "x-kubernetes-preserve-unknown-fields"
_ALWAYS_KNOWN: Final = frozenset({"apiVersion", "kind", "metadata"})
# CEL rules are not evaluated on values with type errors.
_BLOCKING: Final = frozenset(
    {"FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany", "FieldValueTypeInvalid", "FieldValueNotSupported"}
)


def prune(value: Any, schema: Schema, path: str = "", *, root: bool = True) -> list[str]:
    """Remove unknown fields, in place; returns their paths."""
    if isinstance(value, list):
        items = schema.get("items") or {}
        return [each for index, item in enumerate(value) for each in prune(item, items, f"{path}[{index}]", root=False)]
    if not isinstance(value, dict):
        return []
    known: Mapping[str, Schema] = schema.get("properties") or {}
    removed: list[str] = []
    for key in list(value):
        here = _join(path, key)
        inner = part(schema, key)
        if root and key == "metadata":
            removed += _prune_metadata(value[key], here)
        elif root and key in _ALWAYS_KNOWN:
            continue
        elif inner is not None:
            removed += prune(value[key], inner, here, root=False)
        elif key not in known and not schema.get("additionalProperties") and not schema.get(_KEEP):
            del value[key]
            removed.append(here)
    return removed


def _prune_metadata(metadata: Any, path: str) -> list[str]:
    if not isinstance(metadata, dict):
        return []
    unknown = [key for key in metadata if key not in METADATA_FIELDS]
    for key in unknown:
        del metadata[key]
    return [f"{path}.{key}" for key in unknown]


def part(schema: Schema, key: str) -> Schema | None:
    """The schema of a field or of a map's value; None when there is none."""
    found = (schema.get("properties") or {}).get(key, schema.get("additionalProperties"))
    return found if isinstance(found, Mapping) else None


def default(value: Any, schema: Schema) -> None:
    """Fill in defaults, in place; a null that may not be is replaced by its default, or removed."""
    if isinstance(value, list):
        for item in value:
            default(item, schema.get("items") or {})
        return
    if not isinstance(value, dict):
        return
    for key, inner in (schema.get("properties") or {}).items():
        if "default" in inner and (key not in value or (value[key] is None and not inner.get("nullable"))):
            value[key] = copy({"value": inner["default"]})["value"]
    for key in list(value):
        inner = part(schema, key)
        if inner is None:
            continue
        if value[key] is None and not inner.get("nullable"):
            del value[key]
        else:
            default(value[key], inner)


def validate(value: Any, schema: Schema, old: Any = None, path: str = "", *, whole: Schema | None = None) -> Causes:
    """Errors of a value; ``old`` is the old one, for transition rules.

    ``whole`` is the schema of the object, where ``schema`` is that of a part of it.
    """
    causes = Causes()
    check_value(value, schema, path, causes)
    _lists(value, schema, path, causes)
    if not any(cause.reason in _BLOCKING for cause in causes):
        check_rules(value, old, schema, path, causes)
    elif has_rules(whole or schema):
        causes.append(NOT_CHECKED)
    return causes


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _lists(value: Any, schema: Schema, path: str, causes: Causes) -> None:
    """Items of maps and sets have unique keys."""
    if isinstance(value, list):
        _distinct(value, _list_keys(schema), path, causes)
        for index, item in enumerate(value):
            _lists(item, schema.get("items") or {}, f"{path}[{index}]", causes)
    elif isinstance(value, dict):
        for key, item in value.items():
            inner = part(schema, key)
            if inner is not None:
                _lists(item, inner, _join(path, key), causes)


def _distinct(value: list[Any], keys: tuple[str, ...] | None, path: str, causes: Causes) -> None:
    if keys is None:
        return
    seen: list[Any] = []
    for index, item in enumerate(value):
        if keys and not isinstance(item, dict):
            causes.invalid(f"{path}[{index}]", item, "must be an object for an array of list-type map")
            continue
        identity = {key: item[key] for key in keys if key in item} if keys else item
        if identity in seen:
            causes.duplicate(f"{path}[{index}]", identity)
        seen.append(identity)


def _list_keys(schema: Schema) -> tuple[str, ...] | None:
    kind = schema.get("x-kubernetes-list-type")
    if kind == "map":
        return tuple(schema.get("x-kubernetes-list-map-keys", ()))
    return () if kind == "set" else None
