"""Constants of an expression: those that always fail are refused at load.

An API server performs conversions of constants when it compiles, and checks constant texts of ``format``: each clause
has an argument of a type that it can show.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from gangctl.cel.ast import Call, Index, ListOf, Literal, MapOf, Node, children
from gangctl.cel.evaluation.conversions import CONVERSIONS
from gangctl.cel.faults import CompileError, CompileKind, EvalError, EvalKind
from gangctl.cel.library.strings import LONGEST_PATTERN, compiled
from gangctl.cel.types import Type
from gangctl.cel.unify import is_optional, same


class _Unknown:
    """A value that is not known before the expression runs."""


UNKNOWN: Final = _Unknown()
_WHAT: Final = {"duration": "a duration such as '1h30m'", "timestamp": "a time such as '2026-01-02T15:04:05Z'"}


def folded(node: Node) -> object:
    """The value of a constant, :data:`UNKNOWN` of anything else; CompileError of a conversion that always fails."""
    if isinstance(node, Literal):
        return node.value
    if not isinstance(node, Call) or node.target is not None or node.function not in CONVERSIONS:
        return UNKNOWN
    (argument,) = node.arguments
    value = folded(argument)
    if value is UNKNOWN:
        return UNKNOWN
    try:
        constant: object = CONVERSIONS[node.function](value)
    except EvalError:
        raise _refused(f"this is not {_WHAT.get(node.function, f'what {node.function}() takes')}", argument) from None
    return constant


LONGEST_PRECISION: Final = 100
"""Largest precision of a clause."""

_CLAUSE: Final = re.compile(r"%(?:%|(?P<precision>\.[0-9]*)?(?P<letter>.?))", re.DOTALL)
_NUMBERS: Final = frozenset({"int", "uint"})
_SHOWN: Final = _NUMBERS | {"double", "bool", "string", "bytes", "list", "map", "type", "null_type"}
_TAKES: Final[Mapping[str, frozenset[str]]] = {
    "s": _SHOWN | {"google.protobuf.Timestamp", "google.protobuf.Duration"},
    "d": _NUMBERS,
    "o": _NUMBERS,
    "b": _NUMBERS | {"bool"},
    "x": _NUMBERS | {"string", "bytes"},
    "X": _NUMBERS | {"string", "bytes"},
    # Strings, too: cel-go shows 'NaN', 'Infinity' and '-Infinity' as the doubles of these names.
    "e": frozenset({"double", "string"}),
    "f": frozenset({"double", "string"}),
}


def check_format(text: Literal, arguments: Node, types: Mapping[int, Type]) -> None:
    """Refuse a constant text whose clauses do not match the arguments, if those are a literal."""
    if not isinstance(text.value, str):
        return
    elements = arguments.elements if isinstance(arguments, ListOf) else None
    used = 0
    for clause in _CLAUSE.finditer(text.value):
        if clause.group() == "%%":
            continue
        if clause["letter"] not in _TAKES or not clause["letter"] or clause["precision"] == ".":
            hint = "clauses are %s %d %f %e %b %x %X %o and %%, and %.3f"
            raise _refused(f"{clause.group()!r} is no clause of a format", text, hint)
        digits = (clause["precision"] or "")[1:].lstrip("0")
        # By their number first: Python reads no more than 4,300 digits.
        if len(digits) > len(str(LONGEST_PRECISION)) or int(digits or 0) > LONGEST_PRECISION:
            message = f"a format shows at most {LONGEST_PRECISION} digits after the point"
            raise _refused(message, text, kind=CompileKind.LIMIT)
        if elements is not None:
            if used >= len(elements):
                raise _refused(f"the clause {clause.group()} has no argument", text)
            _check_argument(clause["letter"], elements[used], types)
        used += 1
    if elements is not None and len(elements) > used:
        raise _refused(f"the format has {used} clauses, but there are {len(elements)} arguments", arguments)


def _check_argument(letter: str, node: Node, types: Mapping[int, Type]) -> None:
    type_ = types[id(node)]
    if type_.name != "dyn" and type_.name not in _TAKES[letter]:
        raise _refused(f"%{letter} does not show {type_}", node)
    if letter == "s" and isinstance(node, ListOf):
        for element in node.elements:
            _check_argument(letter, element, types)
    elif letter == "s" and isinstance(node, MapOf):
        for key, value in node.entries:
            _check_argument(letter, key, types)
            _check_argument(letter, value, types)


def _refused(message: str, node: Node, hint: str = "", kind: CompileKind = CompileKind.TYPE) -> CompileError:
    return CompileError(kind, message, node.span.start, node.span.end - node.span.start, hint=hint)


_NO_KEYS: Final = frozenset({"null_type", "bytes", "type", "google.protobuf.Duration", "google.protobuf.Timestamp"})
_KEYS: Final = frozenset({"dyn", "string", "int", "uint", "double", "bool"})
"""Types of keys of a map. A server accepts others, but no lookup finds them."""
_BYTE: Final = re.compile(r"(?<!\\)(?:\\\\)*\\C")


def check_literals(node: Node, types: Mapping[int, Type]) -> None:
    """Refuse malformed constants of durations, times and patterns, and literals of mixed types."""
    waiting = [(node, False)]
    while waiting:
        part, formatted = waiting.pop()
        if isinstance(part, Call):
            _check_call(part, types)
            # The arguments of a format may have different types.
            formatted = formatted or part.function == "format"
        elif isinstance(part, Index):
            if types[id(part.index)].name in _NO_KEYS or folded(part.index) is None:
                raise _refused(f"{types[id(part.index)]} is no key", part.index)
        elif isinstance(part, ListOf) and not formatted:
            _check_same([(item, index in part.optional) for index, item in enumerate(part.elements)], types)
        if isinstance(part, MapOf):
            for key, _ in part.entries:
                if types[id(key)].name not in _KEYS:
                    message = f"{types[id(key)]} cannot be the key of a map here"
                    raise _refused(message, key, kind=CompileKind.UNSUPPORTED)
        if isinstance(part, MapOf) and not formatted:
            _check_same([(key, False) for key, _ in part.entries], types)
            _check_same([(value, index in part.optional) for index, (_, value) in enumerate(part.entries)], types)
        waiting += [(child, formatted) for child in children(part)]


def _check_call(call: Call, types: Mapping[int, Type]) -> None:
    if call.function in {"matches", "find", "findAll"}:
        for argument in call.arguments[:2] if call.target is None else call.arguments[:1]:
            _check_pattern(argument)
    elif call.function in CONVERSIONS and call.target is None:
        folded(call)
    elif call.function == "format" and isinstance(call.target, Literal):
        check_format(call.target, call.arguments[0], types)


def _check_pattern(node: Node) -> None:
    if not isinstance(node, Literal) or not isinstance(node.value, str):
        return
    try:
        if _BYTE.search(node.value):
            # RE2 supports it, Go does not.
            raise _refused("a pattern cannot match single bytes by \\C", node)
        compiled(node.value)
    except EvalError as error:
        if error.kind is EvalKind.BUDGET_EXCEEDED:
            message = f"a pattern has at most {LONGEST_PATTERN} bytes"
            raise _refused(message, node, kind=CompileKind.LIMIT) from None
        raise _refused("the pattern is not a regular expression", node) from None


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
            raise _refused(message, node, hint)
