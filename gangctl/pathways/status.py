"""The status of a PathwaysJob, from its JobSet and its previous status, and its events: unchanged conditions have none.

Conditions of a JobSet are found by their type: their order is ignored. Of the five that a PathwaysJob has exactly
one is True, each is there once, and one whose status stays keeps its time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from gangctl.api.objects import Object, controller_owner, integer_at, object_at, objects_at, text_at, within
from gangctl.errors import one_line
from gangctl.gang.reasons import Notice, Reason
from gangctl.pathways.words import DIGEST, GROUP, HEAD, KIND, WORKER


class PathwaysPhase(StrEnum):
    """The conditions of which exactly one is True, in the order in which they are written."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUSPENDED = "Suspended"
    COMPLETED = "Completed"
    FAILED = "Failed"


DEGRADED: Final = "Degraded"
"""Condition of an elastic PathwaysJob: it runs with fewer slices than requested."""


@dataclass(frozen=True, slots=True)
class JobCondition:
    """One entry of ``status.conditions``, of a JobSet or a PathwaysJob."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    since: str = ""
    """``lastTransitionTime``, RFC 3339."""
    generation: int = 0
    """``observedGeneration``; 0 if unknown."""

    @property
    def holds(self) -> bool:
        """Whether it is True."""
        return self.status == "True"

    def as_json(self) -> dict[str, Any]:
        """The entry as the API has it."""
        entry: dict[str, Any] = {"type": self.type, "status": self.status, "lastTransitionTime": self.since}
        entry |= {"reason": self.reason, "message": self.message}
        return entry | ({"observedGeneration": self.generation} if self.generation else {})


@dataclass(frozen=True, slots=True)
class Replicas:
    """State of the Jobs of one ReplicatedJob."""

    wanted: int = 0
    up: int = 0
    """Ready, or succeeded."""

    @property
    def missing(self) -> int:
        """Those that are not up."""
        return max(0, self.wanted - self.up)


@dataclass(frozen=True, slots=True)
class JobSetFacts:
    """A JobSet that a PathwaysJob controls."""

    namespace: str
    name: str
    uid: str
    owner: str
    """UID of the PathwaysJob."""
    conditions: tuple[JobCondition, ...] = ()
    head: Replicas = Replicas(1)
    workers: Replicas = Replicas()
    elastic: int = 0
    """Number of slices that its proxy tolerates as missing."""
    restarts: int = 0
    max_restarts: int = 0
    terminal_state: str = ""
    digest: str = ""
    """Digest of its source; empty if gangctl did not create it."""
    deleting: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name, which are the PathwaysJob's, too."""
        return self.namespace, self.name

    def condition(self, kind: str) -> JobCondition | None:
        """The condition of that type."""
        return next((condition for condition in self.conditions if condition.type == kind), None)

    @property
    def end(self) -> JobCondition | None:
        """The condition of its end; synthesized if there is only ``terminalState``."""
        for kind in (PathwaysPhase.FAILED, PathwaysPhase.COMPLETED):
            if (condition := self.condition(kind)) is not None and condition.holds:
                return condition
        return JobCondition(self.terminal_state, "True") if self.terminal_state else None


@dataclass(frozen=True, slots=True)
class PathwaysJobStatus:
    """``status`` of a PathwaysJob, as it is stored or should be."""

    conditions: tuple[JobCondition, ...] = ()
    """As stored by the upstream controller there may be several of one type."""
    restarts: int | None = None
    """None if it was never written."""
    terminal_state: str = ""

    def condition(self, kind: str) -> JobCondition | None:
        """The condition of that type; of several the last one."""
        return next((condition for condition in reversed(self.conditions) if condition.type == kind), None)

    @property
    def phase(self) -> PathwaysPhase | None:
        """The condition that is True; None without a status."""
        known = {phase.value for phase in PathwaysPhase}
        types = (
            condition.type for condition in reversed(self.conditions) if condition.holds and condition.type in known
        )
        phase = next(types, None)
        return None if phase is None else PathwaysPhase(phase)

    @property
    def end(self) -> PathwaysPhase | None:
        """How it ended, permanently.

        Upstream writes ``terminalState: Failed``, and no condition, where a JobSet could not be created, and tries
        again: that is no end.
        """
        if PathwaysPhase.COMPLETED in {self.terminal_state, self.phase}:
            return PathwaysPhase.COMPLETED
        failed = self.condition(PathwaysPhase.FAILED)
        return PathwaysPhase.FAILED if self.terminal_state and failed is not None and failed.holds else None

    def as_json(self) -> dict[str, Any]:
        """The status as a merge patch: null for fields to remove."""
        status: dict[str, Any] = {"conditions": [condition.as_json() for condition in self.conditions]}
        status["terminalState"] = self.terminal_state or None
        return status | ({} if self.restarts is None else {"restarts": self.restarts})


