"""``python -m tests.search --minutes 30 [--seed N]``: worlds and runs, for so long, each half of the time.

The explorer takes the worlds of the table, then generated ones; the simulation takes seeds from N million on. A
violation is printed with the actions that lead to it, for ``tests.search.explorer.replay`` or
``tests.search.simulation.replay``. Exit code 1 if there was any that is not known.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, count
from typing import Final

import structlog

from tests.search.draws import Plan, draw
from tests.search.explorer import Explored, Explorer
from tests.search.known import is_known
from tests.search.mutants import TABLE as MUTANTS
from tests.search.mutants import Mutant, applied, killed
from tests.search.simulation import Totals, failures, play
from tests.search.world import World
from tests.search.worlds import TABLE, generated

_SEEDS: Final = 1_000_000


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.search", description="Search small worlds for a gang that waits."
    )
    parser.add_argument("--minutes", type=float, default=30.0, help="how long; default %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="of the generated worlds and runs; default %(default)s")
    parser.add_argument("--states", type=int, default=200_000, help="at most so many in one world; default %(default)s")
    parser.add_argument(
        "--world", action="append", default=[], help="only worlds whose name has this in it, and no simulation"
    )
    parser.add_argument(
        "--mutants",
        type=int,
        nargs="?",
        const=0,
        metavar="SEEDS",
        help="instead: which mutant is killed, after how many states, and by which seed: that of the table, or the "
        "first of so many",
    )
    return parser


def _show_mutants(seeds: int) -> int:
    alive = 0
    for mutant in MUTANTS:
        if not mutant.patches:
            print(f"{mutant.finding:14} {mutant.what}: {mutant.ground}")
            continue
        shown = []
        if (violation := killed(mutant)) is not None:
            shown.append(f"{violation.states} states of {violation.world.name}: {violation.what}")
        known = () if mutant.shown_by is None else (mutant.shown_by,)
        if (seed := first_seed(mutant, chain(known, map(draw, range(seeds))))) is not None:
            shown.append(f"seed {seed[0]}: {seed[1]}")
        alive += not shown
        print(f"{mutant.finding:14} {mutant.what}: {'; '.join(shown) or 'SURVIVES'}", flush=True)
    return int(alive > 0)


def first_seed(mutant: Mutant, plans: Iterable[Plan]) -> tuple[int, str] | None:
    """The seed of the first plan of the simulation that shows a mutant, and what is wrong there."""
    with applied(mutant):
        return next(((plan.seed, wrong) for plan in plans if (wrong := play(plan))), None)


def _worlds(names: Sequence[str], seed: int) -> Iterator[World]:
    if names:
        return (world for world in TABLE if any(name in world.name for name in names))
    return chain(TABLE, generated(seed))


def _line(explored: Explored, seconds: float) -> str:
    amount = "all" if explored.complete else "first"
    rate = explored.states / max(seconds, 0.001)
    return f"{explored.world.name:40} {amount:>5} {explored.states:>8} states  {rate:>6.0f}/s"


def main(arguments: Sequence[str] | None = None) -> int:
    """Search, and print; the exit code."""
    options = _parser().parse_args(arguments)
    # What gangctl logs of the faults of a simulation is no result.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    if options.mutants is not None:
        return _show_mutants(options.mutants)
    end = time.monotonic() + options.minutes * 60
    states, unknown, began = 0, 0, time.process_time()
    seeds, totals = count(options.seed * _SEEDS), Totals()
    for world in _worlds(options.world, options.seed):
        if time.monotonic() > end:
            break
        start = time.process_time()
        explored = Explorer(world).run(options.states, violations=3)
        seconds = time.process_time() - start
        print(_line(explored, seconds), flush=True)
        states += explored.states
        for violation in explored.violations:
            known = is_known(violation)
            unknown += not known
            print(f"{known or 'VIOLATION'}: {violation}", flush=True)
        if not options.world:
            share = min(seconds, end - time.monotonic())
            unknown += _simulate(seeds, totals, time.process_time() + share)
    seconds = time.process_time() - began
    runs = next(seeds) - options.seed * _SEEDS
    print(
        f"{states} states; {runs} seeds, {totals.seconds / 3600:.0f} simulated hours, {totals.faults} faults; "
        f"{seconds:.0f} CPU seconds, {unknown} violations that are not known"
    )
    return int(unknown > 0)


def _simulate(seeds: Iterator[int], totals: Totals, end: float) -> int:
    """Run seeds until so much CPU time, at least one, and print what is wrong; how many failed."""
    failed = 0
    for seed in seeds:
        totals.requests.clear()
        for failure in failures([seed], totals):
            failed += 1
            print(f"VIOLATION: {failure}", flush=True)
        if time.process_time() >= end:
            break
    return failed


if __name__ == "__main__":
    sys.exit(main())
