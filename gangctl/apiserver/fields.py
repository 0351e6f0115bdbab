"""Which fields the API types of a minor have, and decoding of objects by them: known fields that are not empty stay.

``fields.json`` is written by ``python -m tests.sandbox.fieldtable`` from real API servers: names, types and list keys.
A type is ``string``, ``int32``, ``quantity`` and so on, the name of a definition, ``[TYPE]`` for a list or ``{TYPE}``
for a map. After a list stand the keys of server-side apply (``*``: a set), then ``~`` and the key of strategic merge.
``!`` in front: required. ``self`` of a definition holds the rules of the items of a list. A minor that is not released
has the fields of another one.

The server reads JSON into Go structs and writes it out again, so ``null``, empty lists and, for most fields, empty
values are gone afterwards.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from importlib import resources
from typing import Any, Final, Literal, cast

from gangctl.api.quantity import parse_quantity
from gangctl.apiserver.metadata import Object
from gangctl.apiserver.minors import MINORS, SCHEDULING_GROUP

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
SCALAR_SCHEMAS: Final[Mapping[str, Mapping[str, Any]]] = {
    "string": {"type": "string"},
    "bytes": {"type": "string", "format": "byte"},
    "time": {"type": "string", "format": "date-time"},
    "microTime": {"type": "string", "format": "date-time"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "bool": {"type": "boolean"},
}
"""Schemas of those that OpenAPI and definitions of custom resources describe alike."""


@dataclass(frozen=True, slots=True)
class FieldType:
    """The type of a field; ``item`` is that of the elements of a list or map, ``name`` that of everything else."""

    form: Literal["scalar", "struct", "list", "map"]
    name: str = ""
    item: FieldType | None = None
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

    @property
    def list_type(self) -> dict[str, Any]:
        """How the schema of a list says by what server-side apply knows its items."""
        if self.keys:
            return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(self.keys)}
        return {"x-kubernetes-list-type": "set"} if self.is_set else {}


@lru_cache(maxsize=1024)
def parse(text: str) -> FieldType:
    """Read a type expression."""
    if text.startswith("!"):
        shape = parse(text[1:])
        return FieldType(shape.form, shape.name, shape.item, shape.keys, shape.is_set, shape.merge_key, required=True)
    if text.startswith("["):
        inner, _, keys = text[1:].rpartition("]")
        apply, tilde, merge = keys.partition("~")
        return FieldType(
            "list",
            item=parse(inner),
            keys=tuple(apply.split(",")) if apply not in {"", "*"} else (),
            is_set=apply == "*",
            merge_key=merge.rstrip("!") if tilde else None,
        )
    if text.startswith("{"):
        return FieldType("map", item=parse(text[1:-1]))
    return FieldType("scalar" if text in SCALARS else "struct", text)


class Fields:
    """The definitions of one minor."""

    def __init__(self, kinds: Mapping[str, str], definitions: Mapping[str, Mapping[str, Any]]) -> None:
        """Store the table's entries; they are parsed on use."""
        self.kinds = kinds
        self._raw = definitions
        self._read: dict[str, Mapping[str, FieldType]] = {}

    def root(self, api_version: str, kind: str) -> str | None:
        """The definition of ``batch/v1``, ``Job``; None for a kind that is not in the table."""
        return self.kinds.get(f"{api_version}/{kind}")

    def of(self, definition: str) -> Mapping[str, FieldType]:
        """The fields of a definition."""
        shapes = self._read.get(definition)
        if shapes is None:
            raw = self._raw[definition]
            shapes = {name: _shape(entry) for name, entry in raw.items() if name and not isinstance(entry, dict)}
            self._read[definition] = shapes
        return shapes

    def constraints_of_items(self, definition: str) -> Mapping[str, Any]:
        """What a schema says of the items of a list beside their fields."""
        constraints: Mapping[str, Any] = self._raw[definition].get("self", {})
        return constraints

    def is_atomic(self, definition: str) -> bool:
        """Whether server-side apply takes it as one value."""
        return "" in self._raw[definition]


