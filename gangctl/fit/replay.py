"""The order in which Kueue admits the waiting workloads of a tree of quotas, as others end: replayed.

Each queue's workloads in their order, one of each queue in a round: first those that do not borrow, then by priority
and time; a StrictFIFO queue waits for its first (Kueue 0.19, ``pkg/scheduler``). Preemption and the order of fair
sharing are left out. The usage of the quotas is changed, and put back.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from math import inf
from typing import Literal

from gangctl.fit.demands import with_pods
from gangctl.fit.preemption import borrowed_at, without_preemption
from gangctl.fit.quotas import Quotas
from gangctl.fit.search import Demand, pairs_of, search, taken, tries
from gangctl.fit.tree import Pair
from gangctl.kueue.objects import PODS, ClusterQueue, QueuedWorkload

_SEARCH = 300
"""Steps for any choice of flavors; beyond them there is one."""


@dataclass(frozen=True, slots=True)
class Waiter:
    """One that waits in a ClusterQueue, since its time of queueing."""

    uid: str
    queue: ClusterQueue
    demands: tuple[Demand, ...]
    priority: int
    since: datetime
    pairs: Mapping[Pair, int] | None = None
    """What it takes, if it has no choice of flavors."""

    @classmethod
    def of(cls, uid: str, queue: ClusterQueue, demands: Sequence[Demand], priority: int, since: datetime) -> Waiter:
        """With what it takes."""
        fixed = all(len(demand.flavors) == 1 for demand in demands)
        pairs = taken(demands, (demand.flavors[0] for demand in demands)) if fixed else None
        return cls(uid, queue, tuple(demands), priority, since, pairs)


def demands_of(workload: QueuedWorkload, queue: ClusterQueue) -> tuple[Demand, ...] | None:
    """What a waiting workload asks for, as Kueue counted it when it was tried; None if that is not known.

    Any flavor of a resource group counts as one that its pods may use: pod templates are not stored.
    """
    if not workload.requests:
        return None
    found = []
    for number, (name, requests) in enumerate(workload.requests.items()):
        counted = dict(requests)
        if PODS in with_pods({}, queue):
            counted[PODS] = workload.pods.get(name, 0)
        for part, group in enumerate(queue.groups):
            amounts = {each: counted[each] for each in group.resources if counted.get(each)}
            if amounts:
                found.append(Demand(amounts, tuple(each.name for each in group.flavors), part, number))
    return tuple(found)


_End = tuple[float, int, str, Mapping[Pair, int]]
"""A time, a number that makes it distinct, and the ClusterQueue in which an amount is free then."""


class OutOfStepsError(Exception):
    """The replays take too long."""


@dataclass(slots=True)
class Replay:
    """Replays in one tree; ``budget`` is how many workloads may still be put in, taken out and tried."""

    quotas: Quotas
    budget: int
    _changes: list[tuple[str, Mapping[Pair, int], Literal[1, -1]]] = field(default_factory=list)

    @contextmanager
    def _restored(self) -> Iterator[None]:
        try:
            yield
        finally:
            for queue, held, sign in reversed(self._changes):
                self.quotas.use(queue, held, -1 if sign == 1 else 1)
            self._changes.clear()

    def _use(self, queue: str, held: Mapping[Pair, int], sign: Literal[1, -1]) -> None:
        self.quotas.use(queue, held, sign)
        self._changes.append((queue, held, sign))
        self.spend()

    def spend(self, steps: int = 1) -> None:
        """Take steps from the budget; OutOfStepsError beyond it."""
        self.budget -= steps
        if self.budget < 0:
            raise OutOfStepsError

    def not_before(
        self,
        holders: Sequence[tuple[float, str, Mapping[Pair, int]]],
        ahead: Sequence[tuple[Waiter, float]],
        gang: Waiter,
    ) -> float:
        """The earliest time at which a gang could have room: infinite if it never has.

        ``holders`` have their earliest ends; ``ahead`` are those that are admitted before it in any case, in their
        order, with their shortest run times. No start is earlier while none ends earlier: others only take quota.
        """
        ends = [(end, number, queue, held) for number, (end, queue, held) in enumerate(holders)]
        heapq.heapify(ends)
        now = 0.0
        with self._restored():
            for waiter, length in [*ahead, (gang, inf)]:
                while not self._has_room(waiter):
                    if not ends:
                        return inf
                    now = self._end_first(ends)
                pairs = waiter.pairs
                if pairs is not None and waiter is not gang:
                    self._use(waiter.queue.name, pairs, 1)
                    heapq.heappush(ends, (now + length, len(self._changes) + len(holders), waiter.queue.name, pairs))
        return now

    def _end_first(self, ends: list[_End]) -> float:
        """End those that end first, and the time of that."""
        now = ends[0][0]
        while ends and ends[0][0] <= now:
            _, _, queue, held = heapq.heappop(ends)
            self._use(queue, held, -1)
        return now

    def _has_room(self, waiter: Waiter) -> bool:
        """Whether any choice of flavors has room."""
        self.spend()
        name = waiter.queue.name
        free = {pair: max(0, self.quotas.available(name, *pair)) for pair in pairs_of(waiter.demands)}
        found = search(waiter.demands, free, _SEARCH)
        return found.choice is not None or found.exhausted

    def start(
        self,
        holders: Sequence[tuple[float, str, Mapping[Pair, int]]],
        waiting: Mapping[str, Sequence[tuple[Waiter, float]]],
        gang: Waiter,
    ) -> float:
        """When a gang is admitted if each holder ends at its time; infinite if it waits for one that does not.

        ``waiting`` are those of each queue in their order, the gang among them, with their run times.
        """
        ends = [(end, number, queue, held) for number, (end, queue, held) in enumerate(holders)]
        heapq.heapify(ends)
        left = {name: list(each) for name, each in waiting.items()}
        now = 0.0
        with self._restored():
            while True:
                for waiter, length, held in self._admitted(left):
                    if waiter is gang:
                        return now
                    number = len(holders) + len(self._changes)
                    heapq.heappush(ends, (now + length, number, waiter.queue.name, held))
                if not ends or ends[0][0] == inf:
                    return inf
                now = self._end_first(ends)

    def _admitted(
        self, left: Mapping[str, list[tuple[Waiter, float]]]
    ) -> Iterator[tuple[Waiter, float, Mapping[Pair, int]]]:
        """Those that get quota now; they are removed from ``left``.

        In each round one that does not fit keeps quota from those after it, for which it could preempt others if there
        were any, unless its queue can always reclaim that.
        """
        position = dict.fromkeys(left, 0)
        while True:
            heads = [(name, left[name][place]) for name, place in position.items() if place < len(left[name])]
            nominated = []
            for name, (waiter, length) in heads:
                held = self._placed(waiter)
                asked = held if held is not None else waiter.pairs or {}
                node = self.quotas.node(name)
                levels = [borrowed_at(node, *pair)[0] for pair in asked.items()] if node is not None else []
                rank = max(levels, default=0), -waiter.priority, waiter.since, name
                nominated.append((rank, waiter, length, held))
            moved = False
            kept: list[tuple[str, Mapping[Pair, int]]] = []
            for (*_, name), waiter, length, held in sorted(nominated, key=lambda each: each[0]):
                if held is None:
                    kept += self._keep(waiter)
                    if waiter.queue.strategy != "StrictFIFO":
                        position[name] += 1
                        moved = True
                elif (held := self._placed(waiter)) is not None:
                    # Those of other queues have not taken its room in this round, or kept it.
                    del left[name][position[name]]
                    self._use(name, held, 1)
                    moved = True
                    yield waiter, length, held
            for name, amounts in kept:
                self._use(name, amounts, -1)
            if not moved:
                return

    def _keep(self, waiter: Waiter) -> Iterator[tuple[str, Mapping[Pair, int]]]:
        node = self.quotas.node(waiter.queue.name)
        if node is None or waiter.pairs is None or waiter.queue.reclaim == "Any":
            return
        levels = {pair: borrowed_at(node, pair, amount) for pair, amount in waiter.pairs.items()}
        borrows = any(level for level, _ in levels.values())
        kept = {}
        for pair, amount in waiter.pairs.items():
            quota, below_root = node.quota(pair), levels[pair][1]
            if amount > quota.nominal and not below_root and not waiter.queue.while_borrowing:
                # Kueue does not look for others to preempt.
                return
            most = quota.nominal - node.used.get(pair, 0)
            if borrows:
                most = amount if quota.borrowing_limit is None else most + quota.borrowing_limit
            kept[pair] = max(0, min(amount, most))
        self._use(waiter.queue.name, kept, 1)
        yield waiter.queue.name, kept

    def _placed(self, waiter: Waiter) -> Mapping[Pair, int] | None:
        """What it gets at one of Kueue's tries, if it gets something."""
        self.spend()
        node = self.quotas.node(waiter.queue.name)
        if node is None:
            return None
        if waiter.pairs is not None:
            fits = all(amount <= node.available(pair) for pair, amount in waiter.pairs.items())
            return waiter.pairs if fits else None
        terms = without_preemption(waiter.queue, node)
        steps = next((steps for steps in tries(waiter.demands, terms) if steps is not None), None)
        return None if steps is None else taken(waiter.demands, (step.flavor for step in steps))
