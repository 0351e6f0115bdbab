"""Results of runs as tables in markdown and as charts, and the page of the docs that is written from them."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from benchmarks.chart import Axis, Chart, Line
from benchmarks.day.arms import ARMS
from benchmarks.day.figures import BUCKETS, Wait
from benchmarks.day.matrix import Measured, read_all
from benchmarks.day.windows import HOURS, NAMES, VARIATIONS
from benchmarks.result import percentile
from benchmarks.table import Table
from tests.controlplane.minors import NEWEST

ROOT: Final = Path(__file__).parents[2]
RESULTS: Final = ROOT / "benchmarks" / "results" / "day"
PAGE: Final = ROOT / "docs" / "day-results.md"
TITLE: Final = "# A day of a real cluster"
INTRODUCTION: Final = (
    "Written by `python -m benchmarks.day.page` from `benchmarks/results/day`.\n\n"
    "Every run that was made on a quiet machine. [What gangs are worth](what-gangs-are-worth.md) has the method, what "
    "the columns mean, the limits, and what the runs show."
)
NOTHING: Final = "No run of the whole matrix on a quiet machine is recorded in `benchmarks/results/day` yet."
NOT_QUIET: Final = (
    "> **Not a quiet machine, or changes that are in no commit.** Rows with an asterisk show that the benchmark runs. "
    "Do not compare them."
)
PICTURES: Final = ROOT / "docs" / "images"
SMOOTH: Final = 6
"""Half hours of which a point of a line is the mean."""
SIZES: Final = ((1, 7), (8, 15), (16, 10**9))
"""GPUs of a JobSet, from and to."""
_HEADINGS: Final = (
    *("arm", "jobs done", "useful", "stranded", "idle beside a gang that fits", "wait below 8 GPUs", "8 to 15"),
    *("16 and more", "makespan"),
)


def tables(results: Sequence[Measured]) -> str:
    """A section for each window and variation; arms that were not run are named in it."""
    if not results:
        return NOTHING
    parts = [] if all(each.publishable for each in results) else [NOT_QUIET]
    for window in NAMES:
        for variation in VARIATIONS.values():
            here = [each for each in results if (each.cell.window, each.cell.variation) == (window, variation.name)]
            if here:
                parts += [_heading(here[0], variation.text), _table(here).markdown(), _cpu(here).markdown()]
    if missing := _missing(results):
        parts.append(f"Not run yet: {'; '.join(missing)}.")
    commits = ", ".join(sorted({each.facts.commit for each in results}))
    beside = "".join(f", Volcano {each}" for each in sorted({each.volcano for each in results} - {""}))
    first = results[0].facts
    kubernetes, kueue = (first.versions.get(name, "unknown") for name in (f"kubernetes-{NEWEST}", "kueue"))
    parts.append(
        f"Commit {commits}; Kubernetes {kubernetes}, Kueue {kueue}{beside}; {first.cores} cores ({first.processor}), "
        f"Python {first.python}, {min(each.began for each in results)[:10]}."
    )
    return "\n\n".join(parts)


def _missing(results: Sequence[Measured]) -> list[str]:
    """Windows and variations of the matrix without a result."""
    there = {(measured.cell.window, measured.cell.variation) for measured in results}
    plain, *others = VARIATIONS.values()
    windows = [f"window {window}" for window in NAMES if (window, plain.name) not in there]
    return windows + [f"window {NAMES[0]}: {one.text}" for one in others if (NAMES[0], one.name) not in there]


def _heading(measured: Measured, text: str) -> str:
    figures = measured.figures
    return (
        f"## Window {measured.cell.window}: {text}\n\n{HOURS} hours from {measured.begin[:16].replace('T', ' ')}, "
        f"{figures.jobs} JobSets, {measured.gpus} GPUs, {measured.speed:g} seconds of the trace in a second."
    )


def _table(results: Sequence[Measured]) -> Table:
    table = Table("day", list(_HEADINGS))
    for arm in ARMS.values():
        runs = [each for each in results if each.cell.arm == arm.name]
        if not runs:
            continue
        jobs = runs[0].figures.jobs
        waits = [wait for each in runs for wait in each.figures.waits]
        table.add(
            arm.title if all(each.publishable for each in runs) else f"{arm.title} *",
            f"{_spread(runs, lambda each: each.figures.done, '{:.0f}')} of {jobs}",
            _spread(runs, lambda each: 100 * each.figures.useful, "{:.1f}%"),
            _spread(runs, lambda each: 100 * each.figures.stranded, "{:.1f}%"),
            _spread(runs, lambda each: 100 * each.figures.idle, "{:.1f}%"),
            *(_waits(waits, least, most) for least, most in SIZES),
            _makespan(runs),
        )
    if missing := [arm.title for arm in ARMS.values() if arm.name not in {each.cell.arm for each in results}]:
        table.remarks.append(f"Not run: {', '.join(missing)}.")
    return table


def _spread(runs: Sequence[Measured], value: Callable[[Measured], float], form: str) -> str:
    """The median, and of several rounds the least and the most."""
    values = [value(each) for each in runs]
    median = form.format(statistics.median(values))
    return median if len(values) == 1 else f"{median} ({form.format(min(values))} to {form.format(max(values))})"


def _waits(waits: Iterable[Wait], least: int, most: int) -> str:
    """Median and 95th percentile in minutes of the trace; a wait that had not ended makes its percentile a bound."""
    some = sorted((each for each in waits if least <= each.gpus <= most), key=lambda each: each.seconds)
    if not some:
        return "none"
    seconds = [each.seconds for each in some]
    # Above the shortest wait that had not ended, ranks are not known.
    open_at = min((each.seconds for each in some if not each.begun), default=float("inf"))
    values = (statistics.median(seconds), percentile(seconds, 0.95))
    return " / ".join(f"{'≥ ' if value >= open_at else ''}{value / 60:,.0f}" for value in values) + " min"


def _makespan(runs: Sequence[Measured]) -> str:
    spans = [each.figures.makespan for each in runs]
    ended = [span / 3600 for span in spans if span is not None]
    return f"{statistics.median(ended):.1f} h" if len(ended) == len(spans) else "not all done"


def _cpu(results: Sequence[Measured]) -> Table:
    """Seconds of CPU by process, means of the rounds."""
    names = sorted({name for each in results for name in each.cpu})
    table = Table("cpu", ["CPU seconds of a run", *names])
    for arm in ARMS.values():
        runs = [each.cpu for each in results if each.cell.arm == arm.name]
        if runs:
            cells = [
                f"{statistics.fmean(run[name] for run in runs):.0f}" if all(name in run for run in runs) else ""
                for name in names
            ]
            table.add(arm.title, *cells)
    return table


def charts(results: Sequence[Measured]) -> list[Chart]:
    """Useful and stranded GPU time of the busiest window over its two days: means of three hours, a line an arm."""
    first = [each for each in results if (each.cell.window, each.cell.round) == (NAMES[0], 1)]
    plain = {each.cell.arm: each.figures for each in first if each.cell.variation == next(iter(VARIATIONS))}
    hours = [(number + 0.5) * HOURS * SMOOTH / BUCKETS for number in range(BUCKETS // SMOOTH)]
    drawn = []
    for kind in ("useful", "stranded"):
        title = f"{kind.capitalize()} GPU time of {next(iter(plain.values())).jobs} jobs" if plain else kind
        chart = Chart(f"day-{kind}", title, Axis("hours of the trace"), Axis("% of the GPUs of the cluster"))
        for arm in ARMS.values():
            if arm.name in plain:
                shares = plain[arm.name].useful_line if kind == "useful" else plain[arm.name].stranded_line
                means = (statistics.fmean(shares[at : at + SMOOTH]) for at in range(0, BUCKETS, SMOOTH))
                points = zip(hours, (100 * mean for mean in means), strict=True)
                chart.lines.append(Line(arm.title, tuple(points)))
        if chart.lines:
            drawn.append(chart)
    return drawn


def write(directory: Path, results: Sequence[Measured] | None = None) -> Path:
    """``DAY.md`` and the charts, from the results of a directory; the path of the page."""
    results = read_all(directory) if results is None else results
    directory.mkdir(parents=True, exist_ok=True)
    for chart in charts(results):
        (directory / f"{chart.name}.svg").write_text(chart.svg())
    path = directory / "DAY.md"
    path.write_text(f"{TITLE}\n\n{tables(results)}\n")
    return path


def page(results: Sequence[Measured]) -> str:
    """The page of the docs: those results that may be published."""
    return f"{TITLE}\n\n{INTRODUCTION}\n\n{tables([result for result in results if result.publishable])}\n"


def pictures(results: Sequence[Measured]) -> dict[Path, str]:
    """The charts of those results that may be published, by the file that they are kept in."""
    drawn = charts([measured for measured in results if measured.publishable])
    return {PICTURES / f"{chart.name}.svg": chart.svg() for chart in drawn}


def main() -> int:
    """Write the page and the pictures anew."""
    results = read_all(RESULTS)
    PAGE.write_text(page(results))
    for path, svg in pictures(results).items():
        path.write_text(svg)
        print(f"written: {path}")
    print(f"written: {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
