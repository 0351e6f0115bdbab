"""How long the event loop is held while the gang of a JobSet with 50,000 Jobs is reconciled, and webhooks answered.

The gang controller of a process, over caches that hold the JobSet, its Jobs and all of its objects, in the event loop
that answers webhooks. Beside it a small JobSet is admitted each millisecond: the time between two answers is that
millisecond and how long the loop was held. A loop that never rests would keep the planning thread from the
interpreter's lock, and show less than what happens.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from dataclasses import dataclass, replace
from typing import Final

from prometheus_client import CollectorRegistry

from benchmarks.result import Figure, Findings
from benchmarks.table import Table
from gangctl.api.jobset import read_jobset
from gangctl.api.scheduling import NEWEST, ApiState, Observed, Scheduled
from gangctl.api.store import Entry
from gangctl.client.client import Client
from gangctl.client.transport import Transport
from gangctl.controllers.caches import GangCaches
from gangctl.controllers.gangs import Assessments, GangController, PodReader
from gangctl.controllers.reporter import GangMetrics, GangReporter
from gangctl.controllers.writer import Writer
from gangctl.gang.admission import read_opted_in, stamp_patch
from gangctl.gang.desired import JobProgress, assess
from gangctl.gang.plan import GangPlan
from gangctl.gang.resolve import ClusterRules, resolve
from gangctl.manager.process import COLLECT_AFTER, SWITCH_SECONDS
from tests.credentials import StaticCredentials
from tests.gang.pipeline import stored
from tests.jobsets import FIXTURE_UID, jobset, rj

JOBS, QUICK_JOBS = 50_000, 2_000
ROUNDS, QUICK_ROUNDS = 7, 1
REST_SECONDS: Final = 0.001
MODES: Final = {"jobset": ("Gang", "one gang"), "replica": ("ReplicatedGang", "a gang for each Job")}
SMALL: Final = jobset("small", rj("w", 2, 2, 2, mode="Gang"))


@dataclass
class Held:
    """What the reviews beside the reconciles of one shape saw, in milliseconds."""

    longest: list[float]
    took: list[float]
    answers: list[int]


def cached(plan: GangPlan) -> GangCaches:
    """Caches that have seen the JobSet, its Jobs and every object of its gang; nothing has to be written."""
    caches = GangCaches(
        Client(Transport(StaticCredentials("http://127.0.0.1:1"))), lambda _key, _seconds: None, lambda: 0.0
    )
    known, name = plan.jobset, plan.workload.name
    caches.jobsets.store.put(known.key, Entry(known.uid, "1", known))
    for job in plan.jobs():
        group = job.reference.group if job.reference else ""
        progress = JobProgress(
            *(known.namespace, job.name, known.name, known.uid, job.replicated_job, job.index, 0, 0, False, False),
            group=group,
        )
        caches.informers["jobs"].store.put((known.namespace, job.name), Entry(job.name, "1", progress))
    counts = tuple((template.name, template.min_count) for template in plan.workload.templates)
    workload = Observed(known.namespace, name, "w", "1", plan.uid, known.name, False, known.name, counts)
    caches.overlay.wrote("Workload", workload)
    for each in plan.groups:
        own = (("", each.template.min_count),)
        found = replace(workload, name=each.name, uid=each.name, min_counts=own, scheduled=Scheduled(True))
        caches.overlay.wrote("PodGroup", found)
    return caches


def controller(caches: GangCaches) -> GangController:
    """As a process has it, on the newest minor; a write would be an error, for there is no API server."""
    client = Client(Transport(StaticCredentials("http://127.0.0.1:1")))
    return GangController(
        caches,
        lambda generation: Writer(client, generation, caches.overlay),
        PodReader(client),
        GangReporter(lambda _jobset, _notice: None, GangMetrics(CollectorRegistry())),
        Assessments(lambda: ApiState(NEWEST), ClusterRules),
        concerns=lambda _: True,
    )


class Reviews:
    """Answers a review each millisecond."""

    def __init__(self) -> None:
        """Answer none yet."""
        self.longest = 0.0
        self.answers = 0

    async def run(self) -> None:
        """Answer until cancelled."""
        before = time.perf_counter()
        while True:
            small, _ = read_opted_in(SMALL)
            stamp_patch(SMALL, resolve(small, ClusterRules()).stamps)
            now = time.perf_counter()
            self.longest, before = max(self.longest, now - before), now
            self.answers += 1
            await asyncio.sleep(REST_SECONDS)


def whole(mode: str, jobs: int) -> GangPlan:
    """The plan of a JobSet of so many Jobs of one pod."""
    raw = stored(jobset("js", rj("w", jobs, 1, 1, mode=mode), uid=FIXTURE_UID))
    plan = assess(read_jobset(raw)[0], ClusterRules()).plan
    if plan is None:
        raise RuntimeError(f"no gang is planned for {jobs} Jobs")
    return plan


async def measure(mode: str, jobs: int, rounds: int) -> Held:
    """Reconcile the JobSet once to warm up, and then once a round."""
    plan = whole(mode, jobs)
    reconcile = controller(cached(plan)).reconcile
    await reconcile(plan.jobset.key)
    held = Held([], [], [])
    for _ in range(rounds):
        reviews = Reviews()
        task = asyncio.create_task(reviews.run())
        await asyncio.sleep(0)
        began = time.perf_counter()
        await reconcile(plan.jobset.key)
        held.took.append((time.perf_counter() - began) * 1000)
        task.cancel()
        held.longest.append(reviews.longest * 1000)
        held.answers.append(reviews.answers)
    return held


def main(quick: bool = False) -> Findings:
    """Measure both shapes as the process is set up: its collections of garbage, its turns of threads."""
    jobs, rounds = (QUICK_JOBS, QUICK_ROUNDS) if quick else (JOBS, ROUNDS)
    table = Table("planning", ["JobSet of one-pod Jobs", "Jobs", "reconcile ms", "longest turn ms", "reviews answered"])
    figures = []
    before = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.set_threshold(*COLLECT_AFTER)
    try:
        for identifier, (mode, text) in MODES.items():
            held = asyncio.run(measure(mode, jobs, rounds))
            figures.append(Figure(f"planning-{identifier}", tuple(held.longest)))
            spread = f"{min(held.longest):.1f} to {max(held.longest):.1f}"
            answers = f"{min(held.answers):,} to {max(held.answers):,}"
            table.add(text, f"{jobs:,}", f"{min(held.took):,.0f} to {max(held.took):,.0f}", spread, answers)
    finally:
        sys.setswitchinterval(before[0])
        gc.set_threshold(*before[1])
    table.remarks.append(
        f"{rounds} reconciles each, of a JobSet that has all its objects, beside reviews of a small one."
    )
    return Findings(table, figures)
