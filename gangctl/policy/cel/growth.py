"""How much larger than what it judges an expression can make a value: bounded before it runs.

Engines written in other languages have no limit of their own on the size of strings and lists. So a
value may be at most so many times the largest input (:data:`CHARACTERS_FACTOR`), times the number of
elements for each loop around (three at most, also one behind the other); the square of the input only
where a text of the input goes into a text of the input (``replace``, ``join``), and constants on
their own may make :data:`CONSTANT` characters.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Final

from gangctl.policy.cel.ast import Bind, Call, Comprehension, Index, ListOf, Literal, MapOf, Name, Node, Select
from gangctl.policy.cel.extent import CHARACTERS, ELEMENTS, Extent, Polynomial, constant, number, symbolic, together
from gangctl.policy.cel.faults import CompileError, CompileKind
from gangctl.policy.cel.limits import LOOPS
from gangctl.policy.cel.types import Type

CHARACTERS_FACTOR: Final = 64
"""A value is at most so many times as long as the largest input."""
ELEMENTS_FACTOR: Final = 4096
"""What each element of a list may add where nothing of the input is added."""
SQUARE_FACTOR: Final = 2
"""Of the input's size squared."""
CONSTANT: Final = 65_536
"""Characters that constants make on their own."""

_SCALAR: Final = 36
"""Characters of a number or time."""
_SCALARS: Final = frozenset(
    {"bool", "int", "uint", "double", "null_type", "google.protobuf.Timestamp", "google.protobuf.Duration", "type"}
)
_QUOTED: Final = 6
"""How much longer a character can become by strings.quote."""
_LINEAR: Final = 1
_SQUARE: Final = 2


def check_growth(node: Node, types: Mapping[int, Type], variables: Mapping[str, Extent] | None = None) -> Extent:
    """How large the expression's value can be; CompileError of kind LIMIT where any value in it is too large.

    ``types`` are those of the nodes by ``id``, ``variables`` the extents of variables it may read.
    """
    return _Growth(types, variables or {}).of(node)


class _Growth:
    def __init__(self, types: Mapping[int, Type], variables: Mapping[str, Extent]) -> None:
        self._types = types
        self._variables = variables
        self._scopes: list[Mapping[str, Extent]] = []
        self._loops = count()

    def of(self, node: Node) -> Extent:
        extent = self._extent(node)
        type_ = self._types.get(id(node))
        if type_ is not None and type_.name in _SCALARS:
            return constant(_SCALAR)
        for extent_ in (extent.size, extent.count):
            if _too_large(extent_):
                raise CompileError(
                    CompileKind.LIMIT,
                    "this can grow far beyond the size of what is judged",
                    node.span.start,
                    node.span.end - node.span.start,
                    hint="values may not be joined with themselves again and again",
                )
        return extent

    def _extent(self, node: Node) -> Extent:
        if isinstance(node, Literal):
            return constant(len(node.value) if isinstance(node.value, str | bytes) else _SCALAR)
        if isinstance(node, Name):
            return self._name(node.name)
        if isinstance(node, Select):
            return self._select(node)
        if isinstance(node, Index):
            return self._first(node.operand, node.index)
        if isinstance(node, Call):
            return self._call(node)
        if isinstance(node, ListOf):
            return together(map(self.of, node.elements)) + constant(len(node.elements), len(node.elements))
        if isinstance(node, MapOf):
            parts = [self.of(part) for entry in node.entries for part in entry]
            return together(parts) + constant(len(node.entries), len(node.entries))
        if isinstance(node, Comprehension):
            return self._comprehension(node)
        return self._bind(node)

    def _bind(self, node: Bind) -> Extent:
        return self._let(node.name, self.of(node.value), node.body)

    def _let(self, name: str, value: Extent, body: Node) -> Extent:
        self._scopes.append({name: value})
        extent = self.of(body)
        self._scopes.pop()
        return extent

    def _first(self, node: Node, *others: Node) -> Extent:
        """That of the first, the others only looked at for themselves."""
        for other in others:
            self.of(other)
        return self.of(node)

    def _name(self, name: str) -> Extent:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        return symbolic()

    def _select(self, node: Select) -> Extent:
        if isinstance(node.operand, Name) and node.operand.name == "variables":
            return self._variables.get(node.field) or symbolic()
        return self.of(node.operand)

    def _comprehension(self, node: Comprehension) -> Extent:
        target = self.of(node.target)
        if node.macro in {"optMap", "optFlatMap"}:
            return self._let(node.names[0], target, node.arguments[0])
        name = f"{next(self._loops)}:"
        element = symbolic(name)
        self._scopes.append(dict.fromkeys(node.names, element))
        inner = [self.of(each) for each in node.arguments]
        self._scopes.pop()
        if node.macro in {"filter", "sortBy"}:
            return target
        values = {f"{name}{CHARACTERS}": target.size, f"{name}{ELEMENTS}": target.count}
        result = (inner[-1] + constant(1, 1)).summed(values, target.count)
        return result + target if node.macro == "transformMap" else result

    def _call(self, node: Call) -> Extent:
        arguments = [self.of(each) for each in node.arguments]
        if node.target is not None:
            arguments.insert(0, self.of(node.target))
        if node.function == "_?_:_":
            return arguments[1].larger(arguments[2])
        if node.function == "lists.range":
            return self._range(node)
        if node.function == "replace":
            text, _, new = arguments[:3]
            return Extent(text.size + (text.size + number(1)) * new.size, number(0))
        if node.function == "join":
            separator = arguments[1].size if len(arguments) > 1 else number(0)
            return Extent(arguments[0].size + arguments[0].count * separator, number(0))
        if node.function in {"split", "findAll"}:
            return Extent(arguments[0].size + arguments[0].size, arguments[0].size + number(1))
        if node.function == "strings.quote":
            return Extent(arguments[0].size * number(_QUOTED) + number(2), number(0))
        if node.function in {"substring", "charAt", "slice", "trim", "find", "indexOf", "lastIndexOf"}:
            return arguments[0]
        return together(arguments)

    def _range(self, node: Call) -> Extent:
        """``lists.range`` makes a list out of a number: only of known ones and of sizes."""
        (argument,) = node.arguments
        if isinstance(argument, Literal) and isinstance(argument.value, int):
            length = number(max(0, argument.value))
            return Extent(length * number(_SCALAR), length)
        if isinstance(argument, Call) and argument.function == "size":
            length = self.of(argument.target or argument.arguments[0]).count
            return Extent(length * number(_SCALAR), length)
        message = "lists.range takes a literal or a size() here: any other number may be of any size"
        raise CompileError(CompileKind.LIMIT, message, argument.span.start, argument.span.end - argument.span.start)


def _too_large(polynomial: Polynomial) -> bool:
    """Whether a size is beyond the bounds above; terms of the same powers count together."""
    sums: dict[tuple[int, int], float] = {}
    for characters, elements, factor in polynomial.powers():
        sums[characters, elements] = sums.get((characters, elements), 0) + factor
    for (characters, elements), factor in sums.items():
        if elements > LOOPS:
            allowed = 0
        elif characters == 0:
            allowed = ELEMENTS_FACTOR if elements else CONSTANT
        elif characters == _LINEAR:
            allowed = CHARACTERS_FACTOR
        else:
            allowed = SQUARE_FACTOR if (characters, elements) == (_SQUARE, 0) else 0
        if factor > allowed:
            return True
    return False
