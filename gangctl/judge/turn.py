"""What a review may take of the event loop: measured while it is judged, not guessed before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gangctl.policy.cel.meter import REQUEST_STEPS, StepMeter

STEPS_PER_LOOK: Final = 128
"""A tenth of a millisecond between two looks at the clock."""


class TurnOverError(Exception):
    """The review has had its turn; no verdict follows from that."""


class Turn:
    """``seconds`` of this thread's processor time, for all policies of a review together."""

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        """It begins now."""
        self._clock = clock
        self._began = clock()
        self._end = self._began + seconds

    @property
    def over(self) -> bool:
        """Whether nothing may begin any more."""
        return self._clock() >= self._end

    @property
    def spent(self) -> float:
        """Seconds that it has taken so far."""
        return self._clock() - self._began

    def meter(self) -> StepMeter:
        """A meter for one policy; :class:`TurnOverError` where another would say that time or steps are used up."""
        return _TurnMeter(REQUEST_STEPS, self._end, self._clock)


class _TurnMeter(StepMeter):
    __slots__ = ()

    def _spend(self, count: int) -> None:
        self.spent += count
        self._unlooked += count
        if self._unlooked >= STEPS_PER_LOOK:
            self._unlooked = 0
            if self._clock() >= self._deadline or self.spent > self._steps:
                raise TurnOverError
