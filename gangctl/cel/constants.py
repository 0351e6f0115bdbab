"""Constants of an expression: those that always fail are refused at load, and what a constant condition hides.

An API server performs conversions of constants when it compiles, and checks constant texts of ``format``: each clause
has an argument of a type that it can show. Of conditions only certain results are returned. A part that fails at run
time does not change them: ``false && x`` is false even then.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import eq, ge, gt, le, lt, ne
from typing import Any, Final

from gangctl.cel.ast import Call, Comprehension, Index, ListOf, Literal, MapOf, Node, Span, children
from gangctl.cel.evaluation.conversions import to_double
from gangctl.cel.faults import CompileError, CompileKind, EvalError, EvalKind
from gangctl.cel.library.strings import LONGEST_PATTERN, compiled
from gangctl.cel.literals import INT_MAX, INT_MIN, UINT_MAX
from gangctl.cel.text import show
from gangctl.cel.times import Duration, Timestamp, parse_duration, parse_timestamp, timestamp_of
from gangctl.cel.types import Type
from gangctl.cel.unify import is_optional, same

_SECOND: Final = 1_000_000_000
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_TRUTH: Final = {
    **dict.fromkeys(("1", "t", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "false", "FALSE", "False"), False),
}


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
        return CONVERSIONS[node.function](value)
    except (ValueError, OverflowError):
        span = argument.span
        message = f"this is not {_WHAT.get(node.function, f'what {node.function}() takes')}"
        raise CompileError(CompileKind.TYPE, message, span.start, span.end - span.start) from None


def _bool(value: object) -> object:
    if isinstance(value, str):
        if value not in _TRUTH:
            raise ValueError
        return _TRUTH[value]
    return _present(value)


def _int(value: object) -> object:
    if isinstance(value, str):
        return _within(_integer(value), INT_MIN, INT_MAX)
    if isinstance(value, float):
        return _truncated(value, INT_MIN, INT_MAX)
    if isinstance(value, Timestamp | Duration):
        return UNKNOWN
    return _within(value, INT_MIN, INT_MAX)


def _uint(value: object) -> object:
    if isinstance(value, str):
        if value[:1] in {"+", "-"}:
            raise ValueError
        return _within(_integer(value), 0, UINT_MAX)
    if isinstance(value, float):
        return _truncated(value, -1, UINT_MAX)
    return _within(value, 0, UINT_MAX)


def _double(value: object) -> object:
    if isinstance(value, str):
        try:
            return to_double(value)
        except EvalError:
            raise ValueError from None
    return _present(value)


def _string(value: object) -> object:
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    return value if isinstance(value, str) else _opaque(value)


def _duration(value: object) -> object:
    return parse_duration(value) if isinstance(value, str) else _present(value)


def _timestamp(value: object) -> object:
    if isinstance(value, str):
        return parse_timestamp(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return timestamp_of(value * _SECOND)
    return _present(value)


def _present(value: object) -> object:
    if value is None:
        raise ValueError
    return value


def _opaque(value: object) -> object:
    _present(value)
    return UNKNOWN


def _integer(text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise ValueError
    return int(text)


def _within(value: object, low: int, high: int) -> int:
    if not isinstance(value, int) or not low <= value <= high:
        raise ValueError
    return value


def _truncated(value: float, low: int, high: int) -> int:
    """Both bounds are excluded: the doubles next to them are beyond 64 bits."""
    if not low < value < high:
        raise ValueError
    return int(value)


CONVERSIONS: Final[dict[str, Callable[[object], object]]] = {
    "bool": _bool,
    "bytes": lambda value: value.encode() if isinstance(value, str) else _present(value),
    "double": _double,
    "duration": _duration,
    "dyn": lambda value: value,
    "int": _int,
    "string": _string,
    "timestamp": _timestamp,
    "uint": _uint,
}


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
    "e": frozenset({"double", "string"}),
    "f": frozenset({"double", "string"}),
}


def check_format(text: Literal, arguments: Node, types: Mapping[int, Type]) -> None:
    """Refuse a constant text whose clauses do not match the arguments, if those are a literal."""
    if not isinstance(text.value, str):
        return
    elements = arguments.elements if isinstance(arguments, ListOf) else None
    used = 0
    for found in _CLAUSE.finditer(text.value):
        if found.group() == "%%":
            continue
        _check_clause(text, found)
        if elements is not None:
            if used >= len(elements):
                raise _refused(f"the clause {found.group()} has no argument", text.span)
            _check_argument(found["letter"], elements[used], types)
        used += 1
    if elements is not None and len(elements) > used:
        raise _refused(f"the format has {used} clauses, but there are {len(elements)} arguments", arguments.span)


def _check_clause(text: Literal, found: re.Match[str]) -> None:
    if found["letter"] not in _TAKES or not found["letter"] or found["precision"] == ".":
        hint = "clauses are %s %d %f %e %b %x %X %o and %%, and %.3f"
        raise _refused(f"{found.group()!r} is no clause of a format", text.span, hint)
    if found["precision"] and int(found["precision"][1:]) > LONGEST_PRECISION:
        message = f"a format shows at most {LONGEST_PRECISION} digits after the point"
        raise CompileError(CompileKind.LIMIT, message, text.span.start, text.span.end - text.span.start)


def _check_argument(letter: str, node: Node, types: Mapping[int, Type]) -> None:
    type_ = types[id(node)]
    if type_.name != "dyn" and type_.name not in _TAKES[letter]:
        raise _refused(f"%{letter} does not show {type_}", node.span)
    if letter == "s" and isinstance(node, ListOf):
        for each in node.elements:
            _check_argument(letter, each, types)
    elif letter == "s" and isinstance(node, MapOf):
        for key, value in node.entries:
            _check_argument(letter, key, types)
            _check_argument(letter, value, types)


def _refused(message: str, span: Span, hint: str = "") -> CompileError:
    return CompileError(CompileKind.TYPE, message, span.start, span.end - span.start, hint=hint)


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


_COMPARISONS: Final[dict[str, Callable[[Any, Any], object]]] = {
    "_==_": eq,
    "_!=_": ne,
    "_<_": lt,
    "_<=_": le,
    "_>_": gt,
    "_>=_": ge,
}
_OPERATIONS: Final = frozenset({"CREATE", "UPDATE", "DELETE", "CONNECT"})


def truth(node: Node) -> bool | None:
    """The constant result of a condition; None if it has none."""
    if isinstance(node, Literal):
        return node.value if isinstance(node.value, bool) else None
    if isinstance(node, Comprehension):
        return _loop(node)
    if not isinstance(node, Call):
        return None
    if node.function == "!_":
        inner = truth(node.arguments[0])
        return None if inner is None else not inner
    if node.function == "_&&_":
        return _connected(node, decisive=False)
    if node.function == "_||_":
        return _connected(node, decisive=True)
    if node.function == "_?_:_":
        condition, then, otherwise = map(truth, node.arguments)
        if condition is None:
            return then if then == otherwise else None
        return then if condition else otherwise
    return _compared(node)


def _loop(node: Comprehension) -> bool | None:
    """``all`` of a condition that is always true is true, and ``exists`` of one that is always false is false."""
    inner = truth(node.arguments[0]) if node.arguments else None
    empty = isinstance(node.target, ListOf) and not node.target.elements
    empty = empty or (isinstance(node.target, MapOf) and not node.target.entries)
    if node.macro == "all" and (empty or inner is True):
        return True
    if node.macro in {"exists", "exists_one", "existsOne"} and (empty or inner is False):
        return False
    return None


def _terms(node: Node, function: str) -> Iterator[Node]:
    if isinstance(node, Call) and node.function == function:
        for each in node.arguments:
            yield from _terms(each, function)
    else:
        yield node


def _connected(node: Call, *, decisive: bool) -> bool | None:
    """``&&`` (one false decides) and ``||`` (one true decides), also by ``x == 'a' && x == 'b'``."""
    terms = list(_terms(node, node.function))
    known = [truth(each) for each in terms]
    if decisive in known:
        return decisive
    operator = "_!=_" if decisive else "_==_"
    seen: dict[str, object] = {}
    for each in terms:
        compared = _against_literal(each, operator)
        if compared is None:
            continue
        expression, value = compared
        if expression in seen and seen[expression] != value:
            return decisive
        seen[expression] = value
    return not decisive if all(each is (not decisive) for each in known) else None


def _against_literal(node: Node, operator: str) -> tuple[str, object] | None:
    """The operand and the text that it is compared with, of ``x == 'a'``."""
    if not isinstance(node, Call) or node.function != operator:
        return None
    left, right = node.arguments
    if isinstance(left, Literal):
        left, right = right, left
    if isinstance(left, Literal) or not isinstance(right, Literal) or right.kind != "string":
        return None
    return show(left), right.value


def _compared(node: Call) -> bool | None:
    """Two constants of one kind, or an operation that does not exist."""
    operator = _COMPARISONS.get(node.function)
    if operator is None:
        return None
    left, right = node.arguments
    if isinstance(left, Literal) and isinstance(right, Literal) and left.kind == right.kind and left.kind != "null":
        return bool(operator(left.value, right.value))
    for equality, answer in (("_==_", False), ("_!=_", True)):
        found = _against_literal(node, equality)
        if found is not None and found[0] == "request.operation" and found[1] not in _OPERATIONS:
            return answer
    return None
