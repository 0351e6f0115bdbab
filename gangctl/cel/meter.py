"""Limits of evaluations: steps, and time of an injected clock; and one evaluation: its names and its cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from gangctl.cel.faults import EvalError, EvalKind

Clock = Callable[[], float]
"""Monotonic seconds."""

EXPRESSION_STEPS: Final = 200_000
EXPRESSION_SECONDS: Final = 0.1
POLICY_STEPS: Final = 1_000_000
POLICY_SECONDS: Final = 1.0
REQUEST_STEPS: Final = 1_000_000
REQUEST_SECONDS: Final = 1.0

STEPS_PER_CLOCK_CHECK: Final = 1_024
"""How many steps pass between two clock checks: some tenths of a millisecond."""

EXHAUSTED: Final = frozenset({EvalKind.BUDGET_EXCEEDED, EvalKind.DEADLINE_EXCEEDED})
"""Errors that nothing absorbs: not ``||``, not ``exists``."""


class StepMeter:
    """Steps and a deadline, for one expression or for several that share it.

    A meter with a ``parent`` spends from both, so a request's meter counts every step of its policies' expressions.
    Each checks the clock on its own count: many short expressions also reach their request's deadline.
    """

    __slots__ = ("_clock", "_deadline", "_parent", "_steps", "_unlooked", "spent")

    def __init__(self, steps: int, deadline: float, clock: Clock, parent: StepMeter | None = None) -> None:
        """``deadline`` is a time of ``clock``."""
        self._steps = steps
        self._deadline = deadline
        self._clock = clock
        self._parent = parent
        self._unlooked = 0
        self.spent = 0

    @classmethod
    def request(cls, clock: Clock, steps: int = REQUEST_STEPS, seconds: float = REQUEST_SECONDS) -> StepMeter:
        """The meter that all policies of a request share, from now on."""
        return cls(steps, clock() + seconds, clock)

    def policy(self, steps: int = POLICY_STEPS, seconds: float = POLICY_SECONDS) -> StepMeter:
        """A meter for one policy below this one, from now on."""
        return StepMeter(steps, self._clock() + seconds, self._clock, self)

    def expression(self, steps: int = EXPRESSION_STEPS) -> StepMeter:
        """A meter for one expression below this one, from now on."""
        return StepMeter(steps, self._clock() + EXPRESSION_SECONDS, self._clock, self)

    def step(self, count: int = 1) -> None:
        """Spend ``count`` steps here and of every meter above.

        EvalError BUDGET_EXCEEDED when there are fewer left, DEADLINE_EXCEEDED when it is too late.
        """
        meter: StepMeter | None = self
        while meter is not None:
            meter._spend(count)  # noqa: SLF001 - the same class
            meter = meter._parent  # noqa: SLF001 - the same class

    def check_clock(self) -> None:
        """Check the clock now, here and of every meter above; EvalError DEADLINE_EXCEEDED when it is too late."""
        meter: StepMeter | None = self
        while meter is not None:
            meter._unlooked = STEPS_PER_CLOCK_CHECK  # noqa: SLF001 - the same class
            meter._spend(0)  # noqa: SLF001 - the same class
            meter = meter._parent  # noqa: SLF001 - the same class

    def _spend(self, count: int) -> None:
        self.spent += count
        if self.spent > self._steps:
            raise EvalError(EvalKind.BUDGET_EXCEEDED, f"more than {self._steps} steps")
        self._unlooked += count
        if self._unlooked >= STEPS_PER_CLOCK_CHECK:
            self._unlooked = 0
            if self._clock() >= self._deadline:
                raise EvalError(EvalKind.DEADLINE_EXCEEDED, "out of time")


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
        # A copy: macros set their variables in it, and the bindings are those of all policies.
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
        # charge(), written out: this is done for each step.
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
