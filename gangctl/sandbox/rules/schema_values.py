"""Values and their schemas: types, limits, patterns, enumerations, and schemas composed of others."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping
from datetime import date, datetime
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
    """Tell of everything that keeps ``value`` from being what ``schema`` asks for, but for rules and list keys."""
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
    _composed(value, schema, path, causes)


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
    told = f"{path} in body must be of type {wanted}: {found}"
    causes.append(Cause("FieldValueTypeInvalid", path, f"Invalid value: {found}: {told}"))
    if wanted == "integer" and isinstance(value, float):
        _nowhere(f"Checked value must be of type integer {_format_of(schema)} in {path}", causes)


def _format_of(schema: Schema) -> str:
    return f"with format {schema['format']}" if schema.get("format") else "(default format)"


def _nowhere(told: str, causes: Causes) -> None:
    """What the server tells of no field in particular."""
    causes.append(Cause("FieldValueInvalid", "<nil>", f'Invalid value: "": {told}'))


def _text(value: str, schema: Schema, path: str, causes: Causes) -> None:
    known = _FORMATS.get(schema.get("format", ""))
    if known is not None and not known(value):
        told = f"{path} in body must be of type {schema['format']}: {spelled(value)}"
        causes.append(Cause("FieldValueTypeInvalid", path, f"Invalid value: {spelled(value)}: {told}"))
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
    return _reads(datetime.fromisoformat, f"{text[:10]}T{text[11:19]}")


def _reads(read: Callable[[str], object], text: str) -> bool:
    try:
        read(text)
    except ValueError:
        return False
    return True


_FORMATS: Final[Mapping[str, Callable[[str], bool]]] = {
    "date-time": _is_time,
    "date": lambda text: len(text) == len("2006-01-02") and _reads(date.fromisoformat, text),
    "uuid": lambda text: "-" in text and _reads(uuid.UUID, text),
}


def _number(value: float, schema: Schema, path: str, causes: Causes) -> None:
    limit = _INT_LIMITS.get(schema.get("format", ""))
    if limit is not None and schema.get("type") == "integer" and not -limit <= value < limit:
        _nowhere(f"Checked value must be of type integer with format {schema['format']} in {path}", causes)
    minimum, maximum = schema.get("minimum", value), schema.get("maximum", value)
    if schema.get("exclusiveMinimum") and value <= minimum:
        causes.invalid(path, value, f"{path} in body should be greater than {minimum}")
    elif value < minimum:
        causes.invalid(path, value, f"{path} in body should be greater than or equal to {minimum}")
    if schema.get("exclusiveMaximum") and value >= maximum:
        causes.invalid(path, value, f"{path} in body should be less than {maximum}")
    elif value > maximum:
        causes.invalid(path, value, f"{path} in body should be less than or equal to {maximum}")
    step = schema.get("multipleOf")
    if step and not (value / step).is_integer():
        causes.invalid(path, value, f"{path} in body should be a multiple of {step}")


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
        told = f"{path} in body should have at least {schema['minProperties']} properties"
        causes.invalid(path, len(value), told)
    for key in schema.get("required") or ():
        if key not in value:
            causes.required(f"{path}.{key}" if path else key)
    known: Mapping[str, Schema] = schema.get("properties") or {}
    others = schema.get("additionalProperties")
    for key, item in value.items():
        inner = known.get(key, others if isinstance(others, Mapping) else None)
        # What every object has is checked by itself.
        if inner is not None and (path or key not in _ROOT_FIELDS):
            check_value(item, inner, f"{path}.{key}" if path else key, causes)


def _composed(value: Any, schema: Schema, path: str, causes: Causes) -> None:
    """``allOf``, ``anyOf``, ``oneOf`` and ``not``."""
    if schema.get("allOf"):
        told = [cause for inner in schema["allOf"] for cause in _wrong(value, inner, path)]
        causes += told
        if told:
            _nowhere(f'"{path}" must validate all the schemas (allOf)', causes)
    # The alternatives of numbers and texts are what the type says already.
    if schema.get("anyOf") and not schema.get(_ANY_NUMBER):
        tried = [_wrong(value, inner, path) for inner in schema["anyOf"]]
        if all(tried):
            _nowhere(f'"{path}" must validate at least one schema (anyOf)', causes)
            causes += tried[0]
    if schema.get("oneOf"):
        _one_of([_wrong(value, inner, path) for inner in schema["oneOf"]], path, causes)
    if schema.get("not") is not None and not _wrong(value, schema["not"], path):
        _nowhere(f'"{path}" must not validate the schema (not)', causes)


def _one_of(tried: list[Causes], path: str, causes: Causes) -> None:
    fitting = sum(not each for each in tried)
    told = f'"{path}" must validate one and only one schema (oneOf). Found'
    if not fitting:
        _nowhere(f"{told} none valid", causes)
        causes += tried[0]
    elif fitting > 1:
        _nowhere(f"{told} {fitting} valid alternatives", causes)


def _wrong(value: Any, schema: Schema, path: str) -> Causes:
    found = Causes()
    check_value(value, schema, path, found)
    return found
