"""What can be changed in a module: one comparison, constant, condition, result or statement at a time."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

COMPARISONS: Final[dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
COLLECTIONS: Final = {
    "tuple": "()",
    "list": "[]",
    "dict": "{}",
    "set": "set()",
    "frozenset": "frozenset()",
    "str": "''",
}
Function = ast.FunctionDef | ast.AsyncFunctionDef
_CONDITIONS: Final = (ast.Compare, ast.BoolOp, ast.UnaryOp)


@dataclass(frozen=True)
class Mutant:
    """One change of one module."""

    path: Path
    line: int
    change: str
    function: tuple[str, int] | None
    """The name and first line of the outermost one that it is in; None for what runs when the module is imported."""
    module: ast.Module
    old: ast.AST
    new: ast.AST

    @property
    def tree(self) -> ast.Module:
        """The module with the change."""
        changed = _Swap(self.old, self.new).visit(copy.deepcopy(self.module, {id(self.old): self.old}))
        assert isinstance(changed, ast.Module)
        return ast.fix_missing_locations(changed)


def mutants(path: Path) -> Iterator[Mutant]:
    """Every mutant of a module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for place, function in _places(tree, None):
        owner = (function.name, min(each.lineno for each in (function, *function.decorator_list))) if function else None
        for old, new in _changes(place, function):
            change = f"`{_text(old)}` becomes `{_text(new)}`"
            yield Mutant(path, getattr(old, "lineno", 0), change, owner, tree, old, ast.copy_location(new, old))


class _Swap(ast.NodeTransformer):
    """Replaces one node of a tree."""

    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self.new if node is self.old else self.generic_visit(node)


def _places(node: ast.AST, function: Function | None) -> Iterator[tuple[ast.AST, Function | None]]:
    """Every node that is executed, and the outermost function it is in: no annotations, decorators, assertions."""
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list", "type_params"} or isinstance(node, ast.Assert):
            continue
        inside = function or (node if isinstance(node, Function) and name == "body" else None)
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield child, inside
                yield from _places(child, inside)


def _changes(node: ast.AST, function: Function | None) -> Iterator[tuple[ast.AST, ast.AST]]:
    """What to replace, and by what."""
    if isinstance(node, ast.stmt):
        yield from ((node, new) for new in _statements(node, function))
    elif isinstance(node, ast.expr):
        yield from ((node, new) for new in _expressions(node))
    # A comparison, `not`, `and` and `or` are changed by themselves.
    if isinstance(node, ast.If | ast.While | ast.IfExp) and not isinstance(node.test, _CONDITIONS):
        yield node.test, ast.UnaryOp(ast.Not(), node.test)
    if isinstance(node, ast.comprehension):
        yield from ((each, ast.Constant(True)) for each in node.ifs)


def _expressions(node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.Compare(ops=[operator, *more]):
            yield from (ast.Compare(node.left, [new(), *more], node.comparators) for new in COMPARISONS[type(operator)])
        case ast.BoolOp():
            yield ast.BoolOp(ast.And() if isinstance(node.op, ast.Or) else ast.Or(), node.values)
        case ast.UnaryOp(op=ast.Not()):
            yield node.operand
        case ast.BinOp(op=ast.Add() | ast.Sub()) if not any(map(_is_text, (node.left, node.right))):
            yield ast.BinOp(node.left, ast.Sub() if isinstance(node.op, ast.Add) else ast.Add(), node.right)
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield from (ast.Constant(value + step) for step in (1, -1))


def _statements(node: ast.stmt, function: Function | None) -> Iterator[ast.stmt]:
    match node:
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) not in {"None", "True", "False"}:
            kind = ast.unparse(function.returns).partition("[")[0] if function and function.returns else ""
            # None is as good as False for most that ask.
            yield ast.Return(ast.UnaryOp(ast.Not(), value) if kind == "bool" else ast.Constant(None))
            if kind in COLLECTIONS and ast.unparse(value) != COLLECTIONS[kind]:
                yield ast.Return(ast.parse(COLLECTIONS[kind], mode="eval").body)
        case ast.Expr(value=value) if not isinstance(value, ast.Constant):
            yield ast.Pass()
        case ast.AugAssign() | ast.Raise() | ast.Continue() | ast.Break():
            yield ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield ast.Pass()


def _is_text(node: ast.AST | None) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _text(node: ast.AST) -> str:
    return " ".join(ast.unparse(node).split())
