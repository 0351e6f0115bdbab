"""When workloads give their quota back: from what they declare, and from the history of their queue.

All times are seconds from now. A range is early and late; infinite is not known. Only Kueue's maximum execution time,
and an eviction, are bounds that something enforces (Kueue 0.19, ``pkg/controller/core``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b
from math import inf

from gangctl.fit.history import History
from gangctl.kueue.amounts import moment
from gangctl.kueue.objects import QueuedWorkload, RunTime

Range = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Outlook:
    """The time of asking, and the Workloads of all queues that are not quota in use.

    ``expected`` are the durations that JobSets declare, in seconds, by namespace and name: Kueue does not copy them.
    """

    now: datetime
    pending: Sequence[QueuedWorkload] = ()
    finished: Sequence[QueuedWorkload] = ()
    expected: Mapping[tuple[str, str], float] = field(default_factory=dict)

    def since(self, workload: QueuedWorkload, condition: str) -> float | None:
        """For how long a condition is True; None if it is not, or has no time."""
        found = workload.conditions.get(condition)
        at = moment(found.since) if found is not None and found.status else None
        return None if at is None else (self.now - at).total_seconds()

    def expects(self, workload: QueuedWorkload) -> float | None:
        """The duration that a workload or its JobSet declares."""
        if workload.run_time.expected is not None or workload.owner_kind != "JobSet":
            return workload.run_time.expected
        return self.expected.get((workload.namespace, workload.owner_name))

    def histories(self, running: Iterable[QueuedWorkload]) -> dict[str, History]:
        """By ClusterQueue, of the finished workloads and of those that run."""
        finished: dict[str, list[float]] = {}
        for each in self.finished:
            end, start = self.since(each, "Finished"), self.since(each, "Admitted")
            if end is not None and start is not None and start >= end:
                finished.setdefault(each.cluster_queue, []).append(start - end)
        ages: dict[str, list[float]] = {}
        for each in running:
            age = self.since(each, "Admitted")
            if age is not None:
                ages.setdefault(each.cluster_queue, []).append(max(0.0, age))
        return {name: History(times, ages.get(name, ())) for name, times in finished.items()}


def chance(uid: str, replay: int) -> float:
    """A number from 0 to 1 for one workload in one replay: any, but the same each time."""
    return int.from_bytes(blake2b(f"{replay}/{uid}".encode(), digest_size=6).digest()) / 2**48


@dataclass(frozen=True, slots=True)
class Ends:
    """The ends of workloads; ``histories`` are by ClusterQueue."""

    outlook: Outlook
    histories: Mapping[str, History]

    def of_holder(self, holder: QueuedWorkload, replay: int) -> Range:
        """When one that has quota gives it back."""
        grace = holder.run_time.grace
        evicted = self.outlook.since(holder, "Evicted")
        if evicted is not None or holder.deleting or not holder.active:
            return 0.0, inf if evicted is None else _in_future(grace - evicted)
        age = self.outlook.since(holder, "Admitted")
        if age is None:
            return 0.0, inf
        age = max(0.0, age)
        early, late = self._left(holder, age, replay)
        bound = _in_future(_most(holder.run_time) - age + grace)
        return min(early, bound), min(late, bound)

    def of_next(self, waiting: QueuedWorkload, queue: str, replay: int) -> Range:
        """How long one runs that is still to be admitted into a ClusterQueue."""
        early, late = self._left(waiting, 0.0, replay, queue)
        bound = _most(waiting.run_time) + waiting.run_time.grace
        return min(early, bound), min(late, bound)

    def _left(self, workload: QueuedWorkload, age: float, replay: int, queue: str = "") -> Range:
        expected = self.outlook.expects(workload)
        history = self.histories.get(queue or workload.cluster_queue)
        found = history.left(age, chance(workload.uid, replay)) if history is not None else None
        early, late = found or (0.0, inf)
        if expected is not None:
            early = max(0.0, expected - age)
        return early, max(early, late)


def _most(run_time: RunTime) -> float:
    return inf if run_time.maximum is None else max(0, run_time.maximum - run_time.spent)


def _in_future(at: float) -> float:
    """A bound that is over was none: what was to end by then did not."""
    return at if at >= 0 else inf
