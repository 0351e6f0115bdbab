"""What is said on a JobSet of its readiness: that it is ready, that it is not any more, and what has kept it waiting.

A JobSet that starts at once hears of its readiness only. What blocks another is said under the cause's own reason once
it has lasted, once for each cause until the gang is ready or starts anew, and never more than one thing a minute. What
is said does not depend on the moment at which it is said: what a new leader repeats stands there already.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from gangctl.api.jobset import JobSet
from gangctl.api.objects import Key
from gangctl.client.pacing import Clock, Timer
from gangctl.controllers.readiness.observer import ReadinessObserver
from gangctl.controllers.reporter import RecordEvent
from gangctl.gang.reasons import Notice, Reason
from gangctl.kueue.moments import span
from gangctl.readiness.phases import GangPhase
from gangctl.readiness.result import Cause, Readiness

PATIENCE_SECONDS: Final = 30.0
"""What ends sooner than this is not worth a word."""
SAY_SECONDS: Final = 60.0
"""A JobSet is told no more often than this."""
NEWS_SECONDS: Final = 120.0
"""A gang that has been ready for longer was told of by somebody else: this replica has just begun to lead."""
PACE_SECONDS: Final = 0.02
BURST: Final = 300
"""So many events at once, and one every :data:`PACE_SECONDS` beyond: a queue that is closed blocks thousands."""

SAID_ELSEWHERE: Final = frozenset(
    {
        Reason.NEVER_FITS,
        Reason.QUEUE_BLOCKED,
        Reason.NOT_GANGED,
        Reason.NAME_CONFLICT,
        Reason.FOREIGN_WORKLOAD,
        Reason.FIELD_DROPPED,
        Reason.GANG_TAIL_BLOCKED,
        Reason.API_UNAVAILABLE,
        Reason.SUSPENDED,
    }
)
"""By the controllers that meet it, and by whoever did it: a person who suspends."""


@dataclass(slots=True)
class _Told:
    """What one JobSet has been told in one attempt."""

    uid: str
    attempt: int
    ready: bool = False
    degraded: bool = False
    causes: set[Reason] = field(default_factory=set)
    """Since it was last ready."""
    blocked_by: Reason | None = None
    blocked_since: float = 0.0
    """When this was seen first, in seconds of the clock."""


class ReadinessEvents(ReadinessObserver):
    """Says it through ``say``; ``jobset`` finds a JobSet that exists."""

    def __init__(self, say: RecordEvent, jobset: Callable[[Key], JobSet | None], *, clock: Clock | None = None) -> None:
        """Nothing has been told yet."""
        self._say = say
        self._jobset = jobset
        self._clock = clock or Clock()
        self._latest: dict[Key, Readiness] = {}
        self._told: dict[Key, _Told] = {}
        self._spoke: dict[Key, float] = {}
        """When each was told something last."""
        self._timers: dict[Key, Timer] = {}
        self._turns: dict[Key, float] = {}
        """When those may speak that have something to say, so that not all of them do at once."""
        self._last_turn = 0.0

    def stands(self, before: Readiness | None, now: Readiness | None) -> None:
        """Say what is new, now or when it is time."""
        if now is None:
            if before is not None:
                self._drop(before.key)
            return
        self._latest[now.key] = now
        self._note(now, first=before is None)
        self._attend(now.key)

    def forget(self) -> None:
        """Say nothing that was yet to be said."""
        for timer in self._timers.values():
            timer.cancel()
        for kept in (self._latest, self._told, self._spoke, self._turns, self._timers):
            kept.clear()

    def _drop(self, key: Key) -> None:
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()
        for kept in (self._latest, self._told, self._spoke, self._turns):
            kept.pop(key, None)

    def _note(self, now: Readiness, *, first: bool) -> None:
        """Bring what is remembered of a JobSet up to date."""
        told = self._told.get(now.key)
        if told is None or (told.uid, told.attempt) != (now.uid, now.attempt):
            told = self._told[now.key] = _Told(now.uid, now.attempt)
        if now.phase is GangPhase.READY:
            told.degraded = False
            told.causes.clear()
            old = self._clock.wall().timestamp() - _ready_since(now) > NEWS_SECONDS
            told.ready = told.ready or (first and old)
        if told.blocked_by != now.blocked_by:
            told.blocked_by, told.blocked_since = now.blocked_by, self._clock.now()

    def _attend(self, key: Key) -> None:
        """Say everything whose time has come, and come back for the rest."""
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()
        while (found := self._next(self._latest[key], self._told[key])) is not None:
            at, reason = found
            now = self._clock.now()
            if key in self._spoke:
                at = max(at, self._spoke[key] + SAY_SECONDS)
            if at <= now:
                at = self._turn(key, now)
            if at > now:
                self._timers[key] = self._clock.call_later(at - now, lambda: self._attend(key))
                return
            self._tell(key, reason)

    def _turn(self, key: Key, now: float) -> float:
        """When it may speak; it keeps its turn until it has spoken."""
        if key not in self._turns:
            self._last_turn = max(self._last_turn, now - BURST * PACE_SECONDS) + PACE_SECONDS
            self._turns[key] = self._last_turn
        return self._turns[key]

    def _next(self, readiness: Readiness, told: _Told) -> tuple[float, Reason] | None:
        """What is to be said next, and when at the earliest."""
        now = self._clock.now()
        if readiness.phase is GangPhase.READY:
            return None if told.ready else (now, Reason.GANG_READY)
        if readiness.phase is GangPhase.DEGRADED and not told.degraded:
            return now, Reason.GANG_DEGRADED
        reason = readiness.blocked_by
        if reason is None or reason in SAID_ELSEWHERE or reason in told.causes:
            return None
        return told.blocked_since + PATIENCE_SECONDS, reason

    def _tell(self, key: Key, reason: Reason) -> None:
        readiness, told = self._latest[key], self._told[key]
        self._turns.pop(key, None)
        match reason:
            case Reason.GANG_READY:
                told.ready = True
                message = _ready(readiness)
            case Reason.GANG_DEGRADED:
                told.degraded = True
                message = _degraded(readiness)
            case _:
                told.causes.add(reason)
                message = _why(_blocking(readiness))
        jobset = self._jobset(key)
        if jobset is None or jobset.uid != readiness.uid or jobset.deleting:
            return
        self._spoke[key] = self._clock.now()
        self._say(jobset, Notice(reason, message))


def _ready_since(readiness: Readiness) -> int:
    return readiness.ready_at or readiness.since


def _ready(readiness: Readiness) -> str:
    """How many pods, and how long it took: all of it settled in this attempt."""
    count = readiness.counts.ready
    since = _ready_since(readiness)
    moments = [(readiness.created_at, "it was created")]
    if readiness.admitted_at != readiness.created_at:
        moments.append((readiness.admitted_at, "it was admitted"))
    took = [f"{span(timedelta(seconds=since - at))} after {what}" for at, what in moments if 0 < at <= since]
    again = [f"in restart {readiness.attempt}"] if readiness.attempt else []
    said = "Its pod is ready" if count == 1 else f"All {count} pods are ready"
    return ", ".join([said, *again, *([" and ".join(took)] if took else [])])


def _degraded(readiness: Readiness) -> str:
    """That it is not ready any more, and why as far as that is known."""
    first = readiness.causes[0] if readiness.causes else None
    return f"It was ready and is not any more{f': {_words(first)}' if first is not None else ''}"


def _blocking(readiness: Readiness) -> Cause:
    return next(cause for cause in readiness.causes if cause.blocking)


def _why(cause: Cause) -> str:
    words = _words(cause)
    return words[:1].upper() + words[1:]


def _words(cause: Cause) -> str:
    """The cause and what to do about it; its evidence is of one moment, and ``gangctl explain`` has it."""
    return f"{cause.message}; {cause.remedy}" if cause.remedy else cause.message
