"""Constants that can only fail: refused at load, as natively."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from gangctl.policy.cel.ast import Call, ListOf, Literal, MapOf, Node
from gangctl.policy.cel.faults import CompileError, CompileKind, EvalError
from gangctl.policy.cel.library.regex import compiled
from gangctl.policy.cel.times import parse_duration, parse_timestamp, timestamp_of
from gangctl.policy.cel.types import Type
from gangctl.policy.cel.unify import is_optional, same
from gangctl.policy.cel.walk import walk

_SECOND: Final = 1_000_000_000
_PRECISION: Final = re.compile(r"%\.([0-9]+)")
LONGEST_PRECISION: Final = 99
"""Digits after the point that a format may ask for."""


def check_literals(node: Node, types: Mapping[int, Type]) -> None:
    """Refuse malformed constants of durations, times and patterns, and literals of mixed types."""
    for each in walk(node):
        if isinstance(each, Call):
            _check_call(each)
        elif isinstance(each, ListOf):
            _check_same([(item, index in each.optional) for index, item in enumerate(each.elements)], types)
        elif isinstance(each, MapOf):
            _check_same([(key, False) for key, _ in each.entries], types)
            _check_same([(value, index in each.optional) for index, (_, value) in enumerate(each.entries)], types)


def _check_call(call: Call) -> None:
    if call.function in {"matches", "find", "findAll"}:
        for each in call.arguments[:2] if call.target is None else call.arguments[:1]:
            _check_pattern(each)
    elif call.function == "duration":
        _check_time(call.arguments[0], "a duration such as '1h30m'")
    elif call.function == "timestamp":
        _check_time(call.arguments[0], "a time such as '2026-01-02T15:04:05Z'")
    elif call.function == "format" and isinstance(call.target, Literal):
        _check_format(call.target)


def _check_pattern(node: Node) -> None:
    if not isinstance(node, Literal) or not isinstance(node.value, str):
        return
    try:
        compiled(node.value)
    except EvalError as error:
        raise _malformed(node, f"the pattern is {error.message}") from None


def _check_time(node: Node, what: str) -> None:
    if not isinstance(node, Literal):
        return
    try:
        if isinstance(node.value, str):
            (parse_duration if what.startswith("a duration") else parse_timestamp)(node.value)
        elif isinstance(node.value, int) and not what.startswith("a duration"):
            timestamp_of(node.value * _SECOND)
    except (ValueError, OverflowError):
        raise _malformed(node, f"this is not {what}") from None


def _check_format(node: Literal) -> None:
    for found in _PRECISION.finditer(str(node.value)):
        if int(found.group(1)) > LONGEST_PRECISION:
            message = f"a format has at most {LONGEST_PRECISION} digits after the point"
            raise CompileError(CompileKind.LIMIT, message, node.span.start, node.span.end - node.span.start)


def _check_same(items: Sequence[tuple[Node, bool]], types: Mapping[int, Type]) -> None:
    """Elements have the very same type; optional ones that of what may be in them."""
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