@dataclass(frozen=True, slots=True)
class PathwaysFacts:
    """A PathwaysJob, reduced to the facts for its status."""

    namespace: str
    name: str
    uid: str
    generation: int
    status: PathwaysJobStatus
    deleting: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.namespace, self.name


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why there is no JobSet; ``final`` if there will be none."""

    reason: str
    message: str
    phase: PathwaysPhase = PathwaysPhase.FAILED
    final: bool = False


_ELASTIC: Final = re.compile(r"--num_elastic_slices=(?P<slices>\d{1,6})")


def read_pathways_facts(raw: Object) -> PathwaysFacts:
    """Project a stored PathwaysJob; total."""
    metadata, status = object_at(raw, "metadata"), object_at(raw, "status")
    return PathwaysFacts(
        namespace=text_at(metadata, "namespace"),
        name=text_at(metadata, "name"),
        uid=text_at(metadata, "uid"),
        generation=integer_at(metadata, "generation"),
        status=PathwaysJobStatus(
            conditions=tuple(_conditions(status)),
            restarts=None if status.get("restarts") is None else integer_at(status, "restarts"),
            terminal_state=text_at(status, "terminalState"),
        ),
        deleting="deletionTimestamp" in metadata,
    )


def pathways_owner(raw: Object) -> str:
    """UID of the PathwaysJob that controls an object, empty without one."""
    owner = controller_owner(dict(object_at(raw, "metadata")))
    group = text_at(owner or {}, "apiVersion").partition("/")[0]
    return text_at(owner or {}, "uid") if owner and (group, owner.get("kind")) == (GROUP, KIND) else ""


def read_jobset_facts(raw: Object) -> JobSetFacts:
    """Project a stored JobSet; total."""
    metadata, spec, status = (object_at(raw, key) for key in ("metadata", "spec", "status"))
    jobs = {text_at(replicated_job, "name"): replicated_job for replicated_job in objects_at(spec, "replicatedJobs")}
    stand = {text_at(job_status, "name"): job_status for job_status in objects_at(status, "replicatedJobsStatus")}
    return JobSetFacts(
        namespace=text_at(metadata, "namespace"),
        name=text_at(metadata, "name"),
        uid=text_at(metadata, "uid"),
        owner=pathways_owner(raw),
        conditions=tuple(_conditions(status)),
        head=_replicas(jobs.get(HEAD, {}), stand.get(HEAD, {})),
        workers=_replicas(jobs.get(WORKER, {}), stand.get(WORKER, {})),
        elastic=_elastic(jobs.get(HEAD, {})),
        restarts=integer_at(status, "restarts"),
        max_restarts=integer_at(object_at(spec, "failurePolicy"), "maxRestarts"),
        terminal_state=text_at(status, "terminalState"),
        digest=text_at(object_at(metadata, "annotations"), DIGEST),
        deleting="deletionTimestamp" in metadata,
    )


def _replicas(job: Object, status: Object) -> Replicas:
    # No Job is counted twice: JobSet adds both, too, where other Jobs depend on these.
    up = integer_at(status, "ready") + integer_at(status, "succeeded")
    # JobSet's default of replicas is 1.
    return Replicas(integer_at(job, "replicas", 1), up)


def _elastic(head: Object) -> int:
    """Elastic slices by the argument of its proxy, in any container of the head."""
    spec = within(head, "template", "spec", "template", "spec")
    for container in (*objects_at(spec, "initContainers"), *objects_at(spec, "containers")):
        arguments = container.get("args")
        for argument in arguments if isinstance(arguments, list) else ():
            if isinstance(argument, str) and (match := _ELASTIC.fullmatch(argument)):
                return int(match["slices"])
    return 0


def _conditions(status: Object) -> Iterator[JobCondition]:
    for condition in objects_at(status, "conditions"):
        yield JobCondition(
            type=text_at(condition, "type"),
            status=text_at(condition, "status"),
            reason=text_at(condition, "reason"),
            message=text_at(condition, "message"),
            since=text_at(condition, "lastTransitionTime"),
            generation=integer_at(condition, "observedGeneration"),
        )


_REASON: Final = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]{0,1022}[A-Za-z0-9_])?")
"""A valid reason in the API (metav1.Condition)."""

WAITING_FOR_HEAD: Final = "WaitingForHead"
WAITING_FOR_WORKERS: Final = "WaitingForWorkers"
RESTARTING: Final = "Restarting"
ALL_UP: Final = "HeadAndWorkersReady"
SLICES_MISSING: Final = "SlicesMissing"
NO_SLICE_MISSING: Final = "NoSliceMissing"
NOT_RUNNING: Final = "NotRunning"

_OURS: Final = frozenset({*(phase.value for phase in PathwaysPhase), DEGRADED})


@dataclass(frozen=True, slots=True)
class _Verdict:
    """The True condition and its reason; ``since`` if the JobSet has the time."""

    phase: PathwaysPhase
    reason: str
    message: str
    since: str = ""
    final: bool = False


def next_status(before: PathwaysFacts, found: JobSetFacts | Obstacle, now: str) -> PathwaysJobStatus:
    """The desired status; an equal one if nothing changed.

    ``found`` is the JobSet that this PathwaysJob controls, or why there is none. ``now`` is RFC 3339. An end is
    permanent.
    """
    stored = before.status
    verdict = _kept_end(stored, found) or _verdict(found)
    # A finished job ignores changes of the spec, so that it has not observed them.
    ended = stored.condition(verdict.phase) if stored.end is not None else None
    generation = (ended.generation if ended is not None else 0) or before.generation
    restarts = found.restarts if isinstance(found, JobSetFacts) else stored.restarts
    if stored.end is not None and stored.restarts is not None:
        restarts = stored.restarts
    conditions = [_condition(stored, kind, verdict, generation, now) for kind in PathwaysPhase]
    if (degraded := _degraded(stored, verdict, found, generation, now)) is not None:
        conditions.append(degraded)
    # Those of other controllers have to be repeated: a merge patch replaces the whole list.
    others = {condition.type: condition for condition in stored.conditions if condition.type not in _OURS}
    return PathwaysJobStatus(
        conditions=(*conditions, *others.values()),
        restarts=restarts,
        terminal_state=verdict.phase.value if verdict.final else "",
    )


def missing_slices(status: PathwaysJobStatus) -> int:
    """Slices that an elastic PathwaysJob runs without, from its status."""
    degraded = status.condition(DEGRADED)
    count = degraded.message.partition(" ")[0] if degraded is not None and degraded.holds else ""
    return int(count) if count.isascii() and count.isdigit() else 0


def _kept_end(stored: PathwaysJobStatus, found: JobSetFacts | Obstacle) -> _Verdict | None:
    """The recorded end, with its message; else the JobSet's message."""
    if stored.end is None:
        return None
    ended = stored.condition(stored.end)
    if ended is None or not ended.holds:
        ended = (
            found.end if isinstance(found, JobSetFacts) and found.end is not None else JobCondition(stored.end, "True")
        )
    return _Verdict(stored.end, _reason(ended.reason, stored.end), ended.message, ended.since, final=True)


