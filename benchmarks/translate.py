"""How many JobSets a second the pure core translates on one core: raw object in, objects of one generation out."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from benchmarks.budgets import limit_of
from benchmarks.pace import JOBSET
from benchmarks.result import Figure, Findings
from benchmarks.table import Table
from benchmarks.yardsticks import json_round_trip
from gangctl.api.jobset import read_jobset
from gangctl.api.scheduling import Generation
from gangctl.gang.plan import build_objects, make_plan
from gangctl.gang.resolve import ClusterRules, resolve
from tests.jobsets import FIXTURE_UID, jobset, rj

ROUNDS = 7
JOBSETS = 2000
BUDGET: Final = limit_of("translate-jobset").limit

SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    "jobset": (
        "one gang",
        JOBSET,
    ),
    "group": (
        "gang per ReplicatedJob",
        jobset("js", *(rj(name, 2, 4, 4, mode="Gang") for name in ("a", "b", "c")), uid=FIXTURE_UID),
    ),
    "replica": (
        "gang per replica (4 each)",
        jobset("js", *(rj(name, 4, 4, 4, mode="ReplicatedGang") for name in ("a", "b", "c")), uid=FIXTURE_UID),
    ),
}


def translate(raw: dict[str, Any], generation: Generation) -> int:
    """One translation; the number of objects."""
    parsed, _ = read_jobset(raw)
    resolution = resolve(parsed, ClusterRules(generation))
    plan = make_plan(parsed, resolution.stamps, resolution.config)
    return len(build_objects(plan, generation)) if plan else 0


def rate(run: Callable[[], int], times: int) -> float:
    """Runs a second."""
    began = time.perf_counter()
    for _ in range(times):
        run()
    return times / (time.perf_counter() - began)


def main(quick: bool = False) -> Findings:
    """Measure every shape on the newest generation, and a JSON round trip of it in turns."""
    rounds, times = (2, 20) if quick else (ROUNDS, JOBSETS)
    table = Table(
        "translate",
        ["JobSet with 3 ReplicatedJobs", "objects", "JobSets/s", f"of {BUDGET:,.0f}/s", "JSON/s", "of JSON"],
    )
    figures = []
    for identifier, (name, raw) in SHAPES.items():
        objects = translate(raw, Generation.V1BETA1)
        rates, beside = [], []
        for _ in range(rounds):
            rates.append(rate(partial(translate, raw, Generation.V1BETA1), times))
            beside.append(1 / json_round_trip(raw, times))
        figure = Figure(f"translate-{identifier}", tuple(rates), tuple(beside))
        figures.append(figure)
        speed, json = figure.median, statistics.median(beside)
        table.add(name, objects, f"{speed:,.0f}", f"{speed / BUDGET:.2f}x", f"{json:,.0f}", f"{speed / json:.2f}x")
    table.remarks.append(
        f"{rounds} rounds of {times:,} each; JSON: a round trip of the same JobSet with orjson, as on the wire."
    )
    return Findings(table, figures)
