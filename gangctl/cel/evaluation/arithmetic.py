"""Operators as cel-go computes them: on numbers, strings, lists and times; equality, order and membership."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from gangctl.cel.faults import EvalError, EvalKind
from gangctl.cel.library.equality import Charge, order, same
from gangctl.cel.library.values import (
    INT_MAX,
    INT_MIN,
    MISSING,
    NUMBERS,
    UINT_MAX,
    KeyedMap,
    Uint,
    bounded,
    find,
    no_such_overload,
)
from gangctl.cel.meter import Frame
from gangctl.cel.times import Duration, Timestamp, duration_of, timestamp_of

_NUMBERS_SHIFT: Final = 3
"""Searching eight numbers is a step."""


def decoded(value: Any, frame: Frame) -> Any:
    """A value from an object or list; a list with all its numbers decoded."""
    cls = type(value)
    if cls is int:
        # The API server decodes a number of JSON beyond 64 bits as a double.
        return value if INT_MIN <= value <= INT_MAX else float(value)
    # By its first element: most lists of a JobSet hold objects or texts, and are not searched.
    if cls is list and value and type(value[0]) in {int, float}:
        frame.charge(len(value) >> _NUMBERS_SHIFT)
        if not all(map(_held, value)):
            return [decoded(item, frame) for item in value]
    return value


def _held(value: Any) -> bool:
    return type(value) is not int or INT_MIN <= value <= INT_MAX


Relation = Callable[[Any, Any, Charge], bool]

_ORDERED: Final = frozenset({str, bytes, bool, Timestamp, Duration})
_LISTS: Final = (list, tuple)


def equal(left: Any, right: Any, charge: Charge) -> bool:
    """``left == right``; EvalError where a quantity, an address or the like is compared with something else."""
    equality = same(left, right, charge)
    if equality is None:
        raise no_such_overload("_==_")
    return equality


def compare(left: Any, right: Any, name: str) -> int:
    """-1, 0 or 1; EvalError for values without an order among each other."""
    cls, other = type(left), type(right)
    if cls in NUMBERS and other in NUMBERS:
        sign = order(left, right)
        if sign is None:
            raise EvalError(EvalKind.INVALID_ARGUMENT, "NaN has no order")
        return sign
    if cls is other and cls in _ORDERED:
        return int(left > right) - int(left < right)
    raise no_such_overload(name)


def contains(item: Any, container: Any, charge: Charge) -> bool:
    """``item in container``."""
    if isinstance(container, Mapping):
        # Also by its keys: one that has a default (devices) finds any.
        return find(container, item) is not MISSING and (type(container) is KeyedMap or item in container)
    if type(container) not in _LISTS:
        raise no_such_overload("@in")
    # Python's own search is fast, and a string equals nothing but a string.
    if type(item) is str:
        charge(len(container) >> 3)
        return item in container
    for element in container:
        charge(1)
        if same(item, element, charge) is True:
            return True
    return False


RELATIONS: Final[dict[str, Relation]] = {
    "_==_": equal,
    # Not the negation of ``equal``: in cel-go's evalNe an error of the comparison is unequal.
    "_!=_": lambda left, right, charge: same(left, right, charge) is not True,
    "_<_": lambda left, right, _: compare(left, right, "_<_") < 0,
    "_<=_": lambda left, right, _: compare(left, right, "_<=_") <= 0,
    "_>_": lambda left, right, _: compare(left, right, "_>_") > 0,
    "_>=_": lambda left, right, _: compare(left, right, "_>=_") >= 0,
    "@in": contains,
}


Operator = Callable[[Any, Any], Any]


def integer(value: int) -> int:
    """An int of 64 bits, or EvalError OVERFLOW."""
    if INT_MIN <= value <= INT_MAX:
        return value
    raise EvalError(EvalKind.OVERFLOW, "integer overflow")


def unsigned(value: int) -> Uint:
    """A uint of 64 bits, or EvalError OVERFLOW."""
    if 0 <= value <= UINT_MAX:
        return Uint(value)
    raise EvalError(EvalKind.OVERFLOW, "unsigned integer overflow")


def add(left: Any, right: Any) -> Any:
    """``left + right``."""
    cls = type(left)
    if cls is type(right):
        if cls is int:
            return integer(left + right)
        if cls is str or cls is bytes or cls is list:
            bounded(len(left) + len(right), "+")
            return left + right
        if cls is float:
            return left + right
        if cls is Uint:
            return unsigned(int(left) + int(right))
        if cls is Duration:
            return duration(left.nanoseconds + right.nanoseconds)
    pair = (cls, type(right))
    if pair in {(Timestamp, Duration), (Duration, Timestamp)}:
        moment = left if cls is Timestamp else right
        return timestamp(left.nanoseconds + right.nanoseconds, moment.offset)
    raise no_such_overload("_+_")


def subtract(left: Any, right: Any) -> Any:
    """``left - right``."""
    cls = type(left)
    if cls is type(right):
        if cls is int:
            return integer(left - right)
        if cls is float:
            return left - right
        if cls is Uint:
            return unsigned(int(left) - int(right))
        if cls is Duration or cls is Timestamp:
            return duration(left.nanoseconds - right.nanoseconds)
    if cls is Timestamp and type(right) is Duration:
        return timestamp(left.nanoseconds - right.nanoseconds, left.offset)
    raise no_such_overload("_-_")


def multiply(left: Any, right: Any) -> Any:
    """``left * right``."""
    cls = type(left)
    if cls is type(right):
        if cls is int:
            return integer(left * right)
        if cls is float:
            return left * right
        if cls is Uint:
            return unsigned(int(left) * int(right))
    raise no_such_overload("_*_")


def divide(left: Any, right: Any) -> Any:
    """``left / right``: towards zero for whole numbers, IEEE 754 for doubles."""
    cls = type(left)
    if cls is type(right):
        if cls is int or cls is Uint:
            if not right:
                raise EvalError(EvalKind.DIVIDE_BY_ZERO, "divide by zero")
            quotient = abs(left) // abs(right)
            if cls is Uint:
                return Uint(quotient)
            return integer(quotient if (left < 0) == (right < 0) else -quotient)
        if cls is float:
            return left / right if right else _by_zero(left, right)
    raise no_such_overload("_/_")


def _by_zero(left: float, right: float) -> float:
    if left == 0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, math.copysign(1, left) * math.copysign(1, right))


def remainder(left: Any, right: Any) -> Any:
    """``left % right``, with the sign of ``left``."""
    cls = type(left)
    if cls is type(right) and (cls is int or cls is Uint):
        if not right:
            raise EvalError(EvalKind.DIVIDE_BY_ZERO, "modulus by zero")
        if cls is Uint:
            return Uint(int(left) % int(right))
        # As in cel-go: the quotient of these two does not fit.
        if left == INT_MIN and right == -1:
            raise EvalError(EvalKind.OVERFLOW, "integer overflow")
        rest = abs(left) % abs(right)
        return -rest if left < 0 else rest
    raise no_such_overload("_%_")


def negate(value: Any) -> Any:
    """``-value``."""
    cls = type(value)
    if cls is int:
        return integer(-value)
    if cls is float:
        return -value
    if cls is Duration:
        return duration(-value.nanoseconds)
    raise no_such_overload("-_")


def duration(nanoseconds: int) -> Duration:
    """A duration, or EvalError OVERFLOW."""
    try:
        return duration_of(nanoseconds)
    except OverflowError as error:
        raise EvalError(EvalKind.OVERFLOW, str(error)) from error


def timestamp(nanoseconds: int, offset: int = 0) -> Timestamp:
    """A timestamp, or EvalError OVERFLOW."""
    try:
        return timestamp_of(nanoseconds, offset)
    except OverflowError as error:
        raise EvalError(EvalKind.OVERFLOW, str(error)) from error


OPERATORS: Final[dict[str, Operator]] = {"_+_": add, "_-_": subtract, "_*_": multiply, "_/_": divide, "_%_": remainder}
