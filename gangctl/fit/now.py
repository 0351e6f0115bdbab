"""What delays the admission of a gang that can fit: usage, and its holders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from gangctl.fit.candidates import Candidate
from gangctl.fit.placing import Placed, Placing
from gangctl.fit.preemption import Places, Preemption, borrowed_at
from gangctl.fit.quotas import Ceiling, Quotas
from gangctl.fit.report import joined
from gangctl.fit.search import Assess, Available, Demand, Mode, Step, Terms, pairs_of, tries
from gangctl.fit.tree import NO_QUOTA, Node, Pair, quotas_of
from gangctl.kueue.amounts import UNLIMITED
from gangctl.kueue.objects import ClusterQueue

_NAMED = 3


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
    pairs = pairs_of(demands)
    own = quotas_of(queue.groups)
    free = {pair: quotas.available(queue.name, *pair) for pair in pairs}
    return Capacity(
        {pair: quotas.ceiling(queue.name, *pair) for pair in sorted(pairs)},
        {pair: own.get(pair, NO_QUOTA).nominal for pair in pairs},
        {pair: quotas.used(queue.name, *pair) for pair in pairs},
        {pair: None if amount >= UNLIMITED else max(0, amount) for pair, amount in free.items()},
    )


def with_lending_limits(capacity: Capacity, node: Node) -> Capacity:
    """The same, with the lendingLimits of others named where they keep a ceiling low."""

    def named(pair: Pair, ceiling: Ceiling) -> Ceiling:
        keepers = node.lenders_with_limits(pair) if node.potential(pair)[1] is None else []
        names = joined([str(each) for each in keepers[:_NAMED]])
        return replace(ceiling, limit=f"{ceiling.limit} beyond the lendingLimit of {names}") if keepers else ceiling

    return replace(capacity, ceilings={pair: named(pair, each) for pair, each in capacity.ceilings.items()})


def when_empty(queue: ClusterQueue, node: Node, capacity: Capacity) -> Terms:
    """Kueue's choice with nothing in use."""

    def assess(pair: Pair, amount: int) -> tuple[Mode, int]:
        most = capacity.ceilings[pair].amount
        if most is not None and amount > most:
            return Mode.NO_FIT, 0
        return Mode.FIT, borrowed_at(node, pair, amount, empty=True)[0]

    return _terms(queue, assess)


def as_it_is(preemption: Preemption, capacity: Capacity) -> Terms:
    """Kueue's choice now."""

    def assess(pair: Pair, amount: int) -> tuple[Mode, int]:
        most = capacity.ceilings[pair].amount
        return preemption.assess(pair, amount) if most is None or amount <= most else (Mode.NO_FIT, 0)

    return _terms(preemption.preemptor.queue, assess)


def without_preemption(queue: ClusterQueue, node: Node) -> Terms:
    """Kueue's choice among what is free."""

    def assess(pair: Pair, amount: int) -> tuple[Mode, int]:
        free = amount <= max(0, node.available(pair))
        return (Mode.FIT, borrowed_at(node, pair, amount)[0]) if free else (Mode.NO_FIT, 0)

    return _terms(queue, assess)


def _terms(queue: ClusterQueue, assess: Assess) -> Terms:
    return Terms(
        assess,
        stop_at_borrowing=queue.when_can_borrow != "TryNextFlavor",
        stop_at_preemption=queue.when_can_preempt != "TryNextFlavor",
        prefer_preemption=queue.prefers_preemption,
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


@dataclass(frozen=True, slots=True)
class Now:
    """What Kueue would do now: its assignment, None without one, and the workloads that it would preempt.

    ``placed`` are the domains of its pods, or what is missing for them.
    """

    steps: tuple[Step, ...] | None
    preempted: Sequence[Candidate] = ()
    placed: Placed = Placed()  # noqa: RUF009 -- it is frozen

    @property
    def fits(self) -> bool:
        """Whether everything fits without preemption."""
        return self.steps is not None and all(step.mode is Mode.FIT for step in self.steps) and not self.placed.problem


def decide(demands: Sequence[Demand], terms: Terms, preemption: Preemption, placing: Placing) -> Now:
    """Kueue's decision: the first try that fits or fits after preemption, else the first assignment, which waits."""
    waits: Now | None = None
    for steps in tries(demands, terms):
        if steps is None:
            continue
        now = Now(steps, placed=placing.place(steps))
        if now.fits:
            return now
        waits = waits or now
        if not placing.fits(steps, vacant=True):
            continue
        short = {(step.flavor, resource) for step in steps for resource in step.waits} | placing.pairs(steps)
        preempted = preemption.preempted(taken(demands, steps), short, _places(steps, preemption, placing))
        if preempted:
            return replace(now, preempted=preempted)
    return waits or Now(None)


def _places(steps: Sequence[Step], preemption: Preemption, placing: Placing) -> Places:
    """Whether there are domains without some workloads; it counts as steps of the preemption."""

    def places(out: AbstractSet[str]) -> bool:
        preemption.spend(placing.cost)
        return placing.fits(steps, without=out)

    return places
