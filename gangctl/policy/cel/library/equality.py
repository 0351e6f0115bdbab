"""Equality and order of CEL values: numbers of any type compare as numbers, and true is not 1."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final

from gangctl.policy.cel.library.values import Extension, Optional, kind

_NUMBERS: Final = frozenset({"int", "uint", "double"})
_ORDERED: Final = frozenset(
    {"bool", "string", "bytes", "google.protobuf.Timestamp", "google.protobuf.Duration"},
)
_HASHABLE: Final = frozenset({"bool", "string", "bytes", "null_type"})


def equal(left: object, right: object) -> bool:
    """``left == right`` as CEL sees it; values of unlike types are unlike."""
    one, other = kind(left), kind(right)
    if one in _NUMBERS:
        return other in _NUMBERS and left == right
    if one != other:
        return False
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return _equal_maps(left, right)
    if one == "list" and isinstance(left, Sequence) and isinstance(right, Sequence):
        return len(left) == len(right) and all(equal(a, b) for a, b in zip(left, right, strict=True))
    if isinstance(left, Optional) and isinstance(right, Optional):
        return left.present == right.present and (not left.present or equal(left.value, right.value))
    return left == right


def _equal_maps(left: Mapping[Any, Any], right: Mapping[Any, Any]) -> bool:
    if len(left) != len(right):
        return False
    for key, value in left.items():
        if key not in right or not equal(value, right[key]):
            return False
    # Python finds True under 1.
    return {(kind(key) == "bool", key) for key in left} == {(kind(key) == "bool", key) for key in right}


def compare(left: object, right: object) -> int | None:
    """-1, 0 or 1; None for values without an order among each other (unlike types, NaN, lists)."""
    one, other = kind(left), kind(right)
    comparable = (one in _NUMBERS and other in _NUMBERS) or (one == other and one in _ORDERED)
    if not comparable or _not_a_number(left) or _not_a_number(right):
        return None
    # The kinds are alike, which no type checker can see; Python orders strings as UTF-8 does, by code points.
    a: Any = left
    b: Any = right
    return int(a > b) - int(a < b)


def ordered(name: str) -> bool:
    """Whether values of this kind have an order."""
    return name in _NUMBERS or name in _ORDERED


def key_of(value: object) -> Hashable | None:
    """Something that is equal for values that are; None for values that must be compared (lists, maps, NaN)."""
    name = kind(value)
    if name in _NUMBERS:
        return None if _not_a_number(value) else ("number", value)
    if name in _HASHABLE or isinstance(value, Extension):
        return (name, value)
    return None


def _not_a_number(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)
