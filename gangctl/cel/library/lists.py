"""Functions of lists: those of Kubernetes, those of CEL's extension, and lists as sets (``sets.contains``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cmp_to_key, reduce
from operator import add
from typing import Any, Final

from gangctl.cel.faults import EvalError, EvalKind
from gangctl.cel.library.equality import compare, equal, key_of, ordered
from gangctl.cel.library.values import (
    INT_MAX,
    INT_MIN,
    UINT_MAX,
    Implementation,
    Spending,
    Uint,
    bounded,
    function,
    invalid,
    kind,
    metered,
    method,
    no_such_overload,
)
from gangctl.cel.times import Duration

LONGEST_RANGE: Final = 100_000
"""Elements of ``lists.range``. The API server makes ten times as many, and charges their cost."""


def _first_must_be_ordered(values: Sequence[Any], name: str) -> None:
    """At run time Kubernetes takes the type of a list from its first element."""
    if values and not ordered(kind(values[0])):
        raise no_such_overload(name)


def _must_be_ordered(value: object, name: str) -> None:
    if not ordered(kind(value)):
        raise no_such_overload(name)


def _is_sorted(values: Sequence[Any]) -> bool:
    _first_must_be_ordered(values, "isSorted")
    previous: Any = None
    for position, value in enumerate(values):
        _must_be_ordered(value, "isSorted")
        if position and compare(previous, value) == 1:
            return False
        previous = value
    return True


def _sum(values: Sequence[Any], zero: object = 0) -> object:
    """``zero`` is the sum of an empty list, of the declared type of the list."""
    if not values:
        return zero
    name = kind(values[0])
    if any(kind(value) != name for value in values):
        raise no_such_overload("sum")
    if name == "double":
        # Not sum(): since Python 3.12 it adds more exactly than Kubernetes.
        return reduce(add, values, 0.0)
    if name == Duration.KIND:
        return Duration(_sum_between(INT_MIN, INT_MAX, (value.nanoseconds for value in values)))
    if name == "int":
        return _sum_between(INT_MIN, INT_MAX, values)
    if name == "uint":
        return Uint(_sum_between(0, UINT_MAX, values))
    raise no_such_overload("sum")


def _sum_between(least: int, most: int, values: Iterable[int]) -> int:
    total = 0
    for value in values:
        total += value
        if not least <= total <= most:
            raise EvalError(EvalKind.OVERFLOW, "sum overflows")
    return total


def _extreme(values: Sequence[Any], name: str, replaced_when: int) -> object:
    _first_must_be_ordered(values, name)
    if not values:
        raise invalid(f"{name} called on empty list")
    best = values[0]
    for value in values[1:]:
        _must_be_ordered(value, name)
        if compare(best, value) == replaced_when:
            best = value
    return best


def _min(values: Sequence[Any]) -> object:
    return _extreme(values, "min", 1)


def _max(values: Sequence[Any]) -> object:
    return _extreme(values, "max", -1)


def _index_of(spending: Spending, values: Sequence[Any], sought: object) -> int:
    return next((index for index, value in enumerate(values) if equal(value, sought, spending.charge)), -1)


def _last_index_of(spending: Spending, values: Sequence[Any], sought: object) -> int:
    backwards = range(len(values) - 1, -1, -1)
    return next((index for index in backwards if equal(values[index], sought, spending.charge)), -1)


def _includes(spending: Spending, values: object, sought: object) -> bool:
    if isinstance(values, Sequence) and kind(values) == "list":
        return _index_of(spending, values, sought) >= 0
    return equal(values, sought, spending.charge)


def _slice(values: Sequence[Any], start: int, end: int) -> list[Any]:
    if not 0 <= start <= end <= len(values):
        raise EvalError(EvalKind.INDEX_OUT_OF_BOUNDS, f"cannot slice({start}, {end}) a list of {len(values)}")
    return list(values[start:end])


def _flatten(spending: Spending, values: Sequence[Any], depth: int = 1) -> list[Any]:
    if depth < 0:
        raise invalid("flatten: level must be non-negative")
    flat: list[Any] = []
    for value in values:
        if depth and kind(value) == "list":
            # The same list may occur in another one any number of times.
            spending.charge(len(value))
            flat.extend(_flatten(spending, value, depth - 1))
            bounded(len(flat), "flatten")
        else:
            flat.append(value)
    return flat


def _reverse(values: Sequence[Any]) -> list[Any]:
    return list(values)[::-1]


def _distinct(spending: Spending, values: Sequence[Any]) -> list[Any]:
    """Lists and maps are compared each with each."""
    distinct: list[Any] = []
    keys: set[object] = set()
    compared: list[Any] = []
    for value in values:
        key = key_of(value)
        if key is not None:
            if key in keys:
                continue
            keys.add(key)
        elif any(equal(value, other, spending.charge) for other in compared):
            continue
        else:
            compared.append(value)
        distinct.append(value)
    return distinct


def _sort(spending: Spending, values: Sequence[Any]) -> list[Any]:
    return _sort_by_keys(spending, values, values)


def _sort_by_keys(spending: Spending, values: Sequence[Any], keys: Sequence[Any]) -> list[Any]:
    if len(values) != len(keys):
        raise invalid("sortBy: as many keys as elements are needed")
    if not keys:
        return []
    name = kind(keys[0])
    if not ordered(name):
        raise no_such_overload("sort")
    if any(kind(key) != name for key in keys):
        raise invalid("sort: the elements must have the same type")
    # Before the sort, which cannot be stopped.
    spending.charge(len(keys) * len(keys).bit_length())
    by_key = cmp_to_key(lambda one, other: compare(one, other) or 0)
    indexes = sorted(range(len(values)), key=lambda index: by_key(keys[index]))
    return [values[index] for index in indexes]


def _range(spending: Spending, length: int) -> list[int]:
    if length < 0:
        raise invalid("lists.range: the size must not be negative")
    if length > LONGEST_RANGE:
        raise EvalError(EvalKind.BUDGET_EXCEEDED, f"lists.range makes at most {LONGEST_RANGE} elements")
    spending.charge(length)
    return list(range(length))


OVERLOADS: Final[tuple[Implementation, ...]] = (
    method("isSorted", _is_sorted, "list"),
    method("sum", _sum, "list"),
    method("@sum", _sum, "list", "dyn"),
    method("min", _min, "list"),
    method("max", _max, "list"),
    metered(method("indexOf", _index_of, "list", "dyn")),
    metered(method("lastIndexOf", _last_index_of, "list", "dyn")),
    metered(method("includes", _includes, "dyn", "dyn")),
    method("slice", _slice, "list", "int", "int"),
    metered(method("flatten", _flatten, "list")),
    metered(method("flatten", _flatten, "list", "int")),
    method("reverse", _reverse, "list"),
    metered(method("distinct", _distinct, "list")),
    metered(method("sort", _sort, "list")),
    metered(method("@sortByAssociatedKeys", _sort_by_keys, "list", "list")),
    metered(function("lists.range", _range, "int")),
)


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


SET_OVERLOADS: Final[tuple[Implementation, ...]] = (
    metered(function("sets.contains", _contains, "list", "list")),
    metered(function("sets.equivalent", _equivalent, "list", "list")),
    metered(function("sets.intersects", _intersects, "list", "list")),
)
