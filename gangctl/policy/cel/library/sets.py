"""Lists as sets: ``sets.contains``, ``sets.equivalent`` and ``sets.intersects``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from gangctl.policy.cel.faults import EvalError, EvalKind
from gangctl.policy.cel.library.equality import equal, key_of
from gangctl.policy.cel.library.overload import Overload, function

MOST_COMPARISONS: Final = 200_000
"""Of lists and maps, each with each."""


def _membership(values: Sequence[Any], other: Sequence[Any], name: str) -> Callable[[object], bool]:
    """Whether something of ``other`` is among ``values``: at once, but by comparing for lists and maps."""
    keys = {key for value in values if (key := key_of(value)) is not None}
    compared = [value for value in values if key_of(value) is None]
    if len(compared) * len(other) > MOST_COMPARISONS:
        raise EvalError(EvalKind.BUDGET_EXCEEDED, f"{name} compares too many elements")

    def contains(sought: object) -> bool:
        key = key_of(sought)
        return key in keys if key is not None else any(equal(sought, value) for value in compared)

    return contains


def _contains(values: Sequence[Any], some: Sequence[Any]) -> bool:
    contains = _membership(values, some, "sets.contains")
    return all(contains(value) for value in some)


def _equivalent(left: Sequence[Any], right: Sequence[Any]) -> bool:
    return _contains(left, right) and _contains(right, left)


def _intersects(left: Sequence[Any], right: Sequence[Any]) -> bool:
    contains = _membership(right, left, "sets.intersects")
    return any(contains(value) for value in left)


OVERLOADS: Final[tuple[Overload, ...]] = (
    function("sets.contains", _contains, "list", "list"),
    function("sets.equivalent", _equivalent, "list", "list"),
    function("sets.intersects", _intersects, "list", "list"),
)
