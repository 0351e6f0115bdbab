"""JSON Schema of reports, from the TypedDicts that they are made as."""

from __future__ import annotations

from inspect import cleandoc
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, get_args, get_origin, get_type_hints, is_typeddict

_PLAIN: Final[dict[object, dict[str, Any]]] = {
    str: {"type": "string"},
    int: {"type": "integer", "minimum": 0},
    bool: {"type": "boolean"},
    NoneType: {"type": "null"},
}

Definitions = dict[str, dict[str, Any]]


def object_schema(kind: Any, definitions: Definitions) -> dict[str, Any]:
    """The schema of a TypedDict, whose docstring describes it; those that it refers to go to ``definitions``.

    A field's description is the first annotation of its type. TypeError for a type that no report has.
    """
    fields = get_type_hints(kind, include_extras=True)
    return {
        "description": cleandoc(kind.__doc__ or ""),
        "type": "object",
        "properties": {name: _schema(field, definitions) for name, field in fields.items()},
        "required": list(fields),
        "additionalProperties": False,
    }


def _schema(kind: Any, definitions: Definitions) -> dict[str, Any]:
    if kind in _PLAIN:
        return dict(_PLAIN[kind])
    if is_typeddict(kind):
        if kind.__name__ not in definitions:
            definitions[kind.__name__] = {}
            definitions[kind.__name__] = object_schema(kind, definitions)
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
