"""State of an act: running, waiting and finished JobSets, gangctl's events; and the outcome."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from gangctl.api.meta import JOBSET_NAME
from gangctl.demo.scenario import CPUS, JOBSETS, NAMES, PODS
from gangctl.readiness.membership import FINISHED

State = Literal["waiting", "half-started", "running", "finished"]


@dataclass(frozen=True, slots=True)
class JobSetSight:
    """Pods of one JobSet that have not ended: on a node, and waiting for one."""

    name: str
    bound: int
    waiting: int
    finished: bool

    @property
    def state(self) -> State:
        """What that means."""
        if self.finished:
            return "finished"
        if self.bound >= PODS:
            return "running"
        return "half-started" if self.bound else "waiting"


@dataclass(frozen=True, slots=True)
class Sight:
    """The state at one point in time."""

    jobsets: tuple[JobSetSight, ...]
    nodes: tuple[tuple[str, int, int], ...]
    """Name, pods of the demo, and places."""
    said: tuple[str, ...]

    @property
    def stranded(self) -> int:
        """Pods with a node whose JobSet cannot start."""
        return sum(each.bound for each in self.jobsets if each.state == "half-started")

    @property
    def finished(self) -> int:
        """Finished JobSets."""
        return sum(each.finished for each in self.jobsets)

    @property
    def arrived(self) -> bool:
        """Whether all pods exist, or have finished."""
        return all(each.finished or each.bound + each.waiting >= PODS for each in self.jobsets)


def see(
    pods: Iterable[Mapping[str, Any]], finished: Iterable[str], places: Mapping[str, int], said: Sequence[str]
) -> Sight:
    """Count pods by JobSet and node."""
    bound: Counter[str] = Counter()
    waiting: Counter[str] = Counter()
    nodes: Counter[str] = Counter()
    for pod in pods:
        if (pod.get("status") or {}).get("phase") in FINISHED:
            continue
        name = (pod["metadata"].get("labels") or {}).get(JOBSET_NAME, "")
        node = pod["spec"].get("nodeName")
        (bound if node else waiting)[name] += 1
        if node:
            nodes[node] += 1
    done = frozenset(finished)
    return Sight(
        tuple(JobSetSight(name, bound[name], waiting[name], name in done) for name in NAMES),
        tuple((name, nodes[name], places[name]) for name in places),
        tuple(said),
    )


@dataclass(frozen=True, slots=True)
class Result:
    """Result of an act: the maximum of stranded pods when nothing changed any more, and finished JobSets."""

    gangs: bool
    stranded: int
    finished: int
    seconds: float
    events: Mapping[str, int] = field(default_factory=dict)

    @property
    def as_expected(self) -> bool:
        """Without gangs pods strand; with gangs none do, and all JobSets finish."""
        if self.gangs:
            return self.stranded == 0 and self.finished == JOBSETS
        return self.stranded > 0

    def as_json(self) -> dict[str, Any]:
        """The act in ``gangctl demo -o json``."""
        return {
            "gangs": self.gangs,
            "strandedPods": self.stranded,
            "finishedJobSets": self.finished,
            "seconds": round(self.seconds, 1),
            "events": dict(self.events),
        }

    def __str__(self) -> str:
        """The act in one sentence."""
        pods = "no pod" if not self.stranded else f"{self.stranded} pods" if self.stranded > 1 else "1 pod"
        done = f"all {JOBSETS}" if self.finished == JOBSETS else f"{self.finished or 'none'} of {JOBSETS}"
        return f"{done} JobSets finished, {pods} stranded"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Both acts; ``places`` is the number of pods that fit on all nodes."""

    kubernetes: str
    simulated: bool
    without: Result
    with_gangs: Result
    places: int = CPUS

    @property
    def passed(self) -> bool:
        """Whether gangs prevented stranded pods."""
        return self.without.as_expected and self.with_gangs.as_expected

    @property
    def lines(self) -> tuple[str, str, str]:
        """The demo in three sentences."""
        return (
            f"Without gangs: {self.without}.",
            f"With gangctl: {self.with_gangs}.",
            "That is what gangs are for." if self.passed else "That is not what gangs are for: something is wrong.",
        )

    def as_json(self) -> dict[str, Any]:
        """The document of ``gangctl demo -o json``."""
        return {
            "kubernetes": self.kubernetes,
            "simulated": self.simulated,
            "scenario": {"jobSets": JOBSETS, "podsPerJobSet": PODS, "places": self.places},
            "acts": [self.without.as_json(), self.with_gangs.as_json()],
            "passed": self.passed,
        }
