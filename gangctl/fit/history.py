"""How long the workloads of a ClusterQueue run, from the finished ones, and the ages of the others.

The estimate is that of Kaplan and Meier, with one run more that never ends: so a run of ten has one chance in eleven
to be longer than the others, and few runs say little. Those that still run count with their age, because otherwise a
history would have the short runs of a queue before it has the long ones.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate
from math import inf
from operator import mul
from typing import Final

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
