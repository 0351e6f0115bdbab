"""The readiness of 10,000 JobSets with 100,000 pods, beside a real API server: a start, a quiet minute, changes.

No controller runs but gangctl, so that whatever is evaluated or written is its own doing. The objects are copies in the
store (:mod:`benchmarks.crowd`); every change after that goes through the API. A scrape is of everything, as Prometheus
does it.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from dataclasses import dataclass
from typing import Final

from benchmarks import crowd
from benchmarks.budgets import limit_of
from benchmarks.chart import Axis, Chart, distribution
from benchmarks.exposed import Exposed, since
from benchmarks.flips import GANGS, ROW, Flips, Sightings, visibility
from benchmarks.meters import Admission, Scrape, Usage, end, percentiles, scrape, seconds_text
from benchmarks.result import Figure, Findings, Observed, percentile
from benchmarks.table import Table
from benchmarks.yardsticks import listing
from tests.controlplane import manifests
from tests.controlplane.api import path_of
from tests.controlplane.build import ensure_manifests
from tests.controlplane.minors import NEWEST
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
from tests.live.admission import install
from tests.live.definitions import serve
from tests.live.gangctl import USER, Gangctl, prepare
from tests.manifests.definitions.gangs import definitions


@dataclass(frozen=True, slots=True)
class Size:
    """JobSets, seconds without a change, gangs that change at once, and transitions a second for how long."""

    jobsets: int
    quiet_seconds: int
    changed: int
    transitions: int
    transition_seconds: int


FULL, QUICK = Size(10_000, 60, 100, 100, 60), Size(50, 3, 10, 10, 3)
SCRAPE_SECONDS: Final = 2.0
START_BUDGET, MEMORY_BUDGET = limit_of("cold-start-synced").limit, limit_of("cold-start-memory").limit
SERIES_BUDGET, SCRAPE_BUDGET = limit_of("metrics-all-series").limit, limit_of("metrics-http").limit / 1000
LAG_BUDGET: Final = limit_of("readiness-metrics").limit

LISTED: Final = [
    path_of("jobset.x-k8s.io/v1alpha2", "jobsets"),
    path_of("batch/v1", "jobs"),
    path_of("v1", "pods"),
    path_of("v1", "nodes"),
    path_of("scheduling.k8s.io/v1beta1", "workloads"),
    path_of("scheduling.k8s.io/v1beta1", "podgroups"),
]
"""What the crowd is made of."""
_EVALUATIONS: Final = "gangctl_readiness_evaluation_duration_seconds_count"
_REQUESTS: Final = "gangctl_rest_client_requests_total"
_TOOK: Final = "gangctl_readiness_evaluation_duration_seconds"
_LATE: Final = "gangctl_event_loop_lag_seconds"
_LAG: Final = "gangctl_readiness_lag_seconds"


class Run:
    """One crowd, and what is measured of it."""

    def __init__(self, plane: ControlPlane, size: Size, findings: Findings) -> None:
        """Write into ``findings``."""
        self.plane = plane
        self.size = size
        self._findings = findings
        self._table = findings.table
        # With connections of its own: what is asked must not wait behind changes in this process.
        self._asking = plane.client("asking", ["system:masters"])

    def row(self, what: str, measured: object, budget: object = "") -> None:
        """Add one, and say it."""
        self._table.add(what, measured, budget)
        print(f"{what}: {measured}", flush=True)

    def _figure(
        self, limit: str, values: list[float], yardstick: tuple[float, ...] = (), single: list[float] | None = None
    ) -> None:
        observed = Observed.of(single) if single else None
        self._findings.figures.append(Figure(limit, tuple(values), yardstick, observed))

    async def measure(self) -> None:
        """Everything, in order."""
        gangctl = Gangctl(self.plane, "--log-level", "info")
        await prepare(self.plane)
        try:
            await self._start(gangctl)
            await self._quiet(gangctl)
            await self._few(gangctl)
        finally:
            await gangctl.close()
        await install(self.plane.api, "gang-objects")
        await serve(self.plane.api, definitions().values())
        gangctl = Gangctl(self.plane, "--log-level", "info", "--gang-objects")
        try:
            await self._write_gangs(gangctl)
            await self._restart(gangctl)
            await self._many(gangctl)
        finally:
            await gangctl.close()

    async def _computed(self, gangctl: Gangctl) -> Scrape:
        """Wait until every JobSet is in the metrics."""

        async def all_of_them() -> Scrape:
            found = await scrape(gangctl)
            counted = found.exposed.sum("gangctl_gangs")
            if counted < self.size.jobsets:
                raise NotYet(f"{counted:.0f} gangs")
            return found

        return await wait_for(all_of_them, interval=1, what="all gangs to be computed", hung=900)

    async def _start(self, gangctl: Gangctl) -> None:
        beside = await listing(self._asking, LISTED)
        position, began = self.plane.audit_position, time.monotonic()
        await gangctl.process.start()
        ready = time.monotonic() - began
        async with Admission(self._asking) as admission:
            await self._computed(gangctl)
        pid, took = gangctl.process.pid, time.monotonic() - began
        usage = Usage.of(pid)
        self.row("start: ready for webhooks", seconds_text(ready))
        self.row("start: all readiness published", seconds_text(took), f"{START_BUDGET:g} s")
        self.row("listing the same objects once", seconds_text(beside))
        self._figure("cold-start-synced", [took], (beside,))
        self.row("start: CPU", f"{usage.cpu_seconds:.1f} s")
        self.row("start: JobSet creates meanwhile", admission)
        await gangctl.settle()
        found = (await scrape(gangctl)).exposed
        self.row("start: event loop late, p99", _at_most(found, _LATE, 0.99))
        spent = found.sum(f"{_TOOK}_sum") / found.sum(f"{_TOOK}_count")
        self.row("one evaluation, mean", f"{spent * 1000:.2f} ms")
        scrapes = [await scrape(gangctl) for _ in range(5)]
        usage = Usage.of(pid)
        memory = f"{usage.megabytes:.0f} MB, at most {usage.most_megabytes:.0f} MB"
        self.row("resident memory", memory, f"{MEMORY_BUDGET:g} MB")
        self.row("series", f"{scrapes[-1].exposed.series:,}", f"{SERIES_BUDGET:,.0f}")
        took = percentile([each.seconds for each in scrapes], 0.5)
        self.row("scrape", f"{seconds_text(took)}, {len(scrapes[-1].body) / 1e6:.1f} MB", f"{SCRAPE_BUDGET:g} s")
        writes = self.plane.writes_by(USER, position)
        mine = [each for each in writes.objects if each["objectRef"]["resource"] not in _OF_A_START]
        self.row("start: writes", f"{len(mine)}, events {len(writes.events)}", 0)
        self._figure("cold-start-writes", [float(len(mine))])
        self._figure("cold-start-memory", [usage.most_megabytes])
        self._figure("metrics-all-series", [float(scrapes[-1].exposed.series)])
        self._figure("metrics-http", [each.seconds * 1000 for each in scrapes])
        phases: dict[str, float] = {}
        for labels, value in scrapes[-1].exposed.rows("gangctl_gangs"):
            phases[labels["phase"]] = phases.get(labels["phase"], 0) + value
        self._table.remarks.append(
            "Gangs by phase: " + ", ".join(f"{count:,.0f} {phase}" for phase, count in sorted(phases.items())) + "."
        )

    async def _quiet(self, gangctl: Gangctl) -> None:
        before, position = (await scrape(gangctl)).exposed, self.plane.audit_position
        used = Usage.of(gangctl.process.pid)
        async with Admission(self._asking) as admission:
            await asyncio.sleep(self.size.quiet_seconds)
        after, writes = (await scrape(gangctl)).exposed, self.plane.writes_by(USER, position)
        cpu = Usage.of(gangctl.process.pid).cpu_seconds - used.cpu_seconds
        quiet = f"{self.size.quiet_seconds} quiet seconds"
        self.row(f"{quiet}: evaluations", f"{after.sum(_EVALUATIONS) - before.sum(_EVALUATIONS):,.0f}", "about 0")
        self.row(f"{quiet}: writes", f"{len(writes.objects)}, events {len(writes.events)}", 0)
        self.row(f"{quiet}: CPU", f"{cpu:.1f} s")
        self.row(f"{quiet}: JobSet creates", admission)

    async def _few(self, gangctl: Gangctl) -> None:
        keys = self._ready()[: self.size.changed]
        before = (await scrape(gangctl)).exposed
        flips = Flips(self.plane.api)
        await flips.drive(keys, 1_000, len(keys) / 1_000)
        evaluations = await self._counted(gangctl, before.sum(_EVALUATIONS), len(keys))
        self.row(f"{len(keys)} pods of {len(keys)} gangs change: evaluations", f"{evaluations:,.0f}", len(keys))
        await flips.drive(keys, 1_000, len(keys) / 1_000)
        await self._counted(gangctl, before.sum(_EVALUATIONS) + evaluations, len(keys))

    async def _counted(self, gangctl: Gangctl, before: float, least: int) -> float:
        """Evaluations since then, once there are as many as must be, and two seconds later."""

        async def enough() -> float:
            done = (await scrape(gangctl)).exposed.sum(_EVALUATIONS) - before
            if done < least:
                raise NotYet(f"{done:.0f} evaluations")
            return done

        await wait_for(enough, interval=0.5, what="what changed to be evaluated")
        await asyncio.sleep(2)
        return await enough()

    def _pids(self, gangctl: Gangctl) -> dict[str, int]:
        """Everything that works here."""
        components = {name: self.plane.process(name).pid for name in self.plane.components}
        return {"gangctl": gangctl.process.pid, **components, "this benchmark": os.getpid()}

    def _ready(self) -> list[crowd.Key]:
        return [key for key in map(crowd.Key, range(self.size.jobsets)) if key.ready]

    async def _write_gangs(self, gangctl: Gangctl) -> None:
        began = time.monotonic()
        await gangctl.process.start()
        async with Admission(self._asking) as admission:
            await self._computed(gangctl)

            async def written() -> bool:
                page = await self.plane.api.get(GANGS, limit=1)
                count = len(page["items"]) + page["metadata"].get("remainingItemCount", 0)
                depth = (await scrape(gangctl)).exposed.sum("gangctl_workqueue_depth")
                if count < self.size.jobsets or depth:
                    raise NotYet(f"{count} Gangs, {depth:.0f} waiting")
                return True

            await wait_for(written, interval=2, what="all Gangs to be written", hung=900)
        self.row("--gang-objects for the first time: all written", seconds_text(time.monotonic() - began))
        self.row("JobSet creates meanwhile", admission)

    async def _restart(self, gangctl: Gangctl) -> None:
        await gangctl.process.stop()
        position, began = self.plane.audit_position, time.monotonic()
        await gangctl.process.start()
        await self._computed(gangctl)
        self.row("restart with --gang-objects: all readiness published", seconds_text(time.monotonic() - began))
        await gangctl.settle()
        await asyncio.sleep(10)
        writes = self.plane.writes_by(USER, position)
        gangs = [each for each in writes.objects if each["objectRef"]["resource"] == "gangs"]
        self.row("restart with --gang-objects: writes of Gangs", len(gangs), 0)
        usage = Usage.of(gangctl.process.pid)
        self.row("resident memory with --gang-objects", f"{usage.megabytes:.0f} MB", f"{MEMORY_BUDGET:g} MB")

    async def _many(self, gangctl: Gangctl) -> None:
        before = await scrape(gangctl)
        rows = {(row["namespace"], row["jobset"]) for row, _ in before.exposed.rows(ROW) if row["phase"] == "ready"}
        keys = [key for key in self._ready() if (key.namespace, key.name) in rows]
        pids = self._pids(gangctl)
        used = {name: Usage.of(pid).cpu_seconds for name, pid in pids.items()}
        flips, sightings, scrapes = Flips(self.plane.api), Sightings(), list[Scrape]()
        watching = asyncio.create_task(sightings.follow(self.plane.api))
        scraping = asyncio.create_task(_scrape_on(gangctl, scrapes))
        async with Admission(self._asking) as admission:
            began = time.monotonic()
            await flips.drive(keys, self.size.transitions, self.size.transition_seconds)
            took = time.monotonic() - began
        await asyncio.sleep(5)
        for task in (scraping, watching):
            await end(task)
        after = await scrape(gangctl)
        cpu = {name: Usage.of(pid).cpu_seconds - used[name] for name, pid in pids.items()}
        what = f"{self.size.transitions} transitions/s for {self.size.transition_seconds} s"
        done = since(before.exposed, after.exposed)
        self.row(f"{what}: all answered", f"{len(flips.done):,} of {len(keys):,} gangs after {seconds_text(took)}")
        self.row(f"{what}: evaluations", f"{done.sum(_EVALUATIONS):,.0f}")
        self.row(f"{what}: CPU", ", ".join(f"{name} {seconds:.1f} s" for name, seconds in cpu.items()))
        asked = Counter[str]()
        for row, count in done.rows(_REQUESTS):
            if row["verb"] in {"create", "patch"}:
                asked[f"{row['verb']} {row['resource']}"] += round(count)
        self.row(f"{what}: writes", ", ".join(f"{count:,} {kind}" for kind, count in asked.most_common(2)))
        self.row(f"{what}: event loop late, p99", _at_most(done, _LATE, 0.99))
        lags = " / ".join(_at_most(done, _LAG, share) for share in (0.5, 0.99))
        self.row("from the watch event to publishing it, p50 / p99", lags)
        half, most, looks = visibility(scrapes, flips)
        shown = f"at most {half:.1f} s / {most:.1f} s ({looks:,} looks in {len(scrapes)} scrapes)"
        self.row("from the API's answer to metrics, p50 / p99", shown, f"{LAG_BUDGET:g} s")
        self._figure("readiness-metrics", [most])
        delays, missed = sightings.delays(flips)
        seen = f"{percentiles(delays)} ({missed} of {len(flips.done):,} not seen)"
        self.row("from the API's answer to the Gang, p50 / p99", seen, f"{LAG_BUDGET:g} s")
        # A change that no watch ever showed took longer than any.
        told = [*delays, *[float("inf")] * missed]
        self._figure("readiness-gangs", [percentile(told, 0.99)], single=told)
        self._findings.charts.append(
            Chart(
                "readiness",
                "From a pod's change to its Gang",
                Axis("s"),
                Axis("% of transitions"),
                [distribution(what, delays)],
            )
        )
        self.row("JobSet creates meanwhile", admission)
        middle = percentile([each.seconds for each in scrapes], 0.5)
        self.row("a scrape meanwhile", seconds_text(middle), f"{SCRAPE_BUDGET:g} s")


_OF_A_START: Final = frozenset({"mutatingwebhookconfigurations", "validatingwebhookconfigurations", "secrets"})
"""What gangctl needs to be asked, whatever there is in the cluster."""


async def _scrape_on(gangctl: Gangctl, scrapes: list[Scrape]) -> None:
    while True:
        scrapes.append(await scrape(gangctl))
        await asyncio.sleep(SCRAPE_SECONDS - scrapes[-1].seconds)


def _at_most(done: Exposed, histogram: str, share: float) -> str:
    """The bucket that the share of all is in."""
    buckets = sorted((float(row["le"]), count) for row, count in done.rows(f"{histogram}_bucket"))
    total = buckets[-1][1]
    return next(f"at most {limit:g} s" for limit, count in buckets if count >= share * total)


async def readiness(minor: str, size: Size) -> Findings:
    """Start an API server, fill it, measure."""
    table = Table("readiness", ["what", "measured", "budget"])
    findings = Findings(table)
    jobsets = size.jobsets
    definition = manifests.crds(ensure_manifests("jobset") / "crd")
    started = ControlPlane.start(minor, (), scheduler=False, controller_manager=False, crds=definition)
    async with started as plane:
        began = time.monotonic()
        objects = await crowd.fill(plane, jobsets)
        print(f"{objects:,} objects in {time.monotonic() - began:.0f} s", flush=True)
        load = os.getloadavg()[0]
        table.remarks.append(
            f"Kubernetes {minor}: etcd and kube-apiserver without controllers, {jobsets:,} JobSets, "
            f"{jobsets * crowd.PODS:,} pods, {objects:,} objects. Load of the machine before gangctl: {load:.1f}."
        )
        await Run(plane, size, findings).measure()
        table.remarks.append(f"Load of the machine at the end: {os.getloadavg()[0]:.1f}.")
    return findings


def main(quick: bool = False, minor: str = NEWEST) -> Findings:
    """Run it and print each row."""
    return asyncio.run(readiness(minor, QUICK if quick else FULL))
