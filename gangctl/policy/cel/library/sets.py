"""Lists as sets: ``sets.contains``, ``sets.equivalent`` and ``sets.intersects``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from gangctl.policy.cel.faults import EvalError, EvalKind
from gangctl.policy.cel.library.equality import equal
from gangctl.policy.cel.library.overload import Overload, function
from gangctl.policy.cel.library.values import kind

MOST_COMPARISONS: Final = 1_000_000
"""Of elements that are no scalars, each with each."""

_SCALARS: Final = frozenset({"string", "bool", "bytes", "null_type"})


def _membership(values: Sequence[Any]) -> Callable[[object], bool]:
    """Whether something is among ``values``: at once for scalars, by comparing for the rest."""
    scalars = {(kind(value), value) for value in values if kind(value) in _SCALARS}
    others = [value for value in values if kind(value) not in _SCALARS]

    def contains(sought: object) -> bool:
        name = kind(sought)
        if name in _SCALARS:
            return (name, sought) in scalars
        return any(equal(value, sought) for value in others)

    return contains


def _bound(left: Sequence[Any], right: Sequence[Any], name: str) -> None:
    if len(left) * len(right) > MOST_COMPARISONS and any(kind(value) not in _SCALARS for value in (*left, *right)):
        raise EvalError(EvalKind.BUDGET_EXCEEDED, f"{name} compares too many elements")


def _contains(values: Sequence[Any], some: Sequence[Any]) -> bool:
    _bound(values, some, "sets.contains")
    contains = _membership(values)
    return all(contains(value) for value in some)


def _equivalent(left: Sequence[Any], right: Sequence[Any]) -> bool:
    return _contains(left, right) and _contains(right, left)


def _intersects(left: Sequence[Any], right: Sequence[Any]) -> bool:
    _bound(left, right, "sets.intersects")
    contains = _membership(right)
    return any(contains(value) for value in left)


OVERLOADS: Final[tuple[Overload, ...]] = (
    function("sets.contains", _contains, "list", "list"),
    function("sets.equivalent", _equivalent, "list", "list"),
    function("sets.intersects", _intersects, "list", "list"),
)
