"""Scalars: the values that Kubernetes gives the plain text of a YAML document.

The rules of ``sigs.k8s.io/yaml`` (go-yaml v2, then JSON): YAML 1.1 booleans, C-like integers, no base 60, and no dates:
a timestamp stays a string. Floats without a fraction become integers, because the conversion to JSON drops the point.
"""

from __future__ import annotations

import math
import re
import struct
from decimal import Decimal
from typing import Final

TAG: Final = "tag:yaml.org,2002:"
"""Prefix of the tags of YAML's own types."""
INTEGERS: Final = range(-(2**63), 2**64)
"""Those that fit into 64 bits, with a sign or without."""
MERGE: Final = "<<"
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
