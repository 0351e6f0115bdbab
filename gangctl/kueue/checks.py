"""What gangctl says of a Kueue Workload that one of its AdmissionChecks holds back: a pure state machine.

Kueue makes the entries of ``status.admissionChecks``, resets them at every eviction and counts retries;
gangctl moves its own entry from Pending to Ready, Retry or Rejected while quota is reserved, and never at any
other time: a Retry that arrives after an eviction keeps a Workload from ever being queued again. For which
admission a Ready was given stands at the end of the entry's own message, so that it outlives gangctl, and goes
whenever Kueue resets the entry.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from gangctl.api.meta import JOBSET_GROUP
from gangctl.errors import one_line
from gangctl.kueue.moments import moment
from gangctl.kueue.names import CHECK_CONTROLLER
from gangctl.kueue.objects import CheckState, QueuedWorkload
from gangctl.kueue.parameters import GangAdmissionParametersSpec

PATIENCE_SECONDS: Final = 5.0
"""Who waits for less is told nothing: objects are made in milliseconds, and each word is a write."""
JITTER: Final = 0.1
"""Part of a delay by which retries of many Workloads are spread."""

_DIGEST: Final = re.compile(r" \[admission ([0-9a-f]{12})\]\Z")
_MESSAGE_CHARACTERS: Final = 1024


class Progress(StrEnum):
    """How far a JobSet is from being allowed to start."""

    NOTHING_TO_DO = "NothingToDo"
    """There is nothing that gangctl would make for it."""
    UNDER_WAY = "UnderWay"
    DENIED = "Denied"
    DONE = "Done"


@dataclass(frozen=True, slots=True)
class Standing:
    """How far a JobSet is, and why, in words for people."""

    progress: Progress
    message: str


class State(StrEnum):
    """``state`` of an entry of ``status.admissionChecks``."""

    PENDING = "Pending"
    READY = "Ready"
    RETRY = "Retry"
    REJECTED = "Rejected"


@dataclass(frozen=True, slots=True)
class Decision:
    """What to write into the entry: nothing where ``state`` is None.

    ``retry_seconds`` goes with Retry, and is never left out there: Kueue would try again at once.
    ``again_seconds`` is when to look again although nothing has changed.
    """

    state: State | None = None
    message: str = ""
    retry_seconds: int | None = None
    again_seconds: float | None = None


NOTHING: Final = Decision()


def is_ours(controller: str) -> bool:
    """Whether an AdmissionCheck with this ``spec.controllerName`` is gangctl's."""
    return controller == CHECK_CONTROLLER


def of_jobset(workload: QueuedWorkload) -> bool:
    """Whether a JobSet waits in it; every other kind in such a ClusterQueue is let through at once."""
    group, _, version = workload.owner_api_version.partition("/")
    return workload.owner_kind == "JobSet" and group == JOBSET_GROUP and bool(version) and bool(workload.owner_uid)


def reserved(workload: QueuedWorkload) -> bool:
    """Whether it holds quota and nobody is about to take that away: only then may anything be said of it."""
    ended = any(workload.holds(each) for each in ("Finished", "Evicted", "DeactivationTarget"))
    holds = workload.holds("QuotaReserved") and bool(workload.cluster_queue)
    return holds and workload.active and not workload.deleting and not ended


def digest_of(workload: QueuedWorkload) -> str:
    """Twelve hexadecimal digits of what the Workload was given: its ClusterQueue, flavors and counts."""
    given = [[each.name, sorted(each.flavors.items()), each.count] for each in workload.assignments]
    text = json.dumps([workload.cluster_queue, given], separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12]


def remembered(message: str) -> str:
    """The digest for which a message was written, empty where there is none."""
    found = _DIGEST.search(message)
    return found[1] if found is not None else ""


def waiting_since(workload: QueuedWorkload, entry: CheckState, started: datetime) -> datetime:
    """From when on its patience is counted: the reservation, the entry's last change, gangctl's start if it is later.

    What passed while there was no gangctl is nobody's fault who waits.
    """
    quota = workload.conditions.get("QuotaReserved")
    times = (moment(quota.since if quota is not None else ""), moment(entry.since))
    return max([started, *(time for time in times if time is not None)])


def decide(
    workload: QueuedWorkload,
    entry: CheckState,
    standing: Standing,
    parameters: GangAdmissionParametersSpec,
    *,
    since: datetime,
    now: datetime,
    jitter: Callable[[], float],
) -> Decision:
    """What becomes of one entry. ``since`` is :func:`waiting_since`, ``jitter`` gives numbers from 0 to 1."""
    if not reserved(workload) or entry.state in {State.RETRY, State.REJECTED}:
        # The next move is Kueue's: it evicts, and resets the entry.
        return NOTHING
    admitted = workload.holds("Admitted")
    if entry.state == State.READY:
        if admitted or remembered(entry.message) == digest_of(workload):
            return NOTHING
        return _say(State.PENDING, "The admission is not the one that was approved: looked at again.", workload)
    if standing.progress in {Progress.NOTHING_TO_DO, Progress.DONE}:
        return _say(State.READY, standing.message, workload)
    if admitted:
        # The check was added to the queue of what runs already. Whatever is wrong, it is no reason to stop it.
        return NOTHING
    if standing.progress is Progress.DENIED:
        return _fail(entry, standing.message, parameters, workload, jitter)
    waited = now - since
    patience, limit = timedelta(seconds=PATIENCE_SECONDS), timedelta(seconds=parameters.timeout_seconds)
    if waited >= limit:
        message = f"Not ready within {parameters.timeout_seconds} s: {standing.message}"
        return _fail(entry, message, parameters, workload, jitter)
    left = (limit - waited).total_seconds()
    if waited < patience:
        return Decision(again_seconds=min(left, (patience - waited).total_seconds()))
    told = _say(State.PENDING, standing.message, workload)
    return Decision(again_seconds=left) if told.message == entry.message else _again(told, left)


def _again(decision: Decision, seconds: float) -> Decision:
    return Decision(decision.state, decision.message, decision.retry_seconds, seconds)


def _say(state: State, message: str, workload: QueuedWorkload, retry_seconds: int | None = None) -> Decision:
    text = f"{one_line(message, _MESSAGE_CHARACTERS)} [admission {digest_of(workload)}]"
    return Decision(state, text, retry_seconds)


def _fail(
    entry: CheckState,
    message: str,
    parameters: GangAdmissionParametersSpec,
    workload: QueuedWorkload,
    jitter: Callable[[], float],
) -> Decision:
    if parameters.on_failure == "Reject":
        return _say(State.REJECTED, message, workload)
    if entry.retry_count >= parameters.max_retries:
        return _say(State.REJECTED, f"{message} (given up after {entry.retry_count} retries)", workload)
    return _say(State.RETRY, message, workload, retry_delay(entry.retry_count, parameters, jitter()))


def retry_delay(retries: int, parameters: GangAdmissionParametersSpec, jitter: float) -> int:
    """Whole seconds before the next try after so many: doubling, spread by a tenth, bounded, and never none."""
    longest = parameters.retry_max_seconds
    # More doublings than that exceed every bound, and a number of any size may stand there.
    delay = parameters.retry_base_seconds * 2 ** min(max(retries, 0), 32)
    spread = JITTER * min(max(jitter, 0.0), 1.0)
    return max(1, math.ceil(delay * (1 + spread)) if delay * (1 + spread) <= longest else int(longest * (1 - spread)))
