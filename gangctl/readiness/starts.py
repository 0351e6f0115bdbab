"""Durations of starts, and attempts that have begun.

Nothing is measured twice: not when a gang becomes ready again, and not by a new leader for what happened before it led.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from gangctl.api.objects import Key
from gangctl.readiness.result import Readiness


class StartSpan(Enum):
    """Measured durations of a start."""

    TO_SCHEDULED = "from creation to the last node"
    TO_READY = "from creation to the last ready pod"
    ADMITTED_TO_READY = "from admission to the last ready pod"
    SPREAD = "from the first ready pod to the last"
    ADMISSION = "the part of TO_READY until the last admission"
    SCHEDULING = "the part of TO_READY from there to the last node"
    CONTAINERS = "the part of TO_READY from there to the last ready pod"


STAGES: Final = (StartSpan.ADMISSION, StartSpan.SCHEDULING, StartSpan.CONTAINERS)
"""The parts of one gang's :attr:`StartSpan.TO_READY`: they are measured with it, and add up to it."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One duration of one gang, in seconds."""

    span: StartSpan
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
        spans: list[tuple[StartSpan, int, int]] = []
        start = now.attempt, now.admitted_at
        if now.placed_at and not known.scheduled:
            known.scheduled = True
            spans.append((StartSpan.TO_SCHEDULED, now.created_at, now.placed_at))
        if now.ready_at:
            if not known.ready:
                spans.append((StartSpan.TO_READY, now.created_at, now.ready_at))
                spans += _stages(now)
            if known.admitted_at != now.admitted_at <= now.ready_at:
                known.admitted_at = now.admitted_at
                if not now.runs_between:
                    spans.append((StartSpan.ADMITTED_TO_READY, now.admitted_at, now.ready_at))
            if known.start != start and not now.runs_between:
                spans.append((StartSpan.SPREAD, now.first_ready_at, now.ready_at))
            known.ready, known.start = True, start
        # It was ready before this process saw it, and no object has the time any more.
        elif now.been_ready:
            known.ready, known.admitted_at, known.start = True, now.admitted_at, start
        # Both ends are known, and this replica observed the end.
        return [Measured(span, max(0, end - begin)) for span, begin, end in spans if begin and end >= self._since]


def _stages(now: Readiness) -> list[tuple[StartSpan, int, int]]:
    """The stages of a ready gang, one after the other; each begins where the one before ends."""
    times = [now.created_at]
    for time in (now.admitted_at, now.placed_at, now.ready_at):
        times.append(max(times[-1], min(time, now.ready_at)))
    return [(stage, times[number], times[number + 1]) for number, stage in enumerate(STAGES)]


class Attempts:
    """Attempts of JobSets: one begins when all pods that start together have nodes, and again after each restart."""

    def __init__(self, since: float) -> None:
        """Count those that begin after ``since``, Unix seconds: when this replica became the leader."""
        self._since = int(since)
        self._counted: dict[Key, tuple[str, int]] = {}
        """UID and number of the last attempt that has begun."""

    def forget(self, key: Key) -> None:
        """Remove a deleted JobSet."""
        self._counted.pop(key, None)

    def stands(self, now: Readiness) -> bool:
        """Whether an attempt has begun that is to be counted."""
        attempt = now.uid, now.attempt
        if not now.placed_at or self._counted.get(now.key) == attempt:
            return False
        self._counted[now.key] = attempt
        return now.placed_at >= self._since
