"""An expression's tree as text, which parses to the same tree."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from gangctl.cel.ast import Call, Comprehension, Index, ListOf, Literal, MapOf, Name, Node, Select
from gangctl.cel.literals import quoted

_PRINTABLE: Final = range(0x20, 0x7F)
_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WORDS: Final = frozenset({"in", "true", "false", "null"})
_ALONE: Final = (Name, Select, Index, ListOf, MapOf, Comprehension)
_OPERATOR: Final = re.compile(r"_?(?P<sign>[^A-Za-z\[]+?)_")


def show(node: Node) -> str:
    """The expression, with brackets around every compound operand."""
    kinds: dict[type[Node], Callable[..., str]] = {
        Literal: _literal,
        Name: lambda name: str(name.name),
        Select: _select,
        Index: lambda index: f"{_single(index.operand)}[{'?' if index.optional else ''}{show(index.index)}]",
        Call: _call,
        ListOf: lambda made: (
            f"[{', '.join(_entry(each, at in made.optional) for at, each in enumerate(made.elements))}]"
        ),
        MapOf: _map,
        Comprehension: lambda loop: _method(loop.target, loop.macro, (*loop.names, *map(show, loop.arguments))),
    }
    return kinds[type(node)](node)


def _literal(literal: Literal) -> str:
    value = literal.value
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bytes):
        return _quoted_bytes(value)
    if isinstance(value, float):
        text = repr(value)
        return text if "." in text or "e" in text else f"{text}.0"
    if literal.kind == "uint":
        return f"{value}u"
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _select(select: Select) -> str:
    plain = _PLAIN.fullmatch(select.field) and select.field not in _WORDS
    field = select.field if plain else f"`{select.field}`"
    text = f"{_single(select.operand)}.{'?' if select.optional else ''}{field}"
    return f"has({text})" if select.test else text


def _call(call: Call) -> str:
    if call.target is not None:
        return _method(call.target, call.function, tuple(map(show, call.arguments)))
    if call.function == "_?_:_":
        condition, then, otherwise = map(_single, call.arguments)
        return f"{condition} ? {then} : {otherwise}"
    if call.function == "@in":
        return " in ".join(map(_single, call.arguments))
    operator = _OPERATOR.fullmatch(call.function)
    if operator is None:
        return f"{call.function}({', '.join(map(show, call.arguments))})"
    if len(call.arguments) == 1:
        return f"{operator['sign']}({show(call.arguments[0])})"
    return f" {operator['sign']} ".join(map(_single, call.arguments))


def _map(made: MapOf) -> str:
    entries = (f"{_entry(key, at in made.optional)}: {show(value)}" for at, (key, value) in enumerate(made.entries))
    return f"{{{', '.join(entries)}}}"


def _entry(node: Node, optional: bool) -> str:
    return f"?{show(node)}" if optional else show(node)


def _method(target: Node, name: str, arguments: Sequence[str]) -> str:
    return f"{_single(target)}.{name}({', '.join(arguments)})"


def _single(node: Node) -> str:
    """An operand that needs no brackets beside an operator or before a dot."""
    text = show(node)
    if isinstance(node, _ALONE) or (isinstance(node, Literal) and node.kind in {"string", "bytes"}):
        return text
    if isinstance(node, Call) and (node.target is not None or node.function[0].isalpha()):
        return text
    return f"({text})"


def _quoted_bytes(value: bytes) -> str:
    r"""A bytes literal: ASCII that is printable, and ``\xHH``."""
    plain = (chr(each) if each in _PRINTABLE and chr(each) not in '"\\' else f"\\x{each:02x}" for each in value)
    return 'b"' + "".join(plain) + '"'
