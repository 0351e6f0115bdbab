"""When a gang that waits for quota will start: a range with its reasons, or nothing.

The range holds every start for which workloads end as they declare (:class:`~gangctl.fit.clusterstate.Outlook`). If an
end is needed that is not known, the range has no latest start. Workloads that are not there yet, and may go before the
gang, are not in it.

The order in which Kueue admits the waiting workloads of a tree of quotas, as others end, is replayed: each queue's
workloads in their order, one of each queue in a round: first those that do not borrow, then by priority and time; a
StrictFIFO queue waits for its first (Kueue 0.19, ``pkg/scheduler``). Preemption is left out; where shares decide who is
first there is no latest start. The usage of the quotas is changed, and put back.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from hashlib import blake2b
from math import ceil, floor, inf
from typing import Final, Literal

from gangctl.errors import plural
from gangctl.fit.candidates import LOWEST, Preemptor
from gangctl.fit.clusterstate import ClusterSnapshot, Outlook, Range
from gangctl.fit.demands import demands_of
from gangctl.fit.heads import rank_of
from gangctl.fit.preemption import reserved_for, without_preemption
from gangctl.fit.quotas import Quotas
from gangctl.fit.report import StartReport, quoted
from gangctl.fit.search import Demand, pairs_of, search, taken, totals, tries
from gangctl.fit.tree import Pair
from gangctl.kueue.amounts import span
from gangctl.kueue.configuration import Ordering
from gangctl.kueue.objects import ClusterQueue, QueuedWorkload
from gangctl.kueue.queues import in_order, queued_at
from gangctl.kueue.states import QueuePhase, phase_of

BUDGET: Final = 12_000
"""Workloads put in, taken out and tried in all replays, 100 to 200 ms."""
_MIXES: Final = 8
_CHEAP: Final = 4
"""So many ends are as much work as one step."""
_NAMED: Final = 3
_HIGHEST: Final = 2**31
"""Above every priority: that of a gang whose own is not known."""
_NO_ROOM: Final = "insufficient unused quota"
_SEARCH: Final = 300
"""Steps for any choice of flavors; beyond them there is one."""


@dataclass(slots=True)
class Waiter:
    """One that waits in a ClusterQueue, since its time of queueing."""

    uid: str
    queue: ClusterQueue
    demands: Sequence[Demand]
    priority: int
    since: datetime
    pairs: Mapping[Pair, int] | None = None
    """What it takes, if it has no choice of flavors."""

    def __post_init__(self) -> None:
        """Find what it takes."""
        if all(len(demand.flavors) == 1 for demand in self.demands):
            self.pairs = taken(self.demands, (demand.flavors[0] for demand in self.demands))


_Holding = tuple[float, str, Mapping[Pair, int]]
"""Until when a ClusterQueue has what is in use."""
_End = tuple[float, int, str, Mapping[Pair, int]]
"""The same with a number that makes it distinct."""


class OutOfStepsError(Exception):
    """The replays take too long."""


@dataclass(slots=True)
class Replay:
    """Replays in one tree; ``budget`` is how many workloads may still be put in, taken out and tried."""

    quotas: Quotas
    budget: int
    ordering: Ordering
    _changes: list[tuple[str, Mapping[Pair, int], Literal[1, -1]]] = field(default_factory=list)

    @contextmanager
    def _restored(self) -> Iterator[None]:
        try:
            yield
        finally:
            # The tree is that of the whole cluster: a replay must not change it, also if its steps run out.
            for queue, held, sign in reversed(self._changes):
                self.quotas.use(queue, held, -1 if sign == 1 else 1)
            self._changes.clear()

    def _use(self, queue: str, held: Mapping[Pair, int], sign: Literal[1, -1]) -> None:
        self.quotas.use(queue, held, sign)
        # Before the budget can raise, so that it is put back in any case.
        self._changes.append((queue, held, sign))
        self.spend()

    def spend(self, steps: int = 1) -> None:
        """Take steps from the budget; OutOfStepsError beyond it."""
        self.budget -= steps
        if self.budget < 0:
            raise OutOfStepsError

    def not_before(self, holders: Sequence[_Holding], ahead: Sequence[tuple[Waiter, float]], gang: Waiter) -> float:
        """The earliest time at which a gang could have room: infinite if it never has.

        ``holders`` have their earliest ends; ``ahead`` are those that are admitted before it in any case, in their
        order, with their shortest run times. No start is earlier while none ends earlier: others only take quota.
        """
        ends = _heap(holders)
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
                    # The number is in no other entry: a heap compares what follows it only after equal ones.
                    heapq.heappush(ends, (now + length, len(self._changes) + len(holders), waiter.queue.name, pairs))
        return now

    def _end_first(self, ends: list[_End]) -> float:
        """End those that end first, and the time of that."""
        now = ends[0][0]
        # All that end at one time end before anything is admitted: which of them is first is not known.
        while ends and ends[0][0] <= now:
            _, _, queue, held = heapq.heappop(ends)
            self._use(queue, held, -1)
        return now

    def _has_room(self, waiter: Waiter) -> bool:
        """Whether any choice of flavors has room."""
        self.spend()
        name = waiter.queue.name
        free = {pair: max(0, self.quotas.available(name, *pair)) for pair in pairs_of(waiter.demands)}
        answer = search(waiter.demands, free, _SEARCH)
        return answer.choice is not None or answer.exhausted

    def start(
        self, holders: Sequence[_Holding], waiting: Mapping[str, Sequence[tuple[Waiter, float]]], gang: Waiter
    ) -> float:
        """When a gang is admitted if each holder ends at its time; infinite if it waits for one that does not.

        ``waiting`` are those of each queue in their order, the gang among them, with their run times.
        """
        ends = _heap(holders)
        left = {name: list(waiters) for name, waiters in waiting.items()}
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
                if node is not None:
                    rank = rank_of(node, asked, waiter.priority, waiter.since, self.ordering)
                    nominated.append(((*rank, name), waiter, length, held))
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
            # Kueue holds them back for one scheduling cycle only.
            for name, amounts in kept:
                self._use(name, amounts, -1)
            if not moved:
                return

    def _keep(self, waiter: Waiter) -> Iterator[tuple[str, Mapping[Pair, int]]]:
        node = self.quotas.node(waiter.queue.name)
        kept = reserved_for(node, waiter.queue, waiter.pairs) if node is not None and waiter.pairs is not None else {}
        if kept:
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


_Holder = tuple[QueuedWorkload, Mapping[Pair, int]]


def _heap(holders: Sequence[_Holding]) -> list[_End]:
    ends = [(end, number, queue, held) for number, (end, queue, held) in enumerate(holders)]
    heapq.heapify(ends)
    return ends


@dataclass(slots=True)
class Estimate:
    """One estimate for a gang that can fit, and waits, with facts for its reasons."""

    cluster: ClusterSnapshot
    outlook: Outlook
    preemptor: Preemptor
    demands: Sequence[Demand]
    short: Mapping[Pair, int]
    """What is missing now."""
    uid: str
    """That of its Workload; empty for a new one."""
    placed: bool
    """Whether its pods have to be in a topology, whose room is not known here."""
    own: Waiter = field(init=False)
    running: list[_Holder] = field(default_factory=list)
    holders: list[_Holder] = field(default_factory=list)
    """Those of ``running`` that use what the gang could use."""
    others: dict[str, list[tuple[QueuedWorkload, Waiter]]] = field(default_factory=dict)
    ahead: int = 0
    crowded: bool = False
    """Whether too many wait for a latest start."""
    unclear: int = 0
    """Workloads that wait, and it is not known for what, or in which ClusterQueue."""
    unsorted: bool = False
    """Whether the order of its own queue is not known here."""
    unordered: str = ""
    """The setting by which Kueue orders what waits in a way that is not known here; empty for none."""

    def __post_init__(self) -> None:
        """Find who holds what it needs, and who waits too."""
        queue, priority, since = self.preemptor.queue, self.preemptor.priority, self.preemptor.since
        self.own = Waiter(self.uid, queue, self.demands, priority, since or self.outlook.now)
        quotas, wanted = self.cluster.quotas, set(pairs_of(self.demands))
        tree = quotas.tree(queue.name)
        self.running = [workload for name in tree for workload in quotas.held_in(name)]
        self.holders = [(holder, held) for holder, held in self.running if not wanted.isdisjoint(held)]
        by_queue: dict[str, list[QueuedWorkload]] = {name: [] for name in tree}
        for workload in self.outlook.pending:
            local = self.cluster.local_queue(workload.namespace, workload.queue)
            if local is None:
                self.unclear += phase_of(workload) is not QueuePhase.BLOCKED
            elif local.stop_policy == "None" and local.cluster_queue in by_queue:
                by_queue[local.cluster_queue].append(workload)
        for name, pending in by_queue.items():
            known = quotas.queue(name)
            if known is not None and known.stop_policy == "None":
                self.others[name] = list(self._waiting(pending, known))
                setting = self.cluster.configuration.unordered(known)
                self.unsorted = self.unsorted or (bool(setting) and name == queue.name)
                if self.others[name] and setting:
                    self.unordered = setting
                elif self.others[name] and name != queue.name and self.preemptor.strategies is not None:
                    self.unordered = "fairSharing"

    def _waiting(
        self, pending: Sequence[QueuedWorkload], queue: ClusterQueue
    ) -> Iterator[tuple[QueuedWorkload, Waiter]]:
        ordering = self.preemptor.ordering
        for workload in in_order(pending, queue, ordering):
            if workload.uid == self.own.uid:
                continue
            demands = demands_of(workload, queue)
            # Of one that may start with fewer pods it is not known how much it takes.
            if demands is None or (workload.divisible and self._divides):
                self.unclear += 1
            else:
                since = queued_at(workload, ordering)
                yield workload, Waiter(workload.uid, queue, demands, workload.priority, since)

    def report(self) -> StartReport | None:
        """The start in seconds from now; None if nothing is to be said."""
        earliest, latest = self.range()
        if earliest == inf or (earliest < 1 and latest == inf):
            return None
        return {
            "earliest": floor(earliest),
            "latest": None if latest == inf else ceil(latest),
            "why": list(self.why(latest)),
        }

    def range(self) -> Range:
        """The earliest and the latest start."""
        name = self.own.queue.name
        own = -self.own.priority, self.own.since, self.own.uid or "~"
        others = self.others.get(name, ())
        first = [
            (workload, waiter) for workload, waiter in others if (-waiter.priority, waiter.since, waiter.uid) < own
        ]
        self.ahead = len(first)
        try:
            earliest = self._early(Replay(self.cluster.quotas, BUDGET, self.preemptor.ordering), first)
        except OutOfStepsError:
            # Now is not later than any start, so that it is true without a replay.
            earliest = 0.0
        try:
            latest = self._late(Replay(self.cluster.quotas, BUDGET, self.preemptor.ordering))
        except OutOfStepsError:
            self.crowded, latest = True, inf
        return earliest, max(earliest, latest)

    def _early(self, replay: Replay, first: Sequence[tuple[QueuedWorkload, Waiter]]) -> float:
        """Those that it may preempt later, or one ahead of it may, do not hold it up."""
        replay.spend(len(self.holders) // _CHEAP)
        certain = [ahead for ahead in first if self._goes_first(*ahead)]
        preemptor = replace(
            self.preemptor,
            priority=_HIGHEST
            if self.own.priority == LOWEST
            else max([self.own.priority, *(waiter.priority for _, waiter in certain)]),
            since=min([self.own.since, *(waiter.since for _, waiter in certain)]),
        )
        holders = []
        for holder, held in self.holders:
            own = holder.cluster_queue == self.own.queue.name
            policy = preemptor.queue.within_queue if own else preemptor.queue.reclaim
            end = 0.0 if preemptor.outranks(policy, holder) else self.outlook.end_of_holder(holder)[0]
            holders.append((end, holder.cluster_queue, held))
        ahead = [(waiter, self.outlook.length_of_next(workload)[0]) for workload, waiter in certain]
        return replay.not_before(holders, ahead, self.own)

    def _goes_first(self, workload: QueuedWorkload, waiter: Waiter) -> bool:
        """Whether one ahead is admitted before it in any case, and it is known what it takes."""
        if waiter.pairs is None or self.own.priority == LOWEST or self.unsorted:
            return False
        if self.own.queue.strategy == "StrictFIFO":
            return True
        own, other = totals(self.own.demands), totals(waiter.demands)
        # BestEffortFIFO passes over what does not fit: only one that is smaller and waits for quota alone goes first.
        smaller = all(amount <= own[resource] for resource, amount in other.items())
        return self.own.pairs is not None and smaller and _NO_ROOM in workload.condition("QuotaReserved").message

    def _late(self, replay: Replay) -> float:
        """The latest start of replays in which all end late, or some of them early.

        A workload that ends early may let others overtake, so that the gang starts later.
        """
        if self.unclear or self.placed or self.unordered or self._blocks:
            return inf
        ranges = {workload.uid: self.outlook.end_of_holder(workload) for workload, _ in self.running}
        for those in self.others.values():
            ranges |= {workload.uid: self.outlook.length_of_next(workload) for workload, _ in those}
        last = self._replayed(replay, ranges, 0)
        # A start that is infinite already cannot be later.
        mixes = range(1, _MIXES if last < inf else 1)
        return max([last, *(self._replayed(replay, ranges, mix) for mix in mixes)])

    def _replayed(self, replay: Replay, ranges: Mapping[str, Range], mix: int) -> float:
        """The start if all end late, or, in a mix, half of them early."""
        replay.spend(len(ranges) // _CHEAP)

        def end(uid: str) -> float:
            early, late = ranges[uid]
            return early if mix and late < inf and _in_mix(uid, mix) else late

        holders = [(end(workload.uid), workload.cluster_queue, held) for workload, held in self.running]
        waiting: dict[str, list[tuple[Waiter, float]]] = {}
        for name, those in self.others.items():
            queue = self.cluster.quotas.queue(name)
            # How long the checks of a queue take is not known.
            checked = queue is not None and bool(queue.checks)
            waiting[name] = [(waiter, inf if checked else end(workload.uid)) for workload, waiter in those]
        mine = waiting.setdefault(self.own.queue.name, [])
        mine.insert(self.ahead, (self.own, inf))
        return replay.start(holders, waiting, self.own)

    @property
    def _divides(self) -> bool:
        """Whether Kueue admits others with fewer pods than they ask for."""
        return self.cluster.configuration.gate("PartialAdmission", default=True)

    @property
    def _blocks(self) -> bool:
        """Whether Kueue admits nothing while pods of any other are not ready, which takes any time."""
        return self.cluster.configuration.wait_for_pods_ready.blocks

    def why(self, latest: float) -> Iterator[str]:
        """The reasons, each as a sentence without its full stop."""
        concerned = [workload for workload, held in self.holders if not self.short.keys().isdisjoint(held)]
        bound = [
            holder
            for holder in concerned
            if holder.run_time.maximum is not None or self.outlook.expects(holder) is not None
        ]
        declared = sorted(bound, key=lambda holder: self.outlook.end_of_holder(holder)[1])
        for holder in declared[:_NAMED]:
            yield self._declaration(holder)
        if len(declared) > _NAMED:
            yield f"{len(declared) - _NAMED} more workloads declare when they end"
        unknown = [holder for holder in concerned if self.outlook.end_of_holder(holder)[1] == inf]
        if latest == inf and unknown:
            yield f"when {quoted(holder.title for holder in unknown)} will have ended is not known"
        if self.ahead:
            be = "may be" if self.own.priority == LOWEST or self.unsorted else "is" if self.ahead == 1 else "are"
            yield f'{plural(self.ahead, "workload")} {be} ahead of it in ClusterQueue "{self.own.queue.name}"'
        if latest == inf and self.crowded:
            yield "too many workloads wait for a latest start"
        if latest == inf and self.unclear:
            other = plural(self.unclear, "other workload waits", "other workloads wait")
            yield f"what {other} for is not known"
        if latest == inf and self.unordered:
            yield f"the order in which Kueue admits what waits is not known ({self.unordered})"
        if latest == inf and self._blocks:
            yield "how long Kueue waits for the pods of others is not known (waitForPodsReady.blockAdmission)"
        if latest == inf and self.placed:
            yield "whether its topology has room then is not known"

    def _declaration(self, workload: QueuedWorkload) -> str:
        expected, most = self.outlook.expects(workload), workload.run_time.maximum
        age = self.outlook.since(workload, "Admitted")
        known = ("declares to run for {}", expected), ("may run for {} at most", most), ("has run for {}", age)
        parts = [words.format(span(timedelta(seconds=seconds))) for words, seconds in known if seconds is not None]
        return f'"{workload.title}" {" and ".join(parts)}'


def _in_mix(uid: str, mix: int) -> bool:
    """Any half of the workloads, but the same each time."""
    # hash() of a text differs between processes, and the same question must have the same answer.
    return blake2b(f"{mix}/{uid}".encode(), digest_size=1).digest()[0] % 2 == 0
