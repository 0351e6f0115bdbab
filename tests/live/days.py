"""Simulated days of queues in one real Kueue: Kueue admits, and the test ends what is admitted, in virtual time.

Nothing is timed by a clock: each day is at the time of the last end that the test has written, and what Kueue admits
after it is admitted at that time. A day goes on when there is no room for anything that waits. The days differ a little
from run to run: the first workloads are admitted while others are created, and what Kueue happens to try in a
BestEffortFIFO queue as others end goes before what it has tried.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Final

from gangctl.kueue.objects import Condition, QueuedWorkload
from gangctl.kueue.reading import read_workload
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
from tests.fit.trees import API_VERSION
from tests.live.quotatrees import NAMESPACE, all_of, path

Object = dict[str, Any]

FLAVOR: Final = "plain"
CPUS: Final = 12
JOBS: Final = 30
OVER: Final = "over"
"""Label of the finished ones, which need not be listed again and again."""
KINDS: Final = ("declared", "maximum")
BEGIN: Final = datetime(2026, 3, 1, tzinfo=UTC)
_KEPT: Final = "Workload no longer fits after processing another workload"


@dataclass(frozen=True)
class Job:
    """A workload of so many pods with one CPU; times are virtual seconds."""

    name: str
    queue: str
    cpus: int
    priority: int
    length: int
    maximum: int
    expected: int | None

    @property
    def raw(self) -> Object:
        container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}
        pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]}
        spec: Object = {"queueName": self.queue, "priority": self.priority}
        spec["podSets"] = [{"name": "main", "count": self.cpus, "template": {"spec": pod}}]
        spec["maximumExecutionTimeSeconds"] = self.maximum
        notes = {} if self.expected is None else {"gangctl.dev/expected-duration": f"{self.expected}s"}
        metadata = {"name": self.name, "annotations": notes}
        return {"apiVersion": API_VERSION, "kind": "Workload", "metadata": metadata, "spec": spec}


@dataclass
class Day:
    """One or two ClusterQueues, and what became of its workloads: times by name."""

    name: str
    kind: str
    queues: list[Object]
    jobs: dict[str, Job]
    now: int = 0
    admitted: dict[str, int] = field(default_factory=dict)
    finished: dict[str, int] = field(default_factory=dict)
    read: dict[str, QueuedWorkload] = field(default_factory=dict)
    """As Kueue has them, with UIDs that are the same each time."""

    @property
    def strict(self) -> bool:
        return bool(self.queues[0]["spec"]["queueingStrategy"] == "StrictFIFO")

    @property
    def waiting(self) -> list[str]:
        """In the order of the queues."""
        there = [name for name in self.read if name not in self.admitted]
        return sorted(there, key=lambda name: -self.jobs[name].priority)

    def undecided(self) -> str:
        """Which workload Kueue could still admit with what is free now; empty if there is none.

        A StrictFIFO queue tries its first alone, again and again. That may find the quota kept for the first of the
        other queue, which Kueue has tried in the same round if its message is about what is free now.
        """
        running = [each for each in self.read.values() if each.holds("QuotaReserved") and not each.holds("Finished")]
        free = CPUS - sum(self.jobs[each.name].cpus for each in running)
        waiting = [each for each in self.read.values() if not each.holds("QuotaReserved")]
        ordered = sorted(waiting, key=lambda each: -each.priority)
        if self.strict:
            ordered = list({each.queue: each for each in reversed(ordered)}.values())
        lacking = {each.name: self.jobs[each.name].cpus - free for each in ordered}
        tried = any(lack > 0 and f", {lack} more needed" in _message(self.read[name]) for name, lack in lacking.items())
        for name, lack in lacking.items():
            message = _message(self.read[name])
            if lack <= 0 and not (self.strict and tried and message.startswith(_KEPT)):
                return f"{name} asks for {self.jobs[name].cpus}, {free} are free: {message}"
        return ""

    def ends(self) -> list[str]:
        """Those that end next, all at one time."""
        ends = {name: at + self.jobs[name].length for name, at in self.admitted.items() if name not in self.finished}
        return [name for name, end in ends.items() if end == min(ends.values())]

    def end(self, name: str) -> None:
        """The time is that of this end now."""
        self.now = self.finished[name] = self.admitted[name] + self.jobs[name].length
        workload = self.read[name]
        over = {"Finished": Condition(status=True, reason="Succeeded")}
        self.read[name] = replace(workload, conditions={**workload.conditions, **over})

    def at(self, seconds: int) -> datetime:
        return BEGIN + timedelta(seconds=seconds)

    def seen(self) -> list[QueuedWorkload]:
        """Its Workloads with the times of the day."""
        return [self._dated(name, each) for name, each in self.read.items()]

    def _dated(self, name: str, workload: QueuedWorkload) -> QueuedWorkload:
        times = {"Admitted": self.admitted.get(name), "Finished": self.finished.get(name)}
        conditions = {
            kind: replace(each, since=self.at(at).isoformat()) if (at := times.get(kind)) is not None else each
            for kind, each in workload.conditions.items()
        }
        return replace(workload, conditions=conditions)


def day(seed: int, kind: str, *, strict: bool, shared: bool) -> Day:
    """``shared`` is with a second queue of the same cohort, without quota of its own."""
    random = Random(f"{seed}-{kind}")
    name = f"d{seed}"
    queues = [f"{name}-a", f"{name}-b"] if shared else [f"{name}-a"]
    jobs = {}
    scale = random.choice([0.3, 0.6, 1.0])
    for index in range(JOBS):
        length = _length(random, scale)
        maximum = round(length * random.uniform(1, 2))
        expected = round(length * random.uniform(0.5, 1)) if kind == "declared" else None
        job = Job(
            name=f"{name}-{index:02}",
            queue=random.choice(queues),
            cpus=random.choice([1, 2, 2, 3, 4, 4, 6, 8]),
            priority=-index,
            length=length,
            maximum=maximum,
            expected=expected,
        )
        jobs[job.name] = job
    made = [
        _queue(each, strict=strict, cohort=name if shared else "", cpus=CPUS if each == queues[0] else 0)
        for each in queues
    ]
    return Day(name, kind, made, jobs)


def _length(random: Random, scale: float) -> int:
    """Not too short: Kueue stops what exceeds its maximum in the time of the test."""
    return 3600 + round(random.lognormvariate(9, scale))


def _queue(name: str, *, strict: bool, cohort: str, cpus: int) -> Object:
    resources = [{"name": "cpu", "nominalQuota": str(cpus)}]
    spec: Object = {
        "namespaceSelector": {},
        "queueingStrategy": "StrictFIFO" if strict else "BestEffortFIFO",
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [{"name": FLAVOR, "resources": resources}]}],
    }
    if cohort:
        spec["cohortName"] = cohort
    return {"apiVersion": API_VERSION, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec}


def local_queue(queue: Object) -> Object:
    """A LocalQueue of the same name."""
    name = queue["metadata"]["name"]
    return {"apiVersion": API_VERSION, "kind": "LocalQueue", "metadata": {"name": name}, "spec": {"clusterQueue": name}}


class Days:
    """All days in one control plane, one end of each at a time."""

    def __init__(self, plane: ControlPlane, days: list[Day]) -> None:
        self._plane = plane
        self.days = days

    async def begin(self) -> None:
        """Create the workloads, and see which are admitted."""
        jobs = [job for day in self.days for job in day.jobs.values()]
        await all_of(self._plane.api.create(path("workloads", namespace=NAMESPACE), job.raw) for job in jobs)
        await self._settle()

    async def go_on(self) -> bool:
        """End what ends next in each day, and see which are admitted; False if nothing runs any more."""
        ending = [(each, name) for each in self.days for name in each.ends()]
        for each, name in ending:
            each.end(name)
        await all_of(self._end(name) for _, name in ending)
        await self._settle()
        return bool(ending)

    async def _end(self, name: str) -> None:
        there = path("workloads", name, NAMESPACE)
        raw = await self._plane.api.get(there)
        at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        over = {"type": "Finished", "status": "True", "reason": "Succeeded", "message": "", "lastTransitionTime": at}
        await self._plane.api.patch(f"{there}/status", {"status": {"conditions": [*raw["status"]["conditions"], over]}})
        await self._plane.api.patch(there, {"metadata": {"labels": {OVER: "true"}}})

    async def _settle(self) -> None:
        """Wait until Kueue has decided about all that waits, with what is free now."""

        async def decided() -> bool:
            await self._read()
            open_ = [f"{each.name}: {why}" for each in self.days if (why := each.undecided())]
            if open_:
                raise NotYet(f"{len(open_)} of {len(self.days)} days are not decided: {open_[:3]}")
            return True

        await wait_for(decided, "Kueue to have decided", interval=0.5)
        for day in self.days:
            for name, each in day.read.items():
                if each.holds("QuotaReserved"):
                    day.admitted.setdefault(name, day.now)

    async def _read(self) -> None:
        """Those that have not finished; a finished one stays as it was before, with this condition."""
        raws = await self._plane.api.list(path("workloads", namespace=NAMESPACE), labelSelector=f"!{OVER}")
        days = {each.name: each for each in self.days}
        for each in map(read_workload, raws):
            days[each.name.partition("-")[0]].read[each.name] = replace(each, uid=each.name)


def _message(workload: QueuedWorkload) -> str:
    return workload.conditions.get("QuotaReserved", Condition(status=False)).message


def first_and_last(names: Iterable[str]) -> list[str]:
    """Some of those that wait: the first, the fourth, and the last."""
    every = list(names)
    return list(dict.fromkeys([*every[:1], *every[3:4], *every[-1:]]))
