"""When workloads give their quota back: from what they declare, and from the history of their queue.

All times are seconds from now. A range is early and late; infinite is not known. Only Kueue's maximum execution time,
and an eviction, are bounds that something enforces (Kueue 0.19, ``pkg/controller/core``).

From finished workloads the estimate is that of Kaplan and Meier, with one run more that never ends: so a run of ten has
one chance in eleven to be longer than the others, and few runs say little. Those that still run count with their age,
because otherwise a history would have the short runs of a queue before it has the long ones.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b
from itertools import accumulate
from math import inf
from operator import mul
from typing import Final

from gangctl.kueue.amounts import moment
from gangctl.kueue.objects import QueuedWorkload, RunTime

LEAST: Final = 10
"""Finished runs that are longer than the age of a workload, without which nothing is said about its end."""


class History:
    """Run times of one ClusterQueue, in seconds: of the finished workloads, and the ages of those that run."""

    def __init__(self, finished: Iterable[float], running: Iterable[float] = ()) -> None:
        """Estimate how many run longer than each of the run times."""
        self.finished = sorted(finished)
        ages = sorted(running)
        ended = Counter(self.finished)
        self._times = sorted(ended)
        # How many go on after each time: of those that have not ended before it, and of the one that never ends.
        going = (1 - ended[time] / (_from(self.finished, time) + _from(ages, time) + 1) for time in self._times)
        self._ended = [1 - each for each in accumulate(going, mul)]
        """The part that does not run for longer than each time."""

    def left(self, age: float, chance: float) -> tuple[float, float] | None:
        """The range of the time that is left at an age, for a number from 0 to 1 that is as likely as any other.

        The range is between two neighbouring run times, the second of which is infinite beyond the longest; None if
        too few runs were longer than the age.
        """
        position = bisect_right(self._times, age)
        if len(self.finished) - bisect_right(self.finished, age) < LEAST:
            return None
        over = self._ended[position - 1] if position else 0.0
        found = bisect_left(self._ended, over + (1 - over) * chance, position)
        before = self._times[found - 1] if found > position else age
        return before - age, self._times[found] - age if found < len(self._times) else inf

    def middle(self) -> tuple[float, float]:
        """Between which run times 80 % of the finished ones are; for at least one."""
        last = len(self.finished) - 1
        return self.finished[round(last * 0.1)], self.finished[round(last * 0.9)]


def _from(ordered: Sequence[float], time: float) -> int:
    """How many last at least so long."""
    return len(ordered) - bisect_left(ordered, time)


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
