"""Plain JSON data from the text of a user, and where each field was written.

Both readers of documents feed it parse events, so that YAML and JSON give the same data, the same positions and the
same refusals. It keeps a stack of its own instead of recursing, because the text decides the depth. Lines and columns
are those of editors.

Scalars have the values that Kubernetes gives them: the rules of ``sigs.k8s.io/yaml`` (go-yaml v2, then JSON). YAML 1.1
booleans, C-like integers, no base 60, and no dates: a timestamp stays a string. Floats without a fraction become
integers, because the conversion to JSON drops the point.
"""

from __future__ import annotations

import math
import re
import struct
from bisect import bisect_right
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any, Final, NamedTuple

from gangctl.errors import InputError

_LINE_BREAK = re.compile(r"\r\n|\r|\n")


class SourceError(InputError):
    """Unreadable text; the message begins with ``source:line:column:``.

    ``offset`` counts code points from 0, ``line`` and ``column`` from 1.
    """

    def __init__(self, source: SourceText, offset: int, message: str, *, hint: str = "") -> None:
        """Describe the error at ``offset`` of ``source``."""
        self.offset = offset
        self.line, self.column = source.position(offset)
        super().__init__(f"{source.name}:{self.line}:{self.column}: {message}", hint=hint)


class SourceText:
    """``text`` and its ``name`` for users: a file's path, ``-`` for standard input."""

    def __init__(self, text: str, name: str) -> None:
        """Keep the text; line starts are computed on first use."""
        self.text = text
        self.name = name

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(match.end() for match in _LINE_BREAK.finditer(self.text))]

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column, both from 1, of the code point at ``offset``."""
        line = bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def line(self, number: int) -> str:
        """The text of a line, from 1, without its end; empty when there is no such line."""
        starts = self._line_starts
        if not 0 < number <= len(starts):
            return ""
        end = starts[number] if number < len(starts) else len(self.text)
        return self.text[starts[number - 1] : end].rstrip("\r\n")

    def error(self, offset: int, message: str, *, hint: str = "") -> SourceError:
        """Make the error for something wrong at ``offset``."""
        return SourceError(self, offset, message, hint=hint)


Scalar = str | int | float | bool | None

_INT64 = range(-(2**63), 2**63)
_UINT64_MAX: Final = 2**64 - 1
# No 64-bit integer is longer; int() of unbounded text could block the process.
_INTEGER_CHARACTERS: Final = 80

_WORDS: Final[dict[str, Scalar]] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
}
_NUMBER_STARTS: Final = frozenset("0123456789+-.")
_INTEGER: Final = re.compile(
    r"(?P<sign>[-+]?)(?:0[xX](?P<x>[0-9a-fA-F]+)|0[bB](?P<b>[01]+)|0[oO]?(?P<o>[0-7]+)|(?P<d>0|[1-9][0-9]*))"
)
# Exponents outside of this range are written with "e".
_SCIENTIFIC_BELOW: Final = -4
_SCIENTIFIC_FROM: Final = 6
_BASES: Final = {"x": 16, "b": 2, "o": 8, "d": 10}
# After a leading dot, underscores are allowed only between digits; elsewhere they are dropped anywhere.
_STRAY_UNDERSCORE: Final = re.compile(r"(?<![0-9])_|_(?![0-9])")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")


def resolve_plain(text: str) -> Scalar:
    """The value of an unquoted scalar in YAML; :func:`json_number` converts floats to JSON."""
    if text[:1] in _NUMBER_STARTS:
        return _WORDS.get(text) or _number(text)
    return _WORDS.get(text, text)


def _number(text: str) -> int | float | str:
    if text[0] == "." and _STRAY_UNDERSCORE.search(text):
        return text
    digits = text.replace("_", "")
    match = _INTEGER.fullmatch(digits) if len(digits) <= _INTEGER_CHARACTERS else None
    if match is not None and match.lastgroup is not None:
        base = match.lastgroup
        value = int(match["sign"] + match[base], _BASES[base])
        if value in _INT64 or (not match["sign"] and value <= _UINT64_MAX):
            return value
    if _FLOAT.fullmatch(digits) is None:
        return text
    number = float(digits)
    return number if math.isfinite(number) else text


def json_number(value: float) -> int | float | None:
    """A float after conversion through JSON, None when JSON has no such number.

    Without a fraction it is written as an integer, and read as one if it fits into 64 bits. A float whose shortest
    decimal form is not its exact value stays unchanged.
    """
    if not math.isfinite(value):
        return None
    whole = int(Decimal(repr(value))) if value.is_integer() else None
    return whole if whole == value and whole in _INT64 else value


def key_text(value: Scalar) -> str | None:
    """The JSON key for a YAML key of this value; None when Kubernetes refuses it (null)."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else _short_float(value)


