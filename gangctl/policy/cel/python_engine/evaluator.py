"""The rules of CEL's grammar, evaluated: what cel-python's own methods get wrong for want of cel-go's semantics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from gangctl.policy.cel.faults import EvalError, EvalKind
from gangctl.policy.cel.library.maps import KEYS, MISSING, KeyedMap, entered, find
from gangctl.policy.cel.library.values import (
    NONE,
    Optional,
    Uint,
    bounded,
    invalid,
    no_such_overload,
)
from gangctl.policy.cel.meter import EXHAUSTED
from gangctl.policy.cel.python_engine import comprehensions
from gangctl.policy.cel.python_engine.arithmetic import SHIFT, negate
from gangctl.policy.cel.python_engine.functions import Function
from gangctl.policy.cel.python_engine.lower import TYPES
from gangctl.policy.cel.python_engine.machine import Machine
from gangctl.policy.cel.python_engine.numbers import decoded

_SIZED: Final = (str, bytes, list)

Tree = Any
"""A :class:`~gangctl.policy.cel.python_engine.rules.Rule`; cel-python's methods take every tree of lark."""


class Evaluator(Machine):
    """cel-python's Evaluator with methods for the rules of :mod:`gangctl.policy.cel.python_engine.rules`."""

    def literal(self, tree: Tree) -> Any:
        """A constant."""
        return tree.what

    def ident(self, tree: Tree) -> Any:
        """A variable, or a type."""
        value = self.names.get(tree.what, MISSING)
        if value is not MISSING:
            return value
        if tree.what in TYPES:
            return TYPES[tree.what]
        raise EvalError(EvalKind.OTHER, f"'{tree.what}' has no value")

    def expr(self, tree: Tree) -> Any:
        """``a ? b : c``."""
        condition, yes, no = tree.children
        value = self.visit(condition)
        if value is True:
            return self.visit(yes)
        if value is False:
            return self.visit(no)
        raise no_such_overload("_?_:_")

    def conditionaland(self, tree: Tree) -> bool:
        """``a && b && ...``."""
        return not self._decided(tree, by=False)

    def conditionalor(self, tree: Tree) -> bool:
        """``a || b || ...``."""
        return self._decided(tree, by=True)

    def _decided(self, tree: Tree, *, by: bool) -> bool:
        """Whether some operand is ``by``; then errors of others do not count, otherwise the first one does."""
        failure: EvalError | None = None
        for child in tree.children:
            try:
                value = self.visit(child)
                if value is by:
                    return True
                if value is not (not by):
                    raise no_such_overload("_||_" if by else "_&&_")
            except EvalError as error:
                if error.kind in EXHAUSTED:
                    raise
                failure = failure or error
        if failure is not None:
            raise failure
        return False

    def relation(self, tree: Tree) -> bool:
        """``==``, ``<``, ``in``, ..."""
        left, right = tree.children
        return bool(tree.what(self.visit(left), self.visit(right), self.charge))

    def addition(self, tree: Tree) -> Any:
        """``+``, ``-``, ``*``, ``/``, ``%``."""
        left, right = tree.children
        value = tree.what(self.visit(left), self.visit(right))
        if type(value) in _SIZED:
            self.charge(len(value) >> SHIFT)
        return value

    def unary_not(self, tree: Tree) -> bool:
        """``!a``."""
        value = self.visit(tree.children[0])
        if value is True or value is False:
            return not value
        raise no_such_overload("!_")

    def unary_neg(self, tree: Tree) -> Any:
        """``-a``."""
        return negate(self.visit(tree.children[0]))

    def member_dot(self, tree: Tree) -> Any:
        """``a.field``."""
        operand = self.visit(tree.children[0])
        if operand is self.variables:
            return self._variable(tree)
        if type(operand) is Optional:
            return self._chained(operand, tree.what)
        value = MISSING if isinstance(operand, (list, tuple)) else self._entry(operand, tree.what)
        if value is MISSING:
            raise EvalError(EvalKind.NO_SUCH_KEY, f"no such key: {tree.what}")
        return value

    def _variable(self, tree: Tree) -> Any:
        self.settle()
        try:
            return self.variables[tree.what]
        except KeyError as error:
            raise EvalError(EvalKind.NO_SUCH_KEY, f"no such key: {tree.what}") from error
        except EvalError as error:
            # Its place is one in another text, and the error may be raised again for somebody else.
            raise EvalError(error.kind, error.message, tree.offset) from error

    def member_dot_test(self, tree: Tree) -> bool:
        """``has(a.field)``."""
        operand = self.visit(tree.children[0])
        if operand is self.variables:
            return tree.what in self.variables
        if type(operand) is Optional:
            return self._chained(operand, tree.what).present
        return self._entry(operand, tree.what) is not MISSING

    def member_dot_optional(self, tree: Tree) -> Optional:
        """``a.?field``."""
        operand = self.visit(tree.children[0])
        return self._chained(operand if type(operand) is Optional else Optional(present=True, value=operand), tree.what)

    def _chained(self, operand: Optional, key: Any) -> Optional:
        """What follows ``.?``: a value that is there, or none."""
        value = self._entry(operand.value, key) if operand.present else MISSING
        return NONE if value is MISSING else Optional(present=True, value=value)

    def member_index(self, tree: Tree) -> Any:
        """``a[b]``."""
        operand = self.visit(tree.children[0])
        if type(operand) is Optional:
            return self._chained_index(operand, tree.children[1])
        value = self._entry(operand, self._key(tree.children[1]))
        if value is MISSING and isinstance(operand, (list, tuple)):
            raise EvalError(EvalKind.INDEX_OUT_OF_BOUNDS, "index out of bounds")
        if value is MISSING:
            raise EvalError(EvalKind.NO_SUCH_KEY, "no such key")
        return value

    def member_index_optional(self, tree: Tree) -> Optional:
        """``a[?b]``."""
        operand = self.visit(tree.children[0])
        if type(operand) is not Optional:
            operand = Optional(present=True, value=operand)
        return self._chained_index(operand, tree.children[1])

    def _chained_index(self, operand: Optional, tree: Tree) -> Optional:
        """An index after ``.?``, evaluated only where there is something to look into."""
        return self._chained(operand, self._key(tree)) if operand.present else NONE

    def _key(self, tree: Tree) -> Any:
        """What stands in brackets: a string, a number or a bool."""
        key = self.visit(tree)
        if type(key) not in KEYS:
            raise EvalError(EvalKind.NO_SUCH_OVERLOAD, "a value of this type cannot be an index", tree.offset)
        return key

    @staticmethod
    def _entry(operand: Any, key: Any) -> Any:
        """An entry of a map or element of a list, or MISSING: also where there are no entries at all, as natively."""
        if isinstance(operand, Mapping):
            value = find(operand, key)
        elif isinstance(operand, (list, tuple)):
            index = _index(key)
            value = operand[index] if 0 <= index < len(operand) else MISSING
        else:
            return MISSING
        return decoded(value)

    def ident_arg(self, tree: Tree) -> Any:
        """``f(a)`` and ``a.f(b)``."""
        function: Function = tree.what
        arguments = [self.visit(child) for child in tree.children]
        self.charge(function.cost(arguments))
        try:
            value = function.call(*arguments)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise EvalError(EvalKind.OTHER, f"{function.name} failed") from error
        if type(value) in _SIZED:
            bounded(len(value), function.name)
        return value

    def list_lit(self, tree: Tree) -> list[Any]:
        """``[a, ?b]``."""
        made: list[Any] = []
        for position, child in enumerate(tree.children):
            value = self.visit(child)
            if position not in tree.what:
                made.append(value)
            elif type(value) is not Optional:
                raise EvalError(EvalKind.NO_SUCH_OVERLOAD, "an optional element is no optional", child.offset)
            elif value.present:
                made.append(value.value)
        return made

    def map_lit(self, tree: Tree) -> dict[str, Any] | KeyedMap:
        """``{a: b, ?c: d}``."""
        made: dict[str, Any] | KeyedMap = {}
        for position in range(0, len(tree.children), 2):
            key, value = self.visit(tree.children[position]), self.visit(tree.children[position + 1])
            if position // 2 in tree.what:
                if type(value) is not Optional:
                    raise EvalError(EvalKind.NO_SUCH_OVERLOAD, "an optional entry is no optional", tree.offset)
                if not value.present:
                    continue
                value = value.value
            made = entered(made, key, value)
        return made

    def optional_or(self, tree: Tree) -> Optional:
        """``a.or(b)``: b only where a is none."""
        value = self.visit(tree.children[0])
        if type(value) is Optional and not value.present:
            value = self.visit(tree.children[1])
        if type(value) is not Optional:
            raise no_such_overload("or")
        return value

    def optional_or_value(self, tree: Tree) -> Any:
        """``a.orValue(b)``: b only where a is none."""
        value = self.visit(tree.children[0])
        if type(value) is not Optional:
            raise no_such_overload("orValue")
        return value.value if value.present else self.visit(tree.children[1])

    RULES: ClassVar[dict[str, Any]] = {
        each.__name__: each
        for each in (
            *(literal, ident, expr, conditionaland, conditionalor, relation, addition, unary_not, unary_neg),
            *(member_dot, member_dot_test, member_dot_optional, member_index, member_index_optional),
            *(ident_arg, list_lit, map_lit, optional_or, optional_or_value),
        )
    } | {"member_dot_arg": ident_arg, "macro": comprehensions.run, "bind": comprehensions.bind}


def _index(key: Any) -> int:
    """Which element a number means; any number that is whole."""
    cls = type(key)
    if cls is int or cls is Uint:
        return int(key)
    if cls is not float:
        raise EvalError(EvalKind.NO_SUCH_OVERLOAD, "the index of a list is no number")
    if not key.is_integer():
        raise invalid("the index of a list is no whole number")
    return int(key)
