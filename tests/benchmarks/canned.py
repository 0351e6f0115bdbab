"""Results as a run would have left them."""

from __future__ import annotations

from typing import Any

from benchmarks.budgets import limits
from benchmarks.machine import Facts
from benchmarks.pace import Pace
from benchmarks.result import Figure, Findings, Result
from benchmarks.table import Table

FACTS = Facts(
    cores=4,
    processor="Some CPU",
    memory_gb=15.6,
    kernel="Linux 6.1",
    python="3.11.7",
    versions={"gangctl": "0.1.0", "etcd": "3.6.16"},
    commit="0123456789ab",
    load_start=0.1,
)


def table(name: str) -> Table:
    return Table(name, ["what", "measured"], [["one | two", "3 ms"]], ["A remark."])


def result(bench: str, *figures: Figure, **more: Any) -> Result:
    """One run of a benchmark with these figures; keyword arguments replace its fields."""
    unmeasured = {limit.id: "not asked for" for limit in limits() if limit.bench == bench}
    for figure in figures:
        unmeasured.pop(figure.limit)
    reported: dict[str, Any] = {
        "bench": bench,
        "quick": False,
        "began": "2026-11-21T12:00:00Z",
        "seconds": 61.5,
        "facts": FACTS,
        "load_end": 1.2,
        "pace": Pace(100_000, 150_000, 310_000),
        "findings": Findings(table(bench), list(figures), [], unmeasured),
    }
    return Result(**(reported | more))
