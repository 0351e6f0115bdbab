"""Events on a JobSet about its readiness: that it is ready, that it no longer is, and what has kept it waiting.

A JobSet that starts at once gets only the event of its readiness. What blocks another is recorded under the cause's own
reason once it has lasted, and again while it lasts, because API servers forget events; at most one event a minute. The
text does not depend on when it is recorded: a repetition, also by a new leader, exists already until it is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from gangctl.api.jobset import JobSet
from gangctl.api.objects import Key
from gangctl.client.pacing import Clock, Timer
from gangctl.controllers.readiness.controller import ReadinessObserver
from gangctl.controllers.reporter import RecordEvent
from gangctl.gang.reasons import Notice, Reason
from gangctl.kueue.amounts import span
from gangctl.readiness.result import Cause, GangPhase, Readiness
from gangctl.runtime.events import REPEAT_SECONDS

LASTING_SECONDS: Final = 30.0
"""A cause that ends sooner gets no event."""
EVENT_INTERVAL_SECONDS: Final = 60.0
"""The least time between two events on one JobSet."""
RECENT_SECONDS: Final = 120.0
"""Another replica reported a gang that has been ready for longer: this one has just begun to lead."""
PACE_SECONDS: Final = 0.02
BURST: Final = 300
"""This many events at once, then one every :data:`PACE_SECONDS`: a closed queue blocks thousands."""

RECORDED_ELSEWHERE: Final = frozenset(
    {
        Reason.NOT_GANGED,
        Reason.NAME_CONFLICT,
        Reason.FOREIGN_WORKLOAD,
        Reason.FIELD_DROPPED,
        Reason.API_UNAVAILABLE,
        Reason.SUSPENDED,
    }
)
"""Recorded by the controllers that meet them, or known to the user who caused them, as a suspension."""


@dataclass(slots=True)
class _Reported:
    """What has been recorded on one JobSet in one attempt."""

    uid: str
    attempt: int
    ready: bool = False
    degraded: bool = False
    causes: dict[Reason, float] = field(default_factory=dict)
    """When each was recorded last, since it was last ready."""
    blocked_by: Reason | None = None
    blocked_since: float = 0.0
    """When this was seen first, in seconds of the clock."""


class ReadinessEvents(ReadinessObserver):
    """Records events by ``record``; ``jobset`` finds a JobSet that exists.

    ``decided`` is whether the verdict on a waiting JobSet, which has an event of its own, is this reason.
    """

    def __init__(
        self,
        record: RecordEvent,
        jobset: Callable[[Key], JobSet | None],
        *,
        decided: Callable[[Key, Reason], bool] = lambda _key, _reason: False,
        clock: Clock | None = None,
    ) -> None:
        """Start with nothing recorded."""
        self._record_event = record
        self._jobset = jobset
        self._decided = decided
        self._clock = clock or Clock()
        self._latest: dict[Key, Readiness] = {}
        self._reported: dict[Key, _Reported] = {}
        self._last_recorded: dict[Key, float] = {}
        """When the last event was recorded on each JobSet."""
        self._timers: dict[Key, Timer] = {}
        self._slots: dict[Key, float] = {}
        """Time slots of pending events, so that not all are recorded at once."""
        self._last_slot = 0.0

    def on_status_change(self, before: Readiness | None, now: Readiness | None) -> None:
        """Record what is new, now or when it is due."""
        if now is None:
            if before is not None:
                self._drop(before.key)
            return
        self._latest[now.key] = now
        self._note(now, first=before is None)
        self._record_due(now.key)

    def forget(self) -> None:
        """Drop all pending events."""
        for timer in self._timers.values():
            timer.cancel()
        for kept in (self._latest, self._reported, self._last_recorded, self._slots, self._timers):
            kept.clear()

    def _drop(self, key: Key) -> None:
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()
        for kept in (self._latest, self._reported, self._last_recorded, self._slots):
            kept.pop(key, None)

    def _note(self, now: Readiness, *, first: bool) -> None:
        """Update what is remembered of a JobSet."""
        reported = self._reported.get(now.key)
        if reported is None or (reported.uid, reported.attempt) != (now.uid, now.attempt):
            reported = self._reported[now.key] = _Reported(now.uid, now.attempt)
        if now.phase is GangPhase.READY:
            reported.degraded = False
            reported.causes.clear()
            old = self._clock.wall().timestamp() - _ready_since(now) > RECENT_SECONDS
            reported.ready = reported.ready or (first and old)
        if reported.blocked_by != now.blocked_by:
            reported.blocked_by, reported.blocked_since = now.blocked_by, self._clock.now()

    def _record_due(self, key: Key) -> None:
        """Record everything that is due, and schedule the rest."""
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()
        while (event := self._next(self._latest[key], self._reported[key])) is not None:
            at, reason = event
            now = self._clock.now()
            if key in self._last_recorded:
                at = max(at, self._last_recorded[key] + EVENT_INTERVAL_SECONDS)
            if at <= now:
                at = self._slot(key, now)
            if at > now:
                self._timers[key] = self._clock.call_later(at - now, lambda: self._record_due(key))
                return
            self._record(key, reason)

    def _slot(self, key: Key, now: float) -> float:
        """When its event may be recorded; it keeps the slot until then."""
        if key not in self._slots:
            # Unused slots add up to a burst, and no further.
            self._last_slot = max(self._last_slot, now - BURST * PACE_SECONDS) + PACE_SECONDS
            self._slots[key] = self._last_slot
        return self._slots[key]

    def _next(self, readiness: Readiness, reported: _Reported) -> tuple[float, Reason] | None:
        """The next event, and when at the earliest."""
        now = self._clock.now()
        if readiness.phase is GangPhase.READY:
            return None if reported.ready else (now, Reason.GANG_READY)
        if readiness.phase is GangPhase.DEGRADED and not reported.degraded:
            return now, Reason.GANG_DEGRADED
        reason = readiness.blocked_by
        if reason is None or reason in RECORDED_ELSEWHERE:
            return None
        due = reported.blocked_since + LASTING_SECONDS
        if reason in reported.causes:
            due = max(due, reported.causes[reason] + REPEAT_SECONDS)
        if due <= now and self._decided(readiness.key, reason):
            # The verdict may change and leave the readiness as it is, where Kueue's own message says the same.
            due = now + REPEAT_SECONDS
        return due, reason

    def _record(self, key: Key, reason: Reason) -> None:
        readiness, reported = self._latest[key], self._reported[key]
        self._slots.pop(key, None)
        # Noted before the JobSet is looked up: ``_record_due`` repeats until nothing is due.
        match reason:
            case Reason.GANG_READY:
                reported.ready = True
                message = _ready(readiness)
            case Reason.GANG_DEGRADED:
                reported.degraded = True
                message = _degraded(readiness)
            case _:
                reported.causes[reason] = self._clock.now()
                words = _words(next(cause for cause in readiness.causes if cause.blocking))
                message = words[:1].upper() + words[1:]
        jobset = self._jobset(key)
        if jobset is None or jobset.uid != readiness.uid or jobset.deleting:
            return
        self._last_recorded[key] = self._clock.now()
        self._record_event(jobset, Notice(reason, message))


def _ready_since(readiness: Readiness) -> int:
    return readiness.ready_at or readiness.since


def _ready(readiness: Readiness) -> str:
    """How many pods, and how long it took: both fixed within this attempt."""
    count, wanted = readiness.counts.ready, readiness.counts.wanted
    since = _ready_since(readiness)
    moments = [(readiness.created_at, "it was created")]
    if readiness.admitted_at != readiness.created_at:
        # Without Kueue it is free to start from its resumption.
        moments.append((readiness.admitted_at, "Kueue admitted it" if readiness.cluster_queue else "it was resumed"))
    took = [f"{span(timedelta(seconds=since - at))} after {what}" for at, what in moments if 0 < at <= since]
    again = [f"in restart {readiness.attempt}"] if readiness.attempt else []
    ready_pods = "Its pod is ready" if count == 1 else f"All {count} pods are ready"
    if count < wanted:
        ready_pods = f"{count} of {wanted} pods are ready, and it needs no more"
    return ", ".join([ready_pods, *again, *([" and ".join(took)] if took else [])])


def _degraded(readiness: Readiness) -> str:
    """That it is not ready any more, and the reason if it is known."""
    first = readiness.causes[0] if readiness.causes else None
    return f"It was ready and is not any more{f': {_words(first)}' if first is not None else ''}"


def _words(cause: Cause) -> str:
    """The cause and its remedy; its evidence changes with time, and ``gangctl why`` shows it."""
    return f"{cause.message}; {cause.remedy}" if cause.remedy else cause.message
