"""Quantities as Kueue counts them: ``cpu`` in milli-CPU, everything else in whole units, both rounded up.

Source: Kueue ``pkg/resources`` (Amount, ResourceValue). A quota that does not fit into int64 is unlimited.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

from gangctl.api.quantity import MAX, milli, parse_quantity, whole

UNLIMITED: Final = MAX
"""The amount of an unlimited quota."""

_MOST_CPU: Final = Fraction(MAX // 1000)


def amount(resource: str, quantity: Fraction) -> int:
    """The integer that Kueue uses, at most int64."""
    return milli(quantity) if resource == "cpu" else whole(quantity)


def quota_amount(resource: str, quantity: Fraction) -> int:
    """The integer of a quota; a quantity that int64 cannot hold is :data:`UNLIMITED`."""
    if resource == "cpu" and quantity >= _MOST_CPU:
        return UNLIMITED
    return amount(resource, quantity)


def read_quantity(value: object) -> Fraction | None:
    """A quantity in JSON, a string or a number; None if it is invalid."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        # repr of a float is as in the source: 0.1 is a tenth.
        return parse_quantity(value) if isinstance(value, str) else _number(value)
    except ValueError:
        return None


def _number(value: float) -> Fraction:
    if isinstance(value, int):
        return Fraction(max(-MAX, min(value, MAX)))
    return parse_quantity(repr(value))


def read_amounts(value: object) -> dict[str, int]:
    """A ResourceList; invalid quantities are left out."""
    entries: Mapping[Any, Any] = value if isinstance(value, dict) else {}
    amounts = {}
    for name, written in entries.items():
        quantity = read_quantity(written)
        if quantity is not None:
            amounts[name] = amount(name, quantity)
    return amounts
