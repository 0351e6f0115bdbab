"""What Kueue would do for a gang that can fit: the flavors it gets, and which running workloads are preempted for it.

Source: Kueue 0.19 ``pkg/scheduler/preemption`` (``classical`` here, fair sharing in :mod:`gangctl.fit.candidates`),
and ``fitsResourceQuota`` of ``pkg/scheduler/flavorassigner``. The usage of workloads is taken out of the quotas and
put back, so that the arithmetic is that of the quotas. Not known here: priority boosts (alpha), and the order by usage
of LocalQueues (AdmissionFairSharing), which only changes who of one queue is preempted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from gangctl.fit.candidates import Candidate, Preemptor, Share, Shares, Waiting, Why
from gangctl.fit.placing import Placed, Placing
from gangctl.fit.quotas import Capacity, Quotas
from gangctl.fit.search import Assess, Demand, Mode, Step, Terms, taken, tries
from gangctl.fit.tree import Pair, TreeNode, minus
from gangctl.kueue.blocked import is_inactive
from gangctl.kueue.objects import ClusterQueue

BUDGET: Final = 3_000
"""Workloads taken out and shares computed in all simulations together, 30 to 40 ms."""


Places = Callable[[AbstractSet[str]], bool]
"""Whether there are domains for the pods without the workloads of these UIDs."""


@dataclass(slots=True)
class Preemption:
    """Preemption for one gang in one ClusterQueue, whose cohorts are no cycle.

    ``exhausted`` if the budget did not suffice, or not all workloads are known: then nothing is preempted, which proves
    nothing.
    """

    quotas: Quotas
    preemptor: Preemptor
    node: TreeNode
    budget: int = BUDGET
    exhausted: bool = False
    _shares: Shares = field(init=False)
    _out: set[str] = field(default_factory=set)
    _places: Places = field(default=lambda _: True)
    _known: dict[tuple[Pair, int], tuple[Mode, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Start with no share known."""
        self._shares = Shares(self.node)

    def assess(self, pair: Pair, amount: int) -> tuple[Mode, int]:
        """How Kueue could assign an amount that does not exceed the most the queue could ever have."""
        # Each simulation restores the usage, so that an answer stays true for this gang.
        if (pair, amount) not in self._known:
            self._known[pair, amount] = self._assess(pair, amount)
        return self._known[pair, amount]

    def _assess(self, pair: Pair, amount: int) -> tuple[Mode, int]:
        level, below_root = borrowed_at(self.node, pair, amount)
        if amount <= max(0, self.node.available(pair)):
            return Mode.FIT, level
        queue = self.preemptor.queue
        # canPreemptWhileBorrowing of Kueue's flavorassigner.
        may_borrow = queue.while_borrowing or (self.preemptor.strategies is not None and queue.reclaim != "Never")
        if amount > self.node.quota(pair).nominal and not below_root and not may_borrow:
            return Mode.NO_FIT, level
        preempted = self.preempted({pair: amount}, {pair})
        if not preempted:
            return Mode.NO_CANDIDATES, level
        # Kueue compares flavors by what they borrow after the preemption (SimulatePreemption).
        for one in preempted:
            self._take(one)
        level = borrowed_at(self.node, pair, amount)[0]
        for one in preempted:
            self._put(one)
        # One of the own queue makes it Preempt, which ranks below Reclaim (SimulatePreemption).
        own = any(one.workload.cluster_queue == queue.name for one in preempted)
        return Mode.PREEMPT if own else Mode.RECLAIM, level

    def preempted(
        self, requests: Mapping[Pair, int], short: set[Pair], places: Places = lambda _: True
    ) -> list[Candidate]:
        """The workloads that make room for all requests, of which ``short`` do not fit now; none if none do."""
        if self.exhausted:
            return []
        self._places = places
        if self.preemptor.strategies is None:
            return self._classical(requests, short)
        return self._fair(requests, short)

    def _classical(self, requests: Mapping[Pair, int], short: set[Pair]) -> list[Candidate]:
        own = self._in_own_queue(short)
        above, beside = self._in_cohort(requests, short)
        candidates = [one for group in (above, beside, own) for one in sorted(group, key=self.preemptor.order)]
        # Those that are being evicted already come first, of any group.
        candidates.sort(key=lambda one: not one.workload.holds("Evicted"))
        queue = self.preemptor.queue
        # The first attempt that makes room decides, so that their order is Kueue's (classicalPreemptions).
        under = all(self.node.usage(pair) < self.node.quota(pair).nominal for pair in short)
        if not (above or beside) or (not queue.while_borrowing and not under):
            attempts = [True]
        elif not queue.while_borrowing and not above:
            attempts = [False, True]
        else:
            attempts = [True, False]
        for borrowing in attempts:
            taken: list[Candidate] = []
            for candidate in candidates:
                if not self._is_valid(candidate, short, borrowing=borrowing):
                    continue
                self._take(candidate)
                taken.append(candidate)
                if self._fits(requests, borrowing=borrowing):
                    return self._minimal(taken, requests, borrowing=borrowing)
                if self.exhausted:
                    break
            for victim in taken:
                self._put(victim)
        return []

    def _fair(self, requests: Mapping[Pair, int], short: set[Pair]) -> list[Candidate]:
        candidates = self._in_own_queue(short)
        reclaim = self.preemptor.queue.reclaim
        if reclaim != "Never":
            for node in self.node.above()[-1].below():
                # Queues within their quota have nothing to give back.
                if node.is_queue and node is not self.node and not node.within_quota(short):
                    candidates += self._candidates(node, reclaim, short)
        candidates.sort(key=self.preemptor.order)
        # Shares are those with the gang in place.
        self._add(requests, 1)
        taken, fits = self._by_shares(candidates, requests, short)
        # Taken out before `_minimal`, which asks whether the gang has room in what is free.
        self._add(requests, -1)
        if fits:
            return self._minimal(taken, requests, borrowing=True)
        for victim in taken:
            self._put(victim)
        return []

    def _by_shares(
        self, candidates: Sequence[Candidate], requests: Mapping[Pair, int], short: set[Pair]
    ) -> tuple[list[Candidate], bool]:
        """Take out workloads by the strategies of fair sharing, and whether that is enough."""
        first, *others = self.preemptor.strategies or ()
        entitled = self.preemptor.within_nominal and self.node.within_quota(short)
        taken: list[Candidate] = []
        left: list[Candidate] = []
        for queue in self._shares.walk(candidates):
            if self.budget < self._shares.measured:
                self.exhausted = True
                break
            own = queue.node is self.node
            if own or entitled:
                candidate: Candidate | None = queue.pop()
            else:
                candidate = self._next_by_share(queue, first, left)
            if candidate is not None:
                candidate.why = Why.IN_QUEUE if own else Why.RECLAIM if entitled else Why.FAIR
                if self._is_enough(candidate, taken, requests):
                    return taken, True
        for queue in self._shares.walk(left) if others and not self.exhausted else ():
            new, old = queue.shares()
            if new < old:
                candidate = queue.pop()
                candidate.why = Why.FAIR
                if self._is_enough(candidate, taken, requests):
                    return taken, True
            # LessThanInitialShare does not depend on the workload: one try for each queue (runSecondFsStrategy).
            queue.dropped = True
        return taken, False

    def _next_by_share(self, queue: Waiting, strategy: str, left: list[Candidate]) -> Candidate | None:
        """The first workload of a queue that the strategy allows; those before it are added to ``left``."""
        new, old = queue.shares()
        while queue.waiting:
            candidate = queue.pop()
            if new < old if strategy == "LessThanInitialShare" else new <= self._share_without(candidate, queue):
                return candidate
            left.append(candidate)
        return None

    def _is_enough(self, each: Candidate, taken: list[Candidate], requests: Mapping[Pair, int]) -> bool:
        """Take out one workload more, and whether the gang has room then."""
        self._take(each)
        taken.append(each)
        # As workloadFitsForFairSharing: the gang is in the usage for the shares, and must not take its own room.
        self._add(requests, -1)
        fits = self._fits(requests, borrowing=True)
        self._add(requests, 1)
        return fits

    def _share_without(self, each: Candidate, queue: Waiting) -> Share:
        self._take(each)
        share = queue.shares()[1]
        self._put(each)
        return share

    def _add(self, requests: Mapping[Pair, int], sign: Literal[1, -1]) -> None:
        self.quotas.use(self.preemptor.queue.name, requests, sign)

    def _in_own_queue(self, short: set[Pair]) -> list[Candidate]:
        policy = self.preemptor.queue.within_queue
        return [] if policy == "Never" else list(self._candidates(self.node, policy, short))

    def _candidates(self, node: TreeNode, policy: str, short: set[Pair]) -> Iterator[Candidate]:
        queue = self.quotas.queue(node.name)
        # Kueue leaves inactive queues out of its snapshot: their usage counts, and they have no candidates.
        if queue is not None and node is not self.node and is_inactive(queue):
            return
        for workload, held in self.quotas.held_in(node.name):
            if self.preemptor.outranks(policy, workload) and not short.isdisjoint(held):
                yield Candidate(workload, held, node)

    def _in_cohort(self, requests: Mapping[Pair, int], short: set[Pair]) -> tuple[list[Candidate], list[Candidate]]:
        """Candidates of other queues: those whose quota is nearer to the preemptor, and those chosen by priority."""
        above: list[Candidate] = []
        beside: list[Candidate] = []
        if self.preemptor.queue.reclaim == "Never":
            return above, beside
        nearer, left = _left_over(self.node, requests)
        below: TreeNode | None = None
        for cohort in self.node.above()[1:]:
            candidates = above if nearer else beside
            for node in self._borrowing_below(cohort, below, short):
                for candidate in self._candidates(node, self.preemptor.queue.reclaim, short):
                    candidate.common = cohort
                    self._classify(candidate, nearer=nearer)
                    candidates.append(candidate)
            fits, left = _left_over(cohort, left)
            nearer = nearer or fits
            below = cohort
        return above, beside

    def _borrowing_below(self, cohort: TreeNode, seen: TreeNode | None, short: set[Pair]) -> Iterator[TreeNode]:
        for child in cohort.children:
            # What is below `seen` was found for the cohort before, which is nearer.
            if child is seen or child is self.node or child.within_quota(short):
                continue
            if child.is_queue:
                yield child
            else:
                yield from self._borrowing_below(child, seen, short)

    def _classify(self, each: Candidate, *, nearer: bool) -> None:
        queue = self.preemptor.queue
        limit = queue.while_borrowing_up_to
        each.why = Why.RECLAIM
        each.borrowing = nearer
        # borrowWithinCohort is for lower priorities only, whatever reclaimWithinCohort allows.
        if nearer or not queue.while_borrowing or each.workload.priority >= self.preemptor.priority:
            return
        if limit is None or each.workload.priority <= limit:
            each.why, each.borrowing = Why.WHILE_BORROWING, True

    def _is_valid(self, each: Candidate, short: set[Pair], *, borrowing: bool) -> bool:
        """Whether it still uses quota of others, which earlier ones may have given back."""
        if each.node is self.node:
            return True
        if borrowing and not each.borrowing:
            return False
        for node in each.node.above():
            if node is each.common:
                break
            if node.within_quota(short):
                return False
        return True

    def _fits(self, requests: Mapping[Pair, int], *, borrowing: bool) -> bool:
        for pair, amount in requests.items():
            if not borrowing and self.node.borrows(pair, amount):
                return False
            if amount > max(0, self.node.available(pair)):
                return False
        return self._places(self._out)

    def _minimal(self, taken: list[Candidate], requests: Mapping[Pair, int], *, borrowing: bool) -> list[Candidate]:
        """Those without which there is no room, the last always among them; all are put back."""
        # fillBackWorkloads: without the last one there was no room.
        kept = [taken[-1]]
        for victim in reversed(taken[:-1]):
            self._put(victim)
            if not self._fits(requests, borrowing=borrowing):
                self._take(victim)
                kept.append(victim)
        for victim in kept:
            self._put(victim)
        return kept[::-1]

    def spend(self, steps: int) -> None:
        """Count steps of the budget."""
        self.budget -= steps
        self.exhausted = self.exhausted or self.budget < 0

    def _take(self, each: Candidate) -> None:
        self.spend(1)
        self._out.add(each.workload.uid)
        self.quotas.use(each.workload.cluster_queue, each.held, -1)

    def _put(self, each: Candidate) -> None:
        self._out.discard(each.workload.uid)
        self.quotas.use(each.workload.cluster_queue, each.held, 1)


