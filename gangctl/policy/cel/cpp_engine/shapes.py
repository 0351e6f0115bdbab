"""What a type holds, as far as C++ and Python must not exchange it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from gangctl.policy.cel import types
from gangctl.policy.cel.ast import Index, Select
from gangctl.policy.cel.checked import Checked
from gangctl.policy.cel.cpp_engine.functions import RESULTS
from gangctl.policy.cel.types import DYN, Type, optional_of
from gangctl.policy.cel.walk import walk

EXTENSIONS: Final = frozenset(
    each.name for each in (types.QUANTITY, types.URL, types.IP, types.CIDR, types.SEMVER, types.FORMAT)
)
OPTIONAL: Final = "optional_type"


def types_of(checked: Checked) -> Mapping[int, Type]:
    """The types of an expression's parts, and optional where that is what the syntax makes of a value of any type.

    ``object[?'a']`` is dyn for the checker, as natively, since ``object`` may be an optional itself.
    """
    found = dict(checked.types)
    for node in reversed(list(walk(checked.node))):
        if not isinstance(node, Select | Index) or found.get(id(node), DYN).name == OPTIONAL:
            continue
        tested = isinstance(node, Select) and node.test
        if node.optional or (not tested and found.get(id(node.operand), DYN).name == OPTIONAL):
            found[id(node)] = optional_of(DYN)
    return found


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