def _verdict(found: JobSetFacts | Obstacle) -> _Verdict:
    """The condition of a PathwaysJob that has not ended: the first that is true."""
    if isinstance(found, Obstacle):
        return _Verdict(found.phase, _reason(found.reason, found.phase), one_line(found.message), final=found.final)
    if (end := found.end) is not None:
        phase = PathwaysPhase.COMPLETED if end.type == PathwaysPhase.COMPLETED else PathwaysPhase.FAILED
        return _Verdict(phase, _reason(end.reason, phase), one_line(end.message), end.since, final=True)
    suspended = found.condition("Suspended")
    if suspended is not None and suspended.holds:
        message = one_line(suspended.message)
        return _Verdict(
            PathwaysPhase.SUSPENDED, _reason(suspended.reason, PathwaysPhase.SUSPENDED), message, suspended.since
        )
    restarting = found.condition("RestartingJobSet")
    if restarting is not None and restarting.holds:
        return _Verdict(PathwaysPhase.PENDING, RESTARTING, one_line(f"{progress(found)}: {restarting.message}"))
    if found.head.missing:
        return _Verdict(PathwaysPhase.PENDING, WAITING_FOR_HEAD, "the head is not ready")
    # JobSet sets it for InOrder only; for other orders the slices that are up decide.
    startup = found.condition("StartupPolicyCompleted")
    if (startup is not None and startup.holds) or found.workers.missing <= found.elastic:
        return _Verdict(PathwaysPhase.RUNNING, ALL_UP, "the head is ready, and the workers have started")
    return _Verdict(PathwaysPhase.PENDING, WAITING_FOR_WORKERS, "the head is ready, and not enough slices are")


def progress(found: JobSetFacts) -> str:
    """Number of restarts of a JobSet, and their limit."""
    return f"restart {found.restarts} of {found.max_restarts}"


