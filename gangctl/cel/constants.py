"""Conditions with a constant result: the code behind them is never reached.

Only certain results are returned. A part that fails at run time does not change them: ``false && x`` is false even
then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import eq, ge, gt, le, lt, ne
from typing import Any, Final

from gangctl.cel.ast import Call, Comprehension, ListOf, Literal, MapOf, Node
from gangctl.cel.text import show

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
