"""Walking the tree of an expression."""

from __future__ import annotations

from collections.abc import Iterator

from gangctl.cel.ast import Bind, Call, Comprehension, Index, ListOf, MapOf, Node, Select


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
    if isinstance(node, Bind):
        return (node.value, node.body)
    return ()


def walk(node: Node) -> Iterator[Node]:
    """The node and everything below it, parents first."""
    waiting = [node]
    while waiting:
        each = waiting.pop()
        yield each
        waiting += reversed(children(each))
