"""Where an expression has optionals: C++ must be told in which places, since there is no type that says it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gangctl.policy.cel.ast import Call, Comprehension, Index, ListOf, MapOf, Node, Select
from gangctl.policy.cel.checked import Checked
from gangctl.policy.cel.types import DYN, Type, optional_of
from gangctl.policy.cel.walk import children, walk

OPTIONAL: Final = "optional_type"
_UNWRAPPING: Final = frozenset({"hasValue", "value", "orValue", "unwrapOpt"})


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


def hidden(root: Node, types: Mapping[int, Type]) -> bool:
    """Whether a value that may be an optional is somewhere taken for one of any type."""
    for node in walk(root):
        type_ = types.get(id(node), DYN)
        for child in children(node):
            inner = type_.parameters[0] if _wraps(node, child) and type_.parameters else type_
            held = types.get(id(child), DYN)
            lost = holds(held, OPTIONAL) and holds(inner, DYN.name) and not holds(inner, OPTIONAL)
            if lost and not _unwraps(node, child):
                return True
    return False


def holds(type_: Type, name: str) -> bool:
    """Whether a type is of that name, or made of one that is."""
    return type_.name == name or any(holds(parameter, name) for parameter in type_.parameters)


def _unwraps(node: Node, child: Node) -> bool:
    if isinstance(node, Call):
        return child is node.target and node.function in _UNWRAPPING
    if isinstance(node, ListOf | MapOf):
        return bool(node.optional)
    return isinstance(node, Select | Index | Comprehension) and child is children(node)[0]


def _wraps(node: Node, child: Node) -> bool:
    """Whether the child's value is what is in the node's optional."""
    if isinstance(node, Comprehension):
        return node.macro == "optMap" and child is not node.target
    return isinstance(node, Call) and node.function in {"optional.of", "optional.ofNonZeroValue"}
