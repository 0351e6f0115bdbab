"""``'%s has %d'.format([name, count])`` as the API server formats: with the number format of the US.

``%f`` groups thousands, infinity is a sign, and ``%e`` writes a power of ten. The number after the point is the
precision for ``%f``; for ``%e``, which always gives six digits, it is the width.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from gangctl.cel.faults import EvalError, EvalKind
from gangctl.cel.library.values import COPIED_SHIFT, Spending, TypeValue, bounded, invalid, kind

WIDEST: Final = 1000
"""Digits or columns that a precision may ask for."""
DIGITS: Final = 6

_TIMES: Final = {"google.protobuf.Timestamp": "timestamp", "google.protobuf.Duration": "duration"}
_SUPERSCRIPT: Final = str.maketrans("-0123456789", "\u207b\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079")
_SPECIAL: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_PLAIN: Final = range(-4, 6)
"""Powers of ten that Go's ``%g`` writes without an exponent."""
ESCAPES: Final = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}
_QUOTED_SHIFT: Final = 2
"""Writing four characters in quotation marks is a step."""
_SEVEN_BITS: Final = 0x80
_BASIC_PLANE: Final = 0x10000


def format_string(spending: Spending, template: str, arguments: Sequence[Any]) -> str:
    """``template`` with each clause replaced by the next argument, or EvalError where it does not accept that."""
    parts: list[str] = []
    size = position = used = 0
    while (percent := template.find("%", position)) >= 0:
        parts.append(template[position:percent])
        if template.startswith("%%", percent):
            parts.append("%")
            position = percent + 2
            continue
        if used >= len(arguments):
            raise invalid("format: fewer arguments than clauses")
        precision, verb, position = _clause(template, percent + 1)
        value = arguments[used]
        parts.append(_text(spending, value) if verb == "s" else _VERBS[verb](value, precision))
        used += 1
        size += len(parts[-1])
        bounded(size, "format")
        spending.charge(1 + (len(parts[-1]) >> COPIED_SHIFT))
    return "".join((*parts, template[position:]))


def _clause(template: str, position: int) -> tuple[int | None, str, int]:
    """Precision and verb of the clause whose ``%`` is before ``position``, and the position behind it."""
    precision: int | None = None
    if template.startswith(".", position):
        end = position + 1
        while end < len(template) and template[end] in "0123456789":
            end += 1
        digits = template[position + 1 : end]
        if not digits:
            raise invalid("format: a precision is missing")
        # By their number first: Python reads no more than 4,300 digits.
        precision = min(int(digits), WIDEST + 1) if len(digits) < WIDEST else WIDEST + 1
        position = end
    verb = template[position : position + 1]
    if verb != "s" and verb not in _VERBS:
        raise invalid("format: a clause is not known")
    if precision is not None and precision > WIDEST:
        raise EvalError(EvalKind.BUDGET_EXCEEDED, f"format: a precision is above {WIDEST}")
    return precision, verb, position + 1


def _unfit(verb: str, value: object) -> EvalError:
    return invalid(f"format: %{verb} does not take a {kind(value)}")


