"""Events of a PathwaysJob when its status changes. Unchanged conditions have no event."""

from __future__ import annotations

from typing import Final

from gangctl.gang.reasons import Notice, Reason
from gangctl.pathways.status.conclusion import missing_slices, progress
from gangctl.pathways.status.facts import DEGRADED, JobSetFacts, Obstacle, Phase, Status

_ENDS: Final = {Phase.COMPLETED: Reason.COMPLETED, Phase.FAILED: Reason.FAILED}
_OBSTACLES: Final = {
    each.value: each
    for each in (Reason.NAME_CONFLICT, Reason.ADMISSION_DENIED, Reason.JOBSET_CREATE_FAILED, Reason.JOBSET_GONE)
}
"""Those that are reasons of events themselves; all others are about the spec."""


def notices(before: Status, after: Status, found: JobSetFacts | Obstacle) -> tuple[Notice, ...]:
    """Events for the changes in ``after``, which is derived from ``found``.

    A repeated event has a different message each time, with a number or a time: equal ones are recorded once.
    """
    if after.phase is None or before.end is not None:
        return ()
    if isinstance(found, Obstacle):
        return _obstacle(before, after)
    events = []
    if before.phase is Phase.SUSPENDED and after.phase is not Phase.SUSPENDED:
        events.append(Notice(Reason.RESUMED, f"Not suspended any more since {_since(after, Phase.SUSPENDED)}"))
    # Without a previous count, the restarts happened before this controller.
    if before.restarts is not None and (after.restarts or 0) > before.restarts:
        events.append(Notice(Reason.RESTARTING, progress(found).capitalize()))
    if after.phase is not before.phase:
        message = _message(after)
        if after.phase is Phase.SUSPENDED:
            events.append(Notice(Reason.SUSPENDED, f"Suspended since {_since(after, Phase.SUSPENDED)}: {message}"))
        elif after.phase in _ENDS:
            events.append(Notice(_ENDS[after.phase], f"{after.phase}: {message}"))
    return (*events, *_slices(before, after))


def _obstacle(before: Status, after: Status) -> tuple[Notice, ...]:
    phase = after.phase
    if phase is None:
        return ()
    now, old = after.condition(phase), before.condition(phase)
    if now is None or (
        old is not None and (old.status, old.reason, old.message) == (now.status, now.reason, now.message)
    ):
        return ()
    return (Notice(_OBSTACLES.get(now.reason, Reason.INVALID_SPEC), now.message),)


def _slices(before: Status, after: Status) -> tuple[Notice, ...]:
    """Changes of the slices of an elastic one, which are counted only while it runs."""
    degraded = after.condition(DEGRADED)
    if degraded is None or after.phase is not Phase.RUNNING:
        return ()
    lost, left = missing_slices(before), missing_slices(after)
    if left == lost:
        return ()
    reason = Reason.SLICE_LOST if left > lost else Reason.SLICE_RECOVERED
    return (Notice(reason, f"Since {degraded.since}: {degraded.message or 'no slice is missing'}"),)


def _since(status: Status, kind: str) -> str:
    found = status.condition(kind)
    return found.since if found is not None else ""


def _message(status: Status) -> str:
    found = status.condition(status.phase) if status.phase is not None else None
    return found.message or found.reason if found is not None else ""