def _shape(entry: Any) -> FieldType:
    if isinstance(entry, str):
        return parse(entry)
    text, constraints = entry
    plain = parse(text)
    return FieldType(
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


_QUANTITY: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
# Fields that Go writes although they are empty.
_KEPT_EMPTY: Final = frozenset(
    {
        *("name", "containers", "type", "status", "rules", "verbs", "topologyKey", "whenUnsatisfiable", "maxSkew"),
        *("port", "mountPath", "devicePath", "scope"),
    }
)
# Booleans that Go leaves out when false; all others are pointers, whose false is kept.
_FALSE_IS_NOTHING: Final = frozenset(
    {
        *("hostNetwork", "hostPID", "hostIPC", "stdin", "stdinOnce", "tty", "readOnly"),
        *("globalDefault", "unschedulable", "publishNotReadyAddresses", "scaleToZero"),
    }
)
# Numbers that Go leaves out when zero; all others are pointers, whose zero is kept.
_ZERO_IS_NOTHING: Final = frozenset(
    {
        *("initialDelaySeconds", "periodSeconds", "timeoutSeconds", "successThreshold", "failureThreshold", "hostPort"),
        *("active", "succeeded", "failed", "count", "deprecatedCount", "observedGeneration", "minReadySeconds"),
        *("nodePort", "generation"),
    }
)
INT_LIMITS: Final = {"int32": 2**31, "int64": 2**63}
_MOMENT, _ZONE = r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}", r"(Z|[+-]\d{2}:\d{2})"
# Go reads a fraction of any length where the layout has none, and one of exactly this length where it has one.
_TIMES: Final = {
    "time": (re.compile(rf"{_MOMENT}([.,]\d+)?{_ZONE}"), "2006-01-02T15:04:05Z07:00"),
    "microTime": (re.compile(rf"{_MOMENT}\.\d{{6}}{_ZONE}"), "2006-01-02T15:04:05.000000Z07:00"),
}
"""Of ``metav1.Time`` and ``metav1.MicroTime``: what is read, and the layout that the server names."""
_NANO: Final = 10**9
_KILO: Final = 1000
_BINARY: Final = 1024


_METADATA: Final = FieldType("struct", "meta.v1.ObjectMeta")


class DecodeError(ValueError):
    """A value of another type than its field, with the API server's message; ``path`` is that of the value."""

    path = ""


