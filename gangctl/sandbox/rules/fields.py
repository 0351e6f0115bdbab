"""Which fields the API types of a minor have: a table, read once.

``fields.json`` is written by ``python -m tests.sandbox.fieldtable`` from real API servers: names, types
and list keys. A type is ``string``, ``int32``, ``quantity`` and so on, the name of a definition,
``[TYPE]`` for a list or ``{TYPE}`` for a map. After a list stand the keys of server-side apply
(``*``: a set), then ``~`` and the key of strategic merge. ``!`` in front: required.
A minor that is not released has the fields of another one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from typing import Any, Final, Literal

from gangctl.sandbox.kinds import MINORS, SCHEDULING_GROUP

SCALARS: Final[Mapping[str, str]] = {
    "string": "string",
    "bytes": "[]uint8",
    "time": "v1.Time",
    "microTime": "v1.MicroTime",
    "int32": "int32",
    "int64": "int64",
    "number": "float64",
    "bool": "bool",
    "quantity": "resource.Quantity",
    "intOrString": "intstr.IntOrString",
    "any": "interface {}",
}
"""Scalar types, and what Go calls them."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The type of a field; ``item`` is that of the elements of a list or map, ``name`` that of everything else."""

    form: Literal["scalar", "struct", "list", "map"]
    name: str = ""
    item: Shape | None = None
    keys: tuple[str, ...] = ()
    is_set: bool = False
    merge_key: str | None = None
    required: bool = False
    constraints: Mapping[str, Any] = field(default_factory=dict)

    @property
    def go_type(self) -> str:
        """The type as a Go decoder's error spells it."""
        if self.item is not None:
            return f"{'[]' if self.form == 'list' else 'map[string]'}{self.item.go_type}"
        if self.form == "scalar":
            return SCALARS[self.name]
        group, _, rest = self.name.partition(".")
        return rest or group


@lru_cache(maxsize=1024)
def parse(text: str) -> Shape:
    """Read a type expression."""
    if text.startswith("!"):
        found = parse(text[1:])
        return Shape(found.form, found.name, found.item, found.keys, found.is_set, found.merge_key, required=True)
    if text.startswith("["):
        inner, _, keys = text[1:].rpartition("]")
        apply, tilde, merge = keys.partition("~")
        return Shape(
            "list",
            item=parse(inner),
            keys=tuple(apply.split(",")) if apply not in {"", "*"} else (),
            is_set=apply == "*",
            merge_key=merge.rstrip("!") if tilde else None,
        )
    if text.startswith("{"):
        return Shape("map", item=parse(text[1:-1]))
    return Shape("scalar" if text in SCALARS else "struct", text)


class Fields:
    """The definitions of one minor."""

    def __init__(self, kinds: Mapping[str, str], definitions: Mapping[str, Mapping[str, Any]]) -> None:
        """Store the table's entries; they are parsed on use."""
        self.kinds = kinds
        self._raw = definitions
        self._read: dict[str, Mapping[str, Shape]] = {}

    def root(self, api_version: str, kind: str) -> str | None:
        """The definition of ``batch/v1``, ``Job``; None for a kind that is not in the table."""
        return self.kinds.get(f"{api_version}/{kind}")

    def of(self, definition: str) -> Mapping[str, Shape]:
        """The fields of a definition."""
        found = self._read.get(definition)
        if found is None:
            raw = self._raw[definition]
            found = {name: _shape(entry) for name, entry in raw.items() if name and not isinstance(entry, dict)}
            self._read[definition] = found
        return found

    def is_atomic(self, definition: str) -> bool:
        """Whether server-side apply takes it as one value."""
        return "" in self._raw[definition]


def _shape(entry: Any) -> Shape:
    if isinstance(entry, str):
        return parse(entry)
    text, constraints = entry
    plain = parse(text)
    return Shape(
        plain.form, plain.name, plain.item, plain.keys, plain.is_set, plain.merge_key, plain.required, constraints
    )


@lru_cache(maxsize=1)
def _table() -> dict[str, Any]:
    text = resources.files(__package__).joinpath("fields.json").read_text(encoding="utf-8")
    table: dict[str, Any] = json.loads(text)
    return table


@lru_cache(maxsize=8)
def fields_of(minor: str) -> Fields:
    """The definitions of ``minor``; KeyError for one that is not in the table."""
    table, known = _table(), MINORS[minor]
    definitions: dict[str, dict[str, Any]] = dict(table["definitions"])
    kinds: dict[str, str] = dict(table["kinds"][known.rules])
    for kind in ("Workload", "PodGroup") if known.like else ():
        older = f"{SCHEDULING_GROUP}/{known.older_version}/{kind}"
        kinds[f"{SCHEDULING_GROUP}/{known.scheduling_version}/{kind}"] = kinds[older]
    for name, changes in table["differences"].get(known.rules, {}).items():
        merged = {**definitions.get(name, {}), **changes}
        definitions[name] = {field_: entry for field_, entry in merged.items() if entry is not None}
    return Fields(kinds, definitions)
