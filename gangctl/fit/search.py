"""Choices of one flavor for each demand that exceed the available amount of no flavor.

:func:`search` is exact: it finds a choice, proves that there is none, or reports that it ran out of steps.
:func:`tries` predicts Kueue: it assigns in the order of the podsets and of the flavors, without backtracking within
one try; the next try starts where each podset stopped (Kueue 0.19, ``pkg/scheduler/flavorassigner``).
So it may find an existing choice late, or miss it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from gangctl.kueue.objects import Amounts

BUDGET: Final = 20_000
"""Comparisons of a demand with a flavor, 10 to 20 ms."""

MOST: Final = 64
"""Maximum number of demands to search. Kueue allows 18 podsets."""

_MOST_TRIES: Final = 64

Available = Mapping[tuple[str, str], int | None]
"""Available amounts by flavor and resource; None is unlimited, an absent pair is 0."""


@dataclass(frozen=True, slots=True)
class Demand:
    """Total request of podsets that share their flavors, for one resource group.

    ``flavors`` are those that these pods may use, in the order in which they are tried. Demands of different ``part``
    (index of the resource group) are independent: no two groups have a resource in common. ``sharing`` identifies
    the podsets of the demand: those of one number get all that they request or nothing.
    """

    amounts: Amounts
    flavors: tuple[str, ...]
    part: int = 0
    sharing: int = -1
    among: tuple[str, ...] = ()
    """All flavors of the resource group; empty if these pods may use all of them."""


def pairs_of(demands: Iterable[Demand]) -> list[tuple[str, str]]:
    """Flavors and resources that these demands could use, each once."""
    pairs = ((flavor, resource) for demand in demands for flavor in demand.flavors for resource in demand.amounts)
    return list(dict.fromkeys(pairs))


def totals(demands: Iterable[Demand]) -> Counter[str]:
    """What demands ask for together, by resource."""
    sums: Counter[str] = Counter()
    for demand in demands:
        sums.update(demand.amounts)
    return sums


def taken(demands: Iterable[Demand], flavors: Iterable[str]) -> Counter[tuple[str, str]]:
    """Amounts that demands would use of their flavors, by flavor and resource."""
    sums: Counter[tuple[str, str]] = Counter()
    for demand, flavor in zip(demands, flavors, strict=True):
        sums.update({(flavor, resource): amount for resource, amount in demand.amounts.items()})
    return sums


@dataclass(frozen=True, slots=True)
class Solution:
    """``choice`` has one flavor for each demand, in their order; None with ``exhausted`` proves nothing."""

    choice: tuple[str, ...] | None
    exhausted: bool = False
    steps: int = field(default=0, compare=False)


def search(demands: Sequence[Demand], available: Available, budget: int = BUDGET) -> Solution:
    """A choice that keeps every sum within ``available``, if any; a demand of nothing gets its first flavor."""
    choice = [next(iter(demand.flavors), "") for demand in demands]
    exhausted, steps = False, 0
    for part in sorted({demand.part for demand in demands}):
        members = [
            index for index, demand in enumerate(demands) if demand.part == part and any(demand.amounts.values())
        ]
        packing = _Packing([demands[index] for index in members], available, budget - steps)
        placed = packing.solve()
        steps += packing.steps
        if placed is not None:
            for index, flavor in zip(members, placed, strict=True):
                choice[index] = flavor
        elif packing.exhausted:
            exhausted = True
        else:
            return Solution(None, steps=steps)
    return Solution(None if exhausted else tuple(choice), exhausted, steps)


class _Packing:
    """Vector packing of one part, depth first: first the demand with the fewest flavors left, then the largest."""

    def __init__(self, demands: Sequence[Demand], available: Available, budget: int) -> None:
        self.steps = 0
        self.exhausted = False
        self._budget = budget
        resources = sorted({name for demand in demands for name, amount in demand.amounts.items() if amount > 0})
        self._sizes = [tuple(max(0, demand.amounts.get(name, 0)) for name in resources) for demand in demands]
        self._total = [sum(column) for column in zip(*self._sizes, strict=True)]
        self._names = sorted({flavor for demand in demands for flavor in demand.flavors})
        self._free = [self._capped(flavor, resources, available) for flavor in self._names]
        known = {flavor: index for index, flavor in enumerate(self._names)}
        self._allowed = [
            [known[flavor] for flavor in dict.fromkeys(demand.flavors) if _fits(size, self._free[known[flavor]])]
            for demand, size in zip(demands, self._sizes, strict=True)
        ]
        self._kinds = self._alike()
        self._chosen = [-1] * len(demands)
        self._failed: set[tuple[tuple[int, ...], tuple[tuple[int, tuple[int, ...]], ...]]] = set()
        users = [frozenset(i for i, allowed in enumerate(self._allowed) if f in allowed) for f in range(len(known))]
        classes = {group: index for index, group in enumerate(dict.fromkeys(users))}
        self._classes = [classes[group] for group in users]

    def _capped(self, flavor: str, resources: Sequence[str], available: Available) -> tuple[int, ...]:
        """Available amounts of a flavor, at most the total of all demands."""
        amounts = (available.get((flavor, name), 0) for name in resources)
        return tuple(
            # More than all demands together is as good as all: more states of the search are equal.
            total if amount is None else max(0, min(amount, total))
            for amount, total in zip(amounts, self._total, strict=True)
        )

    def _alike(self) -> list[int]:
        """The kind of each demand: those of one kind are interchangeable."""
        kinds: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
        pairs = zip(self._sizes, self._allowed, strict=True)
        return [kinds.setdefault((size, tuple(allowed)), len(kinds)) for size, allowed in pairs]

    def solve(self) -> list[str] | None:
        """Names of flavors in the order of the demands."""
        if len(self._sizes) > MOST:
            self.exhausted = True
        if self.exhausted or not self._place(list(range(len(self._sizes)))):
            return None
        return [self._names[flavor] for flavor in self._chosen]

    def _place(self, waiting: list[int]) -> bool:
        if not waiting:
            return True
        options = self._options(waiting)
        if options is None or not self._may_fit(waiting):
            return False
        # Only what was searched to the end is added to these: it is proved to fail.
        key = self._key(waiting)
        if key in self._failed:
            return False
        item = min(waiting, key=lambda i: (len(options[i]), [-amount for amount in self._sizes[i]]))
        others = [i for i in waiting if i != item]
        tried = set()
        # The fullest first: large gaps are left for large demands.
        for flavor in sorted(options[item], key=lambda f: self._free[f]):
            before = self._free[flavor]
            # A flavor that the same demands may use, with the same amounts left, leads to an equal search.
            if (self._classes[flavor], before) in tried:
                continue
            tried.add((self._classes[flavor], before))
            if self.steps > self._budget:
                self.exhausted = True
                return False
            self._free[flavor] = tuple(a - b for a, b in zip(before, self._sizes[item], strict=True))
            self._chosen[item] = flavor
            if self._place(others):
                return True
            self._free[flavor] = before
            if self.exhausted:
                return False
        self._failed.add(key)
        return False

    def _options(self, waiting: Sequence[int]) -> dict[int, list[int]] | None:
        """Flavors in which each demand alone still fits; None if one has none."""
        options = {}
        for item in waiting:
            self.steps += len(self._allowed[item])
            options[item] = [f for f in self._allowed[item] if _fits(self._sizes[item], self._free[f])]
            if not options[item]:
                return None
        return options

    def _may_fit(self, waiting: Sequence[int]) -> bool:
        """Whether the demands could fit if they were divisible, and each size if only its number counted."""
        usable = sorted({flavor for item in waiting for flavor in self._allowed[item]})
        for resource in range(len(self._total)):
            free = [self._free[flavor][resource] for flavor in usable]
            sizes = sorted((self._sizes[item][resource] for item in waiting), reverse=True)
            if sum(sizes) > sum(free):
                return False
            for count, size in enumerate(sizes, start=1):
                # The last of equal ones represents all of them.
                if size and (count == len(sizes) or sizes[count] != size):
                    self.steps += len(free)
                    if sum([amount // size for amount in free]) < count:
                        return False
        return True

    def _key(self, waiting: Sequence[int]) -> tuple[tuple[int, ...], tuple[tuple[int, tuple[int, ...]], ...]]:
        """Remaining search state, equal for interchangeable demands."""
        self.steps += len(self._free)
        kinds = tuple(sorted([self._kinds[item] for item in waiting]))
        return kinds, tuple(sorted(zip(self._classes, self._free, strict=True)))


def _fits(size: Sequence[int], free: Sequence[int]) -> bool:
    for amount, there in zip(size, free, strict=True):  # noqa: SIM110 -- all() takes twice as long
        if amount > there:
            return False
    return True


class Mode(IntEnum):
    """How Kueue could assign a flavor, the worst first (``flavorassigner.preemptionMode``)."""

    NO_FIT = 0
    NO_CANDIDATES = 1
    """With preemption, but there is nothing to preempt."""
    PREEMPT = 2
    RECLAIM = 3
    """With preemption in other queues only."""
    FIT = 4


Assess = Callable[[tuple[str, str], int], tuple[Mode, int]]
"""How an amount of a flavor and resource could be assigned, and from how many levels up; 0 is not borrowed."""


@dataclass(frozen=True, slots=True)
class Terms:
    """Parameters of Kueue's choice in one ClusterQueue."""

    assess: Assess
    stop_at_borrowing: bool = True
    stop_at_preemption: bool = False
    prefer_preemption: bool = False
    """To borrowing, if no flavor is without both."""

    def rank(self, mode: Mode, borrowed: int) -> tuple[int, int, int]:
        """The better, the higher."""
        viable = min(mode, Mode.PREEMPT)
        return (viable, -borrowed, mode) if self.prefer_preemption else (viable, mode, -borrowed)

    def stops(self, mode: Mode, borrowed: int) -> bool:
        """Whether Kueue takes such a flavor without a look at those after it."""
        # The opposite of shouldTryNextFlavor.
        if mode < Mode.PREEMPT or (mode is not Mode.FIT and not self.stop_at_preemption):
            return False
        return not borrowed or self.stop_at_borrowing


