"""A checked expression in the words of cel-cpp, if it means the same there."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from gangctl.policy.cel.ast import Bind, Call, Comprehension, Index, ListOf, Literal, MapOf, Name, Node, Select
from gangctl.policy.cel.checked import Checked
from gangctl.policy.cel.cpp_engine.optionals import OPTIONAL, hidden, holds, types_of
from gangctl.policy.cel.grammar import RESERVED
from gangctl.policy.cel.literals import quoted, quoted_bytes
from gangctl.policy.cel.types import BOOL, BYTES, DOUBLE, DURATION, DYN, INT, NULL, STRING, TIMESTAMP, UINT, Type
from gangctl.policy.cel.walk import walk

RESULTS: Final = frozenset(type_.name for type_ in (BOOL, INT, DOUBLE, STRING))
"""Types of expressions that are left to C++: what it gives otherwise is copied, which takes longer."""

_BINARY: Final = {
    "_||_": ("||", 1),
    "_&&_": ("&&", 2),
    "_<_": ("<", 3),
    "_<=_": ("<=", 3),
    "_>_": (">", 3),
    "_>=_": (">=", 3),
    "_==_": ("==", 3),
    "_!=_": ("!=", 3),
    "@in": ("in", 3),
    "_+_": ("+", 4),
    "_-_": ("-", 4),
    "_*_": ("*", 5),
    "_/_": ("/", 5),
    "_%_": ("%", 5),
}
_TERNARY: Final = 0
_LOGIC: Final = 2
_UNARY: Final = 6
_MEMBER: Final = 7

_KNOWN: Final = frozenset(
    type_.name for type_ in (BOOL, BYTES, DOUBLE, DURATION, DYN, INT, NULL, STRING, TIMESTAMP, UINT)
) | {"list", "map", "type", OPTIONAL}
_ORDERING: Final = frozenset({"_<_", "_<=_", "_>_", "_>=_"})
_FUNCTIONS: Final = frozenset(
    {
        "size",
        "dyn",
        "type",
        "int",
        "uint",
        "bool",
        "bytes",
        "timestamp",
        "duration",
        "optional.of",
        "optional.none",
    }
)
_METHODS: Final = frozenset({"size", "contains", "startsWith", "endsWith", "hasValue", "value", "or", "orValue"})
_CONVERTED: Final = {
    "string": frozenset({"int", "uint", "bool", "string"}),
    "double": frozenset({"int", "uint", "double"}),
}
"""Of which types C++ makes strings and doubles as cel-go does."""
_MACROS: Final = frozenset({"all", "exists", "exists_one", "map", "filter", "optMap", "optFlatMap"})
_TEXTUAL: Final = frozenset({TIMESTAMP.name, DURATION.name})

_FIELD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_PLAIN_TIME: Final = re.compile(r"[0-9-]{10}T[0-9:]{8}(\.[0-9]{1,9})?Z|-?[0-9]{1,9}(h|m|s|ms)", re.ASCII)
_WORDS: Final = RESERVED | {"true", "false", "null", "in"}

_MOST_NODES: Final = 500
"""With all variables in it: they may stand for each other many times over."""

Rendered = tuple[str, int]
"""Text, and how strongly its outermost operator binds."""


class Unfit(Exception):  # noqa: N818  no error: the other way is taken
    """The expression is none that C++ evaluates as Kubernetes does."""


class Rendering(NamedTuple):
    """What C++ compiles, and how many parts it has with those of the variables in it."""

    text: str
    nodes: int


def render(checked: Checked, variables: Mapping[str, Checked]) -> Rendering:
    """The expression for C++, with what its variables stand for in their places; :class:`Unfit`."""
    types = types_of(checked)
    if types.get(id(checked.node), checked.type).name not in RESULTS or hidden(checked.node, types):
        raise Unfit
    renderer = _Renderer(types, variables, checked.profile.nodes)
    return Rendering(renderer.text(checked.node), renderer.nodes)


class _Renderer:
    def __init__(self, types: Mapping[int, Type], variables: Mapping[str, Checked], nodes: int) -> None:
        self._types = types
        self._variables = variables
        self.nodes = nodes
        self._scopes: list[tuple[str, ...]] = []
        self._kinds: dict[type[Node], Callable[..., Rendered]] = {
            Literal: self._literal,
            Name: self._name,
            Select: self._select,
            Index: self._index,
            Call: self._call,
            ListOf: self._list,
            MapOf: self._map,
            Comprehension: self._comprehension,
            Bind: self._bind,
        }

    def text(self, node: Node, binding: int = _TERNARY) -> str:
        """A node's text, in parentheses where its operator binds less than ``binding``."""
        type_ = self._type(node)
        if type_.name not in _KNOWN and type_.fields is None:
            raise Unfit
        text, own = self._kinds[type(node)](node)
        return f"({text})" if own < binding else text

    def _type(self, node: Node) -> Type:
        return self._types.get(id(node), DYN)

    def _is_optional(self, node: Node) -> bool:
        return self._type(node).name == OPTIONAL

    def _literal(self, node: Literal) -> Rendered:
        value = node.value
        if isinstance(value, str):
            return quoted(value), _MEMBER
        if isinstance(value, bytes):
            return quoted_bytes(value), _MEMBER
        if value is None or isinstance(value, bool):
            return "null" if value is None else str(value).lower(), _MEMBER
        text = f"{value!r}u" if node.kind == "uint" else repr(value)
        return text, _UNARY if text.startswith("-") else _MEMBER

    def _name(self, node: Name) -> Rendered:
        return node.name, _MEMBER

    def _select(self, node: Select) -> Rendered:
        operand = node.operand
        if isinstance(operand, Name) and operand.name == "variables" and not self._is_local("variables"):
            return self._variable(node.field), _MEMBER
        if self._type(node).name in _TEXTUAL and self._type(operand).fields is not None:
            # A field that holds a time is bound as its text.
            raise Unfit
        field = _field(node.field)
        if node.test:
            if self._is_optional(operand):
                return f"{self.text(operand, _MEMBER)}.?{field}.hasValue()", _MEMBER
            return f"has({self.text(operand, _MEMBER)}.{field})", _MEMBER
        dot = ".?" if node.optional or self._is_optional(operand) else "."
        return f"{self.text(operand, _MEMBER)}{dot}{field}", _MEMBER

    def _variable(self, name: str) -> str:
        """The expression that a variable stands for: a view for each that is read would cost more than it saves."""
        checked = self._variables.get(name)
        if checked is None:
            raise Unfit
        self.nodes += checked.profile.nodes
        loops = len(checked.profile.work) > 1
        captured = any(isinstance(each, Name) and self._is_local(each.name) for each in walk(checked.node))
        if self.nodes > _MOST_NODES or captured or (loops and self._scopes):
            # In a loop it would be computed for every element.
            raise Unfit
        types = types_of(checked)
        if holds(types.get(id(checked.node), checked.type), OPTIONAL) or hidden(checked.node, types):
            raise Unfit
        inner = _Renderer(types, self._variables, self.nodes)
        text = inner.text(checked.node)
        self.nodes = inner.nodes
        return f"({text})"

    def _is_local(self, name: str) -> bool:
        return any(name in scope for scope in self._scopes)

    def _index(self, node: Index) -> Rendered:
        optional = node.optional or self._is_optional(node.operand)
        if optional and self._type(node.index).name not in {"string", "int"}:
            # cel-go refuses what cannot be a key, C++ finds nothing under it.
            raise Unfit
        mark = "?" if optional else ""
        return f"{self.text(node.operand, _MEMBER)}[{mark}{self.text(node.index)}]", _MEMBER

    def _call(self, node: Call) -> Rendered:
        if node.function == "_?_:_":
            condition, yes, no = node.arguments
            return f"{self.text(condition, 1)} ? {self.text(yes, 1)} : {self.text(no)}", _TERNARY
        if node.function in _BINARY:
            return self._operator(node)
        if node.function in {"!_", "-_"}:
            return f"{node.function[0]}{self.text(node.arguments[0], _MEMBER)}", _UNARY
        arguments = ", ".join(map(self.text, node.arguments))
        if node.target is not None and node.function in _METHODS:
            return f"{self.text(node.target, _MEMBER)}.{node.function}({arguments})", _MEMBER
        if node.target is None and self._is_same(node):
            return f"{node.function}({arguments})", _MEMBER
        raise Unfit

    def _is_same(self, node: Call) -> bool:
        """Whether C++'s function does what cel-go's does."""
        if node.function in {"timestamp", "duration"} and not self._reads_as_go(node):
            return False
        if node.function in _CONVERTED:
            return self._type(node.arguments[0]).name in _CONVERTED[node.function]
        return node.function in _FUNCTIONS

    def _reads_as_go(self, node: Call) -> bool:
        """Whether a time or duration is one already, or a constant in a form that both read alike."""
        (argument,) = node.arguments
        if isinstance(argument, Literal):
            return isinstance(argument.value, str) and _PLAIN_TIME.fullmatch(argument.value) is not None
        return self._type(argument).name in _TEXTUAL

    def _operator(self, node: Call) -> Rendered:
        left, right = node.arguments
        if node.function in _ORDERING and (self._may_be_nan(left) or self._may_be_nan(right)):
            # cel-go says that NaN has no order, C++ that it is not less than 1.
            raise Unfit
        symbol, binding = _BINARY[node.function]
        closer = binding if binding <= _LOGIC else binding + 1
        return f"{self.text(left, binding)} {symbol} {self.text(right, closer)}", binding

    def _may_be_nan(self, node: Node) -> bool:
        return self._type(node).name == DOUBLE.name and not isinstance(node, Literal)

    def _list(self, node: ListOf) -> Rendered:
        marks = ["?" if number in node.optional else "" for number in range(len(node.elements))]
        elements = (f"{mark}{self.text(each)}" for mark, each in zip(marks, node.elements, strict=True))
        return f"[{', '.join(elements)}]", _MEMBER

    def _map(self, node: MapOf) -> Rendered:
        if any(self._type(key).name != STRING.name for key, _ in node.entries):
            # Which numbers are one key is not the same in C++.
            raise Unfit
        entries = (
            f"{'?' if number in node.optional else ''}{self.text(key)}: {self.text(value)}"
            for number, (key, value) in enumerate(node.entries)
        )
        return f"{{{', '.join(entries)}}}", _MEMBER

    def _bind(self, node: Bind) -> Rendered:
        value = self.text(node.value)
        return f"cel.bind({node.name}, {value}, {self._scoped((node.name,), (node.body,))[0]})", _MEMBER

    def _comprehension(self, node: Comprehension) -> Rendered:
        if node.macro not in _MACROS or len(node.names) > 1:
            raise Unfit
        if node.macro == "optFlatMap" and not self._is_optional(node.arguments[0]):
            raise Unfit
        target = self.text(node.target, _MEMBER)
        arguments = self._scoped(node.names, node.arguments)
        return f"{target}.{node.macro}({', '.join((*node.names, *arguments))})", _MEMBER

    def _scoped(self, names: tuple[str, ...], nodes: tuple[Node, ...]) -> list[str]:
        self._scopes.append(names)
        texts = [self.text(node) for node in nodes]
        self._scopes.pop()
        return texts


def _field(name: str) -> str:
    return name if _FIELD.fullmatch(name) and name not in _WORDS else f"`{name}`"