def borrowed_at(node: TreeNode, pair: Pair, amount: int, *, empty: bool = False) -> tuple[int, bool]:
    """How many levels up the lowest cohort is within whose quota an amount fits, and whether that has a parent.

    0 without borrowing; the root if it fits nowhere. Kueue compares heights of cohorts, which have the same order.
    ``empty`` is with nothing in use.
    """
    left = amount
    path = node.above()
    # As FindHeightOfLowestSubtreeThatFits.
    for level, ancestor in enumerate(path[:-1]):
        if not (left > ancestor.subtree(pair) if empty else ancestor.borrows(pair, left)):
            return level, True
        left = minus(left, ancestor.local(pair) if empty else ancestor.locally_available(pair))
    return len(path) - 1, False


def borrows_from(node: TreeNode, pairs: Mapping[Pair, int]) -> int:
    """The height of the highest cohort that a queue would borrow from, 0 without: Kueue compares it between queues."""
    path = node.above()
    levels = {borrowed_at(node, pair, amount)[0] for pair, amount in pairs.items()} - {0}
    return max((_height(path[level]) for level in levels), default=0)


def _height(cohort: TreeNode) -> int:
    """As getNodeHeight; not for a cohort in a cycle."""
    return max((1 if child.is_queue else 1 + _height(child) for child in cohort.children), default=0)


