"""``x-kubernetes-validations`` of a structural schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from gangctl.sandbox.admission.conditions import ConditionError, holds
from gangctl.sandbox.errors import Cause
from gangctl.sandbox.rules.causes import Causes, spelled

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
    return not (in_order and any("dependsOn" in each for each in value.get("replicatedJobs") or ()))


# Rules that every JobSet meets, in Python: the grammar of CEL takes half a second to load.
IN_PYTHON: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "self == oldSelf": _unchanged,
    "oldSelf == self": _unchanged,
    (
        "!(has(self.startupPolicy) && self.startupPolicy.startupPolicyOrder == 'InOrder' && "
        "self.replicatedJobs.exists(x, has(x.dependsOn)))"
    ): _starts_one_way,
}


def has_rules(schema: Mapping[str, Any]) -> bool:
    """Whether a schema, or one inside it, has rules at all."""
    if schema.get(_RULES):
        return True
    inner = [*(schema.get("properties") or {}).values(), schema.get("additionalProperties"), schema.get("items")]
    return any(has_rules(each) for each in inner if isinstance(each, Mapping))


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
        causes.append(Cause("FieldValueInvalid", path, f"Invalid value: rule evaluation error: {error}"))
        return
    if not kept:
        _add_cause(rule, value, f"{path}{rule.get('fieldPath', '')}", causes)


def _add_cause(rule: Mapping[str, Any], value: Any, path: str, causes: Causes) -> None:
    reason = rule.get("reason") or "FieldValueInvalid"
    message = rule.get("message") or f"failed rule: {rule['rule']}"
    # Objects and lists are not quoted, and neither is what has a field of its own to point at.
    if reason == "FieldValueInvalid" and not isinstance(value, dict | list):
        message = f"{spelled(value)}: {message}"
    causes.append(Cause(reason, path, f"{_WORDS.get(reason, 'Invalid value')}: {message}"))
