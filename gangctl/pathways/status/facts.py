"""Inputs of the status of a PathwaysJob: its JobSet, and its previous status, from stored objects."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from gangctl.api.objects import Object, controller_owner, object_at, objects_at, text_at, within
from gangctl.pathways.words import DIGEST, GROUP, HEAD, KIND, WORKER


class Phase(StrEnum):
    """The conditions of which exactly one is True, in the order in which they are written."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUSPENDED = "Suspended"
    COMPLETED = "Completed"
    FAILED = "Failed"


DEGRADED: Final = "Degraded"
"""Condition of an elastic PathwaysJob: it runs with fewer slices than requested."""


@dataclass(frozen=True, slots=True)
class Condition:
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
    conditions: tuple[Condition, ...] = ()
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

    def condition(self, kind: str) -> Condition | None:
        """The condition of that type."""
        return next((each for each in self.conditions if each.type == kind), None)

    @property
    def end(self) -> Condition | None:
        """The condition of its end; synthesized if there is only ``terminalState``."""
        for kind in (Phase.FAILED, Phase.COMPLETED):
            if (found := self.condition(kind)) is not None and found.holds:
                return found
        return Condition(self.terminal_state, "True") if self.terminal_state else None


@dataclass(frozen=True, slots=True)
class Status:
    """``status`` of a PathwaysJob, as it is stored or should be."""

    conditions: tuple[Condition, ...] = ()
    """As stored by the upstream controller there may be several of one type."""
    restarts: int | None = None
    """None if it was never written."""
    terminal_state: str = ""

    def condition(self, kind: str) -> Condition | None:
        """The condition of that type; of several the last one."""
        return next((each for each in reversed(self.conditions) if each.type == kind), None)

    @property
    def phase(self) -> Phase | None:
        """The condition that is True; None without a status."""
        known = {each.value for each in Phase}
        found = (each.type for each in reversed(self.conditions) if each.holds and each.type in known)
        phase = next(found, None)
        return None if phase is None else Phase(phase)

    @property
    def end(self) -> Phase | None:
        """How it ended, permanently.

        Upstream writes ``terminalState: Failed``, and no condition, where a JobSet could not be created, and tries
        again: that is no end.
        """
        if Phase.COMPLETED in {self.terminal_state, self.phase}:
            return Phase.COMPLETED
        failed = self.condition(Phase.FAILED)
        return Phase.FAILED if self.terminal_state and failed is not None and failed.holds else None

    def as_json(self) -> dict[str, Any]:
        """The status as a merge patch: null for fields to remove."""
        status: dict[str, Any] = {"conditions": [each.as_json() for each in self.conditions]}
        status["terminalState"] = self.terminal_state or None
        return status | ({} if self.restarts is None else {"restarts": self.restarts})


@dataclass(frozen=True, slots=True)
class PathwaysFacts:
    """A PathwaysJob, reduced to the facts for its status."""

    namespace: str
    name: str
    uid: str
    generation: int
    status: Status
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
    phase: Phase = Phase.FAILED
    final: bool = False


_ELASTIC: Final = re.compile(r"--num_elastic_slices=(?P<slices>\d{1,6})")


def read_pathways_facts(raw: Object) -> PathwaysFacts:
    """Project a stored PathwaysJob; total."""
    metadata, status = object_at(raw, "metadata"), object_at(raw, "status")
    restarts = status.get("restarts")
    return PathwaysFacts(
        namespace=text_at(metadata, "namespace"),
        name=text_at(metadata, "name"),
        uid=text_at(metadata, "uid"),
        generation=_number(metadata.get("generation")),
        status=Status(
            conditions=tuple(_conditions(status)),
            restarts=None if restarts is None else _number(restarts),
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
    jobs = {text_at(each, "name"): each for each in objects_at(spec, "replicatedJobs")}
    stand = {text_at(each, "name"): each for each in objects_at(status, "replicatedJobsStatus")}
    return JobSetFacts(
        namespace=text_at(metadata, "namespace"),
        name=text_at(metadata, "name"),
        uid=text_at(metadata, "uid"),
        owner=pathways_owner(raw),
        conditions=tuple(_conditions(status)),
        head=_replicas(jobs.get(HEAD, {}), stand.get(HEAD, {})),
        workers=_replicas(jobs.get(WORKER, {}), stand.get(WORKER, {})),
        elastic=_elastic(jobs.get(HEAD, {})),
        restarts=_number(status.get("restarts")),
        max_restarts=_number(object_at(spec, "failurePolicy").get("maxRestarts")),
        terminal_state=text_at(status, "terminalState"),
        digest=text_at(object_at(metadata, "annotations"), DIGEST),
        deleting="deletionTimestamp" in metadata,
    )


def _replicas(job: Object, status: Object) -> Replicas:
    wanted = job.get("replicas")
    up = _number(status.get("ready")) + _number(status.get("succeeded"))
    return Replicas(1 if wanted is None else _number(wanted), up)


def _elastic(head: Object) -> int:
    """Elastic slices by the argument of its proxy, in any container of the head."""
    spec = within(head, "template", "spec", "template", "spec")
    for container in (*objects_at(spec, "initContainers"), *objects_at(spec, "containers")):
        arguments = container.get("args")
        for argument in arguments if isinstance(arguments, list) else ():
            if isinstance(argument, str) and (found := _ELASTIC.fullmatch(argument)):
                return int(found["slices"])
    return 0


def _conditions(status: Object) -> Iterator[Condition]:
    for each in objects_at(status, "conditions"):
        yield Condition(
            type=text_at(each, "type"),
            status=text_at(each, "status"),
            reason=text_at(each, "reason"),
            message=text_at(each, "message"),
            since=text_at(each, "lastTransitionTime"),
            generation=_number(each.get("observedGeneration")),
        )


def _number(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
