"""How fast expressions are on this machine, and what a review may therefore take."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from gangctl.judge.size import Size
from gangctl.policy.cel.check import check
from gangctl.policy.cel.checked import Environment
from gangctl.policy.cel.meter import StepMeter
from gangctl.policy.cel.program import compile_expression
from gangctl.policy.cel.types import DYN

_SAMPLE: Final = "object.items.all(i, i.name != 'x' && i.count >= 0 && has(i.labels) && i.labels.app.startsWith('a'))"
_ITEMS: Final = 50
_ROUNDS: Final = 5
_CAUTION: Final = 2.0
"""Steps differ in price: the sample's are ordinary ones."""


class Pace(NamedTuple):
    """Seconds of one step, and of reading one value of a request."""

    step: float
    value: float

    def reading(self, size: Size) -> float:
        """Seconds, with caution, until a request of such a size has been read."""
        return _CAUTION * size.values * self.value

    def evaluating(self, steps: int) -> float:
        """Seconds, with caution, that so many steps take."""
        return _CAUTION * steps * self.step


def measure() -> Pace:
    """Try an expression on this machine: takes some milliseconds, so not on the event loop."""
    checked = check(_SAMPLE, Environment({"object": DYN}))
    items = [{"name": f"n{n}", "count": n, "labels": {"app": "a"}} for n in range(_ITEMS)]
    values: dict[str, Any] = {"object": {"items": items}}
    program = compile_expression(checked)
    step = _median(lambda: program.evaluate(values, {}, StepMeter.request(time.monotonic)))
    value = _median(lambda: dict(values))
    return Pace(step / checked.profile.bound(_ITEMS), value / (5 * _ITEMS))


def _median(run: Callable[[], object]) -> float:
    seconds = []
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)
