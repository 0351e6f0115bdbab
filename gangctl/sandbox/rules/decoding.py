"""Decoding of objects of built-in types: keeps known fields of valid types that are not empty.

The server reads JSON into Go structs and writes it out again, so ``null``, empty lists
and, for most fields, empty values are gone afterwards.
"""

from __future__ import annotations

import re
from contextlib import suppress
from fractions import Fraction
from typing import Any, Final, cast

from gangctl.api.quantity import parse_quantity
from gangctl.sandbox import errors
from gangctl.sandbox.kinds import ResourceKind
from gangctl.sandbox.objects import Object
from gangctl.sandbox.rules.fields import Fields, Shape

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
        *(
            "hostNetwork",
            "hostPID",
            "hostIPC",
            "stdin",
            "stdinOnce",
            "tty",
            "readOnly",
            "globalDefault",
            "unschedulable",
        ),
        *("publishNotReadyAddresses", "scaleToZero"),
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
_INT_LIMITS: Final = {"int32": 2**31, "int64": 2**63}
_SECONDS: Final = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}")
_MICRO_TIME: Final = re.compile(_SECONDS.pattern + r"\.\d{6}(Z|[+-]\d{2}:\d{2})")
_NANO: Final = 10**9
_KILO: Final = 1000
_BINARY: Final = 1024


class Decoder:
    """Decodes objects of one kind."""

    def __init__(self, fields: Fields, kind: ResourceKind, root: str) -> None:
        """``root`` is the kind's definition."""
        self._fields, self._kind, self._root = fields, kind, root

    def decode(self, obj: Object) -> list[str]:
        """Drop unknown and empty fields, in place; returns unknown paths. 400 for a value of another type."""
        unknown: list[str] = []
        self._struct(obj, self._root, "", "", unknown)
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
            found = value[name]
            if found is None:
                del value[name]
                continue
            value[name] = self._value(found, shape, here, (definition, field), unknown)
            if _is_nothing(name, value[name], shape):
                del value[name]

    def _value(self, value: Any, shape: Shape, path: str, location: tuple[str, str], unknown: list[str]) -> Any:
        if shape.form == "scalar":
            return self._scalar(value, shape, location)
        if not isinstance(value, list if shape.form == "list" else dict):
            raise self._wrong(value, shape, location)
        if shape.item is None:
            self._struct(cast("Object", value), shape.name, path, location[1], unknown)
            return value
        empty: Any = {} if shape.item.form == "struct" else ""
        for key in range(len(value)) if isinstance(value, list) else list(value):
            here = f"{path}[{key}]" if isinstance(value, list) else f"{path}.{key}"
            item = value[key]
            value[key] = self._value(empty if item is None else item, shape.item, here, location, unknown)
        return value

    def _scalar(self, value: Any, shape: Shape, location: tuple[str, str]) -> Any:
        match shape.name:
            case "microTime" if isinstance(value, str):
                self._check_time(value)
                return value
            case "string" | "bytes" | "time" | "microTime":
                fits = isinstance(value, str)
            case "int32" | "int64":
                if isinstance(value, float) and value.is_integer():
                    value = int(value)
                limit = _INT_LIMITS[shape.name]
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

    def _check_time(self, text: str) -> None:
        """Go's parser of ``metav1.MicroTime`` wants exactly six digits after the second."""
        if _MICRO_TIME.fullmatch(text) is None:
            message = f'parsing time "{text}" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "{_rest(text)}" as '
            raise errors.bad_request(f'{self._subject}{message}"{".000000" if _SECONDS.match(text) else "2006"}"')

    def _quantity(self, value: Any) -> str:
        text = str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
        if isinstance(text, str):
            with suppress(ValueError):
                return canonical(text)
        raise errors.bad_request(self._subject + _QUANTITY)

    @property
    def _subject(self) -> str:
        return f'{self._kind.kind} in version "{self._kind.version}" cannot be handled as a {self._kind.kind}: '

    def _wrong(self, value: Any, shape: Shape, location: tuple[str, str]) -> errors.StatusError:
        names = {bool: "bool", int: "number", float: "number", str: "string", list: "array", dict: "object"}
        found = names.get(type(value), "null")
        if found == "number" and shape.name in _INT_LIMITS:
            found = f"number {value}"
        struct = location[0].rpartition(".")[2]
        return errors.bad_request(
            f"{self._subject}json: cannot unmarshal {found} into Go struct field {struct}.{location[1]} "
            f"of type {shape.go_type}"
        )


def _rest(text: str) -> str:
    """Where Go's parser stops."""
    seconds = _SECONDS.match(text)
    return text if seconds is None else text[seconds.end() :]


def _is_nothing(name: str, value: Any, shape: Shape) -> bool:
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
    if text.endswith("i") and abs(value) >= _BINARY:
        return _scaled(-(-value // 1), _BINARY, ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))
    if "e" in text or ("E" in text and not text.endswith("E")):
        return _scaled(value * _NANO, _KILO, ("e-9", "e-6", "e-3", "", "e3", "e6", "e9", "e12", "e15", "e18"))
    return _scaled(value * _NANO, _KILO, ("n", "u", "m", "", "k", "M", "G", "T", "P", "E"))


def _scaled(value: Fraction | int, base: int, suffixes: tuple[str, ...]) -> str:
    number, step = int(value), 0
    while number % base == 0 and step < len(suffixes) - 1:
        number, step = number // base, step + 1
    return f"{number}{suffixes[step]}"
