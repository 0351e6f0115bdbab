"""Lists as sets: ``sets.contains``, ``sets.equivalent`` and ``sets.intersects``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from gangctl.cel.library.equality import equal, key_of
from gangctl.cel.library.overload import Overload, Spending, function, metered


def _membership(spending: Spending, values: Sequence[Any]) -> Callable[[object], bool]:
    """A membership test for ``values``: constant time except for lists and maps, which are compared."""
    keys = {key for value in values if (key := key_of(value)) is not None}
    compared = [value for value in values if key_of(value) is None]

    def contains(sought: object) -> bool:
        spending.charge(1)
        key = key_of(sought)
        return key in keys if key is not None else any(equal(sought, value, spending.charge) for value in compared)

    return contains


def _contains(spending: Spending, values: Sequence[Any], some: Sequence[Any]) -> bool:
    contains = _membership(spending, values)
    return all(contains(value) for value in some)


def _equivalent(spending: Spending, left: Sequence[Any], right: Sequence[Any]) -> bool:
    return _contains(spending, left, right) and _contains(spending, right, left)


def _intersects(spending: Spending, left: Sequence[Any], right: Sequence[Any]) -> bool:
    contains = _membership(spending, right)
    return any(contains(value) for value in left)


OVERLOADS: Final[tuple[Overload, ...]] = (
    metered(function("sets.contains", _contains, "list", "list")),
    metered(function("sets.equivalent", _equivalent, "list", "list")),
    metered(function("sets.intersects", _intersects, "list", "list")),
)