class Decoder:
    """Decodes objects of one kind."""

    def __init__(self, fields: Fields, kind: str, version: str, root: str = "") -> None:
        """``root`` is the kind's definition."""
        self._fields, self._kind, self._version, self._root = fields, kind, version, root

    def decode(self, obj: Object) -> list[str]:
        """Drop unknown and empty fields, in place; returns unknown paths. DecodeError for a value of another type."""
        unknown: list[str] = []
        self._struct(obj, self._root, "", "", unknown)
        return unknown

    def decode_metadata(self, obj: Object) -> list[str]:
        """The same for the metadata alone, which objects of all kinds have."""
        unknown: list[str] = []
        self._value(obj["metadata"], _METADATA, "metadata", (self._kind, "metadata"), unknown)
        return unknown

    def _struct(self, value: Object, definition: str, path: str, plain: str, unknown: list[str]) -> None:
        shapes = self._fields.of(definition)
        for name in list(value):
            shape = shapes.get(name)
            here = f"{path}.{name}" if path else name
            if shape is None:
                unknown.append(here)
                del value[name]
                continue
            field = f"{plain}.{name}" if plain else name
            content = value[name]
            if content is None:
                del value[name]
                continue
            value[name] = self._value(content, shape, here, (definition, field), unknown)
            if _is_nothing(name, value[name], shape):
                del value[name]

    def _value(self, value: Any, shape: FieldType, path: str, location: tuple[str, str], unknown: list[str]) -> Any:
        if shape.form == "scalar":
            try:
                return self._scalar(value, shape, location)
            except DecodeError as error:
                error.path = path
                raise
        if not isinstance(value, list if shape.form == "list" else dict):
            mismatch = self._wrong(value, shape, location)
            mismatch.path = path
            raise mismatch
        if shape.item is None:
            self._struct(cast("Object", value), shape.name, path, location[1], unknown)
            return value
        # Go decodes null in a list or map as the zero value.
        empty: Any = {} if shape.item.form == "struct" else ""
        for key in range(len(value)) if isinstance(value, list) else list(value):
            here = f"{path}[{key}]" if isinstance(value, list) else f"{path}.{key}"
            item = value[key]
            value[key] = self._value(empty if item is None else item, shape.item, here, location, unknown)
        return value

    def _scalar(self, value: Any, shape: FieldType, location: tuple[str, str]) -> Any:
        match shape.name:
            case "time" | "microTime" if isinstance(value, str):
                self._check_time(value, *_TIMES[shape.name])
                return value
            case "string" | "bytes" | "time" | "microTime":
                fits = isinstance(value, str)
            case "int32" | "int64":
                if isinstance(value, float) and value.is_integer():
                    value = int(value)
                limit = INT_LIMITS[shape.name]
                fits = isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit
            case "bool":
                fits = isinstance(value, bool)
            case "quantity":
                return self._quantity(value)
            case "intOrString":
                fits = isinstance(value, int | str) and not isinstance(value, bool)
            case "number":
                fits = isinstance(value, int | float) and not isinstance(value, bool)
            case _:
                fits = True
        if not fits:
            raise self._wrong(value, shape, location)
        return value

    def _check_time(self, text: str, pattern: re.Pattern[str], layout: str) -> None:
        if pattern.fullmatch(text) is None:
            raise DecodeError(f'{self._subject}parsing time "{text}" as "{layout}"')

    def _quantity(self, value: Any) -> str:
        text = str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
        if isinstance(text, str):
            with suppress(ValueError):
                return canonical(text)
        raise DecodeError(self._subject + _QUANTITY)

    @property
    def _subject(self) -> str:
        return f'{self._kind} in version "{self._version}" cannot be handled as a {self._kind}: '

    def _wrong(self, value: Any, shape: FieldType, location: tuple[str, str]) -> DecodeError:
        names = {bool: "bool", int: "number", float: "number", str: "string", list: "array", dict: "object"}
        description = names.get(type(value), "null")
        if description == "number" and shape.name in INT_LIMITS:
            description = f"number {value}"
        struct = location[0].rpartition(".")[2]
        return DecodeError(
            f"{self._subject}json: cannot unmarshal {description} into Go struct field {struct}.{location[1]} "
            f"of type {shape.go_type}"
        )


def _is_nothing(name: str, value: Any, shape: FieldType) -> bool:
    if value in ("", [], {}) and shape.form != "struct" and shape.name != "any" and name not in _KEPT_EMPTY:
        return True
    if value is False:
        return name in _FALSE_IS_NOTHING
    return value == 0 and not isinstance(value, bool) and name in _ZERO_IS_NOTHING


def canonical(text: str) -> str:
    """A quantity as the server writes it: the largest suffix that needs no fraction (``0.5`` is ``500m``)."""
    value = parse_quantity(text)
    if value == 0:
        return "0"
    # Below 1024, and of a fraction, ``Quantity.CanonicalizeBytes`` takes the decimal suffixes.
    if text.endswith("i") and abs(value) >= _BINARY and value.denominator == 1:
        return _scaled(value, _BINARY, ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))
    if "e" in text or ("E" in text and not text.endswith("E")):
        return _scaled(value * _NANO, _KILO, ("e-9", "e-6", "e-3", "", "e3", "e6", "e9", "e12", "e15", "e18"))
    return _scaled(value * _NANO, _KILO, ("n", "u", "m", "", "k", "M", "G", "T", "P", "E"))


def _scaled(value: Fraction, base: int, suffixes: tuple[str, ...]) -> str:
    number, step = int(value), 0
    while number % base == 0 and step < len(suffixes) - 1:
        number, step = number // base, step + 1
    return f"{number}{suffixes[step]}"
