"""Quantities as Kueue counts them: ``cpu`` in milli-CPU, everything else in whole units, both rounded up.

Source: Kueue ``pkg/resources`` (Amount, ResourceValue). What does not fit into int64 is without bound for a quota.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

from gangctl.api.quantity import MAX, milli, parse_quantity, whole

UNLIMITED: Final = MAX
"""An amount that stands for no bound at all."""

_MOST_CPU: Final = Fraction(MAX // 1000)


def amount(resource: str, quantity: Fraction) -> int:
    """The integer that Kueue counts with, at most int64."""
    return milli(quantity) if resource == "cpu" else whole(quantity)


def quota_amount(resource: str, quantity: Fraction) -> int:
    """The integer of a quota; a quantity that int64 cannot hold is :data:`UNLIMITED`."""
    if resource == "cpu" and quantity >= _MOST_CPU:
        return UNLIMITED
    return amount(resource, quantity)


def read_quantity(value: object) -> Fraction | None:
    """A quantity as JSON carries it, a text or a number; None where it is none."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        # repr of a float is what was written, or as good as it: 0.1 is a tenth.
        return parse_quantity(value) if isinstance(value, str) else _number(value)
    except ValueError:
        return None


def _number(value: float) -> Fraction:
    if isinstance(value, int):
        return Fraction(max(-MAX, min(value, MAX)))
    return parse_quantity(repr(value))


def read_amounts(value: object) -> dict[str, int]:
    """A ResourceList; entries that are no quantities are left out."""
    entries: Mapping[Any, Any] = value if isinstance(value, dict) else {}
    amounts = {}
    for name, written in entries.items():
        quantity = read_quantity(written)
        if quantity is not None:
            amounts[name] = amount(name, quantity)
    return amounts
