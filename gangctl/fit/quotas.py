"""How much of a resource a ClusterQueue can use, ever and now: an index of all quotas and their usage.

It changes with every watch event and is read at every admission, so sums are stored: the cost of a change is the
number of cohorts above the changed object.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from gangctl.fit.report import joined
from gangctl.fit.search import Available, Demand, pairs_of
from gangctl.fit.tree import NO_QUOTA, Pair, TreeNode, plus, quotas_of
from gangctl.kueue.amounts import UNLIMITED
from gangctl.kueue.objects import Amounts, ClusterQueue, Cohort, QueuedWorkload


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The maximum with nothing in use; ``amount`` is None if it is unlimited.

    ``limit`` names the field that limits it, such as ``borrowingLimit of ClusterQueue "a"``.
    """

    amount: int | None
    limit: str


def has_reservation(workload: QueuedWorkload) -> bool:
    """Whether a workload has quota of its own, and has not finished."""
    # As HasActiveQuotaReservation of Kueue: quota of one that is deactivated is free before its pods are gone.
    reserved = workload.active and workload.holds("QuotaReserved") and not workload.holds("Finished")
    return bool(workload.cluster_queue) and reserved and not workload.has_variants


def held_pairs(workload: QueuedWorkload) -> dict[Pair, int]:
    """Usage of a workload by flavor and resource: empty without its own reservation, or after it has finished."""
    held: dict[Pair, int] = {}
    if not has_reservation(workload):
        return held
    for assignment in workload.assignments:
        for resource, amount in assignment.usage.items():
            flavor = assignment.flavors.get(resource)
            if flavor is not None and amount:
                pair = flavor, resource
                held[pair] = plus(held.get(pair, 0), amount)
    return held


