"""What is counted as it happens to a gang: a change of phase, and that it was ready and is not any more."""

from __future__ import annotations

from typing import Final

from gangctl.api.objects import Key
from gangctl.gang.reasons import Reason
from gangctl.readiness.phases import GangPhase
from gangctl.readiness.result import Readiness

VAGUE: Final = frozenset(
    {Reason.NOT_READY, Reason.STARTING, Reason.PODS_MISSING, Reason.PODS_TERMINATING, Reason.UNKNOWN}
)
"""Reasons that say what is seen of a disturbance first, and not where it comes from."""


class Disruptions:
    """Finds that a gang which was ready is not any more, once each time, by what came to light as the reason."""

    def __init__(self) -> None:
        """Start without any."""
        self._open: dict[Key, Reason] = {}
        """Disturbed gangs of which only a vague reason is known."""

    def stands(self, before: Readiness | None, now: Readiness | None) -> Reason | None:
        """The reason of a disturbance that is to be counted now."""
        stated = now or before
        if stated is None:
            return None
        if now is None or now.phase.settled:
            return self._open.pop(stated.key, None)
        if before is not None and before.phase is GangPhase.READY:
            self._open[now.key] = Reason.UNKNOWN
        if now.key not in self._open:
            return None
        reason = now.reason or Reason.UNKNOWN
        if reason in VAGUE:
            self._open[now.key] = reason
            return None
        del self._open[now.key]
        return reason


def transition(before: Readiness | None, now: Readiness | None) -> tuple[GangPhase, GangPhase] | None:
    """From which phase to which a JobSet went; None when it stayed, came or left."""
    if before is None or now is None or before.uid != now.uid or before.phase is now.phase:
        return None
    return before.phase, now.phase
