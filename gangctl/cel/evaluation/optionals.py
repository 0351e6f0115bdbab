"""``optional.of()`` and the methods of optionals.

The evaluator implements ``or``, ``orValue`` and the macros, because they evaluate only the needed operands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from gangctl.cel.library.values import NONE, Optional, invalid, no_such_overload
from gangctl.cel.times import EARLIEST, Duration, Timestamp


def of(value: Any) -> Optional:
    """``optional.of(value)``."""
    return Optional(present=True, value=value)


def of_non_zero(value: Any) -> Optional:
    """``optional.ofNonZeroValue(value)``: none for null, 0, false and empty values."""
    if isinstance(value, Duration):
        zero = not value.nanoseconds
    elif isinstance(value, Timestamp):
        zero = value.nanoseconds == EARLIEST
    else:
        zero = value is None or (isinstance(value, (int, float, str, bytes, list, tuple, Mapping)) and not value)
    return NONE if zero else of(value)


def has_value(value: Any) -> bool:
    """``value.hasValue()``."""
    return _optional(value, "hasValue").present


def value_of(value: Any) -> Any:
    """``value.value()``; EvalError of an optional without one."""
    found = _optional(value, "value")
    if not found.present:
        raise invalid("optional.none() has no value")
    return found.value


def unwrap(values: Any) -> list[Any]:
    """``values.unwrapOpt()``: the values of the optionals that have one."""
    if type(values) is not list:
        raise no_such_overload("unwrapOpt")
    return [value.value for value in values if _optional(value, "unwrapOpt").present]


def first(values: Any) -> Optional:
    """``values.first()``."""
    if type(values) is not list:
        raise no_such_overload("first")
    return of(values[0]) if values else NONE


def last(values: Any) -> Optional:
    """``values.last()``."""
    if type(values) is not list:
        raise no_such_overload("last")
    return of(values[-1]) if values else NONE


def _optional(value: Any, name: str) -> Optional:
    if not isinstance(value, Optional):
        raise no_such_overload(name)
    return value


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "optional.of": of,
    "optional.none": lambda: NONE,
    "optional.ofNonZeroValue": of_non_zero,
    "optional.unwrap": unwrap,
}
METHODS: Final[dict[str, Callable[..., Any]]] = {
    "hasValue": has_value,
    "value": value_of,
    "unwrapOpt": unwrap,
    "first": first,
    "last": last,
}
