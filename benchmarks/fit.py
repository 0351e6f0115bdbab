"""How long a verdict takes: a JobSet of ten podsets before 500 ClusterQueues in one tree of cohorts, five deep."""

from __future__ import annotations

import gc
import itertools
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from benchmarks import racks
from benchmarks.budgets import limit_of
from benchmarks.result import Figure, Findings, Observed, percentile
from benchmarks.table import Table
from benchmarks.yardsticks import json_round_trip
from gangctl.fit.clusterstate import ClusterSnapshot, Held
from gangctl.fit.verdict import FitRequest, fit
from gangctl.kueue.objects import (
    ClusterQueue,
    Cohort,
    Condition,
    FlavorQuotas,
    LocalQueue,
    PodSetAssignment,
    QueuedWorkload,
    Quota,
    ResourceFlavor,
    ResourceGroup,
)
from gangctl.manager.process import COLLECT_AFTER
from tests.fit.asking import CONFIGURATION, NAMESPACE, QUEUE, pods
from tests.jobsets import jobset

QUEUES = 500
DEPTH = 5
BRANCHES = 3
FLAVORS = 8
WORKLOADS = 5000
PODSETS = 10
ROUNDS, QUICK_ROUNDS = 300, 3
FRESH, QUICK_FRESH = 20, 1
BUDGET = limit_of("verdict-time").limit
"""Milliseconds."""

GIBI = 2**30
PIECES = (84, 61, 79, 81, 30, 82, 76, 70, 44, 91)
HOLES = 4
NEVER, EXHAUSTING = "gang too large by far", "gang with too many choices to try"
NAMES = [f"flavor-{number}" for number in range(FLAVORS)]


def groups(cpu: int, gpu: int) -> tuple[ResourceGroup, ...]:
    """CPU, memory and devices from the same flavor; no two flavors are equal."""
    quotas = (
        FlavorQuotas(
            name,
            {
                "cpu": Quota(cpu * 1000 + number, lending_limit=cpu * 500),
                "memory": Quota(cpu * 4 * GIBI + number, lending_limit=cpu * 2 * GIBI),
                "gpu": Quota(gpu, 64 if number % 2 else None),
            },
        )
        for number, name in enumerate(NAMES)
    )
    return (ResourceGroup(("cpu", "memory", "gpu"), tuple(quotas)),)


def cohorts(name: str = "root", parent: str = "", depth: int = 1) -> Iterator[Cohort]:
    """A tree of which every leaf is ``DEPTH`` below."""
    yield Cohort(name, parent, groups(8, 4) if depth > 1 else ())
    if depth < DEPTH:
        for branch in range(BRANCHES):
            yield from cohorts(f"{name}-{branch}", name, depth + 1)


def workload(number: int) -> QueuedWorkload:
    """One that holds quota of one flavor."""
    flavor = NAMES[number % FLAVORS]
    usage = {"cpu": 4200, "memory": GIBI, "gpu": number % 2}
    return QueuedWorkload(
        namespace="others",
        name=f"w{number}",
        uid=f"uid-{number}",
        priority=number % 5,
        cluster_queue=f"queue-{number % QUEUES}",
        assignments=(PodSetAssignment("main", dict.fromkeys(usage, flavor), usage, 1),),
        conditions={"QuotaReserved": Condition(status=True)},
    )


def queue(number: int, cohort: str) -> ClusterQueue:
    """A queue that takes from its cohort what others leave, and takes back what it lent."""
    return ClusterQueue(
        f"queue-{number}", cohort, groups(40, 16), selector=(), within_queue="LowerPriority", reclaim="Any"
    )


def world() -> list[Held]:
    """Everything that is known."""
    tree = list(cohorts())
    leaves = [cohort.name for cohort in tree if cohort.name.count("-") == DEPTH - 1]
    return [
        *(ResourceFlavor(name, node_labels={"pool": name}) for name in NAMES),
        *tree,
        *(queue(number, leaves[number % len(leaves)]) for number in range(QUEUES)),
        LocalQueue(NAMESPACE, QUEUE, "queue-0"),
        *puzzling(),
        *(workload(number) for number in range(WORKLOADS)),
    ]


def gang(cpu: int, gpu: int = 1, step: int = 0) -> FitRequest:
    """Ten podsets of four pods, each ``step`` milli-CPU larger than the one before."""
    entries = [
        pods(f"part-{number}", 4, cpu=f"{cpu * 1000 + step * number}m", memory="2Gi", gpu=str(gpu))
        for number in range(PODSETS)
    ]
    return FitRequest(jobset("js", *entries), NAMESPACE, {}, QUEUE)


def puzzle() -> FitRequest:
    """Ten podsets before a queue whose flavors hold as much together, where it takes very long to find that out."""
    entries = [pods(f"part-{number}", 1, cpu=str(size)) for number, size in enumerate(PIECES)]
    return FitRequest(jobset("js", *entries), NAMESPACE, {}, "puzzle")


