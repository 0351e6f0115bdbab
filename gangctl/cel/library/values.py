"""Values as the library's functions take and return them.

==================================  =======================================
CEL                                 Python
==================================  =======================================
bool, int, double, string, bytes    bool, int, float, str, bytes
uint                                :class:`Uint`
null                                None
list, map                           any Sequence, any Mapping
timestamp, duration                 Timestamp, Duration (:mod:`gangctl.cel.times`)
optional                            :class:`Optional`
type                                :class:`TypeValue`
Quantity, URL, IP, CIDR, ...        the frozen classes of the modules beside
==================================  =======================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from gangctl.cel.faults import EvalError, EvalKind

LARGEST: Final = 1024 * 1024
"""Bytes of a string or elements of a list in the result of a function."""
COPIED_SHIFT: Final = 6
"""Copying 64 characters or elements is a step."""
INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1
UINT_MAX: Final = 2**64 - 1


class Uint(int):
    """An unsigned integer: ``1u`` and ``1`` have different types, though they are equal."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Optional:
    """``optional.of(value)``, or with ``present`` False ``optional.none()``."""

    present: bool
    value: Any = None


NONE: Final = Optional(present=False)


@dataclass(frozen=True, slots=True)
class TypeValue:
    """The result of ``type(x)``."""

    name: str


@dataclass(frozen=True, slots=True)
class Extension:
    """Base of the types that Python does not have; ``KIND`` is CEL's name of the type."""

    KIND: ClassVar[str]
    STRICT: ClassVar[bool] = True
    """Whether comparing one with a value of another type is an error; for CEL's own types it is false."""


_KINDS: Final[tuple[tuple[type, str], ...]] = (
    (bool, "bool"),
    (Uint, "uint"),
    (int, "int"),
    (float, "double"),
    (str, "string"),
    (bytes, "bytes"),
    (type(None), "null_type"),
    (Optional, "optional_type"),
    (TypeValue, "type"),
    (Mapping, "map"),
    (Sequence, "list"),
)
_known: dict[type, str] = {}
"""Kinds of the classes seen so far: there are about twenty."""


def kind(value: object) -> str:
    """The name of a value's CEL type, without parameters; TypeError for other values."""
    found = _known.get(type(value))
    if found is None:
        found = _known[type(value)] = _kind_of_class(type(value))
    return found


def _kind_of_class(cls: type) -> str:
    if issubclass(cls, Extension):
        return cls.KIND
    for base, name in _KINDS:
        if issubclass(cls, base):
            return name
    raise TypeError(f"{cls.__name__} is no CEL value")


def invalid(message: str) -> EvalError:
    """An argument that a function does not accept; messages never hold the values of a request."""
    return EvalError(EvalKind.INVALID_ARGUMENT, message)


def no_such_overload(name: str) -> EvalError:
    """A function without an overload for these types."""
    return EvalError(EvalKind.NO_SUCH_OVERLOAD, f"no such overload: {name}")


def bounded(size: int, name: str) -> None:
    """EvalError when a function is about to make something larger than :data:`LARGEST`."""
    if size > LARGEST:
        raise EvalError(EvalKind.BUDGET_EXCEEDED, f"{name} makes a value of more than {LARGEST} elements")
