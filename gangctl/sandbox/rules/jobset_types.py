"""A JobSet as JobSet's webhooks write it back after they read it into Go structs.

What Go writes beyond what it was given are the fields that are never left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from gangctl.sandbox.objects import Object, copy
from gangctl.sandbox.rules.decoding import canonical
from gangctl.sandbox.rules.fields import Fields, Shape, fields_of

# Structs that are no pointers, and so are written whatever they hold.
_WRITTEN_STRUCTS: Final[Mapping[str, tuple[str, ...]]] = {
    "jobset.Template": ("metadata", "spec"),
    "jobset.Template2": ("metadata", "spec"),
    "jobset.Spec3": ("template",),
    "jobset.Containers": ("resources",),
    "jobset.EphemeralContainers": ("resources",),
    "jobset.Spec": ("resources",),
    "jobset.Templates": ("metadata", "spec", "status"),
    "jobset.VolumeClaimTemplate": ("metadata", "spec"),
}
_ROOT: Final = "jobset.JobSet"
_SPEC: Final = "jobset.Spec4"
_ZEROES: Final[Mapping[str, Any]] = {"string": "", "int32": 0, "int64": 0, "bool": False}
# What Go leaves out when false; other booleans are pointers.
_FALSE_IS_NOTHING: Final = frozenset({"hostNetwork", "hostPID", "hostIPC", "stdin", "stdinOnce", "tty", "readOnly"})


def complete(jobset: Object) -> None:
    """Write ``jobset`` as Go does, in place."""
    fields = fields_of("1.37")
    jobset["spec"] = _Writer(fields).write(jobset.get("spec") or {}, fields.of(_ROOT)["spec"])


def replicated_jobs(jobset: Object) -> list[Any]:
    """A copy of ``spec.replicatedJobs`` in which equal things look alike, whether or not Go would write them."""
    fields = fields_of("1.37")
    shape = fields.of(_SPEC)["replicatedJobs"]
    found = copy({"value": jobset["spec"].get("replicatedJobs") or []})["value"]
    written: list[Any] = _Writer(fields, sparse=True).write(found, shape)
    return written


class _Writer:
    """Writes values; a ``sparse`` one removes what Go leaves out."""

    def __init__(self, fields: Fields, *, sparse: bool = False) -> None:
        self._fields = fields
        self._sparse = sparse

    def write(self, value: Any, shape: Shape) -> Any:
        """The value as it is written back; one of another type than ``shape`` says stays as it is."""
        match shape.form, value:
            case "struct", dict():
                self._struct(value, shape.name)
            case "list", list():
                value[:] = [self.write(each, _item(shape)) for each in value]
            case "map", dict():
                value |= {key: self.write(each, _item(shape)) for key, each in value.items()}
            case "scalar", int() | float() | str() if shape.name == "quantity":
                return _quantity(value)
        return value

    def _struct(self, value: Object, definition: str) -> None:
        always = _WRITTEN_STRUCTS.get(definition, ())
        for field, shape in self._fields.of(definition).items():
            if value.get(field) is not None:
                value[field] = self.write(value[field], shape)
            elif shape.required or field in always:
                value[field] = self._zero(shape)
            if self._sparse and field in value and _is_nothing(field, shape, value[field]):
                del value[field]

    def _zero(self, shape: Shape) -> Any:
        if shape.form == "struct":
            return self.write({}, shape)
        return _ZEROES.get(shape.name) if shape.form == "scalar" else None


def _is_nothing(field: str, shape: Shape, value: Any) -> bool:
    if shape.required:
        return False
    return (
        value is None
        or value == ""
        or (shape.form in {"list", "map"} and not value)
        or (value is False and field in _FALSE_IS_NOTHING)
    )


def _item(shape: Shape) -> Shape:
    assert shape.item is not None  # noqa: S101 - a list or a map
    return shape.item


def _quantity(value: float | str) -> str:
    text = str(value)
    # The schema reports other types.
    with suppress(ValueError):
        return canonical(text)
    return text
