"""What other policies' reviews wait while hostile policies are at work: latency with and without them, in one run.

A policy evaluator has twenty ordinary policies. Reviews come at a steady pace, first alone, then while other reviews
meet a policy that never ends (an endless loop where its evaluation should be, as no expression should ever manage) and
one that spends all it may (three nested loops over a long list). All are new to the evaluator when it begins: finding
them out is part of it.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from unittest.mock import patch

from benchmarks.budgets import limit_of
from benchmarks.result import Figure, Findings, Observed
from benchmarks.table import Table
from gangctl.evaluation.evaluator import PolicyEvaluator
from gangctl.evaluation.options import EvaluatorOptions
from gangctl.policy.loaded import PolicySet
from gangctl.policy.review import Review
from tests.evaluation.evaluators import document, jobset_review

SECONDS, QUICK_SECONDS = 10.0, 1.0
PACE_SECONDS = 0.05
HOSTILE_PACE_SECONDS = 0.25
LOOK_SECONDS = 0.005
BUDGET = limit_of("hostile").limit
SLOWEST_BUDGET = limit_of("hostile-slowest").limit
SIZES = (3, 50)
POLICIES = 20

NESTED = "object.spec.replicatedJobs.all(a, object.spec.replicatedJobs.all(b, object.spec.replicatedJobs.all(c, {})))"
RULES = (
    "object.spec.replicatedJobs.all(j, j.replicas >= 0)",
    "object.spec.replicatedJobs.exists(j, j.name.startsWith('job'))",
    "has(object.metadata.labels) && 'team' in object.metadata.labels",
    "object.spec.replicatedJobs.map(j, j.replicas).all(n, n < 1000)",
    "object.metadata.name.matches('^[a-z][-a-z0-9]*$')",
)


@dataclass
class Run:
    """Seconds: of the reviews, and how long the event loop stood still at its longest."""

    latencies: list[float] = field(default_factory=list)
    lags: list[float] = field(default_factory=list)
    hostile: list[float] = field(default_factory=list)
    errors: int = 0

    def quantile(self, share: float) -> float:
        """Of the reviews."""
        return statistics.quantiles(self.latencies, n=1000)[round(share * 1000) - 1]


def documents() -> list[dict[str, object]]:
    """Twenty ordinary policies, and the hostile two, which are about other JobSets."""
    ordinary = [document(f"ordinary-{n:02}", *(RULES[(n + k) % len(RULES)] for k in range(3))) for n in range(POLICIES)]
    apart = {"matchConstraints": {"objectSelector": {"matchLabels": {"hostile": "true"}}}}
    return [*ordinary, document("hang", "true", **apart), document("spend", NESTED.format("a.replicas >= 0"), **apart)]


def hostile_review() -> Review:
    """A review that only the hostile policies, and the ordinary ones, are about."""
    review = jobset_review(150)
    obj = {**(review.object or {})}
    obj["metadata"] = {**obj["metadata"], "labels": {"team": "a", "hostile": "true"}}
    return replace(review, object=obj)


async def paced(ask: Callable[[], Awaitable[None]], every: float, until: float) -> None:
    """Ask at a steady pace, whether the last one is answered or not."""
    async with asyncio.TaskGroup() as group:
        due = time.monotonic()
        while due < until:
            group.create_task(_awaited(ask))
            due += every
            await asyncio.sleep(max(0.0, due - time.monotonic()))


async def _awaited(ask: Callable[[], Awaitable[None]]) -> None:
    await ask()


async def measure(evaluator: PolicyEvaluator, review: Review, *, hostile: bool, seconds: float) -> Run:
    """One phase."""
    run, until, bad = Run(), time.monotonic() + seconds, hostile_review()

    async def ask() -> None:
        began = time.perf_counter()
        outcomes = await evaluator.evaluate(review)
        run.latencies.append(time.perf_counter() - began)
        run.errors += any(outcome.violations for outcome in outcomes)

    async def attack() -> None:
        began = time.perf_counter()
        await evaluator.evaluate(bad)
        run.hostile.append(time.perf_counter() - began)

    async def watch() -> None:
        while time.monotonic() < until:
            before = time.perf_counter()
            await asyncio.sleep(LOOK_SECONDS)
            run.lags.append(time.perf_counter() - before - LOOK_SECONDS)

    async with asyncio.TaskGroup() as group:
        group.create_task(watch())
        group.create_task(paced(ask, PACE_SECONDS, until))
        if hostile:
            group.create_task(paced(attack, HOSTILE_PACE_SECONDS, until))
    return run


@asynccontextmanager
async def evaluating() -> AsyncIterator[PolicyEvaluator]:
    """An evaluator with all policies, and workers that are up."""
    async with PolicyEvaluator(EvaluatorOptions(slice_seconds=0.0)) as evaluator:
        await evaluator.install(PolicySet(1, tuple([await evaluator.load(each) for each in documents()])))
        deadline = time.monotonic() + 30
        while any(outcome.violations for outcome in await evaluator.evaluate(jobset_review())):
            if time.monotonic() > deadline:
                raise RuntimeError("no worker came up")
        yield evaluator


async def compare(jobs: int, seconds: float) -> tuple[Run, Run]:
    """Both phases on one evaluator."""
    async with evaluating() as evaluator:
        review = jobset_review(jobs)
        await measure(evaluator, review, hostile=False, seconds=seconds / 4)
        alone = await measure(evaluator, review, hostile=False, seconds=seconds)
        return alone, await measure(evaluator, review, hostile=True, seconds=seconds)


def main(quick: bool = False) -> Findings:
    """Compare for two sizes of JobSets."""
    headings = ["ReplicatedJobs", "hostile", "p50", "p90", "p99", "worst", "p50 ratio", "p99 ratio"]
    table = Table("hostile", [*headings, "loop lag p99", "hostile p50", "refused"])
    seconds = QUICK_SECONDS if quick else SECONDS
    runs: list[tuple[Run, Run]] = []
    with patch("gangctl.evaluation.loader.SERVICE", "tests.evaluation.hostile:Service"):
        for jobs in SIZES[:1] if quick else SIZES:
            alone, beside = asyncio.run(compare(jobs, seconds))
            runs.append((beside, alone))
            table.add(jobs, "no", *_cells(alone, alone))
            table.add(jobs, "yes", *_cells(beside, alone))
            print("\n".join(table.markdown().splitlines()[-2:]), flush=True)
    figures = figures_of(runs)
    medians, slowest = (max(figure.ratios) for figure in figures)
    table.remarks = [
        (
            f"{POLICIES} ordinary policies of 3 rules; a review each {PACE_SECONDS * 1000:.0f} ms for {seconds:.0f} s, "
            f"in a worker; with hostile policies another every {HOSTILE_PACE_SECONDS * 1000:.0f} ms that meets them."
        ),
        f"Worst ratio of medians: {medians:.2f}x (budget {BUDGET}x).",
        f"Worst ratio of p99: {slowest:.2f}x (budget {SLOWEST_BUDGET}x).",
        "The worst one in a hundred are those that wait while the policies are found out, and behind larger reviews.",
    ]
    return Findings(table, figures)


def figures_of(runs: list[tuple[Run, Run]]) -> list[Figure]:
    """From runs with hostile policies, and without."""
    observed = Observed.of([seconds * 1000 for run, _ in runs for seconds in run.latencies])
    figures = []
    for name, share, told in (("hostile", 0.5, observed), ("hostile-slowest", 0.99, None)):
        beside, alone = (tuple(run.quantile(share) * 1000 for run in each) for each in zip(*runs, strict=True))
        figures.append(Figure(name, beside, alone, told))
    return figures


def _cells(run: Run, alone: Run) -> list[str]:
    quantiles = [run.quantile(share) for share in (0.5, 0.9, 0.99)]
    lag = statistics.quantiles(run.lags, n=100)[98]
    return [
        *(f"{seconds * 1000:.1f} ms" for seconds in (*quantiles, max(run.latencies))),
        *(f"{run.quantile(share) / alone.quantile(share):.2f}x" for share in (0.5, 0.99)),
        f"{lag * 1000:.1f} ms",
        f"{statistics.median(run.hostile) * 1000:.0f} ms" if run.hostile else "",
        str(run.errors),
    ]
