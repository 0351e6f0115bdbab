"""What a run was worth: a pure function of what was to be done and of what happened to pods and nodes.

GPUs are *held* by a pod from its binding until it ends or is gone. They are *useful* while all pods of its JobSet run
and its work is not done, and *stranded* while some pod of its JobSet holds none. The rest of the held time is start
and end: pods that do not run yet, that are stopped, or whose work is done. GPUs are *idle beside a gang that fits*
while the pods that a waiting JobSet lacks would all fit on what is free, node by node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from benchmarks.day.windows import Demand, Replay

BUCKETS: Final = 96
"""Points of a line in the picture: half hours."""


class Kind(StrEnum):
    """What can happen: to a pod, to the work of a JobSet, to a node."""

    BOUND = "bound"
    RUNNING = "running"
    STOPPING = "stopping"
    ENDED = "ended"
    DONE = "done"
    LOST = "lost"
    BACK = "back"


@dataclass(frozen=True, slots=True)
class Event:
    """What happened at which second of the trace; pods have ``job``, ``pod`` and ``node``, work has ``job``."""

    at: float
    kind: Kind
    job: str = ""
    pod: str = ""
    node: str = ""


@dataclass(frozen=True, slots=True)
class Wait:
    """From submission until all pods of a JobSet ran for the first time, in trace seconds."""

    gpus: int
    seconds: float
    begun: bool
    """Otherwise it waited for at least that long, until the run was ended."""


@dataclass(frozen=True, slots=True)
class RunFigures:
    """Figures of a run. Shares are of the window, in which JobSets are submitted."""

    jobs: int
    done: int
    useful: float
    """Of the GPU time that JobSets could have."""
    held: float
    """The same."""
    stranded: float
    """Of the held GPU time."""
    idle: float
    """GPU time idle beside a gang that fits, of what JobSets could have."""
    waits: tuple[Wait, ...]
    makespan: float | None
    """Trace seconds until the last JobSet was done; None if not all are."""
    useful_line: tuple[float, ...]
    """Share of the GPUs, by half hour."""
    stranded_line: tuple[float, ...]
    """Share of the GPUs, by half hour."""


@dataclass
class _State:
    """Where everything is between two events."""

    demands: Mapping[str, Demand]
    free: dict[str, int]
    """By node; those that are lost are not in it."""
    node: dict[str, str] = field(default_factory=dict)
    """Of each pod that holds GPUs."""
    bound: Counter[str] = field(default_factory=Counter)
    running: dict[str, set[str]] = field(default_factory=dict)
    done: dict[str, float] = field(default_factory=dict)
    whole_at: dict[str, float] = field(default_factory=dict)
    """When all pods ran for the first time."""
    lost: dict[str, int] = field(default_factory=dict)
    """GPUs that are free on a lost node, and of no use."""

    def apply(self, event: Event) -> None:
        match event.kind:
            case Kind.BOUND if event.pod not in self.node:
                self.node[event.pod] = event.node
                self.bound[event.job] += 1
                self._take(event.node, self.demands[event.job].gpus_a_pod)
            case Kind.RUNNING if event.pod in self.node:
                running = self.running.setdefault(event.job, set())
                running.add(event.pod)
                if len(running) == self.demands[event.job].pods:
                    self.whole_at.setdefault(event.job, event.at)
            case Kind.STOPPING:
                self.running.get(event.job, set()).discard(event.pod)
            case Kind.ENDED if event.pod in self.node:
                self.running.get(event.job, set()).discard(event.pod)
                self.bound[event.job] -= 1
                self._take(self.node.pop(event.pod), -self.demands[event.job].gpus_a_pod)
            case Kind.DONE:
                self.done.setdefault(event.job, event.at)
            case Kind.LOST if event.node in self.free:
                self.lost[event.node] = self.free.pop(event.node)
            case Kind.BACK if event.node in self.lost:
                self.free[event.node] = self.lost.pop(event.node)
            case _:
                pass

    def _take(self, node: str, gpus: int) -> None:
        where = self.lost if node in self.lost else self.free
        where[node] -= gpus

    def works(self, job: str) -> bool:
        return job not in self.done and len(self.running.get(job, ())) == self.demands[job].pods

    def held(self) -> int:
        return sum(count * self.demands[job].gpus_a_pod for job, count in self.bound.items())

    def useful(self) -> int:
        return sum(self.demands[job].gpus for job in self.running if self.works(job))

    def stranded(self) -> int:
        return sum(
            count * self.demands[job].gpus_a_pod
            for job, count in self.bound.items()
            if count < self.demands[job].pods and job not in self.done
        )

    def idle(self, submitted: Iterable[str]) -> int:
        """GPUs that are free while the pods that some waiting JobSet lacks would fit."""
        lacking = {
            (self.demands[job].gpus_a_pod, self.demands[job].pods - self.bound[job])
            for job in submitted
            if job not in self.done and self.bound[job] < self.demands[job].pods
        }
        fits = any(sum(max(0, free) // size for free in self.free.values()) >= pods for size, pods in lacking)
        return sum(max(0, free) for free in self.free.values()) if fits else 0


def figures_of(replay: Replay, events: Sequence[Event], end: float) -> RunFigures:
    """Figures of a run that was ended at this second of the trace; events in any order, of known JobSets and nodes."""
    state = _State({each.name: each for each in replay.demands}, dict.fromkeys(replay.nodes, replay.free))
    capacity = replay.free * len(replay.nodes)
    submitted: set[str] = set()
    useful, held, stranded, idle = (_Area(replay.seconds) for _ in range(4))
    steps: list[tuple[float, Event | Demand]] = [
        *((each.submitted, each) for each in replay.demands),
        *((each.at, each) for each in events),
    ]
    # A stable sort: a JobSet is submitted before all that happens to it in the same second.
    steps.sort(key=lambda step: step[0])
    for number, (at, step) in enumerate(steps):
        if at > end:
            break
        if isinstance(step, Demand):
            submitted.add(step.name)
        else:
            state.apply(step)
        until = min(end, steps[number + 1][0] if number + 1 < len(steps) else end)
        if until > at:
            useful.add(at, until, state.useful())
            held.add(at, until, state.held())
            stranded.add(at, until, state.stranded())
            idle.add(at, until, state.idle(submitted))
    whole = capacity * replay.seconds
    return RunFigures(
        jobs=len(replay.demands),
        done=len(state.done),
        useful=useful.sum / whole,
        held=held.sum / whole,
        stranded=stranded.sum / held.sum if held.sum else 0.0,
        idle=idle.sum / whole,
        waits=tuple(_wait(each, state.whole_at, end) for each in replay.demands if each.submitted <= end),
        makespan=max(state.done.values(), default=0.0) if len(state.done) == len(replay.demands) else None,
        useful_line=useful.line(capacity),
        stranded_line=stranded.line(capacity),
    )


def _wait(demand: Demand, whole_at: Mapping[str, float], end: float) -> Wait:
    begun = demand.name in whole_at
    return Wait(demand.gpus, max(0.0, whole_at.get(demand.name, end) - demand.submitted), begun)


class _Area:
    """The integral of a step function over the window, and over each half hour of it."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._buckets = [0.0] * BUCKETS

    def add(self, begin: float, end: float, height: float) -> None:
        """From and until; what is outside of the window counts for nothing."""
        begin, end = max(0.0, begin), min(end, self._seconds)
        width = self._seconds / BUCKETS
        while height and begin < end:
            bucket = min(BUCKETS - 1, int(begin / width))
            until = end if bucket == BUCKETS - 1 else min(end, (bucket + 1) * width)
            self._buckets[bucket] += (until - begin) * height
            # Where rounding makes a bound equal to the begin, the loop would not end.
            if until <= begin:
                break
            begin = until

    @property
    def sum(self) -> float:
        """Over the window."""
        return sum(self._buckets)

    def line(self, capacity: float) -> tuple[float, ...]:
        """Means by half hour, as shares of a capacity."""
        return tuple(area / (self._seconds / BUCKETS) / capacity for area in self._buckets)
