"""Numbers of JSON as Kubernetes decodes them: a number beyond 64 bits is a double."""

from __future__ import annotations

from typing import Any

from gangctl.cel.library.values import INT_MAX, INT_MIN


def decoded(value: Any) -> Any:
    """A value from an object or list; a list with all its numbers decoded."""
    cls = type(value)
    if cls is int:
        return value if INT_MIN <= value <= INT_MAX else float(value)
    if cls is list and value and type(value[0]) in {int, float} and not all(map(_held, value)):
        return [decoded(each) for each in value]
    return value


def _held(value: Any) -> bool:
    return type(value) is not int or INT_MIN <= value <= INT_MAX