def _text(spending: Spending, value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return _decoded(value)
    if isinstance(value, float):
        return double_text(value)
    if kind(value) in {"list", "map"}:
        return _literal(spending, value)
    if kind(value) in {"bool", "int", "uint", "null_type", "type", *_TIMES}:
        return _scalar(value)
    raise _unfit("s", value)


def _scalar(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, TypeValue):
        return value.name
    return str(value).lower() if isinstance(value, bool) else str(value)


def _decoded(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise invalid("format: bytes are not UTF-8") from None


def double_text(value: float) -> str:
    """A double with as few digits as tell it from others, as Go's ``%g``: also what ``string(double)`` is.

    >>> double_text(1e20), double_text(1234567.0), double_text(0.00001), double_text(-1.0)
    ('1e+20', '1.234567e+06', '1e-05', '-1')
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    number = Decimal(repr(value))
    if not value:
        return "-0" if number.is_signed() else "0"
    power = number.adjusted()
    if power in _PLAIN:
        text = format(number, "f")
        return text.rstrip("0").rstrip(".") if "." in text else text
    digits = "".join(map(str, number.as_tuple().digits)).rstrip("0")
    fraction = f".{digits[1:]}" if digits[1:] else ""
    return f"{'-' if value < 0 else ''}{digits[0]}{fraction}e{'-' if power < 0 else '+'}{abs(power):02d}"


def _literal(spending: Spending, value: object) -> str:
    """A value inside of a list or map, as CEL writes it, with six digits for a double.

    The cost is charged during the walk: a few characters may stand for a list of a list of ...
    """
    name = kind(value)
    spending.charge(1 + (len(value) >> _QUOTED_SHIFT if isinstance(value, str | bytes) else 0))
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bytes):
        return f"b{quoted(_decoded(value))}"
    if isinstance(value, float):
        return f"{value:.{DIGITS}f}" if math.isfinite(value) else f'"{double_text(value)}"'
    if name in _TIMES:
        return f"{_TIMES[name]}({quoted(str(value))})"
    if isinstance(value, Mapping):
        # Sorted, so that the text does not depend on the order of the map.
        entries = sorted((_key(spending, key), _literal(spending, entry)) for key, entry in value.items())
        text = "{" + ", ".join(f"{key}:{entry}" for key, entry in entries) + "}"
    elif isinstance(value, Sequence):
        text = f"[{', '.join(_literal(spending, item) for item in value)}]"
    elif name in {"bool", "int", "uint", "null_type", "type"}:
        return _scalar(value)
    else:
        raise _unfit("s", value)
    bounded(len(text), "format")
    spending.charge(len(text) >> COPIED_SHIFT)
    return text


def _key(spending: Spending, value: object) -> str:
    if kind(value) not in {"string", "bool", "int", "uint"}:
        raise _unfit("s", value)
    return _literal(spending, value)


def quoted(text: str) -> str:
    """Text in quotation marks, with invisible characters escaped, as Go's ``%q``."""
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(character: str) -> str:
    if character in ESCAPES:
        return ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    if code < _SEVEN_BITS:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < _BASIC_PLANE else f"\\U{code:08x}"


def _decimal(value: object, _: int | None) -> str:
    if kind(value) not in {"int", "uint"}:
        raise _unfit("d", value)
    return str(value)


def _double(verb: str, value: object) -> float:
    if isinstance(value, str) and value in _SPECIAL:
        return _SPECIAL[value]
    if not isinstance(value, float):
        raise _unfit(verb, value)
    return value


def _special(value: float) -> str | None:
    if math.isfinite(value):
        return None
    return "NaN" if math.isnan(value) else "\u221e" if value > 0 else "-\u221e"


def _fixed(value: object, precision: int | None) -> str:
    number = _double("f", value)
    places = DIGITS if precision is None else precision
    # Adding zero removes the sign of a zero.
    return _special(number) or f"{number + 0.0:,.{places}f}"


def _scientific(value: object, precision: int | None) -> str:
    number = _double("e", value)
    text = _special(number)
    if text is None:
        mantissa, _, exponent = f"{number + 0.0:.{DIGITS}e}".partition("e")
        text = f"{mantissa}\u00d710{exponent.removeprefix('+').translate(_SUPERSCRIPT)}"
    return text.rjust(DIGITS if precision is None else precision)


def _based(letter: str) -> Callable[[object, int | None], str]:
    def formatted(value: object, _: int | None) -> str:
        if letter == "b" and isinstance(value, bool):
            return str(int(value))
        if not isinstance(value, int) or isinstance(value, bool):
            raise _unfit(letter, value)
        return format(value, letter)

    return formatted


def _hexadecimal(letter: str) -> Callable[[object, int | None], str]:
    integer = _based(letter)

    def formatted(value: object, precision: int | None) -> str:
        if not isinstance(value, str | bytes):
            return integer(value, precision)
        digits = (value.encode() if isinstance(value, str) else value).hex()
        return digits.upper() if letter == "X" else digits

    return formatted


_VERBS: Final[Mapping[str, Callable[[object, int | None], str]]] = {
    "d": _decimal,
    "f": _fixed,
    "e": _scientific,
    "b": _based("b"),
    "o": _based("o"),
    "x": _hexadecimal("x"),
    "X": _hexadecimal("X"),
}
