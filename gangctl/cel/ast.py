"""The tree of an expression, and walking it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal as OneOf


@dataclass(frozen=True, slots=True)
class Span:
    """``start`` and ``end`` as offsets in code points of the expression's text."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant; ``kind`` distinguishes 1 from 1u, and 'a' from b'a'."""

    span: Span
    kind: OneOf["null", "bool", "int", "uint", "double", "string", "bytes"]
    value: object


@dataclass(frozen=True, slots=True)
class Name:
    """A variable."""

    span: Span
    name: str


@dataclass(frozen=True, slots=True)
class Select:
    """``operand.field``; ``optional`` for ``.?``, ``test`` inside of ``has()``."""

    span: Span
    operand: Node
    field: str
    optional: bool = False
    test: bool = False


@dataclass(frozen=True, slots=True)
class Index:
    """``operand[index]``; ``optional`` for ``[?``."""

    span: Span
    operand: Node
    index: Node
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """A function or, with ``target``, a method; operators by CEL's names (``_+_``, ``!_``, ``_?_:_``, ``@in``).

    ``target`` is None for a function. A namespaced function has its whole name (``sets.contains``). ``name_span`` is
    the place of the name or the operator.
    """

    span: Span
    function: str
    target: Node | None
    arguments: tuple[Node, ...]
    name_span: Span


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list literal; ``optional`` are the indexes of elements written ``?x``."""

    span: Span
    elements: tuple[Node, ...]
    optional: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class MapOf:
    """A map literal."""

    span: Span
    entries: tuple[tuple[Node, Node], ...]
    optional: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Comprehension:
    """A macro over ``target``.

    ``macro`` is all, exists, exists_one, existsOne, filter, map, transformList, transformMap, transformMapEntry, and
    for optionals optMap, optFlatMap; ``names`` its one or two variables; ``arguments`` the predicate and the
    transformation as written.
    """

    span: Span
    macro: str
    target: Node
    names: tuple[str, ...]
    arguments: tuple[Node, ...]


Node = Literal | Name | Select | Index | Call | ListOf | MapOf | Comprehension


def children(node: Node) -> tuple[Node, ...]:
    """The nodes directly below, in the order in which they are written."""
    if isinstance(node, Select):
        return (node.operand,)
    if isinstance(node, Index):
        return (node.operand, node.index)
    if isinstance(node, Call):
        return node.arguments if node.target is None else (node.target, *node.arguments)
    if isinstance(node, ListOf):
        return node.elements
    if isinstance(node, MapOf):
        return tuple(part for entry in node.entries for part in entry)
    if isinstance(node, Comprehension):
        return (node.target, *node.arguments)
    return ()


def walk(node: Node) -> Iterator[Node]:
    """The node and everything below it, parents first."""
    waiting = [node]
    while waiting:
        part = waiting.pop()
        yield part
        # The last one is taken first: reversed, parts come in the order in which they are written.
        waiting += reversed(children(part))
