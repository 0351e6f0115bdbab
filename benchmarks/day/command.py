"""``python -m benchmarks day``: its options, and what they mean."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.day import page
from benchmarks.day.arms import ARMS
from benchmarks.day.matrix import Cell, Matrix, UnreadableCellError, cells
from benchmarks.day.trace import COLUMNS, PHILLY, UnreadableTraceError, read_trace
from benchmarks.day.volcano import NoVolcanoError, build
from benchmarks.day.windows import NAMES, SEED, SPEED, VARIATIONS, NoWindowError, Window, windows
from benchmarks.machine import look_around
from benchmarks.session import refuse

QUICK_ARMS: Final = ("scheduler", "kueue", "gangctl")
ELSEWHERE: Final = Path(tempfile.gettempdir()) / "gangctl-day"
PATIENCE_SECONDS: Final = 60.0
NO_VOLCANO: Final = "VOLCANO IS NOT MEASURED: name a checkout of github.com/volcano-sh/volcano with --volcano DIR"


def add(verbs: Any) -> argparse.ArgumentParser:
    """Add the verb to the command."""
    about = ", ".join(f"{each.name} ({each.text})" for each in VARIATIONS.values())
    day: argparse.ArgumentParser = verbs.add_parser(
        "day",
        help="two days of a real trace, by gangctl and by what users would take instead",
        description=f"Each run takes about four minutes. Variations, of the first window: {about}.",
    )
    day.add_argument("--windows", metavar="NAMES", help=f"of {','.join(NAMES)}; default: all")
    day.add_argument("--variations", metavar="NAMES", help=f"of {','.join(VARIATIONS)}; default: all")
    day.add_argument("--arms", metavar="NAMES", help=f"of {','.join(ARMS)}; default: all")
    day.add_argument("--rounds", type=_positive, default=1, metavar="N", help="of each run (default: 1)")
    day.add_argument("--quick", action="store_true", help=f"one window, arms {','.join(QUICK_ARMS)}: 15 minutes")
    day.add_argument("--trace", type=Path, metavar="FILE", help=f"a CSV of your own: {','.join(COLUMNS)}")
    day.add_argument("--seed", type=int, default=SEED, help=f"draws the random window (default: {SEED})")
    day.add_argument("--volcano", type=Path, metavar="DIR", help="a checkout of Volcano, which is built in it")
    day.add_argument("--resume", action="store_true", help="keep what was measured at this commit already")
    day.add_argument("--anyway", action="store_true", help="measure on a machine that is not quiet; the page says so")
    day.add_argument("--directory", type=Path, help=f"of results (default: {page.RESULTS}, else {ELSEWHERE})")
    return day


def run(asked: argparse.Namespace) -> int:
    """Do it; 0 if everything was measured, 1 if something failed, 2 if nothing was begun."""
    try:
        chosen = windows(read_trace(asked.trace or PHILLY), asked.seed)
        wanted = select(asked, chosen)
    except (UnreadableTraceError, NoWindowError, UnknownNameError) as error:
        return _error(str(error))
    if any(cell.arm == "volcano" for cell in wanted):
        if asked.volcano is None:
            print(NO_VOLCANO, flush=True)
            wanted = [cell for cell in wanted if cell.arm != "volcano"]
        else:
            try:
                build(asked.volcano.resolve())
            except NoVolcanoError as error:
                return _error(str(error))
    if not wanted:
        return _error("nothing is left to measure")
    # A quick run need not wait: its results go elsewhere, and those of a busy machine are marked.
    if not asked.quick and not asked.anyway and (reasons := refuse(look_around, PATIENCE_SECONDS)):
        return _error(f"this machine is not quiet: {'; '.join(reasons)}\nend what else runs, or say --anyway")
    directory = (asked.directory or (ELSEWHERE if asked.quick or asked.trace else page.RESULTS)).resolve()
    name = (asked.trace or PHILLY).name
    checkout = asked.volcano.resolve() if asked.volcano else None
    matrix = Matrix(chosen, name, directory, SPEED, checkout, asked.resume)
    print(f"{len(wanted)} runs, about {matrix.minutes(wanted):.0f} min; results: {directory}", flush=True)
    failed = matrix.run(wanted)
    try:
        print(f"written: {page.write(directory)}")
    except UnreadableCellError as error:
        return _error(f"{error}\ndelete the file, or measure it again")
    return _error(f"not measured: {', '.join(failed)}", 1) if failed else 0


def select(asked: argparse.Namespace, chosen: Sequence[Window]) -> list[Cell]:
    """The runs that the options name; raises :class:`UnknownNameError`."""
    there = [each.name for each in chosen]
    names = _names("--windows", asked.windows, there)
    variations = _names("--variations", asked.variations, list(VARIATIONS))
    arms = _names("--arms", asked.arms, list(ARMS))
    if asked.quick:
        names = names[:1]
        variations = variations if asked.variations else variations[:1]
        arms = arms if asked.arms else list(QUICK_ARMS)
    return cells(names, variations, arms, asked.rounds)


class UnknownNameError(ValueError):
    """An option names what there is not."""


def _names(option: str, text: str | None, there: list[str]) -> list[str]:
    """In the order of those that there are."""
    wanted = there if text is None else [name.strip() for name in text.split(",")]
    if unknown := [name for name in wanted if name not in there]:
        raise UnknownNameError(f"{option}: {unknown[0]!r} is none of {', '.join(there)}")
    return [name for name in there if name in wanted]


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return value


def _error(text: str, code: int = 2) -> int:
    print(f"error: {text}", file=sys.stderr)
    return code