class Quotas:
    """ClusterQueues, Cohorts and the usage of workloads, updated one object at a time."""

    def __init__(self) -> None:
        """Start without objects."""
        self._queues: dict[str, ClusterQueue] = {}
        self._cohorts: dict[str, Cohort] = {}
        self._queue_nodes: dict[str, TreeNode] = {}
        self._cohort_nodes: dict[str, TreeNode] = {}
        self._workloads: dict[str, QueuedWorkload] = {}
        self._holders: dict[str, dict[str, dict[Pair, int]]] = {}
        """Usage by ClusterQueue, existing or not, and by UID of the workload."""

    def take(self, held: ClusterQueue | Cohort | QueuedWorkload) -> None:
        """Add or update an object."""
        match held:
            case ClusterQueue():
                self.set_queue(held)
            case Cohort():
                self.set_cohort(held)
            case QueuedWorkload():
                self.set_usage(held)

    def drop(self, held: ClusterQueue | Cohort | QueuedWorkload) -> None:
        """Remove an object, if it exists."""
        match held:
            case ClusterQueue():
                self.remove_queue(held.name)
            case Cohort():
                self.remove_cohort(held.name)
            case QueuedWorkload():
                self.remove_usage(held.uid)

    def set_queue(self, queue: ClusterQueue) -> None:
        """Add a ClusterQueue, or replace the one of this name."""
        before = self._queues.get(queue.name)
        self._queues[queue.name] = queue
        node = self._queue_nodes.get(queue.name)
        if node is not None:
            # Before the comparison: no sum depends on it, so that it has no part in that.
            node.weight = queue.weight
        # The status of a ClusterQueue changes with every admission, and no sum depends on it.
        if before is not None and before.groups == queue.groups and before.cohort == queue.cohort:
            return
        if node is None:
            node = self._queue_nodes[queue.name] = TreeNode(queue.name, is_queue=True, weight=queue.weight)
            # Informers have no common order: workloads may be known before their ClusterQueue.
            for held in self._holders.get(queue.name, {}).values():
                for pair, amount in held.items():
                    node.used[pair] = node.used.get(pair, 0) + amount
        elif before is not None and before.cohort != queue.cohort:
            self._part(node)
        old, node.quotas = node.quotas, quotas_of(queue.groups)
        if node.parent is None and queue.cohort:
            self._join(node, queue.cohort)
        # With the pairs of before: those that it has no more are still in the sums above.
        self._lift(node, {*old, *node.pairs()})

    def remove_queue(self, name: str) -> None:
        """Remove a ClusterQueue; the usage of its workloads counts again if it is created again."""
        self._queues.pop(name, None)
        node = self._queue_nodes.pop(name, None)
        if node is not None:
            self._part(node)

    def set_cohort(self, cohort: Cohort) -> None:
        """Add a Cohort object, or replace the one of this name."""
        before = self._cohorts.get(cohort.name)
        if before == cohort:
            return
        self._cohorts[cohort.name] = cohort
        node = self._cohort_node(cohort.name)
        node.weight = cohort.weight
        old, node.quotas = node.quotas, quotas_of(cohort.groups)
        if cohort.parent != (node.parent.name if node.parent else ""):
            self._move(node, cohort.parent)
        else:
            self._lift(node, {*old, *node.quotas})

    def remove_cohort(self, name: str) -> None:
        """Remove a Cohort object; if others name it, it stays as a root without quotas."""
        if self._cohorts.pop(name, None) is None:
            return
        node = self._cohort_nodes[name]
        old, node.quotas = node.quotas, {}
        # A cohort without an object has the default weight.
        node.weight = 1.0
        if node.parent is not None:
            self._move(node, "")
        else:
            self._lift(node, old)
        self._drop_unnamed(node)

    def queue(self, name: str) -> ClusterQueue | None:
        """The ClusterQueue of this name."""
        return self._queues.get(name)

    def queues(self) -> Iterator[ClusterQueue]:
        """All ClusterQueues."""
        return iter(self._queues.values())

    def cohort(self, name: str) -> Cohort | None:
        """The Cohort object of this name, if the cohort has one."""
        return self._cohorts.get(name)

    def set_usage(self, workload: QueuedWorkload) -> None:
        """Replace the usage of a workload."""
        held = held_pairs(workload)
        before = self._workloads.get(workload.uid)
        if before is not None:
            known = self._holders[before.cluster_queue][before.uid]
            if before.cluster_queue == workload.cluster_queue and held == known:
                self._workloads[workload.uid] = workload
                return
            self.remove_usage(workload.uid)
        # One without quota is not kept: it uses nothing, and is not preempted.
        if not held:
            return
        self._workloads[workload.uid] = workload
        self._holders.setdefault(workload.cluster_queue, {})[workload.uid] = held
        self.use(workload.cluster_queue, held, 1)

    def remove_usage(self, uid: str) -> None:
        """Remove a workload and its usage."""
        workload = self._workloads.pop(uid, None)
        if workload is None:
            return
        holders = self._holders[workload.cluster_queue]
        held = holders.pop(uid)
        if not holders:
            del self._holders[workload.cluster_queue]
        self.use(workload.cluster_queue, held, -1)

    def workloads(self) -> Iterator[QueuedWorkload]:
        """All workloads that use quota."""
        return iter(self._workloads.values())

    def cycle(self, queue: str) -> bool:
        """Whether the cohorts above a ClusterQueue are a cycle: then it admits nothing."""
        node = self._queue_nodes.get(queue)
        return node is not None and node.in_cycle()

    def covers(self, queue: str, flavor: str, resource: str) -> bool:
        """Whether a ClusterQueue has this resource in this flavor, regardless of its cohort."""
        known = self._queues.get(queue)
        return known is not None and any(
            resource in group.resources and any(option.name == flavor for option in group.flavors)
            for group in known.groups
        )

    def ceiling(self, queue: str, flavor: str, resource: str) -> Ceiling:
        """The most of a resource that a ClusterQueue could ever use in a flavor, including borrowing.

        Unlimited if it is unknown: there is no such ClusterQueue, or its cohorts are a cycle.
        """
        node = self._queue_nodes.get(queue)
        if node is None:
            return Ceiling(None, f'ClusterQueue "{queue}" is not known')
        path = node.above()
        if path[-1].parent is not None:
            return Ceiling(None, f"the cohorts of {node} are a cycle")
        # A flavor that only its cohort has is of no use to a queue.
        if not self.covers(queue, flavor, resource):
            return Ceiling(0, f'{node} does not have "{resource}" in flavor "{flavor}"')
        amount, limited = node.potential((flavor, resource))
        root = path[-1]
        limit = f"nominalQuota of {root}" if root.is_queue else f"all that {root} has"
        if limited is not None:
            limit = f"borrowingLimit of {limited}"
        return Ceiling(None if amount >= UNLIMITED else amount, limit)

    def used(self, queue: str, flavor: str, resource: str) -> int:
        """Usage of the workloads of a ClusterQueue."""
        node = self._queue_nodes.get(queue)
        return node.used.get((flavor, resource), 0) if node else 0

    def available(self, queue: str, flavor: str, resource: str) -> int:
        """What a ClusterQueue could use now without preemption, including borrowing; UNLIMITED at most.

        Negative if the usage exceeds the quota, after quotas were lowered.
        """
        node = self._queue_nodes.get(queue)
        if node is None or not self.covers(queue, flavor, resource):
            return 0
        return 0 if node.in_cycle() else node.available((flavor, resource))

    def tree(self, queue: str) -> tuple[str, ...]:
        """Names of the ClusterQueues that share quota with one, itself among them, in order."""
        node = self._queue_nodes.get(queue)
        if node is None:
            return ()
        return tuple(sorted(below.name for below in node.above()[-1].below() if below.is_queue))

    def orchestrator(self, queue: str) -> str:
        """What computes quota that a ClusterQueue can use (Dynamic Quota Orchestration), empty if nothing does."""
        node = self._queue_nodes.get(queue)
        held: list[ClusterQueue | Cohort | None] = [
            self._queues.get(member.name) if member.is_queue else self._cohorts.get(member.name)
            for member in (node.above()[-1].below() if node is not None else ())
        ]
        return next((one.orchestrator for one in held if one is not None and one.orchestrator), "")

    def node(self, queue: str) -> TreeNode | None:
        """A ClusterQueue in the tree of quotas; None if there is none of this name."""
        return self._queue_nodes.get(queue)

    def held_in(self, queue: str) -> Iterator[tuple[QueuedWorkload, dict[Pair, int]]]:
        """The workloads of a ClusterQueue, and what each uses."""
        return ((self._workloads[uid], held) for uid, held in self._holders.get(queue, {}).items())

    def use(self, queue: str, held: Mapping[Pair, int], sign: Literal[1, -1]) -> None:
        """Add to the usage of a ClusterQueue, or take away from it."""
        node = self._queue_nodes.get(queue)
        if node is None:
            return
        for pair, amount in held.items():
            left = node.used.get(pair, 0) + sign * amount
            if left:
                node.used[pair] = left
            else:
                # An entry of 0 would keep a flavor in `pairs` that nothing uses any more.
                node.used.pop(pair, None)
        self._lift(node, held)

    def holders(self, queue: str, pairs: Collection[Pair]) -> list[tuple[QueuedWorkload, Amounts]]:
        """Workloads that use these pairs in a ClusterQueue or in its cohorts.

        Amounts are by resource, over the flavors of ``pairs``. Those in the queue itself come first, then those of the
        lowest priority.
        """
        wanted = set(pairs)
        holders: list[tuple[QueuedWorkload, Amounts]] = [
            (self._workloads[uid], amounts)
            for name in self.tree(queue)
            for uid, held in self._holders.get(name, {}).items()
            if (amounts := by_resource(held, wanted))
        ]
        holders.sort(
            key=lambda each: (each[0].cluster_queue != queue, each[0].priority, each[0].namespace, each[0].name)
        )
        return holders

    @staticmethod
    def _lift(node: TreeNode, pairs: Iterable[Pair]) -> None:
        if node.parent is not None and not node.in_cycle():
            node.lift(pairs)

    def _cohort_node(self, name: str) -> TreeNode:
        return self._cohort_nodes.setdefault(name, TreeNode(name, is_queue=False))

    def _join(self, node: TreeNode, cohort: str) -> None:
        node.parent = self._cohort_node(cohort)
        node.parent.children.add(node)

    def _part(self, node: TreeNode) -> None:
        """Remove a node from its parent, and the parent too if nothing else names it."""
        parent = node.parent
        if parent is None:
            return
        # While it still has its parent: the amounts are taken out along the way to the root.
        node.withdraw()
        parent.children.discard(node)
        node.parent = None
        self._drop_unnamed(parent)

    def _drop_unnamed(self, node: TreeNode) -> None:
        if node.name not in self._cohorts and not node.children:
            self._cohort_nodes.pop(node.name, None)

    def _move(self, node: TreeNode, parent: str) -> None:
        """Change the parent of a cohort. If a cycle appears or disappears, its nodes are summed again."""
        before = node.above()[-1].below() if node.in_cycle() else []
        self._part(node)
        if parent:
            self._join(node, parent)
        if node.in_cycle():
            before = node.above()[-1].below()
        for quota in before:
            # `lift` would not end in a cycle, so that the nodes of one have no sums.
            quota.forget()
        for ancestor in before or [node]:
            self._lift(ancestor, ancestor.pairs())


def by_resource(held: Mapping[Pair, int], wanted: Collection[Pair] | None = None) -> dict[str, int]:
    """Usage by resource, over all flavors, or over those of ``wanted``."""
    amounts: dict[str, int] = {}
    for (flavor, resource), amount in held.items():
        if amount and (wanted is None or (flavor, resource) in wanted):
            amounts[resource] = plus(amounts.get(resource, 0), amount)
    return amounts


_NAMED: Final = 3


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


def with_lending_limits(capacity: Capacity, node: TreeNode) -> Capacity:
    """The same, with the lendingLimits of others named where they keep a ceiling low."""

    def named(pair: Pair, ceiling: Ceiling) -> Ceiling:
        keepers = node.lenders_with_limits(pair) if node.potential(pair)[1] is None else []
        names = joined([str(keeper) for keeper in keepers[:_NAMED]])
        return replace(ceiling, limit=f"{ceiling.limit} beyond the lendingLimit of {names}") if keepers else ceiling

    return replace(capacity, ceilings={pair: named(pair, bound) for pair, bound in capacity.ceilings.items()})
