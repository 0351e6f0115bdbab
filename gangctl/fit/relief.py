"""The smallest change of quota that would let a gang in: more of one flavor."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gangctl.fit.search import Demand, Room, search

_TRIED: Final = 6
_SUMS: Final = 4096
_BUDGET: Final = 2000
"""Steps of one search: an explanation must not cost more than the answer."""

_Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Relief:
    """So much more in one flavor is enough: amounts by resource."""

    flavor: str
    more: Mapping[str, int]


def relief(demands: Sequence[Demand], room: Room) -> Relief | None:
    """The least that, added to one flavor, would be enough for demands of one part that do not fit.

    One resource of it if that helps, else several. None where one flavor alone does not help, or where that is too
    hard to tell.
    """
    missing = {pair: need for pair in _pairs(demands) if (need := _missing(demands, room, pair)) is not None}
    singles = sorted((_share(room, pair, need), pair) for pair, need in missing.items())
    found = _best(demands, room, missing, [(pair,) for _, pair in singles[:_TRIED]])
    if found is not None:
        return found
    flavors = list(dict.fromkeys(flavor for _, (flavor, _) in singles))[:_TRIED]
    whole = [tuple(pair for pair in missing if pair[0] == flavor) for flavor in flavors]
    return _best(demands, room, missing, [pairs for pairs in whole if len(pairs) > 1])


def _best(
    demands: Sequence[Demand], room: Room, missing: Mapping[_Pair, int], choices: Sequence[tuple[_Pair, ...]]
) -> Relief | None:
    best: Relief | None = None
    least = float("inf")
    for pairs in choices:
        if not _fits(demands, {**room, **dict.fromkeys(pairs)}):
            continue
        more = _smallest(demands, room, missing, pairs)
        share = sum(_share(room, pair, amount) for pair, amount in more.items())
        if share < least:
            best = Relief(pairs[0][0], {resource: amount for (_, resource), amount in more.items() if amount})
            least = share
    return best


def _smallest(
    demands: Sequence[Demand], room: Room, missing: Mapping[_Pair, int], pairs: tuple[_Pair, ...]
) -> dict[_Pair, int]:
    """How much more of each pair, one after the other, while those that come later are without bound."""
    wider: dict[_Pair, int | None] = {**room, **dict.fromkeys(pairs)}
    more = {}
    for pair in pairs:
        there = room.get(pair, 0) or 0
        more[pair] = _least(demands, wider, pair, there, missing[pair])
        wider[pair] = there + more[pair]
    return more


def _least(demands: Sequence[Demand], room: Room, pair: _Pair, there: int, need: int) -> int:
    """The least that is enough, at least ``need``."""
    candidates = _candidates([demand.amounts.get(pair[1], 0) for demand in demands], there, need)

    def enough(more: int) -> bool:
        return _fits(demands, {**room, pair: there + more})

    return candidates[bisect_left(candidates, True, hi=len(candidates) - 1, key=enough)]


def _candidates(sizes: Sequence[int], there: int, need: int) -> list[int]:
    """What may be the least, in order; the last is enough for all. A flavor is full with some of the demands in it."""
    sums = {0}
    for size in sizes:
        sums |= {each + size for each in sums}
        if len(sums) > _SUMS:
            total = sum(sizes)
            sums = {there + need + (total - there - need) * n // _SUMS for n in range(_SUMS)} | {total}
            break
    return sorted({need} | {each - there for each in sums if each - there >= need})


def _fits(demands: Sequence[Demand], room: Room) -> bool:
    return search(demands, room, _BUDGET).choice is not None


def _share(room: Room, pair: _Pair, amount: int) -> float:
    return amount / (room.get(pair) or 1)


def _pairs(demands: Sequence[Demand]) -> list[_Pair]:
    pairs = ((flavor, resource) for demand in demands for flavor in demand.flavors for resource in demand.amounts)
    return list(dict.fromkeys(pairs))


def _missing(demands: Sequence[Demand], room: Room, pair: _Pair) -> int | None:
    """The least that can be missing of a pair, None of one without bound.

    It is what the sum over all flavors lacks, and what those lack who can go nowhere else.
    """
    flavor, resource = pair
    there = room.get(pair, 0)
    if there is None:
        return None
    askers = [demand for demand in demands if demand.amounts.get(resource, 0) > 0]
    bound = 0
    amounts = [room.get((name, resource), 0) for name in {name for demand in askers for name in demand.flavors}]
    if None not in amounts:
        bound = sum(demand.amounts[resource] for demand in askers) - sum(amount or 0 for amount in amounts)
    captive = [
        demand.amounts[resource]
        for demand in askers
        if not any(_alone(demand, name, room) for name in demand.flavors if name != flavor) and flavor in demand.flavors
    ]
    return max(0, bound, sum(captive) - there)


def _alone(demand: Demand, flavor: str, room: Room) -> bool:
    amounts = ((room.get((flavor, resource), 0), amount) for resource, amount in demand.amounts.items())
    return all(there is None or amount <= there for there, amount in amounts)
