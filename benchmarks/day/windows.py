"""Which parts of a trace are replayed, and on how large a cluster: by rules that look at the trace alone.

A window is 48 hours. Its jobs are those of 2 GPUs and more, and a job runs for 4 hours at most: two days cannot show
what a job of a week does. Windows begin at full hours. The busiest one offers the most GPU time, the second the most of
those that do not overlap it, and a seed draws one more from those that overlap neither. The cluster has nodes of 8
GPUs, as few as make the offered load at most 0.7 of their GPU time over the window, but enough for the largest job.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from typing import Final

from benchmarks.day.trace import Job

HOURS: Final = 48
# Three runs take less than 15 minutes then.
LAST_HOURS: Final = 55
"""When a run is ended, done or not."""
LEAST_GPUS: Final = 2
LONGEST_SECONDS: Final = 4 * 3600.0
NODE_GPUS: Final = 8
LOAD: Final = 0.7
# The 48 hours take four minutes.
SPEED: Final = 720.0
"""Seconds of the trace in one second of a run."""
SEED: Final = 2017
NAMES: Final = ("busiest", "second", "random")
LOST_EVERY_SECONDS: Final = 6 * 3600.0
LOST_FOR_SECONDS: Final = 2 * 3600.0


class NoWindowError(ValueError):
    """A trace of which nothing can be replayed."""


@dataclass(frozen=True, slots=True)
class Window:
    """One part of a trace: its name, begin, and jobs."""

    name: str
    begin: datetime
    jobs: tuple[Job, ...]

    @property
    def end(self) -> datetime:
        """When nothing is submitted any more."""
        return self.begin + timedelta(hours=HOURS)


def windows(jobs: Sequence[Job], seed: int = SEED) -> list[Window]:
    """The busiest, the second and a random one, as far as the trace is long enough for them; raises NoWindowError."""
    offered = _offered(jobs)
    if not any(offered.values()):
        raise NoWindowError(f"the trace has no job of {LEAST_GPUS} GPUs or more")
    chosen = [max(offered, key=offered.__getitem__)]
    if rest := _apart(offered, chosen):
        chosen.append(max(rest, key=offered.__getitem__))
    if rest := _apart(offered, chosen):
        chosen.append(Random(seed).choice(rest))
    return [
        Window(name, begin, tuple(job for job in _replayed(jobs) if 0 <= _hours(begin, job.submitted) < HOURS))
        for name, begin in zip(NAMES, chosen, strict=False)
    ]


def running_seconds(job: Job) -> float:
    """For how long it runs in a replay."""
    return min(job.seconds, LONGEST_SECONDS)


def _replayed(jobs: Sequence[Job]) -> Iterator[Job]:
    return (job for job in jobs if job.gpus >= LEAST_GPUS)


def _offered(jobs: Sequence[Job]) -> dict[datetime, float]:
    """GPU seconds by begin, for every window that lies within the trace; one where the trace is shorter than that."""
    first = jobs[0].submitted.replace(minute=0, second=0, microsecond=0)
    last = max(0, math.ceil(_hours(first, jobs[-1].submitted)) - HOURS)
    by_hour: dict[int, float] = {}
    for job in _replayed(jobs):
        hour = int(_hours(first, job.submitted))
        by_hour[hour] = by_hour.get(hour, 0.0) + running_seconds(job) * job.gpus
    return {
        first + timedelta(hours=begin): sum(by_hour.get(hour, 0.0) for hour in range(begin, begin + HOURS))
        for begin in range(last + 1)
    }


def _apart(offered: dict[datetime, float], chosen: Sequence[datetime]) -> list[datetime]:
    """Begins of windows with jobs that overlap none of these."""
    return [
        begin
        for begin, seconds in offered.items()
        if seconds and all(abs(_hours(each, begin)) >= HOURS for each in chosen)
    ]


def _hours(begin: datetime, at: datetime) -> float:
    return (at - begin).total_seconds() / 3600


@dataclass(frozen=True, slots=True)
class Variation:
    """One way to replay a window; ``text`` is what is different."""

    name: str
    text: str
    gpus_a_pod: int = 1
    held: int = 0
    """GPUs of each node that pods hold of which no quota knows."""
    lost: bool = False
    """A node is lost and comes back, again and again."""
    load: float = LOAD
    slower: float = 1.0
    """The speed is divided by it."""


VARIATIONS: Final = {
    each.name: each
    for each in (
        Variation("plain", "one GPU a pod"),
        Variation("eight", "eight GPUs a pod, fewer where the job has fewer", gpus_a_pod=8),
        Variation("held", "a quarter of the GPUs held by pods that no quota knows", held=NODE_GPUS // 4),
        Variation("lost", "a node lost for two hours, every six hours", lost=True),
        Variation("load-0.5", "offered load 0.5", load=0.5),
        Variation("load-0.9", "offered load 0.9", load=0.9),
        Variation("half-speed", "half the speed", slower=2.0),
    )
}


@dataclass(frozen=True, slots=True)
class Demand:
    """What one JobSet needs: when it is submitted, and for how long so many pods must run at once; trace seconds."""

    name: str
    submitted: float
    seconds: float
    pods: int
    gpus_a_pod: int
    queue: str = ""

    @property
    def gpus(self) -> int:
        """Of all pods."""
        return self.pods * self.gpus_a_pod


@dataclass(frozen=True, slots=True)
class Outage:
    """A node that is away, from and until; trace seconds."""

    node: str
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Replay:
    """A window in one variation: what is submitted, and to which cluster."""

    demands: tuple[Demand, ...]
    nodes: tuple[str, ...]
    held: int
    """GPUs of each node that are not for JobSets."""
    outages: tuple[Outage, ...]
    speed: float

    @property
    def seconds(self) -> float:
        """Of the trace, in which JobSets are submitted."""
        return HOURS * 3600.0

    @property
    def last(self) -> float:
        """Trace seconds after which a run is ended, done or not."""
        return LAST_HOURS * 3600.0

    @property
    def free(self) -> int:
        """GPUs of each node that JobSets can have."""
        return NODE_GPUS - self.held


def prepare(window: Window, variation: Variation, speed: float = SPEED) -> Replay:
    """What is to be replayed."""
    demands = tuple(_demand(number, window, job, variation) for number, job in enumerate(window.jobs))
    nodes = tuple(f"node-{number}" for number in range(_nodes(demands, variation)))
    return Replay(demands, nodes, variation.held, tuple(_outages(nodes, variation)), speed / variation.slower)


def _demand(number: int, window: Window, job: Job, variation: Variation) -> Demand:
    pods = math.ceil(job.gpus / variation.gpus_a_pod)
    submitted = (job.submitted - window.begin).total_seconds()
    return Demand(f"job-{number}", submitted, running_seconds(job), pods, math.ceil(job.gpus / pods), job.queue)


def _nodes(demands: Sequence[Demand], variation: Variation) -> int:
    offered = sum(demand.seconds * demand.gpus for demand in demands)
    largest = max(demand.gpus for demand in demands)
    by_load = math.ceil(offered / (variation.load * HOURS * 3600 * NODE_GPUS))
    # What others hold is no room for it: on fewer nodes it would never run.
    return max(by_load, math.ceil(largest / (NODE_GPUS - variation.held)))


def _outages(nodes: Sequence[str], variation: Variation) -> Iterator[Outage]:
    if not variation.lost:
        return
    for number in range(1, int(HOURS * 3600 / LOST_EVERY_SECONDS)):
        begin = number * LOST_EVERY_SECONDS
        yield Outage(nodes[number % len(nodes)], begin, begin + LOST_FOR_SECONDS)
