"""cel-python's Evaluator on a short rein: each visit is a step, and names are found in a dict and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final, NoReturn

from celpy.evaluation import Activation
from celpy.evaluation import Evaluator as CelpyEvaluator

from gangctl.policy.cel.engine import Meter
from gangctl.policy.cel.faults import EvalError
from gangctl.policy.cel.python_engine.rules import Rule

STEPS_PER_PAYMENT: Final = 64
"""How many steps are counted here before the meter hears of them."""

_NO_NAMES: Final = Activation()
"""cel-python's own scope stays empty, so none of its functions, types and packages can be reached."""


class Machine(CelpyEvaluator):
    """One evaluation: :meth:`visit` calls the method that is named after the rule, as in cel-python.

    Values are returned and errors raised, always EvalError; nothing of it is shared between evaluations.
    """

    RULES: ClassVar[dict[str, Any]] = {}
    """The methods by rule: a name that is no rule finds nothing."""

    def __init__(self, tree: Rule, names: Mapping[str, Any], variables: Mapping[str, Any], meter: Meter) -> None:
        """``names`` are the bindings; ``variables`` is what the name of that name means."""
        super().__init__(ast=tree, activation=_NO_NAMES)
        self.variables = variables
        self.names: dict[str, Any] = {"variables": variables, **names}
        self.meter = meter
        self.unpaid = 0

    def __getattr__(self, name: str) -> NoReturn:
        # lark's would answer to any name.
        raise AttributeError(name)

    def run(self) -> Any:
        """The value of the whole expression, paid for."""
        try:
            return self.visit(self.ast)
        finally:
            self.settle()

    def visit(self, tree: Any) -> Any:
        """The value of one rule; its place goes to an error that has none yet."""
        self.unpaid += 1
        if self.unpaid >= STEPS_PER_PAYMENT:
            self.settle()
        try:
            return self.RULES[tree.data](self, tree)
        except EvalError as error:
            if error.offset < 0:
                error.offset = tree.offset
            raise

    def charge(self, steps: int) -> None:
        """Spend steps for work within one rule."""
        self.unpaid += steps
        if self.unpaid >= STEPS_PER_PAYMENT:
            self.settle()

    def settle(self) -> None:
        """Tell the meter what has been spent."""
        steps, self.unpaid = self.unpaid, 0
        if steps:
            self.meter.step(steps)
