"""What delays the admission of a gang that can fit: usage, and its holders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gangctl.fit.quotas import Ceiling, Quotas
from gangctl.fit.search import Available, Demand, Mode, Step, Terms
from gangctl.kueue.amounts import UNLIMITED
from gangctl.kueue.objects import Amounts, ClusterQueue, QueuedWorkload

Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Capacity:
    """Quota of a ClusterQueue in the flavors and resources that a gang could use."""

    ceilings: Mapping[Pair, Ceiling]
    nominal: Mapping[Pair, int]
    used: Mapping[Pair, int]
    free: Available

    @property
    def ceiling(self) -> Available:
        """The ceilings' amounts."""
        return {pair: ceiling.amount for pair, ceiling in self.ceilings.items()}


def capacity_of(quotas: Quotas, queue: ClusterQueue, demands: Sequence[Demand]) -> Capacity:
    """The quota for these demands."""
    pairs = {(flavor, resource) for demand in demands for flavor in demand.flavors for resource in demand.amounts}
    nominal = {
        (flavor.name, resource): quota.nominal
        for group in queue.groups
        for flavor in group.flavors
        for resource, quota in flavor.resources.items()
    }
    free = {pair: quotas.available(queue.name, *pair) for pair in pairs}
    return Capacity(
        {pair: quotas.ceiling(queue.name, *pair) for pair in sorted(pairs)},
        {pair: nominal.get(pair, 0) for pair in pairs},
        {pair: quotas.used(queue.name, *pair) for pair in pairs},
        {pair: None if amount >= UNLIMITED else max(0, amount) for pair, amount in free.items()},
    )


def when_empty(queue: ClusterQueue, capacity: Capacity) -> Terms:
    """Kueue's choice with nothing in use."""
    return Terms(
        ceiling=capacity.ceiling,
        free=capacity.ceiling,
        own=capacity.nominal if queue.cohort else capacity.ceiling,
        stop_at_borrowing=queue.when_can_borrow != "TryNextFlavor",
    )


def as_it_is(queue: ClusterQueue, capacity: Capacity, *, preempting: bool) -> Terms:
    """Kueue's choice now."""
    own = {pair: max(0, amount - capacity.used[pair]) for pair, amount in capacity.nominal.items()}
    return Terms(
        ceiling=capacity.ceiling,
        free=capacity.free,
        own=own if queue.cohort else capacity.ceiling,
        stop_at_borrowing=queue.when_can_borrow != "TryNextFlavor",
        stop_at_preemption=queue.when_can_preempt == "Preempt",
        preempting=preempting,
    )


def taken(demands: Sequence[Demand], steps: Sequence[Step]) -> dict[Pair, int]:
    """Amounts that a gang would use by flavor and resource."""
    sums: dict[Pair, int] = {}
    for demand, step in zip(demands, steps, strict=True):
        for resource, amount in demand.amounts.items():
            sums[step.flavor, resource] = sums.get((step.flavor, resource), 0) + amount
    return sums


def lacking(demands: Sequence[Demand], steps: Sequence[Step], capacity: Capacity) -> dict[Pair, int]:
    """Missing amounts now of each flavor and resource that the gang would use."""
    short = {}
    for pair, amount in taken(demands, steps).items():
        there = capacity.free[pair]
        if there is not None and amount > there:
            short[pair] = amount - there
    return short


def may_ever_preempt(queue: ClusterQueue) -> bool:
    """Whether the queue's policies allow preemption."""
    return queue.within_queue != "Never" or queue.reclaim != "Never"


def may_preempt(
    queue: ClusterQueue, holders: Sequence[tuple[QueuedWorkload, Amounts]], priority: int | None
) -> list[QueuedWorkload]:
    """Workloads that one of this priority may preempt; None is an unknown priority."""
    return [
        holder
        for holder, _ in holders
        if _outranked(
            queue.within_queue if holder.cluster_queue == queue.name else queue.reclaim, priority, holder.priority
        )
    ]


def _outranked(policy: str, priority: int | None, of: int) -> bool:
    match policy:
        case "Any":
            return True
        case "LowerPriority":
            return priority is not None and of < priority
        case "LowerOrNewerEqualPriority":
            # A holder of equal priority is older: it runs already.
            return priority is not None and of < priority
    return False


def fits_now(steps: Sequence[Step]) -> bool:
    """Whether everything fits."""
    return all(step.mode is Mode.FIT for step in steps)


def reason_now(steps: Sequence[Step]) -> str:
    """Whether preemption is needed, or the end of others."""
    return "WaitsForQuota" if any(step.mode is Mode.WAIT for step in steps) else "NeedsPreemption"


def settled(found: Sequence[tuple[Step, ...] | None]) -> tuple[Step, ...] | None:
    """The try that Kueue uses: all fits, or fits after preemption; else the first that waits."""
    waits = [steps for steps in found if steps is not None]
    for steps in waits:
        if all(step.mode is not Mode.WAIT for step in steps):
            return steps
    return waits[0] if waits else None
