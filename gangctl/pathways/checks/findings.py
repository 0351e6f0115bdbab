"""What the checks of one PathwaysJob have found."""

from __future__ import annotations

from collections.abc import Iterable

from gangctl.errors import ErrorKind, FieldError
from gangctl.gang.reasons import Notice, Reason
from gangctl.pathways.job import PathwaysJob
from gangctl.pathways.problems import MOST_PROBLEMS, InvalidReason, Problem, problem


class Findings:
    """Problems and notices, each at the place where a person wrote the value: a field, or a flag."""

    __slots__ = ("job", "notices", "problems")

    def __init__(self, job: PathwaysJob) -> None:
        """Nothing found yet."""
        self.job = job
        self.problems: list[Problem] = []
        self.notices: list[Notice] = []

    def place(self, path: str) -> str:
        """What a person calls the field at ``path``."""
        return self.job.origin(path).place

    def refuse(self, reason: InvalidReason, path: str, detail: str, kind: ErrorKind = ErrorKind.INVALID) -> None:
        """A problem of the field at ``path``; ``detail`` says what is allowed."""
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(problem(reason, self.place(path), detail, kind))

    def refuse_all(self, reason: InvalidReason, errors: Iterable[FieldError]) -> None:
        """Problems that somebody else has found."""
        for error in errors:
            self.refuse(reason, error.path, error.detail, error.kind)

    def tell(self, reason: Reason, message: str) -> None:
        """Something that a person should know, and that stops nothing."""
        self.notices.append(Notice(reason, message))
