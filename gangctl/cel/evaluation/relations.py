"""Equality, order and membership of values of any two types, for steps of the meter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from gangctl.cel.faults import EvalError, EvalKind
from gangctl.cel.library.equality import Charge, order, same
from gangctl.cel.library.maps import MISSING, NUMBERS, find
from gangctl.cel.library.values import no_such_overload
from gangctl.cel.times import Duration, Timestamp

Relation = Callable[[Any, Any, Charge], bool]

_ORDERED: Final = frozenset({str, bytes, bool, Timestamp, Duration})
_LISTS: Final = (list, tuple)


def equal(left: Any, right: Any, charge: Charge) -> bool:
    """``left == right``; EvalError where a quantity, an address or the like is compared with something else."""
    found = same(left, right, charge)
    if found is None:
        raise no_such_overload("_==_")
    return found


def compare(left: Any, right: Any, name: str) -> int:
    """-1, 0 or 1; EvalError for values without an order among each other."""
    cls, other = type(left), type(right)
    if cls in NUMBERS and other in NUMBERS:
        found = order(left, right)
        if found is None:
            raise EvalError(EvalKind.INVALID_ARGUMENT, "NaN has no order")
        return found
    if cls is other and cls in _ORDERED:
        return int(left > right) - int(left < right)
    raise no_such_overload(name)


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
        if same(item, element, charge) is True:
            return True
    return False


RELATIONS: Final[dict[str, Relation]] = {
    "_==_": equal,
    "_!=_": lambda left, right, charge: same(left, right, charge) is not True,
    "_<_": lambda left, right, _: compare(left, right, "_<_") < 0,
    "_<=_": lambda left, right, _: compare(left, right, "_<=_") <= 0,
    "_>_": lambda left, right, _: compare(left, right, "_>_") > 0,
    "_>=_": lambda left, right, _: compare(left, right, "_>=_") >= 0,
    "@in": contains,
}
