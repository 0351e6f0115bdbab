"""Values and their schemas: types, limits, patterns and enumerations.

Left out are schemas composed of others, formats except times, and rare keywords: ``multipleOf`` and the like.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from gangctl.sandbox.errors import Cause
from gangctl.sandbox.rules.causes import Causes, spelled

Schema = Mapping[str, Any]

_ANY_NUMBER: Final = "x-kubernetes-int-or-string"
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}
_JSON_NAMES: Final = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
_INT_LIMITS: Final = {"int32": 2**31, "int64": 2**63}
_ROOT_FIELDS: Final = frozenset({"apiVersion", "kind", "metadata"})


def check_value(value: Any, schema: Schema, path: str, causes: Causes) -> None:
    """Add all errors of ``value`` by ``schema``, except those of rules and list keys."""
    if value is None and schema.get("nullable"):
        return
    if not _has_type(value, schema):
        _wrong_type(value, schema, path, causes)
        return
    enum = schema.get("enum")
    if enum is not None and value not in enum:
        causes.unsupported(path, value, enum)
    if isinstance(value, str):
        _text(value, schema, path, causes)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        _number(value, schema, path, causes)
    elif isinstance(value, list):
        _list(value, schema, path, causes)
    elif isinstance(value, dict):
        _object(value, schema, path, causes)


def _has_type(value: Any, schema: Schema) -> bool:
    if schema.get(_ANY_NUMBER):
        return isinstance(value, int | str) and not isinstance(value, bool)
    wanted = schema.get("type")
    if wanted is None:
        return True
    if wanted == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[wanted]) and (wanted == "boolean" or not isinstance(value, bool))


def _wrong_type(value: Any, schema: Schema, path: str, causes: Causes) -> None:
    wanted = "integer,string" if schema.get(_ANY_NUMBER) else schema.get("type", "")
    found = spelled(_JSON_NAMES.get(type(value), "null"))
    message = f"{path} in body must be of type {wanted}: {found}"
    causes.append(Cause("FieldValueTypeInvalid", path, f"Invalid value: {found}: {message}"))


def _text(value: str, schema: Schema, path: str, causes: Causes) -> None:
    if schema.get("format") == "date-time" and not _is_time(value):
        message = f"{path} in body must be of type date-time: {spelled(value)}"
        causes.append(Cause("FieldValueTypeInvalid", path, f"Invalid value: {spelled(value)}: {message}"))
    if len(value) > schema.get("maxLength", len(value)):
        causes.too_long(path, schema["maxLength"])
    if len(value) < schema.get("minLength", 0):
        causes.invalid(path, value, f"{path} in body should be at least {schema['minLength']} chars long")
    if "pattern" in schema and _pattern(schema["pattern"]).search(value) is None:
        causes.invalid(path, value, f"{path} in body should match '{schema['pattern']}'")


@lru_cache(maxsize=256)
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text)


def _is_time(text: str) -> bool:
    if re.fullmatch(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", text) is None:
        return False
    try:
        datetime.fromisoformat(f"{text[:10]}T{text[11:19]}")
    except ValueError:
        return False
    return True


def _number(value: float, schema: Schema, path: str, causes: Causes) -> None:
    limit = _INT_LIMITS.get(schema.get("format", ""))
    if limit is not None and schema.get("type") == "integer" and not -limit <= value < limit:
        message = f"Checked value must be of type integer with format {schema['format']} in {path}"
        causes.append(Cause("FieldValueInvalid", "<nil>", f'Invalid value: "": {message}'))
    minimum, maximum = schema.get("minimum", value), schema.get("maximum", value)
    if value < minimum:
        causes.invalid(path, value, f"{path} in body should be greater than or equal to {minimum}")
    if value > maximum:
        causes.invalid(path, value, f"{path} in body should be less than or equal to {maximum}")


def _list(value: list[Any], schema: Schema, path: str, causes: Causes) -> None:
    if len(value) > schema.get("maxItems", len(value)):
        causes.too_many(path, len(value), schema["maxItems"])
    if len(value) < schema.get("minItems", 0):
        causes.invalid(path, len(value), f"{path} in body should have at least {schema['minItems']} items")
    for index, item in enumerate(value):
        check_value(item, schema.get("items") or {}, f"{path}[{index}]", causes)


def _object(value: Mapping[str, Any], schema: Schema, path: str, causes: Causes) -> None:
    if len(value) > schema.get("maxProperties", len(value)):
        causes.too_many(path, len(value), schema["maxProperties"])
    if len(value) < schema.get("minProperties", 0):
        message = f"{path} in body should have at least {schema['minProperties']} properties"
        causes.invalid(path, len(value), message)
    for key in schema.get("required") or ():
        if key not in value:
            causes.required(f"{path}.{key}" if path else key)
    known: Mapping[str, Schema] = schema.get("properties") or {}
    others = schema.get("additionalProperties")
    for key, item in value.items():
        inner = known.get(key, others if isinstance(others, Mapping) else None)
        # Fields of every object are checked separately.
        if inner is not None and (path or key not in _ROOT_FIELDS):
            check_value(item, inner, f"{path}.{key}" if path else key, causes)
