"""JSON Schema of reports, from their TypedDicts."""

from __future__ import annotations

from inspect import cleandoc
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, get_args, get_origin, get_type_hints, is_typeddict

from gangctl.api.reportfields import QUANTITY, Minimum

_PLAIN: Final[dict[object, dict[str, Any]]] = {
    str: {"type": "string"},
    int: {"type": "integer", "minimum": 0},
    bool: {"type": "boolean"},
    NoneType: {"type": "null"},
    Any: {},
}


class Definitions(dict[str, dict[str, Any]]):
    """Schemas by the name of their TypedDict, as under ``$defs``."""

    def __init__(self) -> None:
        """Start empty."""
        super().__init__()
        self._kinds: dict[str, Any] = {}

    def reference(self, kind: Any) -> dict[str, Any]:
        """A reference to the schema of a TypedDict; TypeError where another one has its name."""
        name = kind.__name__
        known = self._kinds.setdefault(name, kind)
        if known is not kind:
            raise TypeError(f"two types are called {name}: of {known.__module__} and of {kind.__module__}")
        if name not in self:
            self[name] = {}
            self[name] = object_schema(kind, self)
        return {"$ref": f"#/$defs/{name}"}


def object_schema(kind: Any, definitions: Definitions) -> dict[str, Any]:
    """The schema of a TypedDict, whose docstring describes it; those that it refers to go to ``definitions``.

    A field's description is the first annotation of its type; then a number may have a :class:`Minimum`, an amount
    :data:`QUANTITY`.
    TypeError for a type that no report has.
    """
    fields = get_type_hints(kind, include_extras=True)
    return {
        "description": cleandoc(kind.__doc__ or ""),
        "type": "object",
        "properties": {name: _schema(field, definitions) for name, field in fields.items()},
        "required": list(fields),
        "additionalProperties": False,
    }


def _as_quantity(kind: Any) -> Any:
    """The type of what is printed of an amount."""
    if get_origin(kind) is dict:
        return dict[str, str]
    return str if kind is int else str | None


def _schema(kind: Any, definitions: Definitions) -> dict[str, Any]:
    if kind in _PLAIN:
        return dict(_PLAIN[kind])
    if is_typeddict(kind):
        return definitions.reference(kind)
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        kind = _as_quantity(parts[0]) if QUANTITY in parts[2:] else parts[0]
        schema = {**_schema(kind, definitions), "description": parts[1]}
        for each in parts[2:]:
            if isinstance(each, Minimum):
                schema["minimum"] = each.least
        return schema
    if origin is Literal:
        return {"const": parts[0]} if len(parts) == 1 else {"enum": list(parts)}
    if origin is list:
        return {"type": "array", "items": _schema(parts[0], definitions)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema(parts[1], definitions)}
    if origin is UnionType:
        return {"anyOf": [_schema(part, definitions) for part in parts]}
    raise TypeError(f"no schema for {kind}")
