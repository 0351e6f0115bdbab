"""Quantities (``500m``, ``1.5Gi``) as ``k8s.io/apimachinery`` ``resource.Quantity`` has them, for CEL.

:mod:`gangctl.api.quantity` reads the values of objects; this module answers as the API server does, including ``Ki``
without a number, and ``isInteger()`` being false for ``2000m``: there a quantity is an integer of 64 bits and a power
of ten, or, where that does not suffice, a decimal number of any size (``exact`` is False for those), and ``isInteger``
and ``asInteger`` support only the first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache, total_ordering
from typing import ClassVar, Final

from gangctl.cel.faults import EvalError, EvalKind
from gangctl.cel.library.values import (
    INT_MAX,
    INT_MIN,
    Extension,
    Implementation,
    function,
    invalid,
    method,
    readable,
    reading,
)

LONGEST: Final = 512
"""Characters of a quantity."""
LARGEST_EXPONENT: Final = 4096
"""Powers of ten beyond which a quantity is refused, for reasons of memory."""

_PARSED: Final = 2048
"""Size of the cache: all containers use the same few quantities."""

_FORM: Final = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[+-]?[0-9]*)", re.ASCII)
_DECIMAL: Final = {"": 0, "n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_NANO: Final = -9
_DIGITS: Final = 18
"""Decimal digits that always fit an int64."""
_BINARY_DIGITS: Final = 15


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Quantity(Extension):
    """``unscaled * 10 ** exponent``, of which nothing is finer than a billionth; equal and ordered by value."""

    KIND: ClassVar[str] = "kubernetes.Quantity"
    unscaled: int
    exponent: int
    exact: bool = True
    """Whether the API server keeps it as an int64 and a power of ten."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and not _compare(self, other)

    def __lt__(self, other: Quantity) -> bool:
        return _compare(self, other) < 0

    def __hash__(self) -> int:
        return hash(self.unscaled * 10 ** (self.exponent - _NANO))


def _aligned(left: Quantity, right: Quantity) -> tuple[int, int, int]:
    exponent = min(left.exponent, right.exponent)
    return (
        left.unscaled * 10 ** (left.exponent - exponent),
        right.unscaled * 10 ** (right.exponent - exponent),
        exponent,
    )


@lru_cache(_PARSED)
def parse(text: str) -> Quantity:
    """Parse a quantity; ValueError when ``text`` is none."""
    form = _FORM.fullmatch(text) if 0 < len(text) <= LONGEST else None
    if form is None:
        raise ValueError("not a quantity")
    sign = -1 if form[1] == "-" else 1
    whole, fraction, suffix = form[2].lstrip("0"), form[3] or "", form[4]
    if suffix in _BINARY:
        return _parse_binary(sign, whole or "0", fraction, _BINARY[suffix], has_digits=bool(form[2] or fraction))
    exponent = _decimal_exponent(suffix)
    number = (whole or "0") + fraction
    if len(number) <= _DIGITS and exponent - len(fraction) >= _NANO:
        return Quantity(sign * int(number), exponent - len(fraction))
    if not form[2] and not fraction:
        raise ValueError("not a quantity")
    return _decimal(sign, int(number), exponent - len(fraction))


def _decimal_exponent(suffix: str) -> int:
    if suffix in _DECIMAL:
        return _DECIMAL[suffix]
    if suffix[0] not in "eE" or not suffix[1:].lstrip("+-").isdigit():
        raise ValueError("not a quantity")
    exponent = int(suffix[1:])
    if not INT_MIN <= exponent <= INT_MAX:
        raise ValueError("not a quantity")
    if abs(exponent) > LARGEST_EXPONENT:
        raise EvalError(EvalKind.BUDGET_EXCEEDED, f"a quantity has more than {LARGEST_EXPONENT} digits")
    return exponent


