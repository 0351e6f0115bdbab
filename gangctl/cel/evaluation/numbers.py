"""Numbers of JSON as Kubernetes decodes them: what 64 bits do not hold is a double."""

from __future__ import annotations

from typing import Any

from gangctl.cel.library.values import INT_MAX, INT_MIN


def decoded(value: Any) -> Any:
    """A value out of an object or list; of a list of numbers, with all of them decoded."""
    cls = type(value)
    if cls is int:
        return value if INT_MIN <= value <= INT_MAX else float(value)
    if cls is list and value and type(value[0]) in {int, float} and not all(map(_held, value)):
        return [decoded(each) for each in value]
    return value


def _held(value: Any) -> bool:
    return type(value) is not int or INT_MIN <= value <= INT_MAX
