"""Compiled expressions: checked expressions as closures that are called for each request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gangctl.cel.environments import CheckedExpression
from gangctl.cel.evaluation.compile import compile_node
from gangctl.cel.faults import CompileError, CompileKind, EvalError, EvalKind
from gangctl.cel.meter import Code, Frame, StepMeter

Bindings = Mapping[str, Any]
"""JSON values by variable name (``object``, ``oldObject``, ``request``, ``gang``, ...); None is null. Never changed.

An EvalError in place of a value is the error of every expression that reads the variable.
"""

_PYTHON: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


class Program:
    """A compiled expression; any number of threads may share it."""

    __slots__ = ("_code",)

    def __init__(self, code: Code) -> None:
        """See :func:`compile_expression`."""
        self._code = code

    def evaluate(self, bindings: Bindings, variables: Mapping[str, Any], meter: StepMeter) -> Any:
        """The expression's value, or EvalError; Python's messages, which may hold whole objects, are dropped.

        ``variables`` is the value of ``variables``: a mapping that computes its values on access, and may raise
        EvalError. It is read only where the expression gets there.
        """
        frame = Frame(bindings, variables, meter)
        try:
            try:
                return self._code(frame)
            finally:
                # After an error, too: the steps were spent, and the budget of the policy counts them.
                frame.settle()
        except RecursionError:
            raise EvalError(EvalKind.BUDGET_EXCEEDED, "a value is nested too deeply") from None
        except MemoryError:
            raise EvalError(EvalKind.BUDGET_EXCEEDED, "out of memory") from None
        except _PYTHON:
            raise EvalError(EvalKind.OTHER, "the evaluation failed") from None


def compile_expression(checked: CheckedExpression) -> Program:
    """A program; CompileError where a function is missing, or the expression is nested too deeply for Python."""
    try:
        return Program(compile_node(checked.node, checked.types))
    except RecursionError as error:
        raise CompileError(CompileKind.LIMIT, "the expression is nested too deeply", 0) from error