def reserved_for(node: TreeNode, queue: ClusterQueue, pairs: Mapping[Pair, int]) -> dict[Pair, int]:
    """What Kueue keeps from those after it, in one scheduling cycle, for a Workload that does not fit now.

    Nothing where it looks for none to preempt, and where its queue can always reclaim it (resourcesToReserve).
    """
    if queue.reclaim == "Any":
        return {}
    levels = {pair: borrowed_at(node, pair, amount) for pair, amount in pairs.items()}
    borrows = any(level for level, _ in levels.values())
    kept = {}
    for pair, amount in pairs.items():
        quota, below_root = node.quota(pair), levels[pair][1]
        if amount > quota.nominal and not below_root and not queue.while_borrowing:
            return {}
        most = quota.nominal - node.used.get(pair, 0)
        if borrows:
            most = amount if quota.borrowing_limit is None else most + quota.borrowing_limit
        kept[pair] = max(0, min(amount, most))
    return kept


def _left_over(node: TreeNode, requests: Mapping[Pair, int]) -> tuple[bool, dict[Pair, int]]:
    """Whether requests fit into the quota of a node, and what exceeds the part that it keeps for itself."""
    fits = not any(node.borrows(pair, amount) for pair, amount in requests.items())
    left = {pair: max(0, minus(amount, node.locally_available(pair))) for pair, amount in requests.items()}
    return fits, left