@dataclass(frozen=True, slots=True)
class Step:
    """The flavor of a demand, its worst mode, and the resources that do not fit now."""

    flavor: str
    mode: Mode
    waits: frozenset[str] = field(default=frozenset(), compare=False)


def greedy(demands: Sequence[Demand], terms: Terms) -> tuple[Step, ...] | None:
    """Kueue's assignment of each demand at its first try, in order; None if one gets nothing."""
    return next(tries(demands, terms))


def tries(demands: Sequence[Demand], terms: Terms) -> Iterator[tuple[Step, ...] | None]:
    """Kueue's assignments at successive tries, until they repeat."""
    begun: set[tuple[int, ...]] = set()
    starts = (0,) * len(demands)
    while starts not in begun and len(begun) < _MOST_TRIES:
        begun.add(starts)
        steps, starts = _walk(demands, terms, starts)
        yield steps


def _walk(
    demands: Sequence[Demand], terms: Terms, starts: Sequence[int]
) -> tuple[tuple[Step, ...] | None, tuple[int, ...]]:
    """One try, and the start of the next one for each demand."""
    taken: dict[tuple[str, str], int] = {}
    steps: list[Step] = []
    following = [0] * len(demands)
    for index, (demand, start) in enumerate(zip(demands, starts, strict=True)):
        step, following[index] = _try(demand, terms, taken, start)
        # assignFlavors returns here, so that those behind it start at their first flavor, too.
        if step.mode is Mode.NO_FIT:
            # A podset that fails has no flavors in the assignment: its next try starts at the first of each group.
            if demand.sharing >= 0:
                following = [
                    0 if other.sharing == demand.sharing else at for other, at in zip(demands, following, strict=True)
                ]
            return None, tuple(following)
        for resource, amount in demand.amounts.items():
            pair = (step.flavor, resource)
            taken[pair] = taken.get(pair, 0) + amount
        steps.append(step)
    return tuple(steps), tuple(following)


