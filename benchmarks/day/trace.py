"""A trace of jobs: a CSV file of four columns."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol

COLUMNS: Final = ("submitted", "seconds", "gpus", "queue")
PHILLY: Final = Path(__file__).parents[1] / "data" / "philly-2017-11.csv"
"""Its origin is in the README beside it."""


class UnreadableTraceError(ValueError):
    """A file that is no trace; the message begins with the file and the line."""


@dataclass(frozen=True, slots=True)
class Job:
    """One row: when it was submitted, how many seconds it ran on how many GPUs, and for which queue."""

    submitted: datetime
    """UTC."""
    seconds: float
    gpus: int
    queue: str


class _Rows(Protocol):
    """A reader of the csv module."""

    @property
    def line_num(self) -> int: ...

    def __iter__(self) -> Iterator[list[str]]: ...

    def __next__(self) -> list[str]: ...


def read_trace(path: Path) -> list[Job]:
    """All jobs in the order of submission.

    The first line names the columns: ``submitted`` (ISO 8601; UTC where it names no zone), ``seconds`` (above 0),
    ``gpus`` (a whole number, 1 or more) and ``queue`` (any text). Raises :class:`UnreadableTraceError` for the first
    bad line.
    """
    try:
        # The csv module reads line ends itself: those in quotes are part of a cell.
        with path.open(newline="", encoding="utf-8") as file:
            jobs = list(_jobs(path, csv.reader(file)))
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableTraceError(f"{path}: {error}") from error
    if not jobs:
        raise UnreadableTraceError(f"{path}:1: there are no jobs below the names of the columns")
    return sorted(jobs, key=lambda job: job.submitted)


def _jobs(path: Path, rows: _Rows) -> Iterator[Job]:
    try:
        _check_head(next(rows, []))
        for row in rows:
            if row:
                yield _job(row)
    except (ValueError, csv.Error) as error:
        # An empty file has no line.
        raise UnreadableTraceError(f"{path}:{max(1, rows.line_num)}: {error}") from error


def _check_head(names: list[str]) -> None:
    if tuple(name.strip() for name in names) != COLUMNS:
        raise ValueError(f"the columns are {','.join(names)!r}, must be {','.join(COLUMNS)!r}")


def _job(row: list[str]) -> Job:
    if len(row) != len(COLUMNS):
        raise ValueError(f"{len(row)} columns, must be {len(COLUMNS)}: {','.join(COLUMNS)}")
    submitted, seconds, gpus, queue = (cell.strip() for cell in row)
    return Job(_time(submitted), _seconds(seconds), _gpus(gpus), queue)


def _time(text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"submitted: {text!r} is no time, as 2017-11-06T00:02:11 is") from None
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise ValueError(f"seconds: {text!r} is no number above 0")
    return value


def _gpus(text: str) -> int:
    # isdigit() alone is true of "²", which int() refuses.
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise ValueError(f"gpus: {text!r} is no whole number of 1 or more")
    return int(text)
