"""What the functions that C++ calls need to know of the evaluation that called them."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Final

from gangctl.policy.cel.engine import Meter
from gangctl.policy.cel.faults import EvalError, EvalKind
from gangctl.policy.cel.library.values import Extension
from gangctl.policy.cel.meter import EXHAUSTED

MARK: Final = -7_305_020
"""Key of a map that stands for a value of Kubernetes' own: JSON's keys are strings."""
TOKEN: Final = "gangctl-fault-"  # noqa: S105  no secret, but a number of an error

STEPS_AT_ONCE: Final = 128
Cells = dict[str, dict[str, Any]]
"""A map for each variable, empty until that is read."""


class FaultError(Exception):
    """What a function raises towards C++: its text comes back in the error that the expression ends with."""


class Evaluation:
    """One evaluation of one program."""

    __slots__ = ("_meter", "_unspent", "cells", "faults", "values", "variables")

    def __init__(self, variables: Mapping[str, Any], meter: Meter, cells: Cells) -> None:
        """Nothing was called yet; ``cells`` are where the values of variables are put for C++."""
        self.variables = variables
        self.cells = cells
        self.faults: list[EvalError] = []
        self.values: list[Extension] = []
        self._meter = meter
        self._unspent = 0

    def spend(self, steps: int) -> None:
        """Count steps; the meter is told of many at once. EvalError when there are no more."""
        self._unspent += steps
        if self._unspent >= STEPS_AT_ONCE:
            self.settle()

    def settle(self) -> None:
        """Tell the meter of all steps."""
        steps, self._unspent = self._unspent, 0
        self._meter.step(steps)

    def fault(self, error: EvalError) -> FaultError:
        """The exception that brings ``error`` through C++."""
        self.faults.append(error)
        return FaultError(f"{TOKEN}{len(self.faults) - 1}-")

    def fault_in(self, message: str) -> EvalError | None:
        """The error that a message of C++ is about, if it came from a function."""
        _, found, rest = message.partition(TOKEN)
        number = rest.partition("-")[0]
        return self.faults[int(number)] if found and number.isdigit() and int(number) < len(self.faults) else None

    def exhausted(self) -> EvalError | None:
        """An error that CEL's ``||`` must not absorb, as C++ does: steps or time are used up."""
        return next((error for error in self.faults if error.kind in EXHAUSTED), None)

    def hide(self, value: Extension) -> dict[int, int]:
        """A map that stands for a value of Kubernetes' own during this evaluation."""
        self.values.append(value)
        return {MARK: len(self.values) - 1}

    def shown(self, handle: object) -> Extension:
        """The value that a map stands for."""
        if isinstance(handle, int) and 0 <= handle < len(self.values):
            return self.values[handle]
        raise EvalError(EvalKind.NO_SUCH_OVERLOAD, "no such overload")


class Running(threading.local):
    """The evaluations of this thread, the innermost last: a variable is evaluated while an expression is."""

    def __init__(self) -> None:
        """Nothing runs."""
        self.evaluations: list[Evaluation] = []
