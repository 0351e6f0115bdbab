"""The smallest increase of quota with which a gang would fit: more of one flavor."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gangctl.fit.search import Available, Demand, search

_TRIED: Final = 6
_SUMS: Final = 4096
_BUDGET: Final = 12_000
"""Steps of all searches together: an explanation must not cost more than the verdict."""

_Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Relief:
    """A sufficient increase of one flavor: amounts by resource."""

    flavor: str
    more: Mapping[str, int]


def relief(demands: Sequence[Demand], available: Available, budget: int = _BUDGET) -> Relief | None:
    """The least sufficient increase of one flavor for demands of one part that do not fit.

    Of one resource if that helps, else of several. None if no single flavor helps, or if the search runs
    out of steps.
    """
    trial = _Trial(demands, available, budget)
    singles = sorted((trial.share(pair, need), pair) for pair, need in trial.missing.items())
    found = trial.best([(pair,) for _, pair in singles[:_TRIED]])
    if found is not None:
        return found
    flavors = list(dict.fromkeys(flavor for _, (flavor, _) in singles))[:_TRIED]
    whole = [tuple(pair for pair in trial.missing if pair[0] == flavor) for flavor in flavors]
    return trial.best([pairs for pairs in whole if len(pairs) > 1])


class _Trial:
    """Searches with increased quota, as many as the budget allows."""

    def __init__(self, demands: Sequence[Demand], available: Available, budget: int) -> None:
        self._demands = demands
        self._available = available
        self._left = budget
        self.missing = {
            pair: need for pair in _pairs(demands) if (need := _missing(demands, available, pair)) is not None
        }

    def share(self, pair: _Pair, amount: int) -> float:
        """An amount relative to the existing one."""
        return amount / (self._available.get(pair) or 1)

    def best(self, choices: Sequence[tuple[_Pair, ...]]) -> Relief | None:
        """The least sufficient increase of these pairs; the first choices are the likeliest."""
        found: Relief | None = None
        least = float("inf")
        for pairs in choices:
            if sum(self.share(pair, self.missing[pair]) for pair in pairs) >= least:
                continue
            if not self._fits({**self._available, **dict.fromkeys(pairs)}):
                continue
            more = self._smallest(pairs)
            if self._left <= 0:
                # The result of the last steps may be more than enough.
                return found
            share = sum(self.share(pair, amount) for pair, amount in more.items())
            if share < least:
                found = Relief(pairs[0][0], {resource: amount for (_, resource), amount in more.items() if amount})
                least = share
        return found

    def _smallest(self, pairs: tuple[_Pair, ...]) -> dict[_Pair, int]:
        """Increase of each pair, one after the other, while later ones are unlimited."""
        wider: dict[_Pair, int | None] = {**self._available, **dict.fromkeys(pairs)}
        more = {}
        for pair in pairs:
            there = self._available.get(pair, 0) or 0
            more[pair] = self._least(wider, pair, there)
            wider[pair] = there + more[pair]
        return more

    def _least(self, available: Available, pair: _Pair, there: int) -> int:
        sizes = [demand.amounts.get(pair[1], 0) for demand in self._demands]
        candidates = _candidates(sizes, there, self.missing[pair])

        def enough(more: int) -> bool:
            return self._fits({**available, pair: there + more})

        if len(candidates) == 1 or enough(candidates[0]):
            return candidates[0]
        return candidates[bisect_left(candidates, True, lo=1, hi=len(candidates) - 1, key=enough)]

    def _fits(self, available: Available) -> bool:
        if self._left <= 0:
            return False
        found = search(self._demands, available, self._left)
        self._left -= found.steps
        return found.choice is not None


def _candidates(sizes: Sequence[int], there: int, need: int) -> list[int]:
    """Candidates for the least increase, in order; the last is enough for all."""
    sums = {0}
    for size in sizes:
        sums |= {each + size for each in sums}
        if len(sums) > _SUMS:
            total = sum(sizes)
            sums = {there + need + (total - there - need) * n // _SUMS for n in range(_SUMS)} | {total}
            break
    return sorted({need} | {each - there for each in sums if each - there >= need})


def _pairs(demands: Sequence[Demand]) -> list[_Pair]:
    pairs = ((flavor, resource) for demand in demands for flavor in demand.flavors for resource in demand.amounts)
    return list(dict.fromkeys(pairs))


def _missing(demands: Sequence[Demand], available: Available, pair: _Pair) -> int | None:
    """A lower bound of the missing amount of a pair, None if it is unlimited.

    It is the shortage over all flavors, and that of demands with no other flavor.
    """
    flavor, resource = pair
    there = available.get(pair, 0)
    if there is None:
        return None
    askers = [demand for demand in demands if demand.amounts.get(resource, 0) > 0]
    bound = 0
    amounts = [available.get((name, resource), 0) for name in {name for demand in askers for name in demand.flavors}]
    if None not in amounts:
        bound = sum(demand.amounts[resource] for demand in askers) - sum(amount or 0 for amount in amounts)
    captive = [
        demand.amounts[resource]
        for demand in askers
        if not any(_alone(demand, name, available) for name in demand.flavors if name != flavor)
        and flavor in demand.flavors
    ]
    return max(0, bound, sum(captive) - there)


def _alone(demand: Demand, flavor: str, available: Available) -> bool:
    amounts = ((available.get((flavor, resource), 0), amount) for resource, amount in demand.amounts.items())
    return all(there is None or amount <= there for there, amount in amounts)