def _condition(
    stored: PathwaysJobStatus, kind: PathwaysPhase, verdict: _Verdict, generation: int, now: str
) -> JobCondition:
    """One of the five; the reason of those that are False is the present one."""
    holds = kind is verdict.phase
    wanted = JobCondition(
        kind, "True" if holds else "False", verdict.reason, verdict.message if holds else "", generation=generation
    )
    return _since(stored, wanted, verdict.since or now if holds else now)


def _degraded(
    stored: PathwaysJobStatus, verdict: _Verdict, found: JobSetFacts | Obstacle, generation: int, now: str
) -> JobCondition | None:
    """Whether an elastic one runs with fewer slices; None for others."""
    elastic = found.elastic if isinstance(found, JobSetFacts) else 0
    if not elastic and stored.condition(DEGRADED) is None:
        return None
    wanted = JobCondition(DEGRADED, "False", NOT_RUNNING, generation=generation)
    if verdict.phase is PathwaysPhase.RUNNING and isinstance(found, JobSetFacts):
        wanted = replace(wanted, reason=NO_SLICE_MISSING)
        if missing := found.workers.missing:
            message = f"{missing} of {found.workers.wanted} slices are missing, {elastic} may be"
            wanted = replace(wanted, status="True", reason=SLICES_MISSING, message=message)
    return _since(stored, wanted, now)


def _since(stored: PathwaysJobStatus, wanted: JobCondition, moment: str) -> JobCondition:
    """With the existing time, if its status is unchanged."""
    old = stored.condition(wanted.type)
    kept = old is not None and old.status == wanted.status and old.since
    return replace(wanted, type=str(wanted.type), since=kept or moment)


def _reason(reason: str, phase: PathwaysPhase) -> str:
    return reason if _REASON.fullmatch(reason) else phase.value


_ENDS: Final = {PathwaysPhase.COMPLETED: Reason.COMPLETED, PathwaysPhase.FAILED: Reason.FAILED}
_OBSTACLES: Final = {
    reason.value: reason
    for reason in (
        Reason.NAME_CONFLICT,
        Reason.ADMISSION_DENIED,
        Reason.JOBSET_CREATE_FAILED,
        Reason.JOBSET_GONE,
        Reason.API_UNAVAILABLE,
    )
}
"""Those that are reasons of events themselves; all others are about the spec."""


def notices(before: PathwaysJobStatus, after: PathwaysJobStatus, found: JobSetFacts | Obstacle) -> tuple[Notice, ...]:
    """Events for the changes in ``after``, which is derived from ``found``.

    A repeated event has a different message each time, with a number or a time: equal ones are recorded once.
    """
    if after.phase is None or before.end is not None:
        return ()
    if isinstance(found, Obstacle):
        now, old = after.condition(after.phase), before.condition(after.phase)
        if now is None or (old and (old.status, old.reason, old.message) == (now.status, now.reason, now.message)):
            return ()
        return (Notice(_OBSTACLES.get(now.reason, Reason.INVALID_SPEC), now.message),)
    events = []
    if before.phase is PathwaysPhase.SUSPENDED and after.phase is not PathwaysPhase.SUSPENDED:
        events.append(
            Notice(Reason.RESUMED, f"Not suspended any more since {_time_of(after, PathwaysPhase.SUSPENDED)}")
        )
    # Without a previous count, the restarts happened before this controller.
    if before.restarts is not None and (after.restarts or 0) > before.restarts:
        events.append(Notice(Reason.RESTARTING, progress(found).capitalize()))
    if after.phase is not before.phase:
        now = after.condition(after.phase)
        message = now.message or now.reason if now is not None else ""
        if after.phase is PathwaysPhase.SUSPENDED:
            events.append(
                Notice(Reason.SUSPENDED, f"Suspended since {_time_of(after, PathwaysPhase.SUSPENDED)}: {message}")
            )
        elif after.phase in _ENDS:
            events.append(Notice(_ENDS[after.phase], f"{after.phase}: {message}"))
    return (*events, *_slices(before, after))


def _slices(before: PathwaysJobStatus, after: PathwaysJobStatus) -> tuple[Notice, ...]:
    """Changes of the slices of an elastic one, which are counted only while it runs."""
    degraded = after.condition(DEGRADED)
    if degraded is None or after.phase is not PathwaysPhase.RUNNING:
        return ()
    lost, left = missing_slices(before), missing_slices(after)
    if left == lost:
        return ()
    reason = Reason.SLICE_LOST if left > lost else Reason.SLICE_RECOVERED
    return (Notice(reason, f"Since {degraded.since}: {degraded.message or 'no slice is missing'}"),)


def _time_of(status: PathwaysJobStatus, kind: str) -> str:
    condition = status.condition(kind)
    return condition.since if condition is not None else ""
