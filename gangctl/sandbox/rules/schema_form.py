"""What a CustomResourceDefinition's schema must look like to be structural."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from gangctl.sandbox.admission.conditions import check
from gangctl.sandbox.objects import copy
from gangctl.sandbox.rules import structural
from gangctl.sandbox.rules.causes import Causes

Schema = Mapping[str, Any]

_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_LIST_TYPES: Final = ("atomic", "map", "set")
_OPEN: Final = ("x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields")
_METADATA_PARTS: Final = frozenset({"name", "generateName"})


def check_schema(schema: Schema, path: str, causes: Causes) -> None:
    """Tell of everything that keeps ``schema`` from being used."""
    if not schema.get("type"):
        causes.required(f"{path}.type", "must not be empty at the root")
    elif schema["type"] != "object":
        causes.invalid(f"{path}.type", schema["type"], "must be object at the root")
    metadata = (schema.get("properties") or {}).get("metadata") or {}
    if set(metadata.get("properties") or ()) - _METADATA_PARTS:
        told = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        causes.forbidden(f"{path}.properties[metadata]", told)
    _schema(schema, path, causes)


def _schema(schema: Schema, path: str, causes: Causes) -> None:
    kind = schema.get("type")
    if kind and kind not in _TYPES:
        causes.unsupported(f"{path}.type", kind, _TYPES)
    if "$ref" in schema:
        causes.forbidden(f"{path}.$ref", "$ref is not supported")
    if schema.get("uniqueItems"):
        told = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        causes.forbidden(f"{path}.uniqueItems", told)
    _pattern(schema, path, causes)
    _list_type(schema, path, causes)
    if schema.get("properties") and schema.get("additionalProperties"):
        told = "additionalProperties and properties are mutual exclusive"
        causes.forbidden(f"{path}.additionalProperties", told)
    if kind == "array" and not isinstance(schema.get("items"), Mapping):
        causes.required(f"{path}.items", "must be specified")
    for index, rule in enumerate(schema.get("x-kubernetes-validations") or ()):
        _rule(rule, f"{path}.x-kubernetes-validations[{index}]", causes)
    _default(schema, path, causes)
    for name, inner in (schema.get("properties") or {}).items():
        _field(inner, f"{path}.properties[{name}]", "object fields", causes)
    others = schema.get("additionalProperties")
    if isinstance(others, Mapping):
        _field(others, f"{path}.additionalProperties", "object fields", causes)
    if isinstance(schema.get("items"), Mapping):
        _field(schema["items"], f"{path}.items", "array items", causes)


def _field(schema: Schema, path: str, what: str, causes: Causes) -> None:
    if not schema.get("type") and "$ref" not in schema and not any(schema.get(each) for each in _OPEN):
        causes.required(f"{path}.type", f"must not be empty for specified {what}")
    _schema(schema, path, causes)


def _pattern(schema: Schema, path: str, causes: Causes) -> None:
    pattern = schema.get("pattern")
    if pattern is None:
        return
    try:
        re.compile(pattern)
    except re.error as error:
        causes.invalid(f"{path}.pattern", pattern, f"must be a valid regular expression, but isn't: {error}")


def _list_type(schema: Schema, path: str, causes: Causes) -> None:
    found, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys")
    if found is not None and found not in _LIST_TYPES:
        causes.unsupported(f"{path}.x-kubernetes-list-type", found, _LIST_TYPES)
    if found == "map" and not keys:
        told = "must not be empty if x-kubernetes-list-type is map"
        causes.required(f"{path}.x-kubernetes-list-map-keys", told)


def _rule(rule: Mapping[str, Any], path: str, causes: Causes) -> None:
    """An expression has to compile."""
    expression = str(rule.get("rule") or "")
    if not expression.strip():
        causes.required(f"{path}.rule", "rule is not specified")
        return
    if problem := check(expression, rule=True):
        told = {
            "Rule": expression,
            "Message": rule.get("message", ""),
            "MessageExpression": rule.get("messageExpression", ""),
            "Reason": rule.get("reason"),
            "FieldPath": rule.get("fieldPath", ""),
            "OptionalOldSelf": rule.get("optionalOldSelf"),
        }
        causes.invalid(f"{path}.rule", told, problem)


def _default(schema: Schema, path: str, causes: Causes) -> None:
    if schema.get("default") is None:
        return
    value = copy({"value": schema["default"]})["value"]
    structural.default(value, schema)
    for cause in structural.validate(value, schema):
        place = f"{path}.default.{cause.field}" if cause.field else f"{path}.default"
        causes.append(type(cause)(cause.reason, place, cause.message))