def _try(demand: Demand, terms: Terms, taken: Mapping[tuple[str, str], int], start: int) -> tuple[Step, int]:
    """The first flavor at which Kueue stops, or the best of all; and where it continues."""
    best, best_rank = Step("", Mode.NO_FIT), terms.rank(Mode.NO_FIT, 0)
    among = demand.among or demand.flavors
    # Kueue counts positions among all flavors of the group, also those that these pods may not use.
    for index, flavor in enumerate(among[start:], start=start + 1):
        if flavor not in demand.flavors:
            continue
        step, borrowed = _assess(flavor, demand.amounts, terms, taken)
        if terms.stops(step.mode, borrowed):
            # After the last flavor the next try starts with the first.
            return step, index % len(among)
        rank = terms.rank(step.mode, borrowed)
        if step.mode is not Mode.NO_FIT and rank > best_rank:
            best, best_rank = step, rank
    return best, 0


def _assess(flavor: str, amounts: Amounts, terms: Terms, taken: Mapping[tuple[str, str], int]) -> tuple[Step, int]:
    """The worst mode of the resources in one flavor, and the borrowing of that resource."""
    worst, borrowed = Mode.FIT, 0
    waits = set()
    for resource, amount in amounts.items():
        pair = (flavor, resource)
        mode, level = terms.assess(pair, taken.get(pair, 0) + amount)
        if mode is Mode.NO_FIT:
            return Step(flavor, mode), level
        if mode is not Mode.FIT:
            waits.add(resource)
        if terms.rank(mode, level) < terms.rank(worst, borrowed):
            worst, borrowed = mode, level
    return Step(flavor, worst, frozenset(waits)), borrowed