def _short_float(value: float) -> str:
    """The shortest text that parses to this value as a 32-bit float, as Go's ``%g`` writes it.

    Thirty-two bits, because that is what ``sigs.k8s.io/yaml`` does to float keys.
    """
    try:
        single = struct.pack("f", value)
    except OverflowError:
        single = struct.pack("f", float("inf") if value > 0 else float("-inf"))
    (rounded,) = struct.unpack("f", single)
    special = {"inf": ".inf", "-inf": "-.inf", "nan": ".nan"}.get(str(rounded))
    if special is not None:
        return special
    scientific = next(
        shown for digits in range(9) if struct.pack("f", float(shown := f"{rounded:.{digits}e}")) == single
    )
    mantissa, _, exponent = scientific.partition("e")
    if _SCIENTIFIC_BELOW <= int(exponent) < _SCIENTIFIC_FROM:
        decimals = len(mantissa.partition(".")[2]) - int(exponent)
        return f"{float(scientific):.{max(decimals, 0)}f}"
    return scientific


# Where a value is: the offset of its key (or of itself in a list), with the same for its parts when it has any.
Place = int | tuple[int, "Parts"]
Parts = dict[str, "Place"] | list["Place"]

MERGE: Final = "<<"
_WEIGHT: Final = 100
"""Characters that count as one value: aliases repeat long texts as well as many values."""


class Built(NamedTuple):
    """A finished value: data, places of its parts, its weight in values, its depth."""

    value: Any
    parts: Parts | None
    size: int
    depth: int


def weight(value: object) -> int:
    """The weight of a scalar or a key: one value, and more when it is long text."""
    return 1 + len(value) // _WEIGHT if isinstance(value, str) else 1


class TooManyValuesError(SourceError):
    """More values than allowed: the other reader would not find fewer."""


class Allowance:
    """How many more values a whole text may have: each costs time and memory beyond its few characters."""

    def __init__(self, source: SourceText, most: int) -> None:
        """Allow ``most`` over all documents of ``source``."""
        self._source = source
        self._most = most
        self._left = most

    def spend(self, offset: int) -> None:
        """Count one value; SourceError at ``offset`` when there is none left."""
        self._left -= 1
        if self._left < 0:
            raise TooManyValuesError(self._source, offset, f"more than {self._most} values", hint="split it into files")


@dataclass(slots=True)
class _Container:
    value: dict[str, Any] | list[Any]
    parts: Parts
    offset: int
    explicit: dict[str, int] = field(default_factory=dict)
    key: str | None = None
    merging: bool = False
    key_offset: int = 0
    size: int = 1
    depth: int = 0


