"""One ClusterQueue or Cohort in the tree of quotas, and Kueue's arithmetic in it.

Source: Kueue ``pkg/cache/scheduler/resource_node.go`` and ``pkg/resources/amount.go``. A pair is a flavor and a
resource; sums of different pairs are independent.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from gangctl.kueue.amounts import UNLIMITED
from gangctl.kueue.objects import Quota, ResourceGroup

Pair = tuple[str, str]
"""Name of the flavor, name of the resource."""

NO_QUOTA: Final = Quota()
_LEAST: Final = -UNLIMITED - 1


def plus(one: int, other: int) -> int:
    """The sum, in which unlimited stays unlimited."""
    return min(one + other, UNLIMITED) if one < UNLIMITED and other < UNLIMITED else UNLIMITED


def minus(one: int, other: int) -> int:
    """The difference, in which unlimited stays unlimited, and unlimited minus unlimited is 0."""
    if one >= UNLIMITED:
        return 0 if other >= UNLIMITED else UNLIMITED
    return _LEAST if other >= UNLIMITED else max(one - other, _LEAST)


@dataclass(slots=True)
class Total:
    """A sum of changing parts, exact in any order: unlimited parts are counted, not added."""

    bounded: int = 0
    unlimited: int = 0

    def replace(self, old: int, new: int) -> None:
        """Replace one part by another; 0 is none."""
        for part, sign in ((old, -1), (new, 1)):
            if part >= UNLIMITED:
                self.unlimited += sign
            else:
                self.bounded += sign * part

    @property
    def value(self) -> int:
        """The sum as an amount."""
        return UNLIMITED if self.unlimited else min(self.bounded, UNLIMITED)


def quotas_of(groups: Iterable[ResourceGroup]) -> dict[Pair, Quota]:
    """Quotas of resource groups by pair."""
    return {
        (flavor.name, resource): quota
        for group in groups
        for flavor in group.flavors
        for resource, quota in flavor.resources.items()
    }


# By identity: nodes are members of sets, and their fields change.
@dataclass(slots=True, eq=False)
class TreeNode:
    """A ClusterQueue or a Cohort, explicit or only named by others.

    ``lent`` and ``drawn`` are from the children: quota that they do not reserve for themselves, and usage beyond
    that. ``given`` is the same of this node, as its parent has it now.
    """

    name: str
    is_queue: bool
    quotas: dict[Pair, Quota] = field(default_factory=dict)
    parent: TreeNode | None = None
    children: set[TreeNode] = field(default_factory=set)
    used: dict[Pair, int] = field(default_factory=dict)
    """Usage by the workloads of a ClusterQueue itself."""
    lent: dict[Pair, Total] = field(default_factory=dict)
    drawn: dict[Pair, Total] = field(default_factory=dict)
    given: dict[Pair, tuple[int, int]] = field(default_factory=dict)
    weight: float = 1.0
    """For fair sharing."""

    def __str__(self) -> str:
        return f'{"ClusterQueue" if self.is_queue else "Cohort"} "{self.name}"'

    def quota(self, pair: Pair) -> Quota:
        """Its own quota, 0 if it has none."""
        return self.quotas.get(pair, NO_QUOTA)

    def subtree(self, pair: Pair) -> int:
        """Its own quota plus what its children lend."""
        total = self.lent.get(pair)
        nominal = self.quota(pair).nominal
        return plus(nominal, total.value) if total else nominal

    def local(self, pair: Pair) -> int:
        """The part of :meth:`subtree` that the lendingLimit withholds from the parent."""
        limit = self.quota(pair).lending_limit
        return 0 if limit is None else max(0, minus(self.subtree(pair), limit))

    def usage(self, pair: Pair) -> int:
        """Usage of :meth:`subtree`."""
        total = self.drawn.get(pair)
        own = self.used.get(pair, 0)
        return plus(own, total.value) if total else own

    def potential(self, pair: Pair) -> tuple[int, TreeNode | None]:
        """The most it could ever use, and the node whose borrowingLimit sets that; None if the root's quota does."""
        if self.parent is None:
            return self.subtree(pair), None
        amount, limited = self.parent.potential(pair)
        amount = plus(self.local(pair), amount)
        borrowing = self.quota(pair).borrowing_limit
        if borrowing is not None and (most := plus(self.subtree(pair), borrowing)) < amount:
            return most, self
        return amount, limited

    def available(self, pair: Pair) -> int:
        """What it could use now without preemption; negative after quotas were lowered."""
        if self.parent is None:
            return minus(self.subtree(pair), self.usage(pair))
        above = self.parent.available(pair)
        borrowing = self.quota(pair).borrowing_limit
        if borrowing is not None:
            local = self.local(pair)
            # What the node lent to its parent and does not use comes back to it, besides what it may borrow.
            stored = minus(self.subtree(pair), local)
            drawn = max(0, minus(self.usage(pair), local))
            above = min(above, plus(minus(stored, drawn), borrowing))
        return plus(self.locally_available(pair), above)

    def locally_available(self, pair: Pair) -> int:
        """The free part of :meth:`local`."""
        return max(0, minus(self.local(pair), self.usage(pair)))

    def borrows(self, pair: Pair, more: int = 0) -> bool:
        """Whether it uses more than its own quota and that of its children, or would with ``more``."""
        return plus(self.usage(pair), more) > self.subtree(pair)

    def within_quota(self, pairs: Iterable[Pair]) -> bool:
        """Whether it borrows none of these."""
        return not any(self.borrows(pair) for pair in pairs)

    def lenders_with_limits(self, pair: Pair) -> list[TreeNode]:
        """Other nodes of its tree whose lendingLimit keeps quota from it, by name."""
        path = self.above()
        return sorted(
            (below for below in path[-1].below() if below not in path and below.local(pair) > 0),
            key=lambda node: node.name,
        )

    def pairs(self) -> set[Pair]:
        """Pairs of it and of its descendants."""
        return {*self.quotas, *self.used, *self.lent, *self.drawn}

    def above(self) -> list[TreeNode]:
        """This node and its ancestors, up to the root, or up to the first repeated one, excluded."""
        path: list[TreeNode] = []
        seen: set[TreeNode] = set()
        node: TreeNode | None = self
        while node is not None and node not in seen:
            path.append(node)
            seen.add(node)
            node = node.parent
        return path

    def in_cycle(self) -> bool:
        """Whether its ancestors are a cycle."""
        return self.above()[-1].parent is not None

    def below(self) -> list[TreeNode]:
        """This node and its descendants, each once."""
        # Users can write cohorts that are a cycle: a walk that does not remember its nodes would not end.
        nodes = {self: None}
        waiting = [self]
        while waiting:
            for child in waiting.pop().children:
                if child not in nodes:
                    nodes[child] = None
                    waiting.append(child)
        return list(nodes)

    def lift(self, pairs: Iterable[Pair]) -> None:
        """Update the sums of the ancestors of this node. Not for a node in a cycle."""
        for pair in pairs:
            node = self
            # Where nothing changes for a parent, nothing changes above it.
            while node.parent is not None and node._give(pair):
                node = node.parent

    def _give(self, pair: Pair) -> bool:
        """Update the parent's sums of this node; False if they are current."""
        local = self.local(pair)
        new = minus(self.subtree(pair), local), max(0, minus(self.usage(pair), local))
        old = self.given.get(pair, (0, 0))
        if new == old or self.parent is None:
            return False
        # An absent pair is (0, 0): it returned above, so that there is an entry here.
        if new == (0, 0):
            del self.given[pair]
        else:
            self.given[pair] = new
        for totals, before, after in (
            (self.parent.lent, old[0], new[0]),
            (self.parent.drawn, old[1], new[1]),
        ):
            if before != after:
                totals.setdefault(pair, Total()).replace(before, after)
        return True

    def withdraw(self) -> None:
        """Remove this node's amounts from its ancestors."""
        parent, given, self.given = self.parent, self.given, {}
        if parent is None:
            return
        for pair, (lent, drawn) in given.items():
            if lent:
                parent.lent[pair].replace(lent, 0)
            if drawn:
                parent.drawn[pair].replace(drawn, 0)
        parent.lift(given)

    def forget(self) -> None:
        """Reset the amounts from the children and to the parent."""
        self.lent.clear()
        self.drawn.clear()
        self.given.clear()
