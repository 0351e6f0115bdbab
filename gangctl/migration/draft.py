"""State of one JobSet's migration: its keys for the other scheduler, and the results so far."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from gangctl.api.jobset import JobSet, ReplicatedJob
from gangctl.errors import ErrorKind, FieldError
from gangctl.gang.convert import Object
from gangctl.gang.plan import replicated_job_pods
from gangctl.migration.marks import Level, Mark
from gangctl.migration.systems import NAMES, Names, System

_NUMBER: Final = re.compile("0{0,9}[1-9][0-9]{0,9}")


@dataclass(frozen=True, slots=True)
class Note:
    """A note about a conversion: the object of the input, and the field."""

    position: int
    path: str
    text: str


@dataclass(frozen=True, slots=True)
class Problem:
    """Why there is no conversion: the object of the input, and the error."""

    position: int
    error: FieldError


@dataclass(frozen=True, slots=True)
class Group:
    """Pods that start together: of these ReplicatedJobs, or of each Job of one of them."""

    members: tuple[ReplicatedJob, ...]
    path: str
    """The field that makes it a group."""
    per_job: bool = False

    @property
    def pods(self) -> int:
        """All pods of the ReplicatedJobs that exist at once."""
        return sum(map(replicated_job_pods, self.members))


@dataclass(slots=True)
class Draft:
    """``position`` is the JobSet's in the input; ``groups`` are its groups in the system."""

    position: int
    raw: Object
    jobset: JobSet
    system: System
    marks: tuple[Mark, ...]
    groups: list[Group] = field(default_factory=list)
    queues: list[str] = field(default_factory=list)
    topology_key: str | None = None
    dropped: set[int] = field(default_factory=set)
    """Objects of the input that this JobSet no longer needs."""
    leaving: set[int] = field(default_factory=set)
    """Indexes of the ReplicatedJobs whose ``schedulerName`` is removed."""
    problems: list[Problem] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    @property
    def names(self) -> Names:
        """The names of the system."""
        return NAMES[self.system]

    def refuse(self, path: str, detail: str, kind: ErrorKind = ErrorKind.FORBIDDEN) -> None:
        """Add a reason against the conversion."""
        self.refuse_at(self.position, path, detail, kind)

    def refuse_at(self, position: int, path: str, detail: str, kind: ErrorKind = ErrorKind.FORBIDDEN) -> None:
        """The same, of a field of another object of the input."""
        self.problems.append(Problem(position, FieldError(path, kind, detail)))

    def note(self, path: str, text: str) -> None:
        """Add a note about an omission or assumption of the conversion."""
        self.notes.append(Note(self.position, path, text))

    def found(self, key: str, *levels: Level) -> Iterator[Mark]:
        """Labels and annotations with this key, on these levels or on any."""
        return (mark for mark in self.marks if mark.key == key and (not levels or mark.level in levels))

    def on(self, rj: ReplicatedJob, key: str, level: Level) -> Mark | None:
        """The label or annotation of one ReplicatedJob on one level."""
        return next((mark for mark in self.found(key, level) if mark.index == rj.index), None)

    def scheduled(self) -> list[ReplicatedJob]:
        """ReplicatedJobs whose pods name the system's scheduler."""
        return [rj for rj in self.jobset.replicated_jobs if rj.scheduler in self.names.schedulers]

    def group_of(self, rj: ReplicatedJob) -> Mark | None:
        """The label or annotation that puts a ReplicatedJob's pods into a PodGroup."""
        marks = self.found(self.names.group_key, Level.POD)
        return next((each for each in marks if each.index == rj.index and each.field == self.names.group_field), None)

    def number(self, mark: Mark) -> int | None:
        """The number in a mark; None, with a problem, if it is not above zero."""
        if _NUMBER.fullmatch(mark.value):
            return int(mark.value)
        self.refuse(mark.path, f'must be a number above 0, got "{mark.value}"', ErrorKind.INVALID)
        return None


def scheduler_path(rj: ReplicatedJob) -> str:
    """Field path of the scheduler of a ReplicatedJob's pods."""
    return f"{rj.path}.template.spec.template.spec.schedulerName"


def listed(rjs: Iterable[ReplicatedJob]) -> str:
    """Names of ReplicatedJobs, for messages."""
    return ", ".join(f'"{rj.name}"' for rj in rjs)


def check_minimum(draft: Draft, position: int, path: str, minimum: int, pods: int) -> bool:
    """Whether a group's minimum is all of its pods, as gangctl requires; else adds a problem."""
    if minimum == pods:
        return True
    if minimum < pods:
        detail = (
            f"is {minimum} of {pods} pods, and a gang of gangctl is all of its pods: raise it to {pods}, or leave this "
            "JobSet where it is"
        )
    else:
        detail = f"is {minimum}, and only {pods} pods exist at once: this gang could never start"
    draft.refuse_at(position, path, detail)
    return False