def puzzling() -> list[Held]:
    """The queue of :func:`puzzle`."""
    quotas = tuple(
        FlavorQuotas(name, {"cpu": Quota((sum(PIECES) // HOLES + (number < sum(PIECES) % HOLES)) * 1000)})
        for number, name in enumerate(NAMES[:HOLES])
    )
    return [
        ClusterQueue("puzzle", groups=(ResourceGroup(("cpu",), quotas),), selector=()),
        LocalQueue(NAMESPACE, "puzzle", "puzzle"),
    ]


def full(snapshot: ClusterSnapshot) -> int:
    """CPUs for each pod with which the gang needs all but nothing of what all flavors together can ever give."""
    ceilings = [snapshot.quotas.ceiling("queue-0", name, "cpu").amount or 0 for name in NAMES]
    return sum(ceilings) // (4 * PODSETS * 1000)


def measure(run: Callable[[], Any], rounds: int) -> list[float]:
    """Milliseconds of each of many runs."""
    times = []
    gc.collect()
    for _ in range(rounds):
        began = time.perf_counter()
        run()
        times.append((time.perf_counter() - began) * 1000)
    return times


def tell(table: Table, what: str, verdict: str, times: list[float], budget: float | None = BUDGET) -> None:
    """One row."""
    p99 = percentile(times, 0.99)
    share = f"{p99 / budget:.2f}x" if budget is not None else ""
    table.add(what, verdict, f"{statistics.median(times):.2f}", f"{p99:.2f}", share)


def questions(snapshot: ClusterSnapshot) -> dict[str, FitRequest]:
    """What is asked, from what fits to what cannot be found out."""
    most = full(snapshot)
    return {
        "small gang": gang(1),
        "gang that others leave no room for": gang(28),
        NEVER: gang(most * 2),
        "gang larger than all flavors together": gang(most + 1),
        "gang as large as all flavors together, in unequal pieces": gang(most - 1, step=97),
        EXHAUSTING: puzzle(),
    }


def main(quick: bool = False) -> Findings:
    """Measure each verdict on an index that is there, after a change, and on one that is new, as in the controller."""
    before = gc.get_threshold()
    gc.set_threshold(*COLLECT_AFTER)
    try:
        return _measured(quick)
    finally:
        gc.set_threshold(*before)


def _measured(quick: bool) -> Findings:
    rounds, times_fresh = (QUICK_ROUNDS, QUICK_FRESH) if quick else (ROUNDS, FRESH)
    table = Table("fit", ["question", "verdict", "median ms", "p99 ms", "of the limit (p99)"])
    held = world()
    snapshot = ClusterSnapshot(held, runtime_classes=(), queue_limit=18, configuration=CONFIGURATION)
    requests = questions(snapshot)
    took: list[list[float]] = []
    verdicts = {}
    for name, request in requests.items():
        report = fit(request, snapshot)
        verdicts[name] = report["verdict"]
        took.append(measure(partial(fit, request, snapshot), rounds))
        tell(table, name, f"{report['verdict']}, {report['reason']}", took[-1])
    first = next(each for each in held if isinstance(each, ClusterQueue))
    last = [each for each in held if isinstance(each, ClusterQueue) and each.cohort][-1]
    for name, changed in (("its own queue", first), ("another queue of the tree", last)):
        took.append(measure(_changing(snapshot, changed, requests[NEVER]), rounds))
        tell(table, f"the same too large by far, after a change of {name}", "never", took[-1])

    def anew() -> ClusterSnapshot:
        return ClusterSnapshot(held, runtime_classes=(), queue_limit=18, configuration=CONFIGURATION)

    fresh = []
    for _ in range(times_fresh):
        fresh += measure(partial(fit, requests["small gang"], anew()), 1)
    tell(table, "small gang, the first question to a new index", "", fresh)
    tell(table, "the index itself, read objects in", "", measure(anew, times_fresh), None)
    table.remarks.append(
        f"One tree of cohorts, {DEPTH} deep, with {QUEUES} ClusterQueues of {FLAVORS} flavors and 3 resources; "
        f"{WORKLOADS} Workloads hold quota; the gang has {PODSETS} podsets. Where the budget of steps runs out the "
        "verdict is `unknown`."
    )
    placed = _topology(table, rounds)
    everything = [value for times in took for value in times]
    round_trip = json_round_trip(requests[NEVER].jobset, rounds) * 1000
    beside, beside_placed = (round_trip,) * len(took), (round_trip,) * len(placed)
    return Findings(
        table,
        [
            Figure("verdict-time", tuple(percentile(each, 0.99) for each in took), beside, Observed.of(everything)),
            Figure("verdict-topology", tuple(percentile(each, 0.99) for each in placed), beside_placed),
            Figure("verdict-unknown", (float(verdicts[EXHAUSTING] != "unknown"),)),
        ],
    )


def _topology(table: Table, rounds: int) -> list[list[float]]:
    """Times of the verdicts on gangs that need a domain."""
    budget, snapshot = limit_of("verdict-topology").limit, racks.snapshot()
    took = []
    for name, request in racks.questions().items():
        report = fit(request, snapshot)
        took.append(measure(partial(fit, request, snapshot), max(rounds // 10, 3)))
        tell(table, f"{name}, of {racks.NODES} nodes", f"{report['verdict']}, {report['reason']}", took[-1], budget)
    return took


def _changing(snapshot: ClusterSnapshot, changed: ClusterQueue, request: FitRequest) -> Callable[[], None]:
    """Change a queue, back and forth, and ask."""
    larger = itertools.cycle([replace(changed, groups=groups(40 + number % 2, 16)) for number in range(2)])

    def change_and_ask() -> None:
        snapshot.take(next(larger))
        fit(request, snapshot)

    return change_and_ask
