"""One evaluation of a compiled expression: the values of its names, and its cost so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from gangctl.cel.faults import EvalError
from gangctl.cel.meter import StepMeter

STEPS_PER_PAYMENT: Final = 64
"""How many steps are counted here before the meter is charged."""


class Frame:
    """The state of one evaluation, which shares nothing with others.

    ``names`` are the variables in scope, ``variables`` is the value of the name ``variables``. ``unpaid`` are steps
    that the meter has not been charged yet.
    """

    __slots__ = ("meter", "names", "unpaid", "variables")

    def __init__(self, names: Mapping[str, Any], variables: Mapping[str, Any], meter: StepMeter) -> None:
        """Begin with the bindings ``names``."""
        self.names: dict[str, Any] = {"variables": variables, **names}
        self.variables = variables
        self.meter = meter
        self.unpaid = 0

    def charge(self, steps: int) -> None:
        """Spend steps; :class:`~gangctl.cel.faults.EvalError` when they, or the time, are used up."""
        self.unpaid += steps
        if self.unpaid >= STEPS_PER_PAYMENT:
            self.settle()

    def settle(self) -> None:
        """Charge the meter for what has been spent."""
        steps, self.unpaid = self.unpaid, 0
        if steps:
            self.meter.step(steps)

    def check_clock(self) -> None:
        """Check the clock now, independent of the steps spent."""
        self.settle()
        self.meter.check_clock()


Code = Callable[[Frame], Any]
"""A compiled expression: its value in a frame, or EvalError."""


def placed(run: Code, offset: int) -> Code:
    """``run`` as one step, whose errors are shown at ``offset`` unless they have a place already."""

    def step(frame: Frame) -> Any:
        frame.unpaid += 1
        if frame.unpaid >= STEPS_PER_PAYMENT:
            frame.settle()
        try:
            return run(frame)
        except EvalError as error:
            if error.offset < 0:
                error.offset = offset
            raise

    return step
