"""When a gang that waits for quota will start: a range with its reasons, or nothing.

The range holds every start for which workloads end as they declare (:class:`~gangctl.fit.clusterstate.Outlook`). If an
end is needed that is not known, the range has no latest start. Workloads that are not there yet, and may go before the
gang, are not in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from hashlib import blake2b
from math import ceil, floor, inf
from typing import Final

from gangctl.errors import plural
from gangctl.fit.candidates import LOWEST, Preemptor
from gangctl.fit.clusterstate import Outlook, Range
from gangctl.fit.quotas import Quotas
from gangctl.fit.replay import OutOfStepsError, Replay, Waiter, demands_of
from gangctl.fit.report import StartReport, quoted
from gangctl.fit.search import Demand, pairs_of, totals
from gangctl.fit.tree import Pair
from gangctl.kueue.amounts import span
from gangctl.kueue.objects import ClusterQueue, LocalQueue, QueuedWorkload
from gangctl.kueue.queues import in_order, queued_at
from gangctl.kueue.states import Phase, phase_of

BUDGET: Final = 12_000
"""Workloads put in, taken out and tried in all replays, 100 to 200 ms."""
_MIXES: Final = 8
_CHEAP: Final = 4
"""So many ends are as much work as one step."""
_NAMED: Final = 3
_HIGHEST: Final = 2**31
"""Above every priority: that of a gang whose own is not known."""
_NO_ROOM: Final = "insufficient unused quota"


_Holder = tuple[QueuedWorkload, Mapping[Pair, int]]
_Door = Callable[[str, str], LocalQueue | None]


@dataclass(frozen=True, slots=True)
class Waiting:
    """A gang that can fit, and waits: it is new without a ``workload``. ``short`` is what is missing now."""

    preemptor: Preemptor
    demands: Sequence[Demand]
    short: Mapping[Pair, int]
    workload: QueuedWorkload | None = None
    placed: bool = False
    """Whether its pods have to be in a topology, whose room is not known here."""

    def waiter(self, now: datetime) -> Waiter:
        """The same as one of those that wait."""
        uid = self.workload.uid if self.workload is not None else ""
        since = self.preemptor.since or now
        return Waiter.of(uid, self.preemptor.queue, self.demands, self.preemptor.priority, since)


def starts(
    gang: Waiting,
    quotas: Quotas,
    outlook: Outlook,
    door: _Door,
    budget: int = BUDGET,
) -> StartReport | None:
    """When a gang starts, in seconds from now; None if nothing is to be said.

    ``door`` is a LocalQueue by namespace and name: those that wait are found by it.
    """
    estimate = _Estimate(gang, quotas, outlook, door, gang.waiter(outlook.now))
    earliest, latest = estimate.range(budget)
    if earliest == inf or (earliest < 1 and latest == inf):
        return None
    return {
        "earliest": floor(earliest),
        "latest": None if latest == inf else ceil(latest),
        "why": list(estimate.why(latest)),
    }


@dataclass(slots=True)
class _Estimate:
    """One estimate, with facts for its reasons."""

    gang: Waiting
    quotas: Quotas
    outlook: Outlook
    door: _Door
    own: Waiter
    running: list[_Holder] = field(default_factory=list)
    holders: list[_Holder] = field(default_factory=list)
    """Those of ``running`` that use what the gang could use."""
    others: dict[str, list[tuple[QueuedWorkload, Waiter]]] = field(default_factory=dict)
    ahead: int = 0
    crowded: bool = False
    """Whether too many wait for a latest start."""
    unclear: int = 0
    """Workloads that wait, and it is not known for what, or in which ClusterQueue."""

    def __post_init__(self) -> None:
        """Find who holds what it needs, and who waits too."""
        queue = self.own.queue
        wanted = set(pairs_of(self.own.demands))
        tree = self.quotas.tree(queue.name)
        self.running = [each for name in tree for each in self.quotas.held_in(name)]
        self.holders = [(each, held) for each, held in self.running if not wanted.isdisjoint(held)]
        by_queue: dict[str, list[QueuedWorkload]] = {name: [] for name in tree}
        for each in self.outlook.pending:
            name = _cluster_queue(each, self.door)
            if name is None:
                self.unclear += phase_of(each) is not Phase.BLOCKED
            elif name in by_queue:
                by_queue[name].append(each)
        for name, pending in by_queue.items():
            known = self.quotas.queue(name)
            if known is not None and known.stop_policy == "None":
                self.others[name] = list(self._waiting(pending, known))

    def _waiting(
        self, pending: Sequence[QueuedWorkload], queue: ClusterQueue
    ) -> Iterator[tuple[QueuedWorkload, Waiter]]:
        for each in in_order(pending, queue):
            if each.uid == self.own.uid:
                continue
            demands = demands_of(each, queue)
            if demands is None:
                self.unclear += 1
            else:
                yield each, Waiter.of(each.uid, queue, demands, each.priority, queued_at(each))

    def range(self, budget: int) -> Range:
        """The earliest and the latest start."""
        name = self.own.queue.name
        first = [each for each in self.others.get(name, ()) if _before(each[1], self.own)]
        self.ahead = len(first)
        try:
            earliest = self._early(Replay(self.quotas, budget), first)
        except OutOfStepsError:
            earliest = 0.0
        try:
            latest = self._late(Replay(self.quotas, budget))
        except OutOfStepsError:
            self.crowded, latest = True, inf
        return earliest, max(earliest, latest)

    def _early(self, replay: Replay, first: Sequence[tuple[QueuedWorkload, Waiter]]) -> float:
        """Those that it may preempt later, or one ahead of it may, do not hold it up."""
        replay.spend(len(self.holders) // _CHEAP)
        certain = [each for each in first if self._goes_first(*each)]
        preemptor = replace(
            self.gang.preemptor,
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
        if waiter.pairs is None or self.own.priority == LOWEST:
            return False
        if self.own.queue.strategy == "StrictFIFO":
            return True
        quota = workload.conditions.get("QuotaReserved")
        own, other = totals(self.own.demands), totals(waiter.demands)
        smaller = all(amount <= own[resource] for resource, amount in other.items())
        return self.own.pairs is not None and smaller and quota is not None and _NO_ROOM in quota.message

    def _late(self, replay: Replay) -> float:
        """The latest start of replays in which all end late, or some of them early.

        A workload that ends early may let others overtake, so that the gang starts later.
        """
        if self.unclear or self.gang.placed:
            return inf
        ranges = {workload.uid: self.outlook.end_of_holder(workload) for workload, _ in self.running}
        for those in self.others.values():
            ranges |= {workload.uid: self.outlook.length_of_next(workload) for workload, _ in those}
        last = self._replayed(replay, ranges, 0)
        mixes = range(1, _MIXES if last < inf else 1)
        return max([last, *(self._replayed(replay, ranges, mix) for mix in mixes)])

    def _replayed(self, replay: Replay, ranges: Mapping[str, Range], mix: int) -> float:
        """The start if all end late, or, in a mix, half of them early."""
        replay.spend(len(ranges) // _CHEAP)

        def end(uid: str) -> float:
            early, late = ranges[uid]
            return early if mix and late < inf and _in_mix(uid, mix) else late

        holders = [(end(each.uid), each.cluster_queue, held) for each, held in self.running]
        waiting: dict[str, list[tuple[Waiter, float]]] = {}
        for name, those in self.others.items():
            queue = self.quotas.queue(name)
            # How long the checks of a queue take is not known.
            checked = queue is not None and bool(queue.checks)
            waiting[name] = [(waiter, inf if checked else end(each.uid)) for each, waiter in those]
        mine = waiting.setdefault(self.own.queue.name, [])
        mine.insert(self.ahead, (self.own, inf))
        return replay.start(holders, waiting, self.own)

    def why(self, latest: float) -> Iterator[str]:
        """The reasons, each as a sentence without its full stop."""
        concerned = [each for each, held in self.holders if not self.gang.short.keys().isdisjoint(held)]
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
            counted = plural(self.ahead, "workload is", "workloads are")
            yield f'{counted} ahead of it in ClusterQueue "{self.own.queue.name}"'
        if latest == inf and self.crowded:
            yield "too many workloads wait for a latest start"
        if latest == inf and self.unclear:
            other = plural(self.unclear, "other workload waits", "other workloads wait")
            yield f"what {other} for is not known"
        if latest == inf and self.gang.placed:
            yield "whether its topology has room then is not known"

    def _declaration(self, workload: QueuedWorkload) -> str:
        expected, most = self.outlook.expects(workload), workload.run_time.maximum
        age = self.outlook.since(workload, "Admitted")
        parts = [f"declares to run for {_span(expected)}"] if expected is not None else []
        parts += [f"may run for {_span(most)} at most"] if most is not None else []
        parts += [f"has run for {_span(age)}"] if age is not None else []
        return f'"{workload.title}" {" and ".join(parts)}'


def _cluster_queue(workload: QueuedWorkload, door: _Door) -> str | None:
    """The name of the ClusterQueue in which a Workload waits; empty if its LocalQueue is stopped, None if unknown."""
    local = door(workload.namespace, workload.queue)
    if local is None:
        return None
    return local.cluster_queue if local.stop_policy == "None" else ""


def _before(one: Waiter, own: Waiter) -> bool:
    return (-one.priority, one.since, one.uid) < (-own.priority, own.since, own.uid or "~")


def _in_mix(uid: str, mix: int) -> bool:
    """Any half of the workloads, but the same each time."""
    return blake2b(f"{mix}/{uid}".encode(), digest_size=1).digest()[0] % 2 == 0


def _span(seconds: float) -> str:
    return span(timedelta(seconds=seconds))
