"""The schema of the JobSet CRD (0.12), rebuilt from the field table."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from gangctl.sandbox.rules.fields import Fields, Shape, fields_of

_SCALARS: Final[Mapping[str, Mapping[str, Any]]] = {
    "string": {"type": "string"},
    "bytes": {"type": "string", "format": "byte"},
    "time": {"type": "string", "format": "date-time"},
    "microTime": {"type": "string", "format": "date-time"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "number": {"type": "number"},
    "bool": {"type": "boolean"},
    "quantity": {"x-kubernetes-int-or-string": True},
    "intOrString": {"x-kubernetes-int-or-string": True},
    "any": {"x-kubernetes-preserve-unknown-fields": True},
}


@lru_cache(maxsize=1)
def jobset_schema() -> Mapping[str, Any]:
    """``openAPIV3Schema``; the CRD is the same on every minor."""
    fields = fields_of("1.37")
    root = fields.root("jobset.x-k8s.io/v1alpha2", "JobSet")
    assert root is not None  # noqa: S101 - the table has it
    schema = _definition(fields, root, {})
    schema["properties"]["metadata"] = {"type": "object"}
    return schema


def _definition(fields: Fields, name: str, made: dict[str, dict[str, Any]]) -> dict[str, Any]:
    if name not in made:
        shapes = fields.of(name)
        made[name] = {"type": "object"}
        required = [field for field, shape in shapes.items() if shape.required]
        if required:
            made[name]["required"] = required
        made[name]["properties"] = {field: schema_of(fields, shape, made) for field, shape in shapes.items()}
    return made[name]


def schema_of(fields: Fields, shape: Shape, made: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The schema of one field."""
    if shape.form == "scalar":
        found = dict(_SCALARS[shape.name])
    elif shape.form == "struct":
        found = dict(_definition(fields, shape.name, made))
    else:
        assert shape.item is not None  # noqa: S101 - a list or a map
        inner = schema_of(fields, shape.item, made)
        if shape.form == "map":
            found = {"type": "object", "additionalProperties": inner}
        else:
            found = {"type": "array", "items": inner, **_list_type(shape)}
    found.update(shape.constraints)
    return found


def _list_type(shape: Shape) -> dict[str, Any]:
    if shape.keys:
        return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(shape.keys)}
    return {"x-kubernetes-list-type": "set"} if shape.is_set else {}
