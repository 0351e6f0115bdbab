"""The status of a PathwaysJob, from what is known of its JobSet.

Conditions of a JobSet are found by their type: their order says nothing. Of the five that a PathwaysJob has exactly one
is True, each is there once, and one whose status stays keeps its time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from gangctl.errors import one_line
from gangctl.pathways.status.facts import DEGRADED, Condition, JobSetFacts, Obstacle, PathwaysFacts, Phase, Status

_REASON: Final = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]{0,1022}[A-Za-z0-9_])?")
"""What the API takes as a reason (metav1.Condition)."""

WAITING_FOR_HEAD: Final = "WaitingForHead"
WAITING_FOR_WORKERS: Final = "WaitingForWorkers"
RESTARTING: Final = "Restarting"
ALL_UP: Final = "HeadAndWorkersReady"
SLICES_MISSING: Final = "SlicesMissing"
NO_SLICE_MISSING: Final = "NoSliceMissing"
NOT_RUNNING: Final = "NotRunning"

_OURS: Final = frozenset({*(phase.value for phase in Phase), DEGRADED})


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What is True and why; ``since`` where the JobSet knows better than the clock."""

    phase: Phase
    reason: str
    message: str
    since: str = ""
    final: bool = False


def next_status(before: PathwaysFacts, found: JobSetFacts | Obstacle, now: str) -> Status:
    """The status that should be stored; the same as before where nothing is different.

    ``found`` is the JobSet that this PathwaysJob controls, or why there is none. ``now`` is RFC 3339. An end stays,
    whatever is found.
    """
    stored = before.status
    verdict = _kept_end(stored, found) or _verdict(found)
    # What has ended does not react to another spec, and so has not observed it.
    ended = stored.condition(verdict.phase) if stored.end is not None else None
    generation = (ended.generation if ended is not None else 0) or before.generation
    restarts = found.restarts if isinstance(found, JobSetFacts) else stored.restarts
    if stored.end is not None and stored.restarts is not None:
        restarts = stored.restarts
    conditions = [_condition(stored, kind, verdict, generation, now) for kind in Phase]
    if (degraded := _degraded(stored, verdict, found, generation, now)) is not None:
        conditions.append(degraded)
    others = {each.type: each for each in stored.conditions if each.type not in _OURS}
    return Status(
        conditions=(*conditions, *others.values()),
        restarts=restarts,
        terminal_state=verdict.phase.value if verdict.final else "",
    )


def missing_slices(status: Status) -> int:
    """Slices that an elastic PathwaysJob runs without, as its status says."""
    degraded = status.condition(DEGRADED)
    count = degraded.message.partition(" ")[0] if degraded is not None and degraded.holds else ""
    return int(count) if count.isascii() and count.isdigit() else 0


def _kept_end(stored: Status, found: JobSetFacts | Obstacle) -> _Verdict | None:
    """The end that was told, in the same words; in those of the JobSet where there are none."""
    if stored.end is None:
        return None
    told = stored.condition(stored.end)
    if told is None or not told.holds:
        told = found.end if isinstance(found, JobSetFacts) and found.end is not None else Condition(stored.end, "True")
    return _Verdict(stored.end, _reason(told.reason, stored.end), told.message, told.since, final=True)


def _verdict(found: JobSetFacts | Obstacle) -> _Verdict:
    """What holds of a PathwaysJob that has not ended: the first that is true."""
    if isinstance(found, Obstacle):
        return _Verdict(found.phase, _reason(found.reason, found.phase), one_line(found.message), final=found.final)
    if (end := found.end) is not None:
        phase = Phase.COMPLETED if end.type == Phase.COMPLETED else Phase.FAILED
        return _Verdict(phase, _reason(end.reason, phase), one_line(end.message), end.since, final=True)
    suspended = found.condition("Suspended")
    if suspended is not None and suspended.holds:
        message = one_line(suspended.message)
        return _Verdict(Phase.SUSPENDED, _reason(suspended.reason, Phase.SUSPENDED), message, suspended.since)
    restarting = found.condition("RestartingJobSet")
    if restarting is not None and restarting.holds:
        return _Verdict(Phase.PENDING, RESTARTING, one_line(f"{progress(found)}: {restarting.message}"))
    if found.head.missing:
        return _Verdict(Phase.PENDING, WAITING_FOR_HEAD, "the head is not ready")
    startup = found.condition("StartupPolicyCompleted")
    if (startup is not None and startup.holds) or found.workers.missing <= found.elastic:
        return _Verdict(Phase.RUNNING, ALL_UP, "the head is ready, and the workers have started")
    return _Verdict(Phase.PENDING, WAITING_FOR_WORKERS, "the head is ready, and not enough slices are")


def progress(found: JobSetFacts) -> str:
    """How often a JobSet has been started again, and how often it may be."""
    return f"restart {found.restarts} of {found.max_restarts}"


def _condition(stored: Status, kind: Phase, verdict: _Verdict, generation: int, now: str) -> Condition:
    """One of the five; those that are False say in a word what is the case instead."""
    holds = kind is verdict.phase
    wanted = Condition(
        kind, "True" if holds else "False", verdict.reason, verdict.message if holds else "", generation=generation
    )
    return _since(stored, wanted, verdict.since or now if holds else now)


def _degraded(
    stored: Status, verdict: _Verdict, found: JobSetFacts | Obstacle, generation: int, now: str
) -> Condition | None:
    """Whether an elastic one runs with fewer slices; None for others."""
    elastic = found.elastic if isinstance(found, JobSetFacts) else 0
    if not elastic and stored.condition(DEGRADED) is None:
        return None
    wanted = Condition(DEGRADED, "False", NOT_RUNNING, generation=generation)
    if verdict.phase is Phase.RUNNING and isinstance(found, JobSetFacts):
        wanted = replace(wanted, reason=NO_SLICE_MISSING)
        if missing := found.workers.missing:
            message = f"{missing} of {found.workers.wanted} slices are missing, {elastic} may be"
            wanted = replace(wanted, status="True", reason=SLICES_MISSING, message=message)
    return _since(stored, wanted, now)


def _since(stored: Status, wanted: Condition, moment: str) -> Condition:
    """With the time that stands already, where its status is what it was."""
    old = stored.condition(wanted.type)
    kept = old is not None and old.status == wanted.status and old.since
    return replace(wanted, type=str(wanted.type), since=kept or moment)


def _reason(reason: str, phase: Phase) -> str:
    return reason if _REASON.fullmatch(reason) else phase.value
