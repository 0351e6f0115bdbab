"""Quota that Kueue keeps for the heads of other StrictFIFO queues, in every scheduling cycle.

Such a head is tried in each cycle. If it fits into its queue and there is nothing to preempt for it, Kueue counts what
it could have as used for those after it, unless its queue can always reclaim that. Source: Kueue 0.19 ``pkg/scheduler``
(``reserveCapacityForUnreclaimablePreempt``). Fair sharing has another order, which is not known here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from gangctl.fit.demands import demands_of
from gangctl.fit.preemption import borrows_from, reserved_for
from gangctl.fit.quotas import Quotas
from gangctl.fit.search import Demand, taken
from gangctl.fit.tree import Pair, TreeNode
from gangctl.kueue.blocked import is_inactive
from gangctl.kueue.configuration import Ordering
from gangctl.kueue.objects import ClusterQueue
from gangctl.kueue.queues import Head, queued_at
from gangctl.kueue.states import failed_checks

Rank = tuple[int, int, datetime]
"""The order within a cycle: what borrows less is first, then the higher priority if that counts, then the earlier."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """What is kept for a head."""

    head: Head
    amounts: Mapping[Pair, int]
    rank: Rank


def rank_of(node: TreeNode, pairs: Mapping[Pair, int], priority: int, since: datetime, ordering: Ordering) -> Rank:
    """The place of a Workload that asks for these amounts."""
    return borrows_from(node, pairs), -priority if ordering.by_priority else 0, since


def only_choice(demands: Sequence[Demand]) -> Mapping[Pair, int] | None:
    """What demands take if each has one flavor; None with a choice."""
    if any(len(demand.flavors) != 1 for demand in demands):
        return None
    return taken(demands, (demand.flavors[0] for demand in demands))


def keeping(
    quotas: Quotas,
    queue: ClusterQueue,
    pairs: Mapping[Pair, int],
    rank: Rank | None,
    head_of: Callable[[ClusterQueue], Head | None],
    *,
    ordering: Ordering,
) -> list[Reservation]:
    """The heads before which a Workload of a queue does not get these amounts, although they are free.

    Without a ``rank`` those that may be before it.
    """
    reservations = _reservations(quotas, queue.name, pairs, ordering, head_of)
    before = [one for one in reservations if rank is None or one.rank < rank]
    # All at once: several heads may keep together what each of them leaves.
    for one in before:
        quotas.use(one.head.queue.name, one.amounts, 1)
    node = quotas.node(queue.name)
    short = node is not None and any(amount > max(0, node.available(pair)) for pair, amount in pairs.items())
    for one in before:
        quotas.use(one.head.queue.name, one.amounts, -1)
    return before if short else []


def keepers(quotas: Quotas, own: str, wanted: Collection[Pair]) -> Iterator[tuple[ClusterQueue, TreeNode]]:
    """The other queues of a tree for whose heads Kueue may keep some of these amounts."""
    for name in quotas.tree(own):
        queue, node = quotas.queue(name), quotas.node(name)
        if name == own or queue is None or node is None or queue.strategy != "StrictFIFO" or is_inactive(queue):
            continue
        if queue.reclaim != "Any" and not node.quotas.keys().isdisjoint(wanted):
            yield queue, node


def _reservations(
    quotas: Quotas,
    own: str,
    wanted: Collection[Pair],
    ordering: Ordering,
    head_of: Callable[[ClusterQueue], Head | None],
) -> Iterator[Reservation]:
    # To find a head costs more than all else here.
    for queue, node in keepers(quotas, own, wanted):
        head = head_of(queue)
        # Only one that Kueue has tried, and found not to fit: for one that it passes over it keeps nothing.
        if head is None or failed_checks(head.workload) or head.effect(None, joined=True) is None:
            continue
        pairs = only_choice(demands_of(head.workload, queue) or ())
        # A head that has room is admitted next: what it takes is usage then, and no reservation.
        if not pairs or all(amount <= node.available(pair) for pair, amount in pairs.items()):
            continue
        amounts = reserved_for(node, queue, pairs)
        if any(amounts.values()):
            since = queued_at(head.workload, ordering)
            yield Reservation(head, amounts, rank_of(node, pairs, head.workload.priority, since, ordering))
