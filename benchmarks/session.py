"""One run of benchmarks after another: who goes next, who failed, what is kept, what is said meanwhile."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import machine, report
from benchmarks.budgets import limits
from benchmarks.catalogue import Bench
from benchmarks.machine import Facts, Look
from benchmarks.pace import Sampler
from benchmarks.result import Findings, Result, UnreadableResultError


@dataclass(frozen=True)
class Session:
    """Where results go, and how large everything is.

    ``resume`` keeps what this commit has measured already, unless it failed, or the machine was not quiet.
    """

    benches: Mapping[str, Bench]
    directory: Path
    quick: bool = False
    resume: bool = False
    say: Callable[[str], None] = print

    def run(self, names: Sequence[str]) -> list[str]:
        """Measure, and write the page after each; the names of those that failed."""
        failed = []
        had = {name for name in names if self.resume and self._has(name)}
        if not self.quick:
            self.say(f"{len(names)} benchmarks, {self._about(set(names) - had)}")
        for place, name in enumerate(names, 1):
            if name in had:
                self.say(f"[{place}/{len(names)}] {name}: measured already at this commit")
                continue
            rest = set(names[place:]) - had
            about = "" if self.quick else f", {self._about({name})}; after it {self._about(rest)}"
            self.say(f"[{place}/{len(names)}] {name}{about}")
            result = self.measure(name)
            result.write(self.directory / report.RAW)
            if result.findings is None:
                failed.append(name)
                self.say(f"[{place}/{len(names)}] {name} FAILED after {result.seconds:.0f} s: {result.error}")
            else:
                self._tell(name, result)
            report.write(self.directory)
        return failed

    def measure(self, name: str) -> Result:
        """One benchmark; what it raises is its result."""
        facts = Facts.gather()
        before = Look.now()
        began = datetime.now(UTC)
        findings: Findings | None = None
        error = ""
        sampler = Sampler()
        try:
            with sampler:
                findings = self.benches[name].run(self.quick)
            complete(name, findings)
        except Exception as problem:  # noqa: BLE001 - one that fails must not take the others with it; the page says so
            findings, error = None, f"{type(problem).__name__}: {str(problem).partition(chr(10))[0]}"
            traceback.print_exc()
        after = Look.now()
        return Result(
            bench=name,
            quick=self.quick,
            began=f"{began:%Y-%m-%dT%H:%M:%SZ}",
            seconds=round(after.at - before.at, 1),
            facts=facts,
            load_end=os.getloadavg()[0],
            pace=sampler.pace,
            noise=machine.noise(before, after, facts.cores),
            error=error,
            findings=findings,
        )

    def _about(self, names: set[str]) -> str:
        """How long these take."""
        return f"about {sum(self.benches[name].minutes for name in names):.3g} min" if names else "nothing"

    def _has(self, name: str) -> bool:
        path = self.directory / report.RAW / f"{name}.json"
        if not path.exists():
            return False
        try:
            found = Result.parse(path.read_bytes())
        except UnreadableResultError:
            return False
        now = machine.commit(Path(__file__).parent.parent)
        same = found.facts.commit == now and not now.endswith(machine.CHANGED)
        return same and found.findings is not None and found.quick == self.quick and not found.noise

    def _tell(self, name: str, result: Result) -> None:
        """The table, on the screen and as a file of its own."""
        if result.findings is None:
            return
        command = f"python -m benchmarks all{' --quick' if self.quick else ''} --only {name}"
        where = f"{result.facts.cores} cores, Python {result.facts.python}, {result.began[:10]}, {result.facts.commit}"
        text = result.findings.table.markdown()
        path = self.directory / "results" / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {name}\n\n`{command}` ({where})\n\n{text}\n")
        self.say(f"\n{text}\n\n{name}: {result.seconds:.0f} s{''.join(f'; {each}' for each in result.noise)}")


def complete(bench: str, findings: Findings) -> None:
    """Raise if a benchmark says nothing of one of its limits, or something of others'."""
    said = [*(figure.limit for figure in findings.figures), *findings.unmeasured]
    wanted = [limit.id for limit in limits() if limit.bench == bench]
    if sorted(said) != sorted(wanted):
        raise ValueError(f"{bench} has figures for {', '.join(said) or 'nothing'}, its limits are {', '.join(wanted)}")


def refuse(look: Callable[[], list[str]], patience: float, say: Callable[[str], None] = print) -> list[str]:
    """Why not to begin: what others do on this machine, after waiting for them for so many seconds."""
    deadline = time.monotonic() + patience
    while True:
        found = look()
        if not found or time.monotonic() >= deadline:
            return found
        say(f"waiting for a quiet machine: {'; '.join(found)}")
