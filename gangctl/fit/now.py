"""What stands between a gang that can fit and its admission: what is in use, and by whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gangctl.fit.quotas import Ceiling, Quotas
from gangctl.fit.search import Demand, Mode, Room, Step, Terms
from gangctl.kueue.amounts import UNLIMITED
from gangctl.kueue.objects import Amounts, ClusterQueue, QueuedWorkload

Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Rooms:
    """All that a ClusterQueue has of the flavors and resources that a gang could use."""

    ceilings: Mapping[Pair, Ceiling]
    nominal: Mapping[Pair, int]
    used: Mapping[Pair, int]
    free: Room

    @property
    def ceiling(self) -> Room:
        """The ceilings' amounts."""
        return {pair: ceiling.amount for pair, ceiling in self.ceilings.items()}


def rooms_of(quotas: Quotas, queue: ClusterQueue, demands: Sequence[Demand]) -> Rooms:
    """What there is for these demands."""
    pairs = {(flavor, resource) for demand in demands for flavor in demand.flavors for resource in demand.amounts}
    nominal = {
        (flavor.name, resource): quota.nominal
        for group in queue.groups
        for flavor in group.flavors
        for resource, quota in flavor.resources.items()
    }
    free = {pair: quotas.available(queue.name, *pair) for pair in pairs}
    return Rooms(
        {pair: quotas.ceiling(queue.name, *pair) for pair in sorted(pairs)},
        {pair: nominal.get(pair, 0) for pair in pairs},
        {pair: quotas.used(queue.name, *pair) for pair in pairs},
        {pair: None if amount >= UNLIMITED else max(0, amount) for pair, amount in free.items()},
    )


def when_empty(queue: ClusterQueue, rooms: Rooms) -> Terms:
    """How Kueue chooses with nothing in use."""
    return Terms(
        ceiling=rooms.ceiling,
        free=rooms.ceiling,
        own=rooms.nominal if queue.cohort else rooms.ceiling,
        stop_at_borrowing=queue.when_can_borrow != "TryNextFlavor",
    )


def as_it_is(queue: ClusterQueue, rooms: Rooms, *, preempting: bool) -> Terms:
    """How Kueue chooses now."""
    own = {pair: max(0, amount - rooms.used[pair]) for pair, amount in rooms.nominal.items()}
    return Terms(
        ceiling=rooms.ceiling,
        free=rooms.free,
        own=own if queue.cohort else rooms.ceiling,
        stop_at_borrowing=queue.when_can_borrow != "TryNextFlavor",
        stop_at_preemption=queue.when_can_preempt == "Preempt",
        preempting=preempting,
    )


def taken(demands: Sequence[Demand], steps: Sequence[Step]) -> dict[Pair, int]:
    """What a gang would take by flavor and resource."""
    sums: dict[Pair, int] = {}
    for demand, step in zip(demands, steps, strict=True):
        for resource, amount in demand.amounts.items():
            sums[step.flavor, resource] = sums.get((step.flavor, resource), 0) + amount
    return sums


def lacking(demands: Sequence[Demand], steps: Sequence[Step], rooms: Rooms) -> dict[Pair, int]:
    """By how much each flavor and resource that the gang would take is short now."""
    short = {}
    for pair, amount in taken(demands, steps).items():
        there = rooms.free[pair]
        if there is not None and amount > there:
            short[pair] = amount - there
    return short


def may_ever_preempt(queue: ClusterQueue) -> bool:
    """Whether the queue's policies let anybody push others out."""
    return queue.within_queue != "Never" or queue.reclaim != "Never"


def may_preempt(
    queue: ClusterQueue, holders: Sequence[tuple[QueuedWorkload, Amounts]], priority: int | None
) -> list[QueuedWorkload]:
    """Whom a Workload of this priority may push out; None, a priority that is not known, only where none counts."""
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
            # Who is of equal priority is older: it runs, and this one is only asked about.
            return priority is not None and of < priority
    return False


def fits_now(steps: Sequence[Step]) -> bool:
    """Whether there is room for everything."""
    return all(step.mode is Mode.FIT for step in steps)


def reason_now(steps: Sequence[Step]) -> str:
    """Whether others must go first, or end."""
    return "WaitsForQuota" if any(step.mode is Mode.WAIT for step in steps) else "NeedsPreemption"


def settled(found: Sequence[tuple[Step, ...] | None]) -> tuple[Step, ...] | None:
    """The try with which Kueue is content: all fits, or fits once others are pushed out; else the first that waits."""
    waits = [steps for steps in found if steps is not None]
    for steps in waits:
        if all(step.mode is not Mode.WAIT for step in steps):
            return steps
    return waits[0] if waits else None
