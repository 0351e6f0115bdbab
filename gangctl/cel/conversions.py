"""Conversions of constants, which an API server performs when it compiles: a failing one is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from gangctl.cel.ast import Call, Literal, Node
from gangctl.cel.evaluation.conversions import to_double
from gangctl.cel.faults import CompileError, CompileKind, EvalError
from gangctl.cel.literals import INT_MAX, INT_MIN, UINT_MAX
from gangctl.cel.times import Duration, Timestamp, parse_duration, parse_timestamp, timestamp_of

_SECOND: Final = 1_000_000_000
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_TRUTH: Final = {
    **dict.fromkeys(("1", "t", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "false", "FALSE", "False"), False),
}


class _Unknown:
    """A value that is not known before the expression runs."""


UNKNOWN: Final = _Unknown()
_WHAT: Final = {"duration": "a duration such as '1h30m'", "timestamp": "a time such as '2026-01-02T15:04:05Z'"}


def folded(node: Node) -> object:
    """The value of a constant, :data:`UNKNOWN` of anything else; CompileError of a conversion that always fails."""
    if isinstance(node, Literal):
        return node.value
    if not isinstance(node, Call) or node.target is not None or node.function not in CONVERSIONS:
        return UNKNOWN
    (argument,) = node.arguments
    value = folded(argument)
    if value is UNKNOWN:
        return UNKNOWN
    try:
        return CONVERSIONS[node.function](value)
    except (ValueError, OverflowError):
        span = argument.span
        message = f"this is not {_WHAT.get(node.function, f'what {node.function}() takes')}"
        raise CompileError(CompileKind.TYPE, message, span.start, span.end - span.start) from None


def _bool(value: object) -> object:
    if isinstance(value, str):
        if value not in _TRUTH:
            raise ValueError
        return _TRUTH[value]
    return _present(value)


def _int(value: object) -> object:
    if isinstance(value, str):
        return _within(_integer(value), INT_MIN, INT_MAX)
    if isinstance(value, float):
        return _truncated(value, INT_MIN, INT_MAX)
    if isinstance(value, Timestamp | Duration):
        return UNKNOWN
    return _within(value, INT_MIN, INT_MAX)


def _uint(value: object) -> object:
    if isinstance(value, str):
        if value[:1] in {"+", "-"}:
            raise ValueError
        return _within(_integer(value), 0, UINT_MAX)
    if isinstance(value, float):
        return _truncated(value, -1, UINT_MAX)
    return _within(value, 0, UINT_MAX)


def _double(value: object) -> object:
    if isinstance(value, str):
        try:
            return to_double(value)
        except EvalError:
            raise ValueError from None
    return _present(value)


def _string(value: object) -> object:
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    return value if isinstance(value, str) else _opaque(value)


def _duration(value: object) -> object:
    return parse_duration(value) if isinstance(value, str) else _present(value)


def _timestamp(value: object) -> object:
    if isinstance(value, str):
        return parse_timestamp(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return timestamp_of(value * _SECOND)
    return _present(value)


def _present(value: object) -> object:
    if value is None:
        raise ValueError
    return value


def _opaque(value: object) -> object:
    _present(value)
    return UNKNOWN


def _integer(text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise ValueError
    return int(text)


def _within(value: object, low: int, high: int) -> int:
    if not isinstance(value, int) or not low <= value <= high:
        raise ValueError
    return value


def _truncated(value: float, low: int, high: int) -> int:
    """Both bounds are excluded: the doubles next to them are beyond 64 bits."""
    if not low < value < high:
        raise ValueError
    return int(value)


CONVERSIONS: Final[dict[str, Callable[[object], object]]] = {
    "bool": _bool,
    "bytes": lambda value: value.encode() if isinstance(value, str) else _present(value),
    "double": _double,
    "duration": _duration,
    "dyn": lambda value: value,
    "int": _int,
    "string": _string,
    "timestamp": _timestamp,
    "uint": _uint,
}
