"""Equality, order and membership of values of any two types, for steps of the meter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from gangctl.policy.cel.faults import EvalError, EvalKind
from gangctl.policy.cel.library.values import INT_MAX, INT_MIN, UINT_MAX, Optional, Uint, no_such_overload
from gangctl.policy.cel.times import Duration, Timestamp

Charge = Callable[[int], None]
"""Spends steps."""
Relation = Callable[[Any, Any, Charge], bool]

MISSING: Final = object()
"""What :func:`find` gives for a key that is not there: None is a value."""

NUMBERS: Final = frozenset({int, Uint, float})
KEYS: Final = frozenset({str, bool}) | NUMBERS
"""Types of keys."""
_ORDERED: Final = frozenset({str, bytes, bool, Timestamp, Duration})
_LISTS: Final = (list, tuple)


def equal(left: Any, right: Any, charge: Charge) -> bool:
    """``left == right``: numbers of any type by their value; values of unlike types are unlike."""
    cls, other = type(left), type(right)
    if cls is other and (cls is str or cls is int or cls is bool):
        return bool(left == right)
    if cls in NUMBERS:
        return other in NUMBERS and _order(left, right) == 0
    if left is None or right is None:
        return left is right
    if cls in _LISTS and other in _LISTS:
        return _equal_lists(left, right, charge)
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return _equal_maps(left, right, charge)
    if cls is not other:
        return False
    if cls is Optional:
        return left.present == right.present and (not left.present or equal(left.value, right.value, charge))
    return bool(left == right)


def _equal_lists(left: list[Any], right: list[Any], charge: Charge) -> bool:
    if len(left) != len(right):
        return False
    for one, other in zip(left, right, strict=True):
        charge(1)
        if not equal(one, other, charge):
            return False
    return True


def _equal_maps(left: Mapping[Any, Any], right: Mapping[Any, Any], charge: Charge) -> bool:
    if len(left) != len(right):
        return False
    for key, value in left.items():
        charge(1)
        other = find(right, key)
        if other is MISSING or not equal(value, other, charge):
            return False
    return True


def _order(left: Any, right: Any) -> int | None:
    """-1, 0, 1; None when one of them is no number. A double is compared as a double, unless no int is so large."""
    one, other = left, right
    if type(left) is float and type(right) is not float:
        other = _as_double(left, right)
    elif type(right) is float and type(left) is not float:
        one = _as_double(right, left)
    if one != one or other != other:  # noqa: PLR0124 - NaN is unequal to itself
        return None
    return int(one > other) - int(one < other)


def _as_double(double: float, whole: int) -> float | int:
    least, most = (0.0, float(UINT_MAX)) if type(whole) is Uint else (float(INT_MIN), float(INT_MAX))
    return float(whole) if least <= double <= most else whole


def compare(left: Any, right: Any, name: str) -> int:
    """-1, 0 or 1; EvalError for values without an order among each other."""
    cls, other = type(left), type(right)
    if cls in NUMBERS and other in NUMBERS:
        order = _order(left, right)
        if order is None:
            raise EvalError(EvalKind.INVALID_ARGUMENT, "NaN has no order")
        return order
    if cls is other and cls in _ORDERED:
        return int(left > right) - int(left < right)
    raise no_such_overload(name)


def find(mapping: Mapping[Any, Any], key: Any) -> Any:
    """The value under a key or :data:`MISSING`; 1, 1u and 1.0 are the same key, and true is another one."""
    cls = type(key)
    if cls is str:
        return mapping.get(key, MISSING)
    if cls not in KEYS:
        return MISSING
    value = mapping.get(key, MISSING)
    if value is not MISSING and key in {0, 1}:
        # Python finds True under 1.
        stored = next(other for other in mapping if other == key)
        return value if (type(stored) is bool) is (cls is bool) else MISSING
    return value


def contains(item: Any, container: Any, charge: Charge) -> bool:
    """``item in container``."""
    if isinstance(container, Mapping):
        return find(container, item) is not MISSING
    if type(container) not in _LISTS:
        raise no_such_overload("@in")
    if type(item) is str:
        charge(len(container) >> 3)
        return item in container
    for element in container:
        charge(1)
        if equal(item, element, charge):
            return True
    return False


RELATIONS: Final[dict[str, Relation]] = {
    "_==_": equal,
    "_!=_": lambda left, right, charge: not equal(left, right, charge),
    "_<_": lambda left, right, _: compare(left, right, "_<_") < 0,
    "_<=_": lambda left, right, _: compare(left, right, "_<=_") <= 0,
    "_>_": lambda left, right, _: compare(left, right, "_>_") > 0,
    "_>=_": lambda left, right, _: compare(left, right, "_>=_") >= 0,
    "@in": contains,
}
