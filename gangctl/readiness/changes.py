"""Events of gangs that are counted: changes of phase, and disturbances of ready gangs; and durations of starts.

Nothing is measured twice: not when a gang becomes ready again, and not by a new leader for events before it led.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from gangctl.api.objects import Key
from gangctl.gang.reasons import Reason
from gangctl.readiness.result import GangPhase, Readiness

VAGUE: Final = frozenset(
    {Reason.NOT_READY, Reason.STARTING, Reason.PODS_MISSING, Reason.PODS_TERMINATING, Reason.UNKNOWN}
)
"""Reasons that describe the first symptom of a disturbance, not its origin."""


class Disruptions:
    """Detects once that a ready gang is no longer ready, with the reason found."""

    def __init__(self) -> None:
        """Start without disturbances."""
        self._open: dict[Key, Reason] = {}
        """Disturbed gangs with only a vague reason."""

    def stands(self, before: Readiness | None, now: Readiness | None) -> Reason | None:
        """The reason of a disturbance to count now."""
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
    """Old and new phase of a JobSet; None if it is unchanged, new or gone."""
    if before is None or now is None or before.uid != now.uid or before.phase is now.phase:
        return None
    return before.phase, now.phase


class Span(Enum):
    """Measured durations of a start."""

    TO_SCHEDULED = "from creation to the last node"
    TO_READY = "from creation to the last ready pod"
    ADMITTED_TO_READY = "from admission to the last ready pod"
    SPREAD = "from the first ready pod to the last"


@dataclass(frozen=True, slots=True)
class Measured:
    """One duration of one gang, in seconds."""

    span: Span
    seconds: int


@dataclass(slots=True)
class _Measurements:
    """Durations of one JobSet that were measured, possibly by another leader."""

    uid: str
    scheduled: bool = False
    ready: bool = False
    admitted_at: int = -1
    """The last measured admission."""
    start: tuple[int, int] = (-1, -1)
    """The last measured start: attempt and admission."""


class Starts:
    """Measures starts: once for each JobSet from its creation, once for each admission, and the spread of each attempt.

    A restarted JobSet is not measured from its creation, unless it has never been ready.
    """

    def __init__(self, since: float) -> None:
        """Measure events after ``since``, Unix seconds: when this replica became the leader."""
        # Times of Kubernetes are in whole seconds.
        self._since = int(since)
        self._known: dict[Key, _Measurements] = {}

    def forget(self, key: Key) -> None:
        """Remove a deleted JobSet."""
        self._known.pop(key, None)

    def stands(self, now: Readiness) -> list[Measured]:
        """The durations to record for the present state of a gang."""
        known = self._known.get(now.key)
        if known is None or known.uid != now.uid:
            known = self._known[now.key] = _Measurements(now.uid)
            if now.attempt:
                # The result of earlier attempts is unknown.
                known.scheduled = known.ready = True
                known.admitted_at = now.admitted_at
        measured = self._placed(now, known)
        if now.ready_at:
            measured += self._ready(now, known)
        elif now.been_ready:
            known.ready, known.admitted_at, known.start = True, now.admitted_at, _start(now)
        return measured

    def _placed(self, now: Readiness, known: _Measurements) -> list[Measured]:
        if known.scheduled or not now.placed_at:
            return []
        known.scheduled = True
        return self._spans((Span.TO_SCHEDULED, now.created_at, now.placed_at))

    def _ready(self, now: Readiness, known: _Measurements) -> list[Measured]:
        measured: list[Measured] = []
        if not known.ready:
            known.ready = True
            measured += self._spans((Span.TO_READY, now.created_at, now.ready_at))
        if known.admitted_at != now.admitted_at <= now.ready_at:
            known.admitted_at = now.admitted_at
            measured += self._spans((Span.ADMITTED_TO_READY, now.admitted_at, now.ready_at))
        if known.start != _start(now):
            known.start = _start(now)
            measured += self._spans((Span.SPREAD, now.first_ready_at, now.ready_at))
        return measured

    def _spans(self, *spans: tuple[Span, int, int]) -> list[Measured]:
        """Durations with both ends known, whose end this replica observed."""
        return [
            Measured(span, max(0, end - begin)) for span, begin, end in spans if begin and end and end >= self._since
        ]


def _start(readiness: Readiness) -> tuple[int, int]:
    return readiness.attempt, readiness.admitted_at
