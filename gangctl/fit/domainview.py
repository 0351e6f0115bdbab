"""What an attempt to place pods in domains means to users: a clause, and a row for each domain."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gangctl.errors import plural
from gangctl.fit.domains import FlavorDomains, Key, Pods
from gangctl.fit.report import DomainReport
from gangctl.fit.topology import Ask, Found, Leaves, Room, room_of
from gangctl.kueue.amounts import UNLIMITED

_MOST_ROWS: Final = 20


@dataclass(slots=True)
class DomainView:
    """Room for the pods of one podset, and of a leader beside it, in the domains of a flavor.

    ``leaves`` are the lowest domains, ``podset`` and ``leader`` are names, the latter empty without one.
    """

    domains: FlavorDomains
    leaves: Leaves
    ask: Ask
    pods: Pods
    podset: str
    leader: str
    _summed: Sequence[Room] = ()

    @property
    def _rooms(self) -> Sequence[Room]:
        """Room in the domains of all levels."""
        self._summed = self._summed or room_of(self.domains.tree, self.leaves, self.ask)
        return self._summed

    @property
    def level(self) -> int:
        """The level that the request is about: its own, else that of its slices, else the lowest."""
        return self.ask.slice_level if self.ask.anywhere else self.ask.level

    @property
    def label(self) -> str:
        """The node label of the level."""
        return self.domains.tree.levels[self.level]

    def free(self, index: int) -> int:
        """Pods in whole slices that a domain has room for, beside a leader if there is one."""
        room = self._rooms[self.level]
        slices = room.slices_beside[index] if self.ask.leader else room.slices[index]
        leads = room.leaders[index] if self.ask.leader else 1
        return min(slices * leads * self.ask.size, UNLIMITED)

    def nearest(self, empty: DomainView) -> int | None:
        """The domain that lacks the least, first of those that could hold all pods if they were empty."""
        order = self._order(self._maxima(empty))
        return order[0] if order else None

    def keys(self, index: int | None) -> Collection[Key]:
        """The lowest domains of one domain, or all."""
        children, level = [index] if index is not None else range(len(self._values())), self.level
        while level < self.domains.tree.lowest:
            children = [child for each in children for child in self.domains.tree.children[level][each]]
            level += 1
        return {self.domains.keys[each] for each in children}

    def _values(self) -> Sequence[Key]:
        return self.domains.tree.values[self.level]

    def _maxima(self, empty: DomainView) -> list[int]:
        """Pods of each domain with nothing on its nodes."""
        known = {values: index for index, values in enumerate(empty._values())}
        return [empty.free(known[values]) if values in known else 0 for values in self._values()]

    def _order(self, maxima: Sequence[int]) -> list[int]:
        wanted = self.ask.count if self.ask.required else 1
        domains = range(len(self._values()))
        return sorted(domains, key=lambda each: (maxima[each] < wanted, -self.free(each), -maxima[each], each))

    def rows(self, empty: DomainView, found: Found | None = None) -> list[DomainReport]:
        """The domains of the pods, or those with the most room."""
        maxima = self._maxima(empty)
        assigned: Mapping[int, int] = {}
        if found is not None:
            assigned = self.domains.tree.above(self.level, found.pods)
        return [
            {
                "podSet": self.podset,
                "flavor": self.domains.flavor.name,
                "level": self.label,
                "domain": self.name(index),
                "requested": min(self.ask.count, UNLIMITED),
                "assigned": assigned.get(index, 0),
                "free": self.free(index),
                "maximum": maxima[index],
            }
            for index in (sorted(assigned) or self._order(maxima))[:_MOST_ROWS]
        ]

    def name(self, index: int) -> str:
        """A domain by its value, after those of the levels above."""
        return "/".join(self._values()[index])

    @property
    def who(self) -> str:
        """The pods."""
        beside = f' and its leader "{self.leader}"' if self.leader else ""
        return f'"{self.podset}"{beside}'

    def where(self, found: Found) -> str:
        """Where the pods are."""
        indexes = sorted(self.domains.tree.above(self.level, found.pods))
        rest = self.ask.count % self.ask.size
        left_out = f", but {plural(rest, 'pod')}, beyond slices of {self.ask.size}, on no node: not all of it starts"
        where = f"{plural(len(indexes), 'domain')} of {self.label}"
        if len(indexes) == 1:
            where = f'"{self.name(indexes[0])}" ({self.label})'
        return f"{self.who} in {where}{left_out if rest else ''}"

    def problem(self, empty: DomainView, *, ever: bool, beside: bool) -> str:
        """Why there is no place; ``beside`` other podsets that are placed before."""
        flavor, index = f'flavor "{self.domains.flavor.name}"', self.nearest(empty)
        if index is None:
            levels = ", ".join(self.domains.tree.levels)
            return f"no {'' if ever else 'ready '}node of {flavor} has labels for all levels of its topology ({levels})"
        if not self.domains.takes_any(self.pods):
            return f"taints, node selectors and affinity keep {self.who} from all nodes of {flavor}"
        when = ", with all nodes ready and nothing on them" if ever else " now"
        when += ", beside the podsets before it" if beside else ""
        if self.ask.required:
            free = self.free(index) // self.ask.size
            return (
                f'no domain of {self.label} has room for {self._amount} of {self.who}{when}: "{self.name(index)}" has '
                f"room for {free}, {self.ask.slices - free} short"
            )
        free = self._everywhere()
        return (
            f"the nodes of {flavor} have no room for {self._amount} of {self.who}{when}: there is room for {free}, "
            f"{max(0, self.ask.slices - free)} short"
        )

    @property
    def _amount(self) -> str:
        if self.ask.size == 1:
            return plural(self.ask.count, "pod")
        return f"{plural(self.ask.slices, 'slice')} of {plural(self.ask.size, 'pod')}"

    def _everywhere(self) -> int:
        """Slices that all domains have room for together."""
        room = self._rooms[0]
        if not self.ask.leader:
            return sum(room.slices)
        lost = [room.slices[each] - room.slices_beside[each] for each, leads in enumerate(room.leaders) if leads]
        return sum(room.slices) - min(lost) if lost else 0
