"""The JSON Schemas of what commands print, written from the types of the reports.

``docs/plan.schema.json`` is of ``gangctl plan -o json``, ``docs/fit.schema.json`` of ``gangctl fit -o json``.
"""

from __future__ import annotations

from inspect import cleandoc
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, get_args, get_origin, get_type_hints, is_typeddict

from gangctl.fit.report import KIND as FIT
from gangctl.fit.report import FitReport
from gangctl.gang.report import KIND as PLAN
from gangctl.gang.report import PlanReport

_PLAIN: Final[dict[object, dict[str, Any]]] = {
    str: {"type": "string"},
    int: {"type": "integer", "minimum": 0},
    bool: {"type": "boolean"},
    NoneType: {"type": "null"},
}

Definitions = dict[str, dict[str, Any]]


def _schema(kind: Any, definitions: Definitions) -> dict[str, Any]:
    """The schema of one type; TypedDicts go to ``definitions``."""
    if kind in _PLAIN:
        return dict(_PLAIN[kind])
    if is_typeddict(kind):
        if kind.__name__ not in definitions:
            definitions[kind.__name__] = {}
            definitions[kind.__name__] = _object(kind, definitions)
        return {"$ref": f"#/$defs/{kind.__name__}"}
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return {**_schema(parts[0], definitions), "description": parts[1]}
    if origin is Literal:
        return {"const": parts[0]} if len(parts) == 1 else {"enum": list(parts)}
    if origin is list:
        return {"type": "array", "items": _schema(parts[0], definitions)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema(parts[1], definitions)}
    if origin is UnionType:
        return {"anyOf": [_schema(part, definitions) for part in parts]}
    raise TypeError(f"no schema for {kind}")


def _object(kind: Any, definitions: Definitions) -> dict[str, Any]:
    fields = get_type_hints(kind, include_extras=True)
    return {
        "description": cleandoc(kind.__doc__ or ""),
        "type": "object",
        "properties": {name: _schema(field, definitions) for name, field in fields.items()},
        "required": list(fields),
        "additionalProperties": False,
    }


def plan_schema() -> dict[str, Any]:
    """The schema of one plan."""
    return _published(PLAN, PlanReport)


def fit_schema() -> dict[str, Any]:
    """The schema of one answer of ``gangctl fit``."""
    return _published(FIT, FitReport)


def _published(title: str, report: Any) -> dict[str, Any]:
    definitions: Definitions = {}
    root = _object(report, definitions)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        **root,
        "$defs": definitions,
    }