def _parse_binary(sign: int, whole: str, fraction: str, power: int, *, has_digits: bool) -> Quantity:
    # As ParseQuantity estimates: a number that might not fit an int64 becomes a decimal, even if it would fit.
    if not fraction and _BINARY_DIGITS - len(whole) - power * 3 // 10 - 1 >= 0:
        value = int(whole) << power
        if value <= INT_MAX:
            return Quantity(sign * value, 0)
    if not has_digits:
        raise ValueError("not a quantity")
    decimal = _decimal(1, int(whole + fraction) << power, -len(fraction))
    # ParseQuantity caps quantities with binary suffixes, and no others.
    if decimal > Quantity(INT_MAX, 0):
        decimal = Quantity(INT_MAX, 0, exact=False)
    return Quantity(sign * decimal.unscaled, decimal.exponent, exact=False)


def _decimal(sign: int, number: int, exponent: int) -> Quantity:
    """Nothing finer than a billionth: rounded up, so that a positive amount stays positive."""
    shift = exponent - _NANO
    rounded = number * 10**shift if shift >= 0 else -(-number // 10**-shift)
    return Quantity(sign * rounded, _NANO, exact=False)


def _is_quantity(text: str) -> bool:
    try:
        return readable(parse)(text)
    except EvalError:
        # Too large to compute with, but a valid quantity.
        return True


def _added(left: Quantity, right: Quantity) -> Quantity:
    # As int64Amount.Add: a zero takes the other's power of ten, so that nothing can overflow.
    if left.exact and right.exact:
        if not right.unscaled:
            return left
        if not left.unscaled:
            return right
    one, other, exponent = _aligned(left, right)
    exact = left.exact and right.exact and all(INT_MIN <= value <= INT_MAX for value in (one, other, one + other))
    return Quantity(one + other, exponent, exact)


def _subtracted(left: Quantity, right: Quantity) -> Quantity:
    return _added(left, Quantity(-right.unscaled, right.exponent, right.exact))


def _integer(quantity: Quantity) -> int | None:
    if not quantity.exact or quantity.exponent < 0:
        return None
    if quantity.unscaled and quantity.exponent > _DIGITS:
        return None
    value = quantity.unscaled * 10**quantity.exponent if quantity.unscaled else 0
    return value if INT_MIN <= value <= INT_MAX else None


def _as_integer(quantity: Quantity) -> int:
    value = _integer(quantity)
    if value is None:
        raise invalid("asInteger: cannot convert value to integer")
    return value


def _as_approximate_float(quantity: Quantity) -> float:
    try:
        base = float(quantity.unscaled)
    except OverflowError:
        base = float("inf") if quantity.unscaled > 0 else float("-inf")
    # Multiplied in two steps, which rounds as Go does.
    return base * float(f"1e{quantity.exponent}") if quantity.exponent else base


def _sign(quantity: Quantity) -> int:
    return int(quantity.unscaled > 0) - int(quantity.unscaled < 0)


def _compare(left: Quantity, right: Quantity) -> int:
    one, other, _ = _aligned(left, right)
    return int(one > other) - int(one < other)


_KIND: Final = Quantity.KIND
OVERLOADS: Final[tuple[Implementation, ...]] = (
    function("quantity", reading("quantity", parse), "string"),
    function("isQuantity", _is_quantity, "string"),
    function("sign", _sign, _KIND),
    method("isGreaterThan", lambda left, right: _compare(left, right) > 0, _KIND, _KIND),
    method("isLessThan", lambda left, right: _compare(left, right) < 0, _KIND, _KIND),
    method("compareTo", _compare, _KIND, _KIND),
    method("asApproximateFloat", _as_approximate_float, _KIND),
    method("asInteger", _as_integer, _KIND),
    method("isInteger", lambda quantity: _integer(quantity) is not None, _KIND),
    method("add", _added, _KIND, _KIND),
    method("add", lambda left, right: _added(left, Quantity(right, 0)), _KIND, "int"),
    method("sub", _subtracted, _KIND, _KIND),
    method("sub", lambda left, right: _subtracted(left, Quantity(right, 0)), _KIND, "int"),
)
