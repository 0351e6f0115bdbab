"""All runs that were asked for, one after the other: what is over is kept, and how long the rest takes is printed."""

from __future__ import annotations

import asyncio
import hashlib
import os
import subprocess
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Self

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked

from benchmarks import machine
from benchmarks.day.arms import ARMS
from benchmarks.day.figures import RunFigures, figures_of
from benchmarks.day.run import play
from benchmarks.day.windows import SPEED, VARIATIONS, Replay, Window, prepare
from benchmarks.machine import CHANGED, Facts, Look

FORMAT: Final = 1
START_SECONDS: Final = 20.0
"""What a control plane takes to start and to end."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One run of the matrix, by names; ``round`` counts from 1."""

    window: str
    variation: str
    arm: str
    round: int = 1

    @property
    def name(self) -> str:
        """That of its file."""
        return f"{self.window}.{self.variation}.{self.arm}.{self.round}"


@checked(config=ConfigDict(extra="forbid", ser_json_inf_nan="strings"))
class Measured:
    """What a run was worth, and what it was measured on."""

    cell: Cell
    trace: str
    begin: str
    """Of the window, ISO 8601."""
    gpus: int
    """Of the cluster, without those that others hold."""
    speed: float
    figures: RunFigures
    cpu: dict[str, float]
    """Seconds by process."""
    began: str
    seconds: float
    facts: Facts
    load_end: float
    noise: list[str] = field(default_factory=list)
    """What else was at work."""
    volcano: str = ""
    """The commit of Volcano, where it schedules."""
    replay: str = ""
    """A digest of all that was replayed; earlier results have none."""
    format: int = FORMAT

    @property
    def publishable(self) -> bool:
        """Whether it was measured on a quiet machine, from a commit."""
        return not self.noise and not self.facts.commit.endswith(CHANGED)

    def write(self, directory: Path) -> None:
        """Store it; a run that is ended meanwhile leaves the old file or the new one."""
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"{self.cell.name}.json"
        new = path.with_suffix(".new")
        new.write_bytes(_ADAPTER.dump_json(self, indent=1) + b"\n")
        new.replace(path)

    @classmethod
    def read(cls, path: Path) -> Self:
        """From a file; raises :class:`UnreadableCellError`."""
        try:
            measured = _ADAPTER.validate_json(path.read_bytes())
        except ValidationError as error:
            first = error.errors()[0]
            raise UnreadableCellError(f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
        if measured.format != FORMAT:
            raise UnreadableCellError(f"{path}: format {measured.format}, this is {FORMAT}: measure again")
        return measured  # type: ignore[return-value]


_ADAPTER: Final = TypeAdapter(Measured)


class UnreadableCellError(ValueError):
    """A file that is no result of a run; the message begins with its path."""


def read_all(directory: Path) -> list[Measured]:
    """Every result of a directory; raises :class:`UnreadableCellError`."""
    return [Measured.read(path) for path in sorted(directory.glob("*.json"))]


def cells(windows: Sequence[str], variations: Sequence[str], arms: Sequence[str], rounds: int = 1) -> list[Cell]:
    """Every window as it is, then the first one in each variation; arms take turns, so that a slow hour meets all."""
    plain = next(iter(VARIATIONS))
    pairs = [(window, plain) for window in windows if plain in variations]
    pairs += [(window, variation) for window in windows[:1] for variation in variations if variation != plain]
    return [
        Cell(window, variation, arm, number)
        for number in range(1, rounds + 1)
        for window, variation in pairs
        for arm in arms
    ]


def _say(text: str) -> None:
    """At once, also where it is no terminal."""
    print(text, flush=True)


@dataclass
class Matrix:
    """Where runs take their windows from and put their results."""

    windows: Sequence[Window]
    trace: str
    directory: Path
    speed: float = SPEED
    volcano: Path | None = None
    resume: bool = False
    say: Callable[[str], None] = _say
    _took: dict[float, list[float]] = field(default_factory=dict)
    """Seconds of the runs so far, by how much slower they are."""

    def run(self, wanted: Sequence[Cell]) -> list[str]:
        """Measure all; the names of those that failed."""
        failed = []
        had = {each for each in wanted if self.resume and self._has(each)}
        for number, cell in enumerate(wanted, 1):
            place = f"[{number}/{len(wanted)}] {cell.name}"
            if cell in had:
                self.say(f"{place}: measured already at this commit")
                continue
            rest = [each for each in wanted[number:] if each not in had]
            self.say(f"{place}: about {self.minutes([cell]):.0f} min; after it about {self.minutes(rest):.0f} min")
            try:
                measured = self.measure(cell)
            except Exception as problem:  # noqa: BLE001 - one that fails must not take the others with it
                traceback.print_exc()
                failed.append(cell.name)
                self.say(f"{place} FAILED: {type(problem).__name__}: {str(problem).partition(chr(10))[0]}")
                continue
            measured.write(self.directory)
            self.say(f"{place}: {summary(measured)}")
        return failed

    def measure(self, cell: Cell) -> Measured:
        """One run."""
        replay = self._replay(cell)
        facts, before, began = Facts.gather(), Look.now(), datetime.now(UTC)
        played = asyncio.run(play(ARMS[cell.arm], replay, self.volcano))
        after = Look.now()
        self._took.setdefault(VARIATIONS[cell.variation].slower, []).append(after.at - before.at)
        return Measured(
            cell=cell,
            **self._inputs(cell, replay),
            figures=figures_of(replay, played.events, played.end),
            cpu={name: round(seconds, 1) for name, seconds in played.cpu.items()},
            began=f"{began:%Y-%m-%dT%H:%M:%SZ}",
            seconds=round(after.at - before.at, 1),
            facts=facts,
            load_end=os.getloadavg()[0],
            noise=machine.noise(before, after, facts.cores),
        )

    def _window(self, cell: Cell) -> Window:
        return next(window for window in self.windows if window.name == cell.window)

    def _replay(self, cell: Cell) -> Replay:
        return prepare(self._window(cell), VARIATIONS[cell.variation], self.speed)

    def _inputs(self, cell: Cell, replay: Replay) -> dict[str, Any]:
        """What decides a run, beside the commit: fields of :class:`Measured`."""
        return {
            "trace": self.trace,
            "begin": self._window(cell).begin.isoformat(),
            "gpus": replay.free * len(replay.nodes),
            "speed": replay.speed,
            "volcano": _commit(self.volcano) if ARMS[cell.arm].volcano and self.volcano else "",
            "replay": hashlib.sha256(repr(replay).encode()).hexdigest()[:12],
        }

    def minutes(self, rest: Iterable[Cell]) -> float:
        """How long these take: as those before them did, and at first as long as their windows."""
        return sum(self._expected(VARIATIONS[each.variation].slower) for each in rest) / 60

    def _expected(self, slower: float) -> float:
        taken = self._took.get(slower)
        return sum(taken) / len(taken) if taken else START_SECONDS + 48 * 3600 / self.speed * slower

    def _has(self, cell: Cell) -> bool:
        path = self.directory / f"{cell.name}.json"
        if not path.exists():
            return False
        try:
            measured = Measured.read(path)
        except UnreadableCellError:
            return False
        now = machine.commit(Path(__file__).parents[2])
        inputs = self._inputs(cell, self._replay(cell))
        if not measured.replay:
            del inputs["replay"]
        same = measured.facts.commit == now and all(getattr(measured, name) == inputs[name] for name in inputs)
        # One of a busy machine is measured again, also at the same commit.
        return same and measured.publishable and measured.cell == cell


def _commit(checkout: Path) -> str:
    """Of another project's work tree."""
    command = ["git", "-C", str(checkout), "rev-parse", "--short=12", "HEAD"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    return ran.stdout.strip() or "unknown"


def summary(measured: Measured) -> str:
    """One line of a run."""
    figures = measured.figures
    noise = "".join(f"; {each}" for each in measured.noise)
    return (
        f"{figures.done} of {figures.jobs} done, useful {figures.useful:.1%}, stranded {figures.stranded:.1%}, "
        f"{measured.seconds:.0f} s{noise}"
    )
