"""``int()``, ``string()``, ``timestamp()``, ... as cel-go converts, stricter than cel-python; CEL's values as JSON."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from gangctl.cel import times
from gangctl.cel.evaluation.arithmetic import integer, timestamp, unsigned
from gangctl.cel.faults import EvalError, EvalKind
from gangctl.cel.library import registry
from gangctl.cel.library.string_format import double_text
from gangctl.cel.library.values import Optional, TypeValue, Uint, invalid, kind, no_such_overload
from gangctl.cel.times import Duration, Timestamp

# Behind its zeros at most 40 digits, far more than 64 bits have: Python's time to read them grows with their square.
_MAGNITUDE: Final = r"(?=[0-9])0*+([0-9]{0,40})"
_INTEGER: Final = re.compile(rf"([+-]?){_MAGNITUDE}", re.ASCII)
_UNSIGNED: Final = re.compile(rf"(){_MAGNITUDE}", re.ASCII)
# Possessive: where digits may follow digits, going back takes time that grows with their square.
_DIGITS: Final = r"[0-9](?:_?[0-9])*+"
_HEX: Final = r"[0-9a-f](?:_?[0-9a-f])*+"
# As special() of Go, which takes no sign before nan.
_SPECIAL: Final = re.compile(r"(?i:nan|[+-]?inf(?:inity)?)", re.ASCII)
_DECIMAL: Final = re.compile(rf"(?i:[+-]?(?:{_DIGITS}\.?(?:{_DIGITS})?|\.{_DIGITS})(?:e[+-]?{_DIGITS})?)", re.ASCII)
_HEXADECIMAL: Final = re.compile(rf"(?i:[+-]?0x(?:_?{_HEX}\.?(?:{_HEX})?|\.{_HEX})p[+-]?{_DIGITS})", re.ASCII)
_BOOLEANS: Final = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}
DOUBLE_OVER_INT: Final = 2.0**63
DOUBLE_OVER_UINT: Final = 2.0**64
# Excluded as a bound: the nearest double below zero, so that -0.0 is a uint.
_BELOW_ZERO: Final = -5e-324


def to_int(value: Any) -> int:
    """``int(value)``: of a double without its fraction, of a timestamp the Unix seconds."""
    cls = type(value)
    if cls is int:
        return int(value)
    if cls is Uint:
        return integer(int(value))
    if cls is float:
        # As doubleToInt64Checked of cel-go, which refuses the smallest int as well.
        return _truncated(value, -DOUBLE_OVER_INT, DOUBLE_OVER_INT)
    if cls is str:
        return _parsed(value, _INTEGER, integer, "int")
    if cls is Timestamp:
        # Rounded down before 1970, too, as Unix() of Go.
        return int(value.nanoseconds // times.SECOND)
    if cls is Duration:
        return int(value.nanoseconds)
    raise no_such_overload("int")


def to_uint(value: Any) -> Uint:
    """``uint(value)``."""
    cls = type(value)
    if cls is Uint:
        return Uint(value)
    if cls is int:
        return unsigned(value)
    if cls is float:
        return Uint(_truncated(value, _BELOW_ZERO, DOUBLE_OVER_UINT))
    if cls is str:
        return Uint(_parsed(value, _UNSIGNED, unsigned, "uint"))
    raise no_such_overload("uint")


def _truncated(value: float, least: float, most: float) -> int:
    """The whole part of a double between two bounds, both excluded."""
    if not least < value < most:
        raise EvalError(EvalKind.OVERFLOW, "the double is outside of the integers")
    return int(value)


def _parsed(text: str, form: re.Pattern[str], check: Callable[[int], int], name: str) -> int:
    """The number in a string: out of range it is an invalid argument, where a number would be an overflow."""
    number = form.fullmatch(text)
    if number is None:
        raise invalid(f"{name}: the string is no whole number")
    try:
        return check(int(f"{number[1]}0{number[2]}"))
    except EvalError as error:
        raise invalid(f"{name}: the number has more than 64 bits") from error


def to_double(value: Any) -> float:
    """``double(value)``; strings as Go's ParseFloat reads them."""
    cls = type(value)
    if cls is float or cls is int or cls is Uint:
        return float(value)
    if cls is not str:
        raise no_such_overload("double")
    if _SPECIAL.fullmatch(value):
        return float(value)
    for form, read in ((_DECIMAL, float), (_HEXADECIMAL, float.fromhex)):
        if form.fullmatch(value):
            try:
                number = read(value.replace("_", ""))
            # fromhex() raises where float() returns infinity.
            except OverflowError:
                number = math.inf
            if math.isinf(number):
                raise invalid("double: the number is too large")
            return number
    raise invalid("double: the string is no number")


