"""Running workloads that Kueue may preempt for a gang, their order, and the order in which fair sharing looks for them.

Source: Kueue 0.19 ``pkg/scheduler/preemption/common``. A share is what a node borrows of its dominant resource,
relative to what its cohort can lend, by its weight (``pkg/cache/scheduler/fair_sharing.go``,
``pkg/scheduler/preemption/fairsharing``, and KEP-1714).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cached_property
from typing import Final

from gangctl.fit.tree import Pair, TreeNode, plus
from gangctl.kueue.amounts import moment
from gangctl.kueue.configuration import DEFAULT_ORDERING, Ordering
from gangctl.kueue.objects import ClusterQueue, QueuedWorkload
from gangctl.kueue.queues import queued_at

LOWEST: Final = -(2**31) - 1
"""Below the priority of every workload: what is preempted for it is preempted for any."""
_BUFFER: Final = timedelta(minutes=5)
"""timestampPreemptionBuffer of Kueue."""
_LATEST: Final = datetime.max.replace(tzinfo=UTC)


class Why(StrEnum):
    """Reason of Kueue's condition Preempted."""

    IN_QUEUE = "InClusterQueue"
    RECLAIM = "InCohortReclamation"
    WHILE_BORROWING = "InCohortReclaimWhileBorrowing"
    FAIR = "InCohortFairSharing"


@dataclass(frozen=True, slots=True)
class Preemptor:
    """The gang for which others are preempted. ``since`` is its time of queueing, None for a new one."""

    queue: ClusterQueue
    priority: int
    since: datetime | None = None
    strategies: Sequence[str] | None = None
    """Of fair sharing; None without."""
    within_nominal: bool = True
    """Feature gate FairSharingPreemptWithinNominal."""
    ordering: Ordering = DEFAULT_ORDERING

    def outranks(self, policy: str, workload: QueuedWorkload) -> bool:
        """Whether a policy of the queue allows to preempt a workload."""
        lower = workload.priority < self.priority
        match policy:
            case "Any":
                return True
            case "LowerPriority":
                return lower
            case "LowerOrNewerEqualPriority":
                # A new gang is queued after all that exist, so that it is older than none of them.
                newer = queued_at(workload, self.ordering)
                least = _BUFFER if self.ordering.buffered else timedelta()
                older = self.since is not None and newer - self.since > least
                return lower or (workload.priority == self.priority and older)
        return False

    def order(self, each: Candidate) -> tuple[bool, bool, int, float, str]:
        """The order in which workloads are preempted, as a key."""
        workload = each.workload
        # Kueue takes the present time where the condition has none (quotaReservationTime).
        reserved = moment(workload.condition("QuotaReserved").since) or _LATEST
        own = workload.cluster_queue == self.queue.name
        # As CandidatesOrdering of Kueue: with another order gangctl names other workloads than Kueue preempts.
        return not workload.holds("Evicted"), own, workload.priority, -reserved.timestamp(), workload.uid


@dataclass(slots=True)
class Candidate:
    """A workload that may be preempted, and what it uses; ``why`` is the reason if it is."""

    workload: QueuedWorkload
    held: Mapping[Pair, int]
    node: TreeNode
    why: Why = Why.IN_QUEUE
    borrowing: bool = True
    """Whether it can be preempted although the preemptor borrows."""
    common: TreeNode | None = None
    """The cohort that it has in common with the preemptor."""


Share = tuple[bool, float]
"""Whether it is infinite (it borrows with weight 0), and its value; ordered as Kueue compares them."""

_NONE: Final[Share] = (False, -1.0)


class Waiting:
    """A ClusterQueue with candidates, the first of which is the next to be preempted."""

    def __init__(self, node: TreeNode, preemptor: TreeNode, shares: Shares) -> None:
        """Start without candidates."""
        self.node = node
        self.waiting: deque[tuple[int, Candidate]] = deque()
        self.dropped = False
        """Whether its other candidates are ignored."""
        self._shares = shares
        # getAlmostLCAs of Kueue: what is compared are the two nodes below the lowest cohort in common.
        common = next((ancestor for ancestor in node.above()[1:] if ancestor in preemptor.above()), None)
        self._sides = _below(preemptor, common), _below(node, common)

    def pop(self) -> Candidate:
        """The next candidate, which is not one any more."""
        return self.waiting.popleft()[1]

    def shares(self) -> tuple[Share, Share]:
        """Shares of the preemptor's side and of this one's, below the cohort that they have in common."""
        own, other = self._sides
        return self._shares.of(own), self._shares.of(other)


