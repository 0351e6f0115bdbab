"""Findings of the checks of one PathwaysJob."""

from __future__ import annotations

from collections.abc import Iterable

from gangctl.errors import ErrorKind, FieldError
from gangctl.gang.reasons import Notice, Reason
from gangctl.pathways.job import PathwaysJob
from gangctl.pathways.problems import MOST_PROBLEMS, InvalidReason, Problem, problem


class Findings:
    """Problems and notices, each at the source of the value: a field, or a flag."""

    __slots__ = ("job", "notices", "problems")

    def __init__(self, job: PathwaysJob) -> None:
        """Start without findings."""
        self.job = job
        self.problems: list[Problem] = []
        self.notices: list[Notice] = []

    def place(self, path: str) -> str:
        """The name of the field at ``path`` for the user."""
        return self.job.origin(path).place

    def refuse(self, reason: InvalidReason, path: str, detail: str, kind: ErrorKind = ErrorKind.INVALID) -> None:
        """A problem of the field at ``path``; ``detail`` is what is allowed."""
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(problem(reason, self.place(path), detail, kind))

    def refuse_all(self, reason: InvalidReason, errors: Iterable[FieldError]) -> None:
        """Add problems of another check."""
        for error in errors:
            self.refuse(reason, error.path, error.detail, error.kind)

    def notice(self, reason: Reason, message: str) -> None:
        """Add a notice, which prevents nothing."""
        self.notices.append(Notice(reason, message))
