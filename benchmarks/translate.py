"""How many JobSets a second the pure core translates on one core: raw object in, objects of one generation out."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

from benchmarks.table import Table
from gangctl.api.jobset import read_jobset
from gangctl.api.scheduling import Generation
from gangctl.gang.build import build_objects
from gangctl.gang.plan import make_plan
from gangctl.gang.resolve import ClusterRules, resolve
from tests.jobsets import FIXTURE_UID, jobset, rj

ROUNDS = 7
JOBSETS = 2000
BUDGET = 10_000

SHAPES: dict[str, dict[str, Any]] = {
    "one gang": jobset("js", rj("a", 1, 1, 1), rj("b", 4, 8, 8), rj("c", 2, 4, 4), mode="Gang", uid=FIXTURE_UID),
    "gang per ReplicatedJob": jobset(
        "js", *(rj(name, 2, 4, 4, mode="Gang") for name in ("a", "b", "c")), uid=FIXTURE_UID
    ),
    "gang per replica (4 each)": jobset(
        "js", *(rj(name, 4, 4, 4, mode="ReplicatedGang") for name in ("a", "b", "c")), uid=FIXTURE_UID
    ),
}


def translate(raw: dict[str, Any], generation: Generation) -> int:
    """One translation; the number of objects."""
    parsed, _ = read_jobset(raw)
    resolution = resolve(parsed, ClusterRules(generation))
    plan = make_plan(parsed, resolution.stamps, resolution.config.options)
    return len(build_objects(plan, generation)) if plan else 0


def rate(run: Callable[[], int]) -> float:
    """Median runs a second."""
    rates = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for _ in range(JOBSETS):
            run()
        rates.append(JOBSETS / (time.perf_counter() - began))
    return statistics.median(rates)


def main() -> Table:
    """Measure every shape on the newest generation."""
    table = Table("translate", ["JobSet with 3 ReplicatedJobs", "objects", "JobSets/s", f"of {BUDGET}/s"])
    for name, raw in SHAPES.items():
        objects = translate(raw, Generation.V1BETA1)
        speed = rate(lambda raw=raw: translate(raw, Generation.V1BETA1))  # type: ignore[misc]
        table.add(name, objects, f"{speed:,.0f}", f"{speed / BUDGET:.2f}x")
    return table
