"""``python -m benchmarks all``: measure everything and write ``RESULTS.md``; ``report`` writes it anew.

``day`` replays a trace (:mod:`benchmarks.day`).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Final

from benchmarks import report
from benchmarks.budgets import APART, ROWS
from benchmarks.catalogue import BENCHES, chosen
from benchmarks.day import command as day
from benchmarks.machine import look_around
from benchmarks.result import UnreadableResultError
from benchmarks.session import Session, refuse

HERE: Final = Path(__file__).parent
QUICK: Final = Path(tempfile.gettempdir()) / "gangctl-benchmarks-quick"
PATIENCE_SECONDS: Final = 60.0


def parser() -> argparse.ArgumentParser:
    """The arguments."""
    top = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure gangctl against its budgets.")
    verbs = top.add_subparsers(dest="verb", required=True)
    every = verbs.add_parser("all", help="measure, and write RESULTS.md", description=durations())
    every.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="ROW",
        help="a row of the budgets or a benchmark, and no other; can be repeated; rows: "
        f"{', '.join(row.id for row in ROWS)}; benchmarks: {', '.join(BENCHES)}",
    )
    every.add_argument(
        "--with",
        action="append",
        default=[],
        metavar="ROW",
        dest="more",
        help=f"this one, too; can be repeated; what is not run otherwise: {', '.join(sorted(APART))}",
    )
    every.add_argument("--quick", action="store_true", help=f"tiny sizes, to see that it runs; results below {QUICK}")
    every.add_argument("--resume", action="store_true", help="keep what was measured at this commit already")
    every.add_argument(
        "--anyway", action="store_true", help="measure on a machine that is not quiet; RESULTS.md says so"
    )
    again = verbs.add_parser("report", help="write RESULTS.md from the raw results")
    day.add(verbs)
    for each in (every, again):
        each.add_argument("--directory", type=Path, help="where results are (default: benchmarks)")
    return top


def durations() -> str:
    """The benchmarks and how long they take on two cores."""

    def told(names: list[str]) -> str:
        return ", ".join(f"{name} {BENCHES[name].minutes:g}" for name in names)

    usual = chosen([])
    minutes = sum(BENCHES[name].minutes for name in usual)
    apart = [name for name in BENCHES if name in APART]
    return f"About {minutes:.0f} minutes: {told(usual)}. When they are asked for: {told(apart)}."


def main(arguments: list[str] | None = None) -> int:
    """Do it; 0 if everything was measured, 1 if something failed, 2 if nothing was begun, 130 if it was ended."""
    top = parser()
    asked = top.parse_args(arguments)
    try:
        if asked.verb == "report":
            print(f"written: {report.write(asked.directory or HERE)}")
            return 0
        return day.run(asked) if asked.verb == "day" else _measure(asked)
    except UnreadableResultError as error:
        print(f"error: {error}\ndelete the file, or measure it again", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nended; what is over is kept: --resume goes on from there", file=sys.stderr)
        return 130


def _measure(asked: argparse.Namespace) -> int:
    try:
        names = chosen(asked.only, asked.more)
    except KeyError as error:
        print(
            f"error: --only, --with: no row or benchmark {error.args[0]!r}; rows: {', '.join(row.id for row in ROWS)}; "
            f"benchmarks: {', '.join(BENCHES)}",
            file=sys.stderr,
        )
        return 2
    if not asked.quick and not asked.anyway and (found := refuse(look_around, PATIENCE_SECONDS)):
        print(
            f"error: this machine is not quiet: {'; '.join(found)}\nend what else runs, or say --anyway and have "
            "RESULTS.md tell that its numbers are not to be relied on",
            file=sys.stderr,
        )
        return 2
    directory = (asked.directory or (QUICK if asked.quick else HERE)).resolve()
    if asked.quick and directory == HERE.resolve():
        print("error: --quick: its results are no results; name another --directory, or none", file=sys.stderr)
        return 2
    failed = Session(BENCHES, directory, asked.quick, asked.resume).run(names)
    print(f"written: {directory / 'RESULTS.md'}")
    if failed:
        print(f"error: not measured: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
