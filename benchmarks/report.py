"""``RESULTS.md``: every row of the budgets, what was measured for it, and what it was measured on."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from benchmarks.budgets import APART, ROWS, Direction, Limit, Row
from benchmarks.chart import number
from benchmarks.machine import CHANGED
from benchmarks.pace import REFERENCE
from benchmarks.result import Figure, Result, read_all

MET, MISSED, UNMEASURED, UNJUDGED = "met", "**missed**", "not measured", "not judged"
HEADINGS: Final = ("what", "budget", "measured", "p99", "spread", "yardstick", "ratio", "at reference", "verdict")
RAW: Final = "results/raw"
PLOTS: Final = "results/plots"
EXPLAINED: Final = "explained"
"""Files LIMIT.md: why a limit is missed, with a profile; written by people."""
_QUICK: Final = (
    "> **Tiny sizes (`--quick`).** This shows that every benchmark runs. Its numbers say nothing of gangctl, and no "
    "verdict is given."
)


@dataclass(frozen=True, slots=True)
class Judgement:
    """Of one limit: the verdict, and why, where nothing was measured.

    ``paced`` is what would have been measured at the reference's pace, of limits that are for it.
    """

    limit: Limit
    verdict: str
    figure: Figure | None = None
    why: str = ""
    paced: float | None = None


def judge(limit: Limit, results: Mapping[str, Result]) -> Judgement:
    """Hold what was measured against the limit."""
    result = results.get(limit.bench)
    if result is None:
        asked = f"; it is run when it is asked for: `--with {limit.bench}`" if limit.bench in APART else ""
        return Judgement(limit, UNMEASURED, why=f"no result of `{limit.bench}`{asked}")
    if result.findings is None:
        return Judgement(limit, UNMEASURED, why=f"`{limit.bench}` ended early: {result.error}")
    figure = next((each for each in result.findings.figures if each.limit == limit.id), None)
    if figure is None:
        why = result.findings.unmeasured.get(
            limit.id, f"the run of `{limit.bench}` at {result.facts.commit} did not measure it"
        )
        return Judgement(limit, UNMEASURED, why=why)
    if result.quick:
        return Judgement(limit, UNJUDGED, figure)
    value, paced = figure.judged(limit), None
    if limit.paced and result.pace is not None:
        share = result.pace.share
        value = paced = value * share if limit.direction is Direction.AT_MOST else value / share
    return Judgement(limit, MET if limit.direction.allows(value, limit.limit) else MISSED, figure, paced=paced)


def verdict_of(judgements: list[Judgement]) -> str:
    """Of a row: what is worst."""
    found = {each.verdict for each in judgements}
    return next(each for each in (MISSED, UNMEASURED, UNJUDGED, MET) if each in found)


def markdown(results: Mapping[str, Result], explained: Mapping[str, str] = MappingProxyType({})) -> str:
    """The whole page; of the same results always the same. ``explained`` says of limits why they are missed."""
    judged = {row.id: [judge(limit, results) for limit in row.limits] for row in ROWS}
    parts = ["# Results", "Written by `python -m benchmarks report` from the files in `results/raw`."]
    if any(result.quick for result in results.values()):
        parts.append(_QUICK)
    parts += [*_machine(results), *_warnings(results), _summary(judged)]
    parts += [_section(row, judged[row.id], results, explained) for row in ROWS]
    parts.append(_runs(results))
    return "\n\n".join(parts) + "\n"


def write(directory: Path) -> Path:
    """Read the raw results below a directory, draw their charts, write the page; raises UnreadableResultError."""
    results = read_all(directory / RAW)
    plots = directory / PLOTS
    plots.mkdir(parents=True, exist_ok=True)
    for result in results.values():
        for chart in result.findings.charts if result.findings else ():
            (plots / f"{chart.name}.svg").write_text(chart.svg())
    path = directory / "RESULTS.md"
    path.write_text(markdown(results, explanations(directory)))
    return path


def explanations(directory: Path) -> dict[str, str]:
    """What people have written down of limits that are missed, by limit."""
    return {path.stem: path.read_text().strip() for path in sorted((directory / EXPLAINED).glob("*.md"))}


def _table(*lines: tuple[str, ...]) -> str:
    rows = [lines[0], ("---",) * len(lines[0]), *lines[1:]]
    return "\n".join(
        "| " + " | ".join(each.replace("|", "\\|").replace("\n", " ") for each in row) + " |" for row in rows
    )


def _machine(results: Mapping[str, Result]) -> Iterator[str]:
    """What it was measured on; each difference is told."""
    facts = {
        (each.facts.cores, each.facts.processor, each.facts.memory_gb, each.facts.kernel, each.facts.python)
        for each in results.values()
    }
    for cores, processor, memory, kernel, python in sorted(facts):
        yield f"Machine: {cores} cores ({processor}), {memory:g} GB of memory, {kernel}, Python {python}."
    versions = {tuple(sorted(each.facts.versions.items())) for each in results.values()}
    for found in sorted(versions):
        yield "Versions: " + ", ".join(f"{name} {version}" for name, version in found) + "."
    commits = sorted({each.facts.commit for each in results.values()})
    if commits:
        yield f"Commit: {'; '.join(commits)}."
    if paces := [each.pace for each in results.values() if each.pace]:
        yield (
            f"Pace of one core, sampled each second: {min(each.low for each in paces):,.0f} to "
            f"{max(each.high for each in paces):,.0f} JSON round trips of a small JobSet in a second of CPU. "
            "Neighbours of a virtual machine change it although the machine itself is quiet. Limits of times in which "
            f"a core works are for a core of {REFERENCE:,}, as that for which they were set: *at reference* is "
            "what was measured, by the median pace of its benchmark, and is judged."
        )
    yield (
        "Everything runs on this one machine: gangctl, what it is measured beside, and what measures. Times are "
        "therefore held against a yardstick of the same run wherever there is one."
    )


def _warnings(results: Mapping[str, Result]) -> Iterator[str]:
    commits = {each.facts.commit for each in results.values()}
    if len(commits) > 1:
        yield "> **Rows are of different commits**; the table of runs says which."
    if any(commit.endswith(CHANGED) for commit in commits):
        yield "> **Measured with changes that are in no commit.**"
    if noisy := [name for name, each in results.items() if each.noise]:
        yield f"> **The machine was not quiet** during {', '.join(noisy)}; their numbers are not to be relied on."


def _summary(judged: Mapping[str, list[Judgement]]) -> str:
    lines = [(f"[{row.id}](#{row.id})", row.text, verdict_of(judged[row.id])) for row in ROWS]
    return _table(("row", "about", "verdict"), *lines)


def _section(row: Row, judgements: list[Judgement], results: Mapping[str, Result], explained: Mapping[str, str]) -> str:
    parts = [f"## {row.id}", row.text, _table(HEADINGS, *map(_line, judgements))]
    beside: dict[str, list[str]] = {}
    for limit in row.limits:
        if limit.yardstick:
            beside.setdefault(limit.yardstick, []).append(limit.text)
    if beside:
        told = (yardstick if len(beside) == 1 else f"{yardstick} ({', '.join(of)})" for yardstick, of in beside.items())
        parts.append(f"Yardstick: {'; '.join(told)}.")
    missing: dict[str, list[str]] = {}
    for each in judgements:
        if each.why:
            missing.setdefault(each.why, []).append(each.limit.text)
    parts += [f"Not measured: {', '.join(texts)}: {why}." for why, texts in missing.items()]
    missed = [each.limit for each in judgements if each.verdict is MISSED]
    parts += [f"Missed: {each.text}. {explained.get(each.id, 'Nobody has said why yet.')}" for each in missed]
    for bench in row.benches:
        found = results.get(bench)
        if found is None or found.findings is None:
            continue
        parts += [f"![{chart.title}]({PLOTS}/{chart.name}.svg)" for chart in found.findings.charts]
        parts.append(f"All of it: [results/{bench}.md](results/{bench}.md).")
    return "\n\n".join(parts)


def _line(judgement: Judgement) -> tuple[str, ...]:
    limit, figure = judgement.limit, judgement.figure
    budget = f"{limit.direction.value} {quantity(limit.limit, limit.limit_unit)}"
    if figure is None:
        return (limit.text, budget, *[""] * (len(HEADINGS) - 3), judgement.verdict)
    many = len(figure.rounds) > 1
    ratio = ""
    if figure.yardstick:
        ratio = f"{number(figure.judged(limit) if limit.relative else _middle(figure.ratios))}x"
    return (
        limit.text,
        budget,
        quantity(figure.judged(limit) if limit.worst and not limit.relative else figure.median, limit.unit),
        quantity(figure.observed.p99, limit.unit) if figure.observed else "",
        f"{number(min(figure.rounds))} to {number(max(figure.rounds))} ({len(figure.rounds)} rounds)" if many else "",
        quantity(_middle(figure.yardstick), limit.unit) if figure.yardstick else "",
        ratio,
        "" if judgement.paced is None else quantity(judgement.paced, limit.unit),
        judgement.verdict,
    )


def _middle(values: tuple[float, ...]) -> float:
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def quantity(value: float, unit: str) -> str:
    """A number and its unit."""
    space = "" if unit in {"x", "%", "/s"} or not unit else " "
    return f"{number(value)}{space}{unit}" if math.isfinite(value) else "without end"


def _runs(results: Mapping[str, Result]) -> str:
    lines = [
        (
            name,
            each.began,
            f"{each.seconds:.0f} s",
            f"{each.facts.load_start:.1f} / {each.load_end:.1f}",
            f"{each.pace.low:,.0f} {each.pace.median:,.0f} {each.pace.high:,.0f}" if each.pace else "",
            each.facts.commit,
            "; ".join(each.noise) or "quiet",
        )
        for name, each in sorted(results.items())
    ]
    headings = (
        "benchmark",
        "began (UTC)",
        "took",
        "load before / after",
        "pace: least, median, most",
        "commit",
        "others",
    )
    return f"## Runs\n\n{_table(headings, *lines)}"
