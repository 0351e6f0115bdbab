"""What metrics of 10,000 gangs in the worst shape cost: a change of one, and a scrape of all."""

from __future__ import annotations

import statistics
import time
from dataclasses import replace

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from benchmarks.table import Table
from gangctl.gang.reasons import Reason
from gangctl.manager.readinessmetrics import ReadinessMetrics
from gangctl.readiness.phases import GangPhase
from gangctl.readiness.result import Cause, Counts, Readiness

GANGS = 10_000
QUEUES = 400
ROUNDS = 7
BUDGET_SECONDS = 1.0
REASONS = (Reason.UNSCHEDULABLE, Reason.NEVER_FITS, Reason.NODE_LOST, Reason.IMAGE_PULL, Reason.PREEMPTED)
FORMATS = {"plain": "text/plain", "OpenMetrics": "application/openmetrics-text; version=1.0.0"}


def gang(number: int) -> Readiness:
    """One of many: 200 namespaces with two queues each, and every phase in each of them."""
    queue, turn = number % QUEUES, number // QUEUES
    return Readiness(
        namespace=f"namespace-{queue // 2}",
        name=f"jobset-{number}",
        uid=f"uid-{number}",
        phase=list(GangPhase)[turn % len(GangPhase)],
        since=1_000 + number,
        counts=Counts(8, 8, 8, 8, 4, 2, 0, 4),
        groups=(),
        causes=(Cause(REASONS[turn % len(REASONS)], "because", since=1_000 + number),),
        level="JobSet",
        local_queue=f"local-{queue % 2}",
        cluster_queue=f"cluster-{queue}",
        created_at=1_000,
        admitted_at=1_000,
    )


def median(seconds: list[float]) -> str:
    """In milliseconds."""
    return f"{statistics.median(seconds) * 1000:,.3g} ms"


def main() -> Table:
    """Fill a registry, move every gang once, and scrape it."""
    registry = CollectorRegistry()
    metrics = ReadinessMetrics(registry)
    gangs = [gang(number) for number in range(GANGS)]
    for each in gangs:
        metrics.stands(None, each)
    table = Table("scrape", [f"{GANGS:,} gangs, {QUEUES} queues", "series", "bytes", "median", "budget"])
    moves = [(each, replace(each, since=each.since + 1)) for each in gangs]
    began = time.perf_counter()
    for before, now in moves:
        metrics.stands(before, now)
    change = (time.perf_counter() - began) / len(moves)
    table.add("one gang moves", "", "", f"{change * 1_000_000:.0f} µs", "")
    collected = [_collect(registry) for _ in range(ROUNDS)]
    series = collected[0][1]
    table.add("collect, in the event loop", f"{series:,}", "", median([seconds for seconds, _ in collected]), "")
    for name, accept in FORMATS.items():
        encode, _ = choose_encoder(accept)
        took = []
        for _ in range(ROUNDS):
            began = time.perf_counter()
            text = encode(registry)
            took.append(time.perf_counter() - began)
        table.add(f"scrape, {name}", f"{series:,}", f"{len(text):,}", median(took), f"{BUDGET_SECONDS * 1000:,.0f} ms")
    return table


def _collect(registry: CollectorRegistry) -> tuple[float, int]:
    """Seconds of the part that keeps the event loop busy, and how many series there are."""
    began = time.perf_counter()
    families = list(registry.collect())
    seconds = time.perf_counter() - began
    return seconds, sum(len(family.samples) for family in families)
