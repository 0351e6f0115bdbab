"""Gangs start in the range that a fit estimates: simulated days of queues in a real Kueue."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

import pytest

from gangctl.fit.clusterstate import ClusterSnapshot, Outlook
from gangctl.fit.report import FitReport
from gangctl.fit.verdict import FitRequest, fit
from gangctl.kueue.objects import ClusterQueue, ResourceFlavor
from gangctl.kueue.queues import Head, find_head
from gangctl.kueue.reading import read_cluster_queue, read_local_queue
from tests.controlplane.components.addon import create_namespace
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
from tests.fit.asking import CONFIGURATION
from tests.jobsets import jobset, rj
from tests.live.days import FLAVOR, KINDS, Day, Days, day, first_and_last, local_queue
from tests.live.quotatrees import NAMESPACE, all_of, path

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.timeout(1800),
    pytest.mark.xdist_group("when"),
    pytest.mark.full("a search; single cases of estimates are in tests/fit/test_when.py"),
]

SEED = 20_261_125
EACH = 1
EVERY = 4
"""Steps between two estimates of a day."""


@dataclass
class Estimate:
    """What was said of a workload at a time of its day, and when it started; in seconds of the day."""

    kind: str
    strict: bool
    day: Day
    name: str
    made: int
    earliest: int | None
    latest: int | None

    @property
    def wait(self) -> int:
        return self.day.admitted[self.name] - self.made

    @property
    def is_range(self) -> bool:
        return self.latest is not None

    @property
    def before(self) -> bool:
        return self.earliest is not None and self.wait < self.earliest

    @property
    def after(self) -> bool:
        return self.latest is not None and self.wait > self.latest

    @property
    def width(self) -> float:
        """Of the range, as a part of the time that it waited."""
        return ((self.latest or 0) - (self.earliest or 0)) / self.wait


def ask(each: Day, name: str) -> FitReport:
    seen = each.seen()
    raw_doors = [
        {**local_queue(raw), "metadata": {"name": raw["metadata"]["name"], "namespace": NAMESPACE}}
        for raw in each.queues
    ]
    snapshot = ClusterSnapshot(
        [
            *map(read_cluster_queue, each.queues),
            *map(read_local_queue, raw_doors),
            ResourceFlavor(FLAVOR),
            *(workload for workload in seen if not workload.holds("Finished")),
        ],
        runtime_classes=(),
        configuration=CONFIGURATION,
        queue_limit=18,
    )
    outlook = Outlook(each.at(each.now), [workload for workload in seen if not workload.holds("QuotaReserved")])
    job = each.jobs[name]
    own = next(workload for workload in seen if workload.name == name)
    raw = jobset(name, rj("main", 1, job.cpus, job.cpus, cpu="1"))
    places = {door["metadata"]["name"]: door["spec"]["clusterQueue"] for door in raw_doors}

    def head(queue: ClusterQueue) -> Head | None:
        inside = [workload for workload in seen if places.get(workload.queue) == queue.name]
        return find_head(queue, inside, outlook.now)

    request = FitRequest(raw, NAMESPACE, {}, job.queue, new=False, workload=own, outlook=outlook, head=head)
    return fit(request, snapshot)


def estimates(days: Iterable[Day]) -> list[Estimate]:
    made = []
    for each in days:
        for name in first_and_last(each.waiting):
            report = ask(each, name)
            expected = {"WaitsForQuota", "HeadBlocksQueue"} if each.strict else {"WaitsForQuota"}
            assert report["reason"] in expected, (name, report["message"])
            starts = report["starts"]
            said = (None, None) if starts is None else (starts["earliest"], starts["latest"])
            made.append(Estimate(each.kind, each.strict, each, name, each.now, *said))
    return made


def table(made: list[Estimate]) -> list[str]:
    groups: dict[tuple[str, str], list[Estimate]] = defaultdict(list)
    for each in made:
        groups[each.kind, "strict" if each.strict else "best effort"].append(each)
    header = (
        f"{'days':10} {'queues':12} {'asked':>5} {'range':>5} {'open':>5} {'none':>5} "
        f"{'within':>6} {'before':>6} {'after':>6} {'width':>6}"
    )
    lines = [header]
    for (kind, order), those in sorted(groups.items()):
        ranges = [each for each in those if each.is_range]
        opened = [each for each in those if not each.is_range and each.earliest is not None]
        within = round(share(ranges) * len(ranges)) if ranges else 0
        width = f"{median(each.width for each in ranges):6.0%}" if ranges else "     -"
        lines.append(
            f"{kind:10} {order:12} {len(those):5} {len(ranges):5} {len(opened):5} "
            f"{len(those) - len(ranges) - len(opened):5} {within:6} "
            f"{sum(each.before for each in those):6} {sum(each.after for each in those):6} {width}"
        )
    return lines


async def test_gangs_start_in_their_estimated_range() -> None:
    settings = [(kind, strict, shared) for kind in KINDS for strict in (True, False) for shared in (True, False)] * EACH
    days = [day(SEED + n, kind, strict=strict, shared=shared) for n, (kind, strict, shared) in enumerate(settings)]
    made: list[Estimate] = []
    async with ControlPlane.start("1.37", ("jobset", "kueue"), scheduler=False) as plane:
        await install(plane, days)
        ground = Days(plane, days)
        await ground.begin()
        step = 0
        while await ground.go_on():
            step += 1
            if step % EVERY == 0:
                made += estimates(days)
    assert all(len(each.finished) == len(each.jobs) for each in days)
    lines = [f"seeds {SEED} to {SEED + len(days) - 1}, {step} ends in each of {len(days)} days", *table(made)]
    sys.stdout.write("\n" + "\n".join(lines) + "\n")
    ranges = [each for each in made if each.is_range]
    assert len(ranges) > 90, "too little is declared to say anything"
    # Nothing overtakes in one StrictFIFO queue, so an early end makes nothing later.
    alone = [each for each in made if each.strict and len(each.day.queues) == 1]
    assert [each for each in alone if each.before or each.after] == []
    assert share(ranges) > 0.9


def share(ranges: list[Estimate]) -> float:
    """The part of the ranges that hold the start."""
    return sum(not each.before and not each.after for each in ranges) / len(ranges)


async def install(plane: ControlPlane, days: list[Day]) -> None:
    api = plane.api
    await create_namespace(api, NAMESPACE)
    version = days[0].queues[0]["apiVersion"]
    flavor = {"apiVersion": version, "kind": "ResourceFlavor", "metadata": {"name": FLAVOR}}
    await api.create(path("resourceflavors"), flavor)
    queues = [each for day in days for each in day.queues]
    await all_of(api.create(path("clusterqueues"), each) for each in queues)
    await all_of(api.create(path("localqueues", namespace=NAMESPACE), local_queue(each)) for each in queues)

    async def active() -> bool:
        found = [read_local_queue(raw) for raw in await api.list(path("localqueues", namespace=NAMESPACE))]
        closed = [each.name for each in found if each.active is None or not each.active.status]
        if closed:
            raise NotYet(f"{len(closed)} of {len(found)} queues are not active")
        return True

    await wait_for(active, "all queues to be active", interval=0.5)
