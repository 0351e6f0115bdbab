"""The engine that always works: cel-python's evaluator, interpreted, metered and with cel-go's semantics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from celpy.celparser import CELParseError
from celpy.evaluation import CELEvalError, CELSyntaxError, CELUnsupportedError
from lark.exceptions import LarkError

from gangctl.policy.cel.checked import Checked
from gangctl.policy.cel.engine import NO_VARIABLES, Bindings, Meter, Program, Value
from gangctl.policy.cel.faults import CompileError, CompileKind, EvalError, EvalKind
from gangctl.policy.cel.python_engine.evaluator import Evaluator
from gangctl.policy.cel.python_engine.lower import lower
from gangctl.policy.cel.python_engine.plain import plain
from gangctl.policy.cel.python_engine.rules import Rule

_CELPY: Final = (CELEvalError, CELSyntaxError, CELUnsupportedError, CELParseError, LarkError)
_PYTHON: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


class PythonEngine:
    """CEL by cel-python. It keeps nothing between calls, so any number of threads may share it and its programs."""

    name: Final = "cel-python"

    def compile(self, checked: Checked, variables: Mapping[str, Checked] = NO_VARIABLES) -> Program:  # noqa: ARG002
        """A program; CompileError where a function is missing, or the expression is nested too deeply for Python."""
        try:
            return PythonProgram(lower(checked.node, checked.types))
        except RecursionError as error:
            raise CompileError(CompileKind.LIMIT, "the expression is nested too deeply", 0) from error

    def bind(self, values: Mapping[str, Any]) -> Bindings:
        """JSON values are CEL's values here: nothing is converted, and nothing is changed."""
        return dict(values)

    def rebind(self, bindings: Bindings, values: Mapping[str, Any]) -> Bindings:
        """The same with some values replaced."""
        return {**bindings, **values}

    def plain(self, value: Value) -> Any:
        """A value as JSON (:mod:`gangctl.policy.cel.python_engine.plain`)."""
        return plain(value)


class PythonProgram:
    """A compiled expression: reentrant, each evaluation has an evaluator of its own."""

    __slots__ = ("_tree",)

    def __init__(self, tree: Rule) -> None:
        self._tree = tree

    def evaluate(self, bindings: Bindings, variables: Mapping[str, Value], meter: Meter) -> Value:
        """The expression's value, or EvalError: cel-python's messages, which may hold whole objects, stay here."""
        try:
            return Evaluator(self._tree, bindings, variables, meter).run()
        except RecursionError:
            raise EvalError(EvalKind.BUDGET_EXCEEDED, "a value is nested too deeply") from None
        except MemoryError:
            raise EvalError(EvalKind.BUDGET_EXCEEDED, "out of memory") from None
        except (*_CELPY, *_PYTHON):
            raise EvalError(EvalKind.OTHER, "cel-python failed") from None
