"""Refuses, when it is compiled, what cel-cpp would answer otherwise than Kubernetes, or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gangctl.policy.cel.ast import Call, Comprehension, Index, ListOf, MapOf, Node, Select
from gangctl.policy.cel.checked import Checked
from gangctl.policy.cel.cpp_engine.shapes import (
    EXTENSIONS,
    OPTIONAL,
    can_cross,
    holds_extension,
    holds_optional,
    holds_unknown,
)
from gangctl.policy.cel.faults import CompileError, CompileKind
from gangctl.policy.cel.types import DYN, Type
from gangctl.policy.cel.walk import children, walk

_HINT: Final = "cel-python can: uninstall cel-expr-python, or choose the engine"
_UNWRAPPING: Final = frozenset({"hasValue", "value", "orValue", "unwrapOpt"})
_KEYS: Final = frozenset({"bool", "int", "uint", "string", "dyn"})
_COMPARING: Final = frozenset({"_==_", "_!=_", "@in"})


def unsupported(message: str, node: Node) -> CompileError:
    """The refusal of a part of an expression."""
    return CompileError(
        CompileKind.UNSUPPORTED,
        f"cel-cpp cannot {message}",
        node.span.start,
        node.span.end - node.span.start,
        hint=_HINT,
    )


def check_support(checked: Checked, types: Mapping[int, Type]) -> None:
    """CompileError of kind UNSUPPORTED, at the first part of an expression that is refused."""
    _check_result(checked.node, types.get(id(checked.node), DYN))
    for node in walk(checked.node):
        type_ = types.get(id(node), DYN)
        if type_.name == "type" and any(part.name in EXTENSIONS for part in type_.parameters):
            raise unsupported("name or tell types that Kubernetes adds", node)
        if isinstance(node, MapOf) and any(types.get(id(key), DYN).name not in _KEYS for key, _ in node.entries):
            raise unsupported("make a map with such keys", node)
        if isinstance(node, Comprehension) and node.macro == "optFlatMap":
            (body,) = node.arguments
            if types.get(id(body), DYN).name != OPTIONAL:
                raise unsupported("tell whether this is optional", body)
        for child in children(node):
            _check_laundering(node, type_, child, types.get(id(child), DYN))


def _check_result(node: Node, type_: Type) -> None:
    """The value leaves for Python, and may come back as a variable."""
    inner = type_.parameters[0] if type_.name == OPTIONAL and type_.parameters else type_
    if not can_cross(inner):
        raise unsupported(f"give a value of type {type_} to other expressions", node)


def _check_laundering(node: Node, type_: Type, child: Node, held: Type) -> None:
    """Refuse values that come out as dyn: nobody would know that they are no maps."""
    if not holds_unknown(type_):
        return
    if _wraps(node, child) and type_.parameters:
        (type_,) = type_.parameters
    if holds_extension(held) and not holds_extension(type_) and not _compares(node):
        raise unsupported(f"hide a {held} among values of any type", child)
    if holds_optional(held) and not holds_optional(type_) and not _unwraps(node, child):
        raise unsupported("hide an optional among values of any type", child)


def _compares(node: Node) -> bool:
    return isinstance(node, Call) and node.function in _COMPARING


def _unwraps(node: Node, child: Node) -> bool:
    if isinstance(node, Call):
        if node.function in {"_==_", "_!=_", "optional.unwrap"}:
            return True
        return child is node.target and node.function in _UNWRAPPING
    if isinstance(node, ListOf | MapOf):
        return bool(node.optional)
    return isinstance(node, Select | Index | Comprehension) and child is children(node)[0]


def _wraps(node: Node, child: Node) -> bool:
    """Whether the child's value is what is in the node's optional."""
    if isinstance(node, Comprehension):
        return node.macro == "optMap" and child is not node.target
    return isinstance(node, Call) and node.function in {"optional.of", "optional.ofNonZeroValue"}


def check_call(node: Node, arguments: Mapping[int, Type], result: Type) -> None:
    """Refuse a call of Python that would get optionals, or give what C++ does not take."""
    if any(holds_optional(argument) for argument in arguments.values()):
        raise unsupported("give an optional to this function", node)
    if not can_cross(result):
        raise unsupported(f"take a {result} from this function", node)
