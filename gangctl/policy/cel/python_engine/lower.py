"""From the tree of a checked expression to the rules that the evaluator walks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gangctl.policy.cel.ast import (
    Bind,
    Call,
    Comprehension,
    Index,
    ListOf,
    Literal,
    MapOf,
    Name,
    Node,
    Select,
)
from gangctl.policy.cel.faults import CompileError, CompileKind
from gangctl.policy.cel.library.values import TypeValue, Uint
from gangctl.policy.cel.python_engine.arithmetic import OPERATORS
from gangctl.policy.cel.python_engine.comprehensions import MACROS, Loop
from gangctl.policy.cel.python_engine.functions import resolve, strict
from gangctl.policy.cel.python_engine.relations import RELATIONS
from gangctl.policy.cel.python_engine.rules import Rule
from gangctl.policy.cel.times import Duration
from gangctl.policy.cel.types import DOUBLE, DURATION, DYN, TIMESTAMP, UINT, Type

LOGIC: Final = {"_&&_": "conditionaland", "_||_": "conditionalor"}
LAZY: Final = {"or": "optional_or", "orValue": "optional_or_value"}
TYPES: Final = {
    name: TypeValue(name)
    for name in (
        *("bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type", "optional_type"),
        *("google.protobuf.Timestamp", "google.protobuf.Duration"),
        *("kubernetes.Quantity", "kubernetes.URL", "kubernetes.Semver", "kubernetes.NamedFormat", "net.IP", "net.CIDR"),
    )
}
"""What the names of types mean where nothing else has that name."""

_ZEROS: Final = {DOUBLE.name: 0.0, UINT.name: Uint(0), DURATION.name: Duration(0)}
"""Sums of nothing, by the type that the elements are declared to have."""
_STRICT: Final = frozenset({"int", "string", "timestamp", "min", "max", "isSorted"})
"""What works on text too, and must not where a time is declared."""


def lower(node: Node, types: Mapping[int, Type]) -> Rule:
    """Rules for a tree, of whose parts ``types`` are the types by ``id``.

    CompileError of kind UNSUPPORTED for a function that nothing implements.
    """
    if isinstance(node, Literal):
        value = Uint(node.value) if node.kind == "uint" and isinstance(node.value, int) else node.value
        return Rule("literal", [], node.span.start, value)
    if isinstance(node, Name):
        return Rule("ident", [], node.span.start, node.name)
    if isinstance(node, Select):
        return _select(node, types)
    if isinstance(node, Index):
        data = "member_index_optional" if node.optional else "member_index"
        return Rule(data, [lower(node.operand, types), lower(node.index, types)], node.index.span.start)
    if isinstance(node, Call):
        return _call(node, types)
    if isinstance(node, ListOf):
        elements = [lower(element, types) for element in node.elements]
        return Rule("list_lit", elements, node.span.start, node.optional)
    if isinstance(node, MapOf):
        parts = [lower(part, types) for entry in node.entries for part in entry]
        return Rule("map_lit", parts, node.span.start, node.optional)
    if isinstance(node, Bind):
        return Rule("bind", [lower(node.value, types), lower(node.body, types)], node.span.start, node.name)
    return _comprehension(node, types)


def _select(node: Select, types: Mapping[int, Type]) -> Rule:
    path = _dotted(node)
    if path in TYPES:
        return Rule("literal", [], node.span.start, TYPES[path])
    data = "member_dot_test" if node.test else "member_dot_optional" if node.optional else "member_dot"
    return Rule(data, [lower(node.operand, types)], max(node.operand.span.end, node.span.start), node.field)


def _dotted(node: Node) -> str:
    """``google.protobuf.Timestamp`` of its selections, or nothing."""
    if isinstance(node, Name):
        return node.name
    if isinstance(node, Select) and not node.test and not node.optional:
        path = _dotted(node.operand)
        return f"{path}.{node.field}" if path else ""
    return ""


def _call(node: Call, types: Mapping[int, Type]) -> Rule:
    offset = node.name_span.start
    parts = [] if node.target is None else [lower(node.target, types)]
    parts += [lower(argument, types) for argument in node.arguments]
    if node.function in LOGIC:
        data = LOGIC[node.function]
        # false && (false && x) is false && false && x: long chains are shallow.
        flat = [part for each in parts for part in (each.children if each.data == data else [each])]
        return Rule(data, flat, offset)
    if node.function == "_?_:_":
        return Rule("expr", parts, offset)
    if node.function in RELATIONS:
        return Rule("relation", parts, offset, RELATIONS[node.function])
    if node.function in OPERATORS:
        return Rule("addition", parts, offset, OPERATORS[node.function])
    if node.function in {"!_", "-_"}:
        return Rule("unary_not" if node.function == "!_" else "unary_neg", parts, offset)
    if node.target is not None and node.function in LAZY:
        return Rule(LAZY[node.function], parts, offset)
    data = "member_dot_arg" if node.target is not None else "ident_arg"
    declared = types.get(id(node.target or node.arguments[0]), DYN) if parts else DYN
    if node.function == "sum" and declared.parameters and declared.parameters[0].name in _ZEROS:
        zero = Rule("literal", [], offset, _ZEROS[declared.parameters[0].name])
        return Rule(data, [*parts, zero], offset, resolve("@sum", member=True))
    function = resolve(node.function, member=node.target is not None)
    if function is None:
        message = f"cel-python's engine has no function '{node.function}'"
        length = node.name_span.end - node.name_span.start
        raise CompileError(CompileKind.UNSUPPORTED, message, offset, length)
    if node.function in _STRICT and any(each.name == TIMESTAMP.name for each in (declared, *declared.parameters)):
        function = strict(function)
    return Rule(data, parts, offset, function)


def _comprehension(node: Comprehension, types: Mapping[int, Type]) -> Rule:
    if node.macro not in MACROS:
        raise CompileError(CompileKind.UNSUPPORTED, f"cel-python's engine has no macro '{node.macro}'", node.span.start)
    parts = [lower(part, types) for part in (node.target, *node.arguments)]
    return Rule("macro", parts, node.span.start, Loop(node.names, MACROS[node.macro]))
