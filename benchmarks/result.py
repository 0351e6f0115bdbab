"""What a benchmark found: figures for the budgets, a table and charts for a reader; as JSON and back."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked

from benchmarks.budgets import Limit
from benchmarks.chart import Chart
from benchmarks.machine import Facts
from benchmarks.pace import Pace
from benchmarks.table import Table

FORMAT: Final = 1
_CONFIG: Final = ConfigDict(extra="forbid", ser_json_inf_nan="strings")


class UnreadableResultError(ValueError):
    """A file of raw results that is none."""


def percentile(values: Sequence[float], share: float) -> float:
    """The value that ``share`` of all do not exceed."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


@dataclass(frozen=True, slots=True)
class Observed:
    """Single observations of all rounds together, in the unit of their limit."""

    count: int
    median: float
    p99: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """At least one is needed."""
        return cls(len(values), statistics.median(values), percentile(values, 0.99))


@dataclass(frozen=True, slots=True)
class Figure:
    """What was measured for one limit, in its unit: a value a round, and beside it what the yardstick took."""

    limit: str
    rounds: tuple[float, ...]
    yardstick: tuple[float, ...] = ()
    observed: Observed | None = None

    @property
    def median(self) -> float:
        """Of the rounds."""
        return statistics.median(self.rounds)

    @property
    def ratios(self) -> tuple[float, ...]:
        """To the yardstick, round by round; none where there is no yardstick."""
        pairs = zip(self.rounds, self.yardstick, strict=True) if self.yardstick else ()
        return tuple(value / beside if beside else float("inf") for value, beside in pairs)

    def judged(self, limit: Limit) -> float:
        """The one number that is held against the limit."""
        values = self.ratios if limit.relative else self.rounds
        if not values:
            raise ValueError(f"{limit.id}: nothing was measured beside it, and its limit is a ratio")
        if not limit.worst:
            return statistics.median(values)
        return max(values) if limit.direction.value == "at most" else min(values)


@dataclass
class Findings:
    """What a benchmark returns; ``unmeasured`` says of limits why there is no figure."""

    table: Table
    figures: list[Figure] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)
    unmeasured: dict[str, str] = field(default_factory=dict)


@checked(config=_CONFIG)
class Result:
    """One run of one benchmark; ``error`` says what ended it early, and then there are no findings."""

    bench: str
    quick: bool
    began: str
    """UTC, ISO 8601."""
    seconds: float
    facts: Facts
    load_end: float
    noise: list[str] = field(default_factory=list)
    """What else was at work."""
    pace: Pace | None = None
    """Of a core meanwhile."""
    error: str = ""
    findings: Findings | None = None
    format: int = FORMAT

    def json(self) -> str:
        """As it is stored."""
        return _ADAPTER.dump_json(self, indent=1).decode() + "\n"

    @classmethod
    def parse(cls, text: str | bytes) -> Self:
        """From :meth:`json`; raises :class:`UnreadableResultError`."""
        try:
            found = _ADAPTER.validate_json(text)
        except ValidationError as error:
            first = error.errors()[0]
            raise UnreadableResultError(f"{'.'.join(map(str, first['loc'])) or 'the file'}: {first['msg']}") from error
        if found.format != FORMAT:
            raise UnreadableResultError(f"format {found.format}, this is {FORMAT}: measure again")
        return found  # type: ignore[return-value]

    def write(self, directory: Path) -> Path:
        """Store it in a directory of raw results; a run that is ended meanwhile leaves the old file or the new one."""
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"{self.bench}.json"
        new = path.with_suffix(".new")
        new.write_text(self.json())
        return new.replace(path)


_ADAPTER: Final = TypeAdapter(Result)


def read_all(directory: Path) -> dict[str, Result]:
    """Every raw result of a directory by its benchmark; raises :class:`UnreadableResultError` with the file's name."""
    found = {}
    for path in sorted(directory.glob("*.json")):
        try:
            found[path.stem] = Result.parse(path.read_bytes())
        except UnreadableResultError as error:
            raise UnreadableResultError(f"{path}: {error}") from error
    return found
