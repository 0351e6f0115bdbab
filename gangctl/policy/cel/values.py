"""Plain Python values as CEL's: what the functions of the library and cel-python's evaluator compute with.

null is None, bool bool, double float, string str, bytes bytes, list list, and map dict. int is exactly
int: ask ``type(value) is int``, because bool and :class:`Uint` are subclasses of it. Times are in
:mod:`gangctl.policy.cel.times`, and every other type of Kubernetes is a frozen class of the library.
Nobody changes a list or a map: they may be parts of the request.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1
UINT_MAX: Final = 2**64 - 1

LONGEST_STRING: Final = 1 << 20
"""Characters (bytes, of bytes) of any string that an expression makes."""
LONGEST_LIST: Final = 1_000_000
"""Elements of any list or map that an expression makes."""


class Uint(int):
    """uint: an int that knows that it is none."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{int(self)}u"


@dataclass(frozen=True, slots=True)
class TypeValue:
    """What ``type(x)`` is, and what ``int``, ``string``, ... name."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Optional:
    """``optional.of(value)``, or ``optional.none()`` when not ``present``."""

    present: bool
    value: Any = None


NONE: Final = Optional(present=False)
"""``optional.none()``."""
