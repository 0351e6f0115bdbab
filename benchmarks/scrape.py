"""What metrics of 10,000 gangs in the worst shape cost: a change of one, and a scrape of all."""

from __future__ import annotations

import statistics
import time
from dataclasses import replace

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.exposition import choose_encoder

from benchmarks.budgets import limit_of
from benchmarks.result import Figure, Findings
from benchmarks.table import Table
from gangctl.gang.reasons import Reason
from gangctl.manager.readinessmetrics import ReadinessMetrics
from gangctl.readiness.result import Cause, Counts, GangPhase, Readiness

GANGS = 10_000
QUEUES = 400
ROUNDS = 7
BUDGET_SECONDS = limit_of("metrics-scrape").limit / 1000
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


def main(quick: bool = False) -> Findings:
    """Fill a registry, move every gang once, and scrape it."""
    count, rounds = (50, 2) if quick else (GANGS, ROUNDS)
    registry = CollectorRegistry()
    metrics = ReadinessMetrics(registry)
    metrics.leads()
    gangs = [gang(number) for number in range(count)]
    for each in gangs:
        metrics.on_status_change(None, each)
    table = Table("scrape", [f"{count:,} gangs, {QUEUES} queues", "series", "bytes", "median", "budget"])
    moves = [(each, replace(each, since=each.since + 1)) for each in gangs]
    began = time.perf_counter()
    for before, now in moves:
        metrics.on_status_change(before, now)
    change = (time.perf_counter() - began) / len(moves)
    table.add("one gang moves", "", "", f"{change * 1_000_000:.0f} µs", "")
    collected = [_collect(registry) for _ in range(rounds)]
    series = collected[0][1]
    table.add("collect, in the event loop", f"{series:,}", "", median([seconds for seconds, _ in collected]), "")
    took: list[float] = []
    for name, accept in FORMATS.items():
        took, size = _encode(registry, accept, rounds)
        table.add(f"scrape, {name}", f"{series:,}", f"{size:,}", median(took), f"{BUDGET_SECONDS * 1000:,.0f} ms")
    beside, size = _encode(plain_gauges(series), accept, rounds)
    table.add(f"as many gauges, {name}", f"{series:,}", f"{size:,}", median(beside), "")
    scrapes, gauges = (tuple(seconds * 1000 for seconds in each) for each in (took, beside))
    return Findings(table, [Figure("metrics-series", (float(series),)), Figure("metrics-scrape", scrapes, gauges)])


def plain_gauges(series: int) -> CollectorRegistry:
    """So many series of one family, as any program would have them."""
    registry = CollectorRegistry()
    family = Gauge("yardstick", "As many series as gangctl has.", ["namespace", "jobset"], registry=registry)
    for number in range(series):
        family.labels(f"namespace-{number // 50}", f"jobset-{number}").set(number)
    return registry


def _encode(registry: CollectorRegistry, accept: str, rounds: int) -> tuple[list[float], int]:
    """Seconds of writing everything down, and how many bytes that is."""
    encode, _ = choose_encoder(accept)
    took, text = [], b""
    for _ in range(rounds):
        began = time.perf_counter()
        text = encode(registry)
        took.append(time.perf_counter() - began)
    return took, len(text)


def _collect(registry: CollectorRegistry) -> tuple[float, int]:
    """Seconds of the part that keeps the event loop busy, and how many series there are."""
    began = time.perf_counter()
    families = list(registry.collect())
    seconds = time.perf_counter() - began
    return seconds, sum(len(family.samples) for family in families)