def to_bool(value: Any) -> bool:
    """``bool(value)``."""
    if type(value) is bool:
        return value
    if type(value) is not str:
        raise no_such_overload("bool")
    if value not in _BOOLEANS:
        raise invalid("bool: the string is neither true nor false")
    return _BOOLEANS[value]


def to_string(value: Any) -> str:
    """``string(value)`` of CEL's own types."""
    cls = type(value)
    if cls is str:
        return str(value)
    if cls is bool:
        return "true" if value else "false"
    if cls is int or cls is Uint:
        return str(int(value))
    if cls is float:
        return double_text(value)
    if cls is bytes:
        try:
            return str(value, "utf-8")
        except UnicodeDecodeError as error:
            raise invalid("string: the bytes are not UTF-8") from error
    if cls is Timestamp or cls is Duration:
        return str(value)
    raise no_such_overload("string")


def to_bytes(value: Any) -> bytes:
    """``bytes(value)``."""
    if type(value) is bytes:
        return value
    if type(value) is not str:
        raise no_such_overload("bytes")
    return value.encode()


def to_timestamp(value: Any) -> Timestamp:
    """``timestamp(value)``: RFC 3339, or Unix seconds."""
    cls = type(value)
    if cls is Timestamp:
        return Timestamp(value.nanoseconds, value.offset)
    if cls is int:
        return timestamp(value * times.SECOND)
    if cls is not str:
        raise no_such_overload("timestamp")
    try:
        return times.parse_timestamp(value)
    except ValueError as error:
        raise invalid("timestamp: the string is not RFC 3339") from error
    except OverflowError as error:
        raise EvalError(EvalKind.OVERFLOW, str(error)) from error


def to_duration(value: Any) -> Duration:
    """``duration(value)``: Go's syntax."""
    cls = type(value)
    if cls is Duration:
        return Duration(value.nanoseconds)
    if cls is not str:
        raise no_such_overload("duration")
    try:
        return times.parse_duration(value)
    except ValueError as error:
        raise invalid("duration: the string is no duration such as 1h30m") from error
    except OverflowError as error:
        raise invalid("duration: more than 64 bits of nanoseconds") from error


def to_type(value: Any) -> TypeValue:
    """``type(value)``."""
    return TypeValue(kind(value))


CONVERSIONS: Final[dict[str, Callable[[Any], Any]]] = {
    "int": to_int,
    "uint": to_uint,
    "double": to_double,
    "bool": to_bool,
    "string": to_string,
    "bytes": to_bytes,
    "timestamp": to_timestamp,
    "duration": to_duration,
    "type": to_type,
    "dyn": lambda value: value,
}


_STRING: Final = registry.FUNCTIONS["string"]


def plain(value: Any) -> Any:
    """JSON where it has the type, as CEL's specification converts the others.

    Keys of maps become strings; bytes Base64; a timestamp, duration or type its text; an optional its value or null;
    doubles that JSON does not have their names. A value without text in CEL, such as a quantity, is the name of its
    type.
    """
    cls = type(value)
    if value is None or cls is bool or cls is str or cls is int:
        return value
    if cls is Uint:
        return int(value)
    if cls is float:
        return value if math.isfinite(value) else double_text(value)
    if cls is bytes:
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, (list, tuple)):
        return [plain(element) for element in value]
    if isinstance(value, Mapping):
        return {key if type(key) is str else to_string(key): plain(entry) for key, entry in value.items()}
    if cls is Timestamp or cls is Duration:
        return str(value)
    if cls is Optional:
        return plain(value.value) if value.present else None
    return value.name if cls is TypeValue else _text(value)


def _text(value: Any) -> str:
    """``string(value)``, or the name of a type that has no text in CEL."""
    try:
        return str(_STRING(value))
    except EvalError:
        return kind(value)
