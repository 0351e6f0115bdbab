"""JSON Schema of reports, from their TypedDicts and dataclasses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import is_dataclass
from enum import Enum
from inspect import cleandoc
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, get_args, get_origin, get_type_hints, is_typeddict

from gangctl.api.reportfields import QUANTITY, TIME, Minimum, printed_fields

_PLAIN: Final[dict[object, dict[str, Any]]] = {
    str: {"type": "string"},
    int: {"type": "integer", "minimum": 0},
    bool: {"type": "boolean"},
    NoneType: {"type": "null"},
    Any: {},
}


class Definitions(dict[str, dict[str, Any]]):
    """Schemas by the name of their type, as under ``$defs``: that of the class, or its ``SCHEMA``."""

    def __init__(self) -> None:
        """Start empty."""
        super().__init__()
        self._kinds: dict[str, Any] = {}

    def reference(self, kind: Any) -> dict[str, Any]:
        """A reference to the schema of a type; TypeError where another one has its name."""
        name = getattr(kind, "SCHEMA", kind.__name__)
        known = self._kinds.setdefault(name, kind)
        if known is not kind:
            raise TypeError(f"two types are called {name}: of {known.__module__} and of {kind.__module__}")
        if name not in self:
            self[name] = {}
            self[name] = object_schema(kind, self)
        return {"$ref": f"#/$defs/{name}"}


def object_schema(kind: Any, definitions: Definitions) -> dict[str, Any]:
    """The schema of a report, whose docstring describes it; those of types that it refers to go to ``definitions``.

    A field's description is the text among the annotations of its type; then a number may have a :class:`Minimum`, an
    amount :data:`QUANTITY`.
    TypeError for a type that no report has.
    """
    if is_dataclass(kind):
        fields = {key: hint for key, (_, hint) in printed_fields(kind).items()}
    else:
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


def _annotated(kind: Any, notes: Sequence[Any], definitions: Definitions) -> dict[str, Any]:
    if QUANTITY in notes:
        kind = _as_quantity(kind)
    schema = _schema(str if TIME in notes else kind, definitions)
    for note in notes:
        if isinstance(note, str):
            schema["description"] = note
        elif isinstance(note, Minimum):
            schema["minimum"] = note.least
    return schema


def _schema(kind: Any, definitions: Definitions) -> dict[str, Any]:
    if isinstance(kind, type) and issubclass(kind, Enum):
        kind = str
    if kind in _PLAIN:
        return dict(_PLAIN[kind])
    if is_typeddict(kind) or is_dataclass(kind):
        return definitions.reference(kind)
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _annotated(parts[0], parts[1:], definitions)
    if origin is Literal:
        return {"const": parts[0]} if len(parts) == 1 else {"enum": list(parts)}
    if origin in {list, tuple}:
        return {"type": "array", "items": _schema(parts[0], definitions)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema(parts[1], definitions)}
    if origin is UnionType:
        return {"anyOf": [_schema(part, definitions) for part in parts]}
    raise TypeError(f"no schema for {kind}")
