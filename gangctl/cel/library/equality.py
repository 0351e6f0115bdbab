"""Equality and order of CEL values: numbers of any type compare as numbers, and true is not 1."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final

from gangctl.cel.library.values import (
    INT_MAX,
    INT_MIN,
    MISSING,
    NUMBERS,
    UINT_MAX,
    Extension,
    Optional,
    Uint,
    find,
    kind,
)

Charge = Callable[[int], None]
"""Spends steps."""

_NUMBERS: Final = frozenset({"int", "uint", "double"})
_ORDERED: Final = frozenset({"bool", "string", "bytes", "google.protobuf.Timestamp", "google.protobuf.Duration"})
_HASHABLE: Final = frozenset({"bool", "string", "bytes", "null_type"})
_LISTS: Final = (list, tuple)
_CHARACTERS_SHIFT: Final = 6
"""Comparing 64 characters is a step."""
_EXACT: Final = 2**53
"""Where doubles begin to be equal to more than one integer."""


def _free(_: int) -> None:
    """Spend nothing."""


def same(left: Any, right: Any, charge: Charge = _free) -> bool | None:
    """Whether two values are equal; None where the comparison is an error: a quantity, address, ... and something else.

    Such an error within lists and maps counts as equal, as in Kubernetes.
    """
    cls, other = type(left), type(right)
    if cls is other and (cls is str or cls is int or cls is bool):
        # Strings of different lengths are unequal without a comparison.
        if cls is str and len(left) == len(right):
            charge(len(left) >> _CHARACTERS_SHIFT)
        return bool(left == right)
    if cls in NUMBERS:
        return other in NUMBERS and order(left, right) == 0
    if left is None or right is None:
        return left is right
    if cls in _LISTS and other in _LISTS:
        return _same_lists(left, right, charge)
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return _same_maps(left, right, charge)
    if cls is not other:
        return None if isinstance(left, Extension) and left.STRICT else False
    if cls is Optional:
        if not (left.present and right.present):
            return bool(left.present == right.present)
        return same(left.value, right.value, charge)
    return bool(left == right)


def _same_lists(left: list[Any], right: list[Any], charge: Charge) -> bool:
    if len(left) != len(right):
        return False
    for one, other in zip(left, right, strict=True):
        charge(1)
        if same(one, other, charge) is False:
            return False
    return True


def _same_maps(left: Mapping[Any, Any], right: Mapping[Any, Any], charge: Charge) -> bool:
    if len(left) != len(right):
        return False
    for key, value in left.items():
        charge(1)
        other = find(right, key)
        if other is MISSING or same(value, other, charge) is False:
            return False
    return True


def equal(left: object, right: object, charge: Charge = _free) -> bool:
    """Whether ``left == right``; values that cannot be compared are unequal."""
    charge(1)
    return same(left, right, charge) is True


def order(left: Any, right: Any) -> int | None:
    """-1, 0, 1 of numbers; None when one is NaN. A double is compared as a double, unless no int is so large."""
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


def compare(left: object, right: object) -> int | None:
    """-1, 0 or 1; None for values without a common order (different types, NaN, lists)."""
    one, other = kind(left), kind(right)
    if one in _NUMBERS and other in _NUMBERS:
        return order(left, right)
    if one != other or one not in _ORDERED:
        return None
    # The kinds are the same, which no type checker can see; Python orders strings as UTF-8 does, by code points.
    a: Any = left
    b: Any = right
    return int(a > b) - int(a < b)


def ordered(name: str) -> bool:
    """Whether values of this kind have an order."""
    return name in _NUMBERS or name in _ORDERED


def key_of(value: Any) -> Hashable | None:
    """A key that is equal for equal values; None for values that must be compared.

    Those are lists, maps, NaN, and numbers so large that a double is equal to several integers.
    """
    name = kind(value)
    if name in _NUMBERS:
        return ("number", value) if -_EXACT < value < _EXACT else None
    if name in _HASHABLE or isinstance(value, Extension):
        return (name, value)
    return None
