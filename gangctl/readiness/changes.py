"""What is counted as it happens to a gang: a change of phase, and that it was ready and is not any more.

How long starts take, measured as gangs come to stand where they wanted to.
Nothing is measured twice: not when a gang becomes ready again, and not by a leader for what happened before it led.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
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


class Span(Enum):
    """What is measured of a start."""

    TO_SCHEDULED = "from creation to the last node"
    TO_READY = "from creation to the last ready pod"
    ADMITTED_TO_READY = "from admission to the last ready pod"
    SPREAD = "from the first ready pod to the last"


@dataclass(frozen=True, slots=True)
class Measured:
    """One span of one gang, in seconds."""

    span: Span
    seconds: int


@dataclass(slots=True)
class _Measurements:
    """What was measured of one JobSet, or may have been by another leader."""

    uid: str
    scheduled: bool = False
    ready: bool = False
    admitted_at: int = -1
    """The admission that was measured last."""
    start: tuple[int, int] = (-1, -1)
    """The start that was measured last: attempt and admission."""


class Starts:
    """Measures starts: once for each JobSet from its creation, once for each admission, and the spread of each attempt.

    What a restarted JobSet took is not measured from its creation, unless it has never been ready.
    """

    def __init__(self, since: float) -> None:
        """Measure what comes after ``since``, Unix seconds: when this replica began to lead."""
        # Kubernetes has whole seconds.
        self._since = int(since)
        self._known: dict[Key, _Measurements] = {}

    def forget(self, key: Key) -> None:
        """Forget a JobSet that is gone."""
        self._known.pop(key, None)

    def stands(self, now: Readiness) -> list[Measured]:
        """What is to be measured, now that a gang stands there."""
        known = self._known.get(now.key)
        if known is None or known.uid != now.uid:
            known = self._known[now.key] = _Measurements(now.uid)
            if now.attempt:
                # Nobody knows what the attempts before came to.
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
        """Those of which both ends are known, and the later one is not older than what this replica saw."""
        return [
            Measured(span, max(0, end - begin)) for span, begin, end in spans if begin and end and end >= self._since
        ]


def _start(readiness: Readiness) -> tuple[int, int]:
    return readiness.attempt, readiness.admitted_at
