"""When workloads give their quota back, from what they declare.

All times are seconds from now. A range is early and late; infinite is not known. Only Kueue's maximum execution time,
and an eviction, are bounds that something enforces (Kueue 0.19, ``pkg/controller/core``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import inf

from gangctl.kueue.amounts import moment
from gangctl.kueue.objects import QueuedWorkload, RunTime

Range = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Outlook:
    """The time of asking, and the Workloads of all queues that wait.

    ``expected`` are the durations that JobSets declare, in seconds, by namespace and name: Kueue does not copy them.
    """

    now: datetime
    pending: Sequence[QueuedWorkload] = ()
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

    def end_of_holder(self, holder: QueuedWorkload) -> Range:
        """When one that has quota gives it back."""
        grace = holder.run_time.grace
        evicted = self.since(holder, "Evicted")
        if evicted is not None or holder.deleting or not holder.active:
            return 0.0, inf if evicted is None else _in_future(grace - evicted)
        age = self.since(holder, "Admitted")
        if age is None:
            return 0.0, inf
        age = max(0.0, age)
        bound = _in_future(_most(holder.run_time) - age + grace)
        return min(max(0.0, (self.expects(holder) or 0.0) - age), bound), bound

    def length_of_next(self, waiting: QueuedWorkload) -> Range:
        """How long one runs that is still to be admitted."""
        bound = _most(waiting.run_time) + waiting.run_time.grace
        return min(self.expects(waiting) or 0.0, bound), bound


def _most(run_time: RunTime) -> float:
    return inf if run_time.maximum is None else max(0, run_time.maximum - run_time.spent)


def _in_future(at: float) -> float:
    """A bound that is over was none: what was to end by then did not."""
    return at if at >= 0 else inf
