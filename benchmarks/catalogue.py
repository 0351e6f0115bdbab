"""Every benchmark by name: what runs it, and about how long that takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from benchmarks.admission import main as admission
from benchmarks.budgets import APART, ROWS
from benchmarks.burst import main as burst
from benchmarks.contention import main as contention
from benchmarks.contention import older as contention_older
from benchmarks.failover import main as failover
from benchmarks.fit import main as fit
from benchmarks.flood import main as flood
from benchmarks.gangs import main as gangs
from benchmarks.growth import main as growth
from benchmarks.hostile import main as hostile
from benchmarks.planning import main as planning
from benchmarks.readiness import main as readiness
from benchmarks.result import Findings
from benchmarks.scale import main as scale
from benchmarks.scrape import main as scrape
from benchmarks.soak import main as soak
from benchmarks.start import main as start
from benchmarks.steady import main as steady
from benchmarks.sustained import main as sustained
from benchmarks.translate import main as translate


@dataclass(frozen=True, slots=True)
class Bench:
    """``run(quick)`` measures; minutes are for two cores."""

    run: Callable[[bool], Findings]
    minutes: float


BENCHES: Final[dict[str, Bench]] = {
    "start": Bench(start, 1),
    "translate": Bench(translate, 0.2),
    "planning": Bench(planning, 0.5),
    "fit": Bench(fit, 1),
    "scrape": Bench(scrape, 0.2),
    "hostile": Bench(hostile, 2),
    "flood": Bench(flood, 2),
    "steady": Bench(steady, 2.5),
    "failover": Bench(failover, 2),
    "contention": Bench(contention, 0.5),
    "admission": Bench(admission, 3),
    "burst": Bench(burst, 6),
    "readiness": Bench(readiness, 7),
    "gangs": Bench(gangs, 13),
    "growth": Bench(growth, 7.5),
    "scale": Bench(scale, 2.5),
    "sustained": Bench(sustained, 9),
    "contention-older": Bench(contention_older, 0.5),
    "soak": Bench(soak, 33),
}
"""The short ones first, so that most of the report is there early."""


def chosen(only: Iterable[str], more: Iterable[str] = ()) -> list[str]:
    """Benchmarks for rows or benchmarks of these names, in the order of the catalogue; raises KeyError with the name.

    Without ``only`` all but those that are apart, and ``more``.
    """
    rows = {row.id: row.benches for row in ROWS}
    only = list(only)
    wanted = set() if only else set(BENCHES) - APART
    for name in [*only, *more]:
        if name in rows:
            wanted.update(rows[name])
        elif name in BENCHES:
            wanted.add(name)
        else:
            raise KeyError(name)
    return [name for name in BENCHES if name in wanted]