class TreeBuilder:
    """Receives one document as calls in document order; the result is :attr:`root`.

    SourceError on duplicate keys, on a merge that would not be a mapping, and on
    nesting deeper than ``max_depth``.
    """

    def __init__(self, source: SourceText, max_depth: int, allowance: Allowance) -> None:
        """Start an empty document."""
        self._source = source
        self._allowance = allowance
        self._max_depth = max_depth
        self._stack: list[_Container] = []
        self.root: Built | None = None
        self.root_offset = 0

    @property
    def wants_key(self) -> bool:
        """Whether the next call must be :meth:`key`, :meth:`merge_key` or :meth:`close`."""
        if not self._stack:
            return False
        top = self._stack[-1]
        return isinstance(top.value, dict) and top.key is None and not top.merging

    def open(self, value: dict[str, Any] | list[Any], offset: int) -> None:
        """Begin an object or a list, given as the empty container."""
        if len(self._stack) >= self._max_depth:
            raise self._too_deep(offset)
        self._allowance.spend(offset)
        self._stack.append(_Container(value, {} if isinstance(value, dict) else [], offset))

    def close(self) -> Built:
        """End the innermost container and add it to the one around it."""
        done = self._stack.pop()
        built = Built(done.value, done.parts, done.size, done.depth + 1)
        self.add(built, done.offset)
        return built

    def key(self, key: str, offset: int) -> None:
        """Set the key of the next value of the innermost object."""
        top = self._stack[-1]
        first = top.explicit.setdefault(key, offset)
        if first != offset:
            line, column = self._source.position(first)
            raise self._source.error(
                offset,
                f"duplicate key {key!r}, first at line {line}, column {column}",
                hint="Kubernetes would silently keep one of the two; remove the other",
            )
        top.key, top.key_offset = key, offset
        top.size += weight(key) - 1

    def merge_key(self, offset: int) -> None:
        """Merge the next value's entries into the innermost object."""
        top = self._stack[-1]
        top.merging, top.key_offset = True, offset

    def scalar(self, value: Scalar, offset: int) -> None:
        """Add a value without parts."""
        self._allowance.spend(offset)
        self.add(Built(value, None, weight(value), 0), offset)

    def add(self, built: Built, offset: int) -> None:
        """Add a finished value: to the list, under the current key, or as the document itself."""
        if len(self._stack) + built.depth > self._max_depth:
            raise self._too_deep(offset)
        if not self._stack:
            self.root, self.root_offset = built, offset
            return
        top = self._stack[-1]
        top.size += built.size
        top.depth = max(top.depth, built.depth)
        if isinstance(top.value, list) and isinstance(top.parts, list):
            top.value.append(built.value)
            top.parts.append(offset if built.parts is None else (offset, built.parts))
        elif top.merging:
            self._merge(top, built, offset)
            top.merging = False
        elif isinstance(top.value, dict) and isinstance(top.parts, dict) and top.key is not None:
            top.value[top.key] = built.value
            top.parts[top.key] = top.key_offset if built.parts is None else (top.key_offset, built.parts)
            top.key = None

    def _merge(self, top: _Container, built: Built, offset: int) -> None:
        """``<<``: the entries of a mapping, or of a list of them in which the first one with a key wins."""
        if isinstance(built.value, list) and isinstance(built.parts, list):
            sources = list(zip(built.value, [_inner(part) for part in built.parts], strict=True))
        else:
            sources = [(built.value, built.parts)]
        for value, parts in reversed(sources):
            if not isinstance(value, dict) or not isinstance(parts, dict):
                raise self._source.error(offset, "<< takes a mapping or a list of mappings")
            for key in value:
                if key in top.explicit:
                    # In YAML a written key wins, in go-yaml v2 the last one does.
                    raise self._source.error(
                        top.explicit[key],
                        f"key {key!r} is also merged by the << below it, and Kubernetes would use that one",
                        hint="write << before the keys that override it",
                    )
            top.value.update(value)  # type: ignore[union-attr]
            top.parts.update(parts)  # type: ignore[union-attr]

    def _too_deep(self, offset: int) -> Exception:
        return self._source.error(offset, f"nested more than {self._max_depth} levels deep")


def _inner(place: Place) -> Parts | None:
    return None if isinstance(place, int) else place[1]
