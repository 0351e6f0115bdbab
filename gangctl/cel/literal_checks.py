"""Constants that always fail: refused at load, as natively."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from gangctl.cel.ast import Call, Index, ListOf, Literal, MapOf, Node
from gangctl.cel.conversions import CONVERSIONS, folded
from gangctl.cel.faults import CompileError, CompileKind, EvalError, EvalKind
from gangctl.cel.formats import check_format
from gangctl.cel.library.regex import LONGEST_PATTERN, compiled
from gangctl.cel.types import Type
from gangctl.cel.unify import is_optional, same
from gangctl.cel.walk import children

_NO_KEYS: Final = frozenset({"null_type", "bytes", "type", "google.protobuf.Duration", "google.protobuf.Timestamp"})
_KEYS: Final = frozenset({"dyn", "string", "int", "uint", "double", "bool"})
"""Types of keys of a map. A server accepts others, but no lookup finds them."""
_BYTE: Final = re.compile(r"(?<!\\)(?:\\\\)*\\C")


def check_literals(node: Node, types: Mapping[int, Type]) -> None:
    """Refuse malformed constants of durations, times and patterns, and literals of mixed types."""
    waiting = [(node, False)]
    while waiting:
        each, formatted = waiting.pop()
        if isinstance(each, Call):
            _check_call(each, types)
            # The arguments of a format may have different types.
            formatted = formatted or each.function == "format"
        elif isinstance(each, Index):
            _check_key(each.index, types)
        elif isinstance(each, ListOf) and not formatted:
            _check_same([(item, index in each.optional) for index, item in enumerate(each.elements)], types)
        if isinstance(each, MapOf):
            _check_keys(each, types)
        if isinstance(each, MapOf) and not formatted:
            _check_same([(key, False) for key, _ in each.entries], types)
            _check_same([(value, index in each.optional) for index, (_, value) in enumerate(each.entries)], types)
        waiting += [(child, formatted) for child in children(each)]


def _check_call(call: Call, types: Mapping[int, Type]) -> None:
    if call.function in {"matches", "find", "findAll"}:
        for each in call.arguments[:2] if call.target is None else call.arguments[:1]:
            _check_pattern(each)
    elif call.function in CONVERSIONS and call.target is None:
        folded(call)
    elif call.function == "format" and isinstance(call.target, Literal):
        check_format(call.target, call.arguments[0], types)


def _check_key(node: Node, types: Mapping[int, Type]) -> None:
    if types[id(node)].name in _NO_KEYS or folded(node) is None:
        raise _malformed(node, f"{types[id(node)]} is no key")


def _check_keys(node: MapOf, types: Mapping[int, Type]) -> None:
    for key, _ in node.entries:
        if types[id(key)].name not in _KEYS:
            message = f"{types[id(key)]} cannot be the key of a map here"
            raise CompileError(CompileKind.UNSUPPORTED, message, key.span.start, key.span.end - key.span.start)


def _check_pattern(node: Node) -> None:
    if not isinstance(node, Literal) or not isinstance(node.value, str):
        return
    try:
        if _BYTE.search(node.value):
            # RE2 supports it, Go does not.
            raise _malformed(node, "a pattern cannot match single bytes by \\C")
        compiled(node.value)
    except EvalError as error:
        if error.kind is EvalKind.BUDGET_EXCEEDED:
            message = f"a pattern has at most {LONGEST_PATTERN} bytes"
            span = node.span
            raise CompileError(CompileKind.LIMIT, message, span.start, span.end - span.start) from None
        raise _malformed(node, "the pattern is not a regular expression") from None


def _check_same(items: Sequence[tuple[Node, bool]], types: Mapping[int, Type]) -> None:
    """Elements have exactly the same type; for an optional one its value's type counts."""
    first: Type | None = None
    for node, optional in items:
        type_ = types[id(node)]
        if optional and is_optional(type_):
            type_ = type_.parameters[0]
        if first is None:
            first = type_
        elif not same(first, type_):
            message = f"the others are {first}, but this is {type_}"
            hint = "elements have one type; wrap all of them in dyn(...) to mix"
            span = node.span
            raise CompileError(CompileKind.TYPE, message, span.start, span.end - span.start, hint=hint)


def _malformed(node: Node, message: str) -> CompileError:
    return CompileError(CompileKind.TYPE, message, node.span.start, node.span.end - node.span.start)
