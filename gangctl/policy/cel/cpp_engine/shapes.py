"""What a type holds, as far as C++ and Python must not exchange it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gangctl.policy.cel import types
from gangctl.policy.cel.cpp_engine.functions import RESULTS
from gangctl.policy.cel.types import Type

EXTENSIONS: Final = frozenset(
    each.name for each in (types.QUANTITY, types.URL, types.IP, types.CIDR, types.SEMVER, types.FORMAT)
)
OPTIONAL: Final = "optional_type"


def parts(type_: Type) -> Iterator[Type]:
    """A type and all that it is made of."""
    yield type_
    for parameter in type_.parameters:
        yield from parts(parameter)


def holds_extension(type_: Type) -> bool:
    """Whether there may be one of Kubernetes' own values in it."""
    return any(part.name in EXTENSIONS for part in parts(type_))


def holds_optional(type_: Type) -> bool:
    """Whether there may be an optional in it."""
    return any(part.name == OPTIONAL for part in parts(type_))


def holds_unknown(type_: Type) -> bool:
    """Whether there is something of a type in it that is known at run time only."""
    return any(part.name == "dyn" for part in parts(type_))


def is_json(type_: Type) -> bool:
    """Whether C++ can take it from Python as it is."""
    return not any(
        part.name in EXTENSIONS or part.name in RESULTS or part.name in {OPTIONAL, "type"} for part in parts(type_)
    )


def can_cross(type_: Type) -> bool:
    """Whether C++ can take it from a function: times and unsigned integers only by themselves, types never."""
    inner = [part for parameter in type_.parameters for part in parts(parameter)]
    return type_.name not in {OPTIONAL, "type"} and not any(
        part.name in RESULTS or part.name in {OPTIONAL, "type"} for part in inner
    )
