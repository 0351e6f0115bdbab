"""Structural schemas of CustomResourceDefinitions: pruning, defaulting, validation, and ``x-kubernetes-validations``.

A schema is the plain JSON of ``openAPIV3Schema``. Messages are those of the API extensions server. Left out are schemas
composed of others, formats except times, and rare keywords: ``multipleOf`` and the like.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from gangctl.api.objects import copy
from gangctl.apiserver.expressions import ConditionError, holds
from gangctl.apiserver.fields import INT_LIMITS
from gangctl.apiserver.metadata import Causes, FieldCause, spelled

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
_ROOT_FIELDS: Final = frozenset({"apiVersion", "kind", "metadata"})


def check_value(value: Any, schema: Schema, path: str, causes: Causes) -> None:
    """Add all errors of ``value`` by ``schema``, except those of rules and list keys."""
    if value is None and schema.get("nullable"):
        return
    if not _has_type(value, schema):
        wanted = "integer,string" if schema.get(_ANY_NUMBER) else schema.get("type", "")
        kind = spelled(_JSON_NAMES.get(type(value), "null"))
        message = f"{path} in body must be of type {wanted}: {kind}"
        causes.append(FieldCause("FieldValueTypeInvalid", path, f"Invalid value: {kind}: {message}"))
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


def _text(value: str, schema: Schema, path: str, causes: Causes) -> None:
    if schema.get("format") == "date-time" and not _is_time(value):
        message = f"{path} in body must be of type date-time: {spelled(value)}"
        causes.append(FieldCause("FieldValueTypeInvalid", path, f"Invalid value: {spelled(value)}: {message}"))
    if len(value) > schema.get("maxLength", len(value)):
        causes.too_long(path, schema["maxLength"])
    if len(value) < schema.get("minLength", 0):
        causes.invalid(path, value, f"{path} in body should be at least {schema['minLength']} chars long")
    if "pattern" in schema and _pattern(schema["pattern"]).search(value) is None:
        causes.invalid(path, value, f"{path} in body should match '{schema['pattern']}'")


@lru_cache(maxsize=256)
def _pattern(text: str) -> re.Pattern[str]:
    # In RE2 `$` is the end of the text; in Python also the place before a newline that ends it.
    return re.compile(rf"{text[:-1]}\Z" if text.endswith("$") and not text.endswith("\\$") else text)


def _is_time(text: str) -> bool:
    if re.fullmatch(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", text) is None:
        return False
    try:
        datetime.fromisoformat(f"{text[:10]}T{text[11:19]}")
    except ValueError:
        return False
    return True


def _number(value: float, schema: Schema, path: str, causes: Causes) -> None:
    limit = INT_LIMITS.get(schema.get("format", ""))
    if limit is not None and schema.get("type") == "integer" and not -limit <= value < limit:
        message = f"Checked value must be of type integer with format {schema['format']} in {path}"
        causes.append(FieldCause("FieldValueInvalid", "<nil>", f'Invalid value: "": {message}'))
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


_RULES: Final = "x-kubernetes-validations"
_WORDS: Final[Mapping[str, str]] = {
    "FieldValueForbidden": "Forbidden",
    "FieldValueRequired": "Required value",
    "FieldValueDuplicate": "Duplicate value",
}


def _unchanged(value: Any, old: Any) -> bool:
    return bool(value == old)


def _starts_one_way(value: Any, old: Any) -> bool:
    del old
    in_order = (value.get("startupPolicy") or {}).get("startupPolicyOrder") == "InOrder"
    return not (in_order and any("dependsOn" in replicated_job for replicated_job in value.get("replicatedJobs") or ()))


def _in_its_namespace(value: Any, old: Any) -> bool:
    del old
    try:
        return all(not template["metadata"].get("namespace") for template in value["templates"])
    except KeyError as error:
        raise ConditionError(f"no such key: {error.args[0]}") from error


# Rules of JobSets, in Python: the grammar of CEL takes half a second to load.
IN_PYTHON: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "self == oldSelf": _unchanged,
    "oldSelf == self": _unchanged,
    (
        "!(has(self.startupPolicy) && self.startupPolicy.startupPolicyOrder == 'InOrder' && "
        "self.replicatedJobs.exists(x, has(x.dependsOn)))"
    ): _starts_one_way,
    "self.templates.all(t, !has(t.metadata.namespace) || size(t.metadata.namespace) == 0)": _in_its_namespace,
}


def has_rules(schema: Mapping[str, Any]) -> bool:
    """Whether a schema, or one inside it, has rules at all."""
    if schema.get(_RULES):
        return True
    inner = [*(schema.get("properties") or {}).values(), schema.get("additionalProperties"), schema.get("items")]
    return any(has_rules(schema) for schema in inner if isinstance(schema, Mapping))


def check_rules(value: Any, old: Any, schema: Mapping[str, Any], path: str, causes: Causes) -> None:
    """Evaluate every rule on its part of ``value``; transition rules only if there is an old value."""
    for rule in schema.get(_RULES, ()):
        _check(rule, value, old, path, causes)
    if isinstance(value, dict):
        before = old if isinstance(old, dict) else {}
        others = schema.get("additionalProperties")
        for key, item in value.items():
            inner = (schema.get("properties") or {}).get(key, others if isinstance(others, Mapping) else None)
            if inner is not None:
                check_rules(item, before.get(key), inner, f"{path}.{key}" if path else key, causes)
    elif isinstance(value, list):
        earlier = _correlated(value, old, schema)
        for index, item in enumerate(value):
            check_rules(item, earlier[index], schema.get("items", {}), f"{path}[{index}]", causes)


def _correlated(value: list[Any], old: Any, schema: Mapping[str, Any]) -> list[Any]:
    """What each item was: by its keys in a list that is a map; items of other lists have no past."""
    keys = schema.get("x-kubernetes-list-map-keys")
    if not isinstance(old, list) or not keys:
        return [None] * len(value)
    known = {tuple(item.get(key) for key in keys): item for item in old if isinstance(item, dict)}
    return [known.get(tuple(item.get(key) for key in keys)) if isinstance(item, dict) else None for item in value]


def _check(rule: Mapping[str, Any], value: Any, old: Any, path: str, causes: Causes) -> None:
    expression = rule["rule"]
    about_change = "oldSelf" in expression
    if about_change and old is None and not rule.get("optionalOldSelf"):
        return
    try:
        kept = IN_PYTHON[expression](value, old) if expression in IN_PYTHON else holds(expression, value, old)
    except ConditionError as error:
        causes.append(FieldCause("FieldValueInvalid", path, f"Invalid value: rule evaluation error: {error}"))
        return
    if not kept:
        reason = rule.get("reason") or "FieldValueInvalid"
        message = rule.get("message") or f"failed rule: {rule['rule']}"
        # Objects and lists are not quoted, and neither is what has a field of its own to point at.
        if reason == "FieldValueInvalid" and not isinstance(value, dict | list):
            message = f"{spelled(value)}: {message}"
        causes.append(
            FieldCause(
                reason, f"{path}{rule.get('fieldPath', '')}", f"{_WORDS.get(reason, 'Invalid value')}: {message}"
            )
        )


NOT_CHECKED: Final = FieldCause(
    "FieldValueInvalid",
    "<nil>",
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
)
_KEEP: Final = "x-kubernetes-preserve-unknown-fields"
# CEL rules are not evaluated on values with type errors.
_BLOCKING: Final = frozenset(
    {"FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany", "FieldValueTypeInvalid", "FieldValueNotSupported"}
)


def prune(value: Any, schema: Schema, path: str = "", *, root: bool = True) -> list[str]:
    """Remove unknown fields, but none of the metadata, in place; returns their paths."""
    if isinstance(value, list):
        items = schema.get("items") or {}
        return [
            pruned for index, item in enumerate(value) for pruned in prune(item, items, f"{path}[{index}]", root=False)
        ]
    if not isinstance(value, dict):
        return []
    known: Mapping[str, Schema] = schema.get("properties") or {}
    removed: list[str] = []
    for key in list(value):
        here = _join(path, key)
        inner = part(schema, key)
        if root and key in _ROOT_FIELDS:
            continue
        if inner is not None:
            removed += prune(value[key], inner, here, root=False)
        elif key not in known and not schema.get("additionalProperties") and not schema.get(_KEEP):
            del value[key]
            removed.append(here)
    return removed


def part(schema: Schema, key: str) -> Schema | None:
    """The schema of a field or of a map's value; None when there is none."""
    entry = (schema.get("properties") or {}).get(key, schema.get("additionalProperties"))
    return entry if isinstance(entry, Mapping) else None


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
            # A copy, because the schema is shared by all requests.
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
    seen: set[Any] = set()
    # Of a wrong type, as a list in the place of a name.
    unhashable: list[Any] = []
    for index, item in enumerate(value):
        if keys and not isinstance(item, dict):
            causes.invalid(f"{path}[{index}]", item, "must be an object for an array of list-type map")
            continue
        identity = {key: item[key] for key in keys if key in item} if keys else item
        mark = tuple(identity.items()) if keys else item
        try:
            known = mark in seen
            seen.add(mark)
        except TypeError:
            known = mark in unhashable
            unhashable.append(mark)
        if known:
            causes.duplicate(f"{path}[{index}]", identity)


def _list_keys(schema: Schema) -> tuple[str, ...] | None:
    kind = schema.get("x-kubernetes-list-type")
    if kind == "map":
        return tuple(schema.get("x-kubernetes-list-map-keys", ()))
    return () if kind == "set" else None
