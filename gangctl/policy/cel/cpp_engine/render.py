"""A checked expression in the words of cel-cpp.

There are two ways to write one. The short one lets C++ select fields as it does, which
differs from Kubernetes in one thing only: ``has()`` and ``.?`` of what is no map is an error
there. An error never changes what an expression's value is where it has one, so the exact,
slower way is taken only after an expression ended with an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from gangctl.policy.cel.ast import Bind, Call, Comprehension, Index, ListOf, Literal, MapOf, Name, Node, Select
from gangctl.policy.cel.cpp_engine.functions import (
    CALLED,
    CELL,
    CONVERTED,
    HAS_VARIABLE,
    LOAD,
    ORDERING,
    PREFIX,
    RESULTS,
    VALUE,
    VARIABLE,
    mangled,
)
from gangctl.policy.cel.cpp_engine.shapes import OPTIONAL, can_cross, holds_extension, is_json
from gangctl.policy.cel.cpp_engine.support import check_call, unsupported
from gangctl.policy.cel.grammar import RESERVED
from gangctl.policy.cel.literals import quoted, quoted_bytes
from gangctl.policy.cel.types import DYN, TIMESTAMP, Type

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

_FIELD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_WORDS: Final = RESERVED | {"true", "false", "null", "in"}
_TIMES: Final = frozenset({"timestamp", "duration"})
_TEXTS: Final = {"google.protobuf.Timestamp": "moment_text", "google.protobuf.Duration": "span_text"}
"""What makes of a time that C++ wrote one that cel-go would have written."""
_ZEROS: Final = {"double": "0.0", "uint": "0u", "google.protobuf.Duration": 'duration("0s")'}
_ANYTHING: Final = frozenset({DYN.name, "null_type"})
"""Types of values that may have no fields where fields are asked for."""
_SIMPLE_KEYS: Final = frozenset({"bool", "int", "uint", "string"})
_TWO_VARIABLES: Final = 2
_ONE_OF: Final = {"existsOne": "exists_one"}

Rendered = tuple[str, int]
"""Text, and how strongly its outermost operator binds."""


def render(node: Node, types: Mapping[int, Type], *, exact: bool) -> str:
    """An expression whose parts have these types, for C++; CompileError UNSUPPORTED where it cannot be said."""
    renderer = _Renderer(types, exact=exact)
    text = renderer.text(node)
    if types.get(id(node), DYN).name == OPTIONAL:
        name = renderer.fresh()
        return f"cel.bind({name}, {text}, {name}.hasValue() ? [{name}.value()] : [])"
    return text


class _Renderer:
    def __init__(self, types: Mapping[int, Type], *, exact: bool) -> None:
        self._types = types
        self._exact = exact
        self._names = 0
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
        text, own = self._kinds[type(node)](node)
        return f"({text})" if own < binding else text

    def fresh(self) -> str:
        """A name that the expression does not have."""
        self._names += 1
        return f"{PREFIX}v{self._names}"

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
        if node.kind == "uint":
            return f"{value}u", _MEMBER
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value), _MEMBER if value >= 0 else _UNARY
        if isinstance(value, float):
            text = repr(value)
            text = text if "." in text or "e" in text else f"{text}.0"
            return text, _MEMBER if not text.startswith("-") else _UNARY
        return "null" if value is None else str(value).lower(), _MEMBER

    def _name(self, node: Name) -> Rendered:
        return node.name, _MEMBER

    def _is_variables(self, node: Node) -> bool:
        return (
            isinstance(node, Name)
            and node.name == "variables"
            and not any("variables" in scope for scope in self._scopes)
        )

    def _select(self, node: Select) -> Rendered:
        if self._is_variables(node.operand):
            return self._variable(node)
        optional = node.optional or self._is_optional(node.operand)
        if node.test:
            return self._has(node, optional=optional)
        type_ = self._type(node)
        if type_.name == TIMESTAMP.name and self._type(node.operand).fields is not None:
            # A field that holds a time is a string in what is bound.
            called = mangled("timestamp", member=False)
            return f"{called}_{RESULTS[type_.name]}([{self._member(node.operand)}.{_field(node.field)}])", _MEMBER
        if optional:
            return self._optional(node.operand, f".?{_field(node.field)}", lists=False)
        return f"{self._member(node.operand)}.{_field(node.field)}", _MEMBER

    def _has(self, node: Select, *, optional: bool) -> Rendered:
        field = _field(node.field)
        if optional:
            text, _ = self._optional(node.operand, f".?{field}", lists=False)
            return f"{text}.hasValue()", _MEMBER
        operand = self._member(node.operand)
        if not self._loose(node.operand):
            return f"has({operand}.{field})", _MEMBER
        return self._bound(
            node.operand,
            lambda name: f"type({name}) == map ? has({name}.{field}) : {PREFIX}absent(type({name}) == list)",
        )

    def _loose(self, node: Node) -> bool:
        """Whether a value may be none that has fields, and that matters now."""
        return self._exact and self._type(node).name in _ANYTHING

    def _optional(self, operand: Node, step: str, *, lists: bool) -> Rendered:
        """``operand.?field`` or ``operand[?index]``, which of an optional means: of what is in it."""
        type_ = self._type(operand)
        inner = type_.parameters[0] if type_.name == OPTIONAL and type_.parameters else type_
        if not self._exact or inner.name not in _ANYTHING:
            return f"{self._member(operand)}{step}", _MEMBER
        if type_.name == OPTIONAL:
            name = self.fresh()
            return f"{self._member(operand)}.optFlatMap({name}, {_found(name, step, lists=lists)})", _MEMBER
        return self._bound(operand, lambda name: _found(name, step, lists=lists))

    def _bound(self, node: Node, write: Callable[[str], str]) -> Rendered:
        name = self.fresh()
        return f"cel.bind({name}, {self.text(node)}, {write(name)})", _MEMBER

    def _index(self, node: Index) -> Rendered:
        index = self.text(node.index)
        optional = node.optional or self._is_optional(node.operand)
        if optional and self._type(node.index).name == DYN.name:
            # Where a key is none that a map could have, C++ finds nothing; cel-go refuses it.
            index = f"{PREFIX}key([{index}])"
        if optional:
            return self._optional(node.operand, f"[?{index}]", lists=True)
        return f"{self._member(node.operand)}[{index}]", _MEMBER

    def _member(self, node: Node) -> str:
        return self.text(node, _MEMBER)

    def _variable(self, node: Select) -> Rendered:
        name = quoted(node.field)
        if node.test:
            return f"{HAS_VARIABLE}({name})", _MEMBER
        type_ = self._type(node)
        if node.optional and type_.parameters:
            return f"optional.of({self._read(node, name, type_.parameters[0])})", _MEMBER
        return self._read(node, name, type_), _MEMBER

    def _read(self, node: Select, name: str, type_: Type) -> str:
        if is_json(type_):
            return f"({LOAD}({name}) ? {CELL}{node.field} : {{}}).{VALUE}"
        if type_.name == OPTIONAL and type_.parameters and can_cross(type_.parameters[0]):
            return f"{VARIABLE}({name}).first()"
        if not can_cross(type_):
            raise unsupported(f"read a variable of type {type_}", node)
        return f"{VARIABLE}{_suffix(type_)}({name})"

    def _call(self, node: Call) -> Rendered:
        if node.function == "_?_:_":
            condition, yes, no = node.arguments
            return f"{self.text(condition, 1)} ? {self.text(yes, 1)} : {self.text(no)}", _TERNARY
        if node.function in _BINARY:
            return self._operator(node)
        if node.function in {"!_", "-_"}:
            return f"{node.function[0]}{self.text(node.arguments[0], _MEMBER)}", _UNARY
        parts = node.arguments if node.target is None else (node.target, *node.arguments)
        name = mangled(node.function, member=node.target is not None)
        if node.function == "matches":
            name = mangled("matches", member=True)
        if node.function == "string" and self._type(parts[0]).name in _TEXTS:
            return f"{PREFIX}{_TEXTS[self._type(parts[0]).name]}(string({self.text(parts[0])}))", _MEMBER
        if node.function == "sum" and self._type(node).name in _ZEROS:
            return self._sum(node, name, parts[0])
        if name in CALLED and not self._is_builtin(node, parts):
            return self._python(node, name, parts), _MEMBER
        arguments = ", ".join(map(self.text, node.arguments))
        target = "" if node.target is None else f"{self._member(node.target)}."
        return f"{target}{node.function}({arguments})", _MEMBER

    def _sum(self, node: Call, name: str, values: Node) -> Rendered:
        """Of a list without elements Python does not know what zero is."""
        type_ = self._type(node)
        list_ = self.fresh()
        called = f"{name}{_suffix(type_)}({list_})"
        return f"cel.bind({list_}, {self.text(values)}, size({list_}) == 0 ? {_ZEROS[type_.name]} : {called})", _MEMBER

    def _is_builtin(self, node: Call, parts: Sequence[Node]) -> bool:
        """Whether C++ does what Kubernetes does for the types at hand."""
        if node.target is None and node.function in CONVERTED:
            type_ = self._type(parts[0])
            if type_.name == self._type(node).name or (node.function == "string" and type_.name in {"int", "bool"}):
                return True
            # Where C++ reads a time, it is the same, and to the nanosecond.
            return node.function in _TIMES and not self._exact
        return node.target is not None and node.function in {"first", "last"}

    def _operator(self, node: Call) -> Rendered:
        left, right = node.arguments
        if node.function in {"_==_", "@in"} and any(holds_extension(self._type(each)) for each in node.arguments):
            return self._compared(node, left, right), _MEMBER
        if node.function == "_!=_" and all(holds_extension(self._type(each)) for each in node.arguments):
            return f"!{self._compared(node, left, right)}", _UNARY
        if node.function == "@in" and self._exact and self._type(left).name not in _SIMPLE_KEYS:
            return self._in_any(left, right)
        if node.function in ORDERING and any(map(self._may_be_nan, node.arguments)):
            return f"{PREFIX}{ORDERING[node.function]}([{self.text(left)}], [{self.text(right)}])", _MEMBER
        symbol, binding = _BINARY[node.function]
        closer = binding if binding <= _LOGIC else binding + 1
        return f"{self.text(left, binding)} {symbol} {self.text(right, closer)}", binding

    def _in_any(self, left: Node, right: Node) -> Rendered:
        """What cannot be a key is not in a map; C++ refuses it."""
        one, other = self.fresh(), self.fresh()
        strange = f"type({other}) == map && type({one}) in [list, map, null_type, bytes]"
        test = f"cel.bind({other}, {self.text(right)}, {strange} ? false : {one} in {other})"
        return f"cel.bind({one}, {self.text(left)}, {test})", _MEMBER

    def _may_be_nan(self, node: Node) -> bool:
        return self._type(node).name == "double" and not isinstance(node, Literal)

    def _compared(self, node: Call, left: Node, right: Node) -> str:
        check_call(node, {0: self._type(left), 1: self._type(right)}, self._type(node))
        function = "in" if node.function == "@in" else "equal"
        return f"{PREFIX}{function}([{self.text(left)}], [{self.text(right)}])"

    def _python(self, node: Call, name: str, parts: Sequence[Node]) -> str:
        called = CALLED[name]
        type_ = self._type(node)
        inner = type_.parameters[0] if type_.name == OPTIONAL and type_.parameters else type_
        check_call(node, {number: self._type(part) for number, part in enumerate(parts)}, inner)
        arguments = [
            f"[{self.text(part)}]" if called.wrapped(position) else self.text(part)
            for position, part in enumerate(parts)
        ]
        text = f"{name}{_suffix(inner)}({', '.join(arguments)})"
        return f"{text}.first()" if type_.name == OPTIONAL else text

    def _list(self, node: ListOf) -> Rendered:
        marks = ["?" if number in node.optional else "" for number in range(len(node.elements))]
        return (
            f"[{', '.join(f'{mark}{self.text(each)}' for mark, each in zip(marks, node.elements, strict=True))}]",
            _MEMBER,
        )

    def _map(self, node: MapOf) -> Rendered:
        keys = [key for key, _ in node.entries]
        plain = {(key.kind, key.value) for key in keys if isinstance(key, Literal)}
        if len({key.kind == "bool" for key in keys if isinstance(key, Literal)}) > 1:
            raise unsupported("tell 1 from true among the keys of a map", node)
        if len(keys) > 1 and len(plain) < len(keys):
            return self._map_of_pairs(node)
        entries = (
            f"{'?' if number in node.optional else ''}{self.text(key)}: {self.text(value)}"
            for number, (key, value) in enumerate(node.entries)
        )
        return f"{{{', '.join(entries)}}}", _MEMBER

    def _map_of_pairs(self, node: MapOf) -> Rendered:
        """Keys that may be the same: an error in C++, while in Kubernetes the last one counts."""
        if node.optional:
            raise unsupported("make a map with optional entries and computed keys", node)
        check_call(node, {0: self._type(node)}, self._type(node))
        pairs = (f"[{self.text(key)}, {self.text(value)}]" for key, value in node.entries)
        return f"{PREFIX}map_of([{', '.join(pairs)}])", _MEMBER

    def _bind(self, node: Bind) -> Rendered:
        value = self.text(node.value)
        return f"cel.bind({node.name}, {value}, {self._scoped((node.name,), (node.body,))[0]})", _MEMBER

    def _scoped(self, names: tuple[str, ...], nodes: Sequence[Node]) -> list[str]:
        self._scopes.append(names)
        texts = [self.text(node) for node in nodes]
        self._scopes.pop()
        return texts

    def _comprehension(self, node: Comprehension) -> Rendered:
        if len(node.names) == _TWO_VARIABLES:
            return self._two_variables(node)
        target = self._member(node.target)
        arguments = self._scoped(node.names, node.arguments)
        if node.macro == "sortBy":
            return self._sort_by(node, target, arguments[0])
        return f"{target}.{node.macro}({', '.join((*node.names, *arguments))})", _MEMBER

    def _sort_by(self, node: Comprehension, target: str, key: str) -> Rendered:
        type_ = self._type(node)
        check_call(node, {0: type_}, type_)
        name, called = self.fresh(), mangled("@sortByAssociatedKeys", member=True)
        keys = f"{name}.map({node.names[0]}, {key})"
        return f"cel.bind({name}, {target}, {called}({name}, {keys}))", _MEMBER

    def _two_variables(self, node: Comprehension) -> Rendered:
        """Macros over keys, with the value looked up under each."""
        key, value = node.names
        name = self.fresh()
        indexes, keys = f"{PREFIX}indexes(size({name}))", f"{name}.map({key}, {key})"
        type_ = self._type(node.target)
        looped = {"list": indexes, "map": keys}.get(type_.name, f"(type({name}) == list ? {indexes} : {keys})")
        arguments = [
            f"cel.bind({value}, {name}[{key}], {argument})" for argument in self._scoped(node.names, node.arguments)
        ]
        text = self._looped(node, looped, key, arguments)
        return f"cel.bind({name}, {self.text(node.target)}, {text})", _MEMBER

    def _looped(self, node: Comprehension, looped: str, key: str, arguments: list[str]) -> str:
        if node.macro in {"all", "exists", "exists_one", "existsOne"}:
            return f"{looped}.{_ONE_OF.get(node.macro, node.macro)}({key}, {arguments[0]})"
        if node.macro == "transformList":
            return f"{looped}.map({key}, {', '.join(arguments)})"
        type_ = self._type(node)
        check_call(node, {0: type_}, type_)
        *condition, made = arguments
        if node.macro == "transformMap":
            pairs = ", ".join((*condition, f"[{key}, {made}]"))
            return f"{PREFIX}map_of({looped}.map({key}, {pairs}))"
        return f"{PREFIX}merged({looped}.map({key}, {', '.join(arguments)}))"


def _field(name: str) -> str:
    return name if _FIELD.fullmatch(name) and name not in _WORDS else f"`{name}`"


def _found(name: str, step: str, *, lists: bool) -> str:
    """A step into a value that may be none that has fields or elements."""
    if lists:
        return f"type({name}) == map || type({name}) == list ? {name}{step} : optional.none()"
    return (
        f"type({name}) == map ? {name}{step} : {PREFIX}absent(type({name}) == list) ? optional.none() : optional.none()"
    )


def _suffix(type_: Type) -> str:
    return f"_{RESULTS[type_.name]}" if type_.name in RESULTS else ""
