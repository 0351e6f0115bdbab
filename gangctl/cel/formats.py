"""Constant texts of ``format``: each clause has an argument of a type that it can show, as the API server requires."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from gangctl.cel.ast import ListOf, Literal, MapOf, Node, Span
from gangctl.cel.faults import CompileError, CompileKind
from gangctl.cel.types import Type

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
