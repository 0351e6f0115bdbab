"""Evaluation on the event loop: which reviews are small enough for it, and the time slice that each gets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from gangctl.cel.meter import REQUEST_STEPS, StepMeter
from gangctl.evaluation.options import EvaluatorOptions, Size
from gangctl.policy.review import Review

STEPS_PER_CLOCK_CHECK: Final = 128
"""A tenth of a millisecond between two clock checks."""


class SliceOverError(Exception):
    """The time slice is used up; this is no verdict."""


class TimeSlice:
    """``seconds`` of CPU time of this thread, shared by all policies of a review."""

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        """Start now."""
        self._clock = clock
        self._began = clock()
        self._end = self._began + seconds

    @property
    def over(self) -> bool:
        """Whether no further policy may begin."""
        return self._clock() >= self._end

    @property
    def spent(self) -> float:
        """Seconds since the start."""
        return self._clock() - self._began

    def meter(self) -> StepMeter:
        """A meter for one policy; raises :class:`SliceOverError` where another meter would report an error."""
        return _SliceMeter(REQUEST_STEPS, self._end, self._clock)


class _SliceMeter(StepMeter):
    __slots__ = ()

    def _spend(self, count: int) -> None:
        self.spent += count
        self._unlooked += count
        if self._unlooked >= STEPS_PER_CLOCK_CHECK:
            self._unlooked = 0
            if self._clock() >= self._deadline or self.spent > self._steps:
                raise SliceOverError


def size_of(review: Review, options: EvaluatorOptions) -> Size:
    """Whether a review is small: counted over all its objects, up to the limits of the options."""
    computed = (review.gang, review.fit)
    parts: tuple[Any, ...] = (review.object, review.old_object, review.namespace, review.request, *computed)
    left: list[Any] = [*parts, *(found for each in review.params.values() for found in each)]
    values = 0
    while left:
        value = left.pop()
        values += 1
        if isinstance(value, str):
            if len(value) > options.local_text:
                return "large"
        elif isinstance(value, dict):
            left.extend(value.values())
        elif isinstance(value, list | tuple):
            left.extend(value)
        if values + len(left) > options.local_values:
            return "large"
    return "small"