def _below(node: TreeNode, common: TreeNode | None) -> TreeNode:
    """The last node on the way up to a common ancestor."""
    path = node.above()
    return path[path.index(common) - 1] if common is not None else node


class Shares:
    """Shares at the present usage, seen from the preemptor's ClusterQueue."""

    def __init__(self, preemptor: TreeNode) -> None:
        """``preemptor`` must not be below a cycle."""
        self._preemptor = preemptor
        self._path = preemptor.above()
        # It depends on quotas alone, so that it stays true while a simulation changes the usage.
        self._lendable: dict[TreeNode, dict[str, int]] = {}
        self.measured = 0
        """How often a share was computed."""

    @cached_property
    def _pairs(self) -> set[Pair]:
        """All of the tree, also those of which nothing is lent to the root (calculateLendable)."""
        return {pair for node in self._path[-1].below() for pair in node.quotas}

    def of(self, node: TreeNode) -> Share:
        """The share of a node; a root has none."""
        return self._measure(node)[1]

    def _measure(self, node: TreeNode) -> tuple[bool, Share]:
        """Whether a node borrows, and its share."""
        self.measured += 1
        if node.parent is None:
            return False, (False, 0.0)
        borrowed: dict[str, int] = {}
        # As SubtreeQuota of Kueue: a cohort also has the pairs of its children, without a quota of its own.
        for pair in node.quotas if node.is_queue else {*node.quotas, *node.lent, *node.drawn}:
            amount = node.usage(pair) - node.subtree(pair)
            if amount > 0:
                borrowed[pair[1]] = plus(borrowed.get(pair[1], 0), amount)
        # A sum over the whole tree, which a node that borrows nothing does not need.
        lendable = self._lendable_of(node.parent) if borrowed else {}
        ratio = max(
            (amount * 1000.0 / lendable[name] for name, amount in borrowed.items() if lendable.get(name)), default=0
        )
        if ratio and not node.weight:
            return True, (True, ratio)
        return bool(borrowed), (False, ratio / node.weight if ratio else 0.0)

    def _lendable_of(self, cohort: TreeNode) -> dict[str, int]:
        """The most of each resource that a cohort could have, over all flavors."""
        if cohort not in self._lendable:
            sums: dict[str, int] = {}
            for pair in self._pairs:
                sums[pair[1]] = plus(sums.get(pair[1], 0), cohort.potential(pair)[0])
            self._lendable[cohort] = sums
        return self._lendable[cohort]

    def walk(self, candidates: Sequence[Candidate]) -> Iterator[Waiting]:
        """ClusterQueues from which to preempt, one after the other, each time that with the highest share.

        ``candidates`` are in order. Each round must take a candidate out of the queue, or drop the queue.
        """
        queues: dict[TreeNode, Waiting] = {}
        for rank, candidate in enumerate(candidates):
            if candidate.node not in queues:
                queues[candidate.node] = Waiting(candidate.node, self._preemptor, self)
            queues[candidate.node].waiting.append((rank, candidate))
        root, over = self._path[-1], set[TreeNode]()
        # Without a cohort there are no shares to compare: only its own workloads are candidates.
        if root is self._preemptor:
            own = queues.get(root)
            while own is not None and own.waiting and not own.dropped:
                yield own
            return
        while root not in over:
            # None rules out one cohort only: others may have candidates left.
            queue = self._highest(root, queues, over)
            if queue is not None:
                yield queue

    def _highest(self, cohort: TreeNode, queues: dict[TreeNode, Waiting], over: set[TreeNode]) -> Waiting | None:
        """The queue with the highest share below a cohort; None if only nodes without candidates were found."""
        best: Waiting | None = None
        best_share = _NONE
        inner: TreeNode | None = None
        inner_share = _NONE
        # The children are a set: without an order, of nodes with equal shares any could be the last.
        for child in sorted(cohort.children, key=lambda node: node.name):
            if child in over:
                continue
            borrows, share = self._measure(child)
            if child.is_queue:
                queue = queues.get(child)
                # What does not borrow has nothing to give back, except to its own queue.
                if queue is None or not queue.waiting or queue.dropped or not (borrows or child is self._preemptor):
                    over.add(child)
                # Of equal shares, the queue whose next workload is preempted first.
                elif best is None or (share, -queue.waiting[0][0]) > (best_share, -best.waiting[0][0]):
                    best, best_share = queue, share
            elif not borrows and child not in self._path:
                over.add(child)
            elif share >= inner_share:
                inner, inner_share = child, share
        if best is None and inner is None:
            over.add(cohort)
            return None
        # Of equal shares the cohort is first: within it the highest one can be chosen.
        if inner is not None and inner_share >= best_share:
            return self._highest(inner, queues, over)
        return best
