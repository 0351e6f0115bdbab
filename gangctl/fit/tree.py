"""One ClusterQueue or Cohort in the tree of quotas, and Kueue's arithmetic in it.

Source: Kueue ``pkg/cache/scheduler/resource_node.go`` and ``pkg/resources/amount.go``. A pair is a flavor and a
resource; every sum is about one pair and knows nothing of the others.
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
    """The sum, where what is without bound stays so."""
    return min(one + other, UNLIMITED) if one < UNLIMITED and other < UNLIMITED else UNLIMITED


def minus(one: int, other: int) -> int:
    """The difference, where what is without bound stays so, and without bound less as much is nothing."""
    if one >= UNLIMITED:
        return 0 if other >= UNLIMITED else UNLIMITED
    return _LEAST if other >= UNLIMITED else max(one - other, _LEAST)


@dataclass(slots=True)
class Total:
    """A sum whose parts come and go, exact in any order: parts without bound are counted, not added."""

    bounded: int = 0
    unlimited: int = 0

    def replace(self, old: int, new: int) -> None:
        """Take out one part, and put in another; 0 is none."""
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


@dataclass(slots=True, eq=False)
class Node:
    """A ClusterQueue or a Cohort, explicit or only named by others.

    ``lent`` and ``drawn`` are what the children put into this node: quota that they do not keep for themselves, and
    usage beyond what they keep. ``given`` is the same of this node, as its parent has it now.
    """

    name: str
    is_queue: bool
    quotas: dict[Pair, Quota] = field(default_factory=dict)
    parent: Node | None = None
    children: set[Node] = field(default_factory=set)
    used: dict[Pair, int] = field(default_factory=dict)
    """By the workloads of a ClusterQueue itself."""
    lent: dict[Pair, Total] = field(default_factory=dict)
    drawn: dict[Pair, Total] = field(default_factory=dict)
    given: dict[Pair, tuple[int, int]] = field(default_factory=dict)

    def __str__(self) -> str:
        return f'{"ClusterQueue" if self.is_queue else "Cohort"} "{self.name}"'

    def quota(self, pair: Pair) -> Quota:
        """Its own quota, which is nothing where it has none."""
        return self.quotas.get(pair, NO_QUOTA)

    def subtree(self, pair: Pair) -> int:
        """Its own quota with what its children let others have."""
        total = self.lent.get(pair)
        nominal = self.quota(pair).nominal
        return plus(nominal, total.value) if total else nominal

    def local(self, pair: Pair) -> int:
        """The part of :meth:`subtree` that the lendingLimit keeps from the parent."""
        limit = self.quota(pair).lending_limit
        return 0 if limit is None else max(0, minus(self.subtree(pair), limit))

    def usage(self, pair: Pair) -> int:
        """What counts against :meth:`subtree`."""
        total = self.drawn.get(pair)
        own = self.used.get(pair, 0)
        return plus(own, total.value) if total else own

    def pairs(self) -> set[Pair]:
        """Pairs that it, or what is under it, has something to say about."""
        return {*self.quotas, *self.used, *self.lent, *self.drawn}

    def above(self) -> list[Node]:
        """This node and those above it, up to the root, or up to the first one that comes twice, left out."""
        path: list[Node] = []
        seen: set[Node] = set()
        node: Node | None = self
        while node is not None and node not in seen:
            path.append(node)
            seen.add(node)
            node = node.parent
        return path

    def in_cycle(self) -> bool:
        """Whether the way up never ends."""
        return self.above()[-1].parent is not None

    def below(self) -> list[Node]:
        """This node and all under it, each once."""
        found = {self: None}
        waiting = [self]
        while waiting:
            for child in waiting.pop().children:
                if child not in found:
                    found[child] = None
                    waiting.append(child)
        return list(found)

    def lift(self, pairs: Iterable[Pair]) -> None:
        """Tell the nodes above what this one gives them now. Not for a node whose way up never ends."""
        for pair in pairs:
            node = self
            while node.parent is not None and node._give(pair):
                node = node.parent

    def _give(self, pair: Pair) -> bool:
        """Bring up to date what the parent has of this node; False when it was."""
        local = self.local(pair)
        new = minus(self.subtree(pair), local), max(0, minus(self.usage(pair), local))
        old = self.given.get(pair, (0, 0))
        if new == old or self.parent is None:
            return False
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
        """Take all that this node gave out of the nodes above it."""
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
        """Drop everything that came from the children or went to the parent."""
        self.lent.clear()
        self.drawn.clear()
        self.given.clear()