def when_empty(queue: ClusterQueue, node: TreeNode, capacity: Capacity) -> Terms:
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
        # Above maxCapacity Kueue simulates nothing, either (fitsResourceQuota).
        return preemption.assess(pair, amount) if most is None or amount <= most else (Mode.NO_FIT, 0)

    return _terms(preemption.preemptor.queue, assess)


def without_preemption(queue: ClusterQueue, node: TreeNode) -> Terms:
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


def lacking(demands: Sequence[Demand], steps: Sequence[Step], capacity: Capacity) -> dict[Pair, int]:
    """Missing amounts now of each flavor and resource that the gang would use."""
    short = {}
    for pair, amount in taken(demands, (step.flavor for step in steps)).items():
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
        # No preemption helps pods that get no domain even where no workload has any.
        if not placing.fits(steps, vacant=True):
            continue
        short = {(step.flavor, resource) for step in steps for resource in step.waits} | placing.pairs(steps)
        requests = taken(demands, (step.flavor for step in steps))
        preempted = preemption.preempted(requests, short, _places(steps, preemption, placing))
        if preempted:
            return replace(now, preempted=preempted)
    return waits or Now(None)


def _places(steps: Sequence[Step], preemption: Preemption, placing: Placing) -> Places:
    """Whether there are domains without some workloads; it counts as steps of the preemption."""

    def places(out: AbstractSet[str]) -> bool:
        preemption.spend(placing.cost)
        return placing.fits(steps, without=out)

    return places
