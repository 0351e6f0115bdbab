"""Writes ``gangctl/cel/jobset.json``, the fields of a JobSet: ``python -m tests.cel.jobset_types``.

Its source is the table of fields that ``python -m tests.sandbox.fieldtable`` reads from real API
servers and from the JobSet CRD that they hold; run it after that one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gangctl.apiserver.fields import FieldType, fields_of
from gangctl.cel import check

PLACE: Final = Path(check.__file__).parent / "jobset.json"
ROOT: Final = ("jobset.x-k8s.io/v1alpha2", "JobSet")
_SCALARS: Final[Mapping[str, str]] = {
    "string": "string",
    "bytes": "bytes",
    "time": "time",
    "microTime": "time",
    "int32": "int",
    "int64": "int",
    "number": "double",
    "bool": "bool",
    "quantity": "dyn",
    "intOrString": "dyn",
    "any": "dyn",
}


def table() -> dict[str, dict[str, str]]:
    """Every type within a JobSet, the JobSet itself first; what only JobSets have is called by its path."""
    fields = fields_of("1.37")
    root = fields.root(*ROOT)
    assert root is not None
    names = {root: "JobSet"}
    found: dict[str, dict[str, str]] = {}
    waiting = [root]
    while waiting:
        definition = waiting.pop(0)
        name = names[definition]
        if name in found:
            continue
        for field, shape in fields.of(definition).items():
            for each in _structs(shape):
                names.setdefault(each, f"{name}.{field}" if each.startswith("jobset.") else each)
                waiting.append(each)
        found[name] = {field: _spelled(shape, names) for field, shape in fields.of(definition).items()}
    return found


def _spelled(shape: FieldType, names: Mapping[str, str]) -> str:
    if shape.item is not None:
        return f"{shape.form}({_spelled(shape.item, names)})"
    return _SCALARS[shape.name] if shape.form == "scalar" else names[shape.name]


def _structs(shape: FieldType) -> list[str]:
    if shape.item is not None:
        return _structs(shape.item)
    return [shape.name] if shape.form == "struct" else []


def text() -> str:
    """The file."""
    lines = [f"{json.dumps(name)}: {json.dumps(fields)}" for name, fields in table().items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    PLACE.write_text(text())
