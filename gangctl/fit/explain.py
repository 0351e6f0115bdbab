"""Why a gang does not fit, in one sentence, and the smallest change that would help: more quota of a flavor."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gangctl.api.quantity import figure
from gangctl.fit.candidates import Candidate
from gangctl.fit.demands import Member, Needs
from gangctl.fit.preemption import when_empty
from gangctl.fit.quotas import Capacity, by_resource
from gangctl.fit.report import joined, meant, quoted, show, show_all
from gangctl.fit.search import Available, Demand, greedy, pairs_of, search, totals
from gangctl.fit.tree import Pair, TreeNode
from gangctl.kueue.objects import Amounts, ClusterQueue, QueuedWorkload

_TRIED: Final = 6
_SUMS: Final = 4096
_BUDGET: Final = 12_000
"""Steps of all searches together: an explanation must not cost more than the verdict."""


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
    single = trial.best([(pair,) for _, pair in singles[:_TRIED]])
    if single is not None:
        return single
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
            pair: need for pair in pairs_of(demands) if (need := _shortage(demands, available, pair)) is not None
        }

    def share(self, pair: Pair, amount: int) -> float:
        """An amount relative to the existing one."""
        return amount / (self._available.get(pair) or 1)

    def best(self, choices: Sequence[tuple[Pair, ...]]) -> Relief | None:
        """The least sufficient increase of these pairs; the first choices are the likeliest."""
        increase: Relief | None = None
        least = float("inf")
        for pairs in choices:
            # What is missing is a lower bound: the increase of this choice cannot be less.
            if sum(self.share(pair, self.missing[pair]) for pair in pairs) >= least:
                continue
            if not self._fits({**self._available, **dict.fromkeys(pairs)}):
                continue
            more = self._smallest(pairs)
            if self._left <= 0:
                # The result of the last steps may be more than enough.
                return increase
            share = sum(self.share(pair, amount) for pair, amount in more.items())
            if share < least:
                increase = Relief(pairs[0][0], {resource: amount for (_, resource), amount in more.items() if amount})
                least = share
        return increase

    def _smallest(self, pairs: tuple[Pair, ...]) -> dict[Pair, int]:
        """Increase of each pair, one after the other, while later ones are unlimited."""
        wider: dict[Pair, int | None] = {**self._available, **dict.fromkeys(pairs)}
        more = {}
        for pair in pairs:
            there = self._available.get(pair, 0) or 0
            more[pair] = self._least(wider, pair, there)
            wider[pair] = there + more[pair]
        return more

    def _least(self, available: Available, pair: Pair, there: int) -> int:
        sizes = [demand.amounts.get(pair[1], 0) for demand in self._demands]
        candidates = _candidates(sizes, there, self.missing[pair])

        def enough(more: int) -> bool:
            return self._fits({**available, pair: there + more})

        # The lower bound may be enough already, which saves the other searches.
        if len(candidates) == 1 or enough(candidates[0]):
            return candidates[0]
        # Unlike Kueue's walk, the search tries all choices, so more quota never makes it fail.
        return candidates[bisect_left(candidates, True, lo=1, hi=len(candidates) - 1, key=enough)]

    def _fits(self, available: Available) -> bool:
        if self._left <= 0:
            return False
        answer = search(self._demands, available, self._left)
        self._left -= answer.steps
        return answer.choice is not None


def _candidates(sizes: Sequence[int], there: int, need: int) -> list[int]:
    """Candidates for the least increase, in order; the last is enough for all."""
    # With the least increase some demands fill the flavor to the last unit: it is their sum, less what is there.
    sums = {0}
    for size in sizes:
        sums |= {total + size for total in sums}
        # The sums double with each size; evenly spaced amounts stand for too many.
        if len(sums) > _SUMS:
            total = sum(sizes)
            sums = {there + need + (total - there - need) * n // _SUMS for n in range(_SUMS)} | {total}
            break
    return sorted({need} | {total - there for total in sums if total - there >= need})


def _shortage(demands: Sequence[Demand], available: Available, pair: Pair) -> int | None:
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
        if all(_short(demand, name, available) for name in demand.flavors if name != flavor)
        and flavor in demand.flavors
    ]
    return max(0, bound, sum(captive) - there)


BLOCKS = "; the queue is StrictFIFO: it would stay at the head and block every workload behind it"
_NAMED = 3


_Asked = tuple[Demand, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class GangDemands:
    """A JobSet's podsets, and their demands on a ClusterQueue."""

    members: Sequence[Member]
    needs: Needs
    queue: ClusterQueue
    node: TreeNode
    """The queue in the tree of quotas."""
    capacity: Capacity

    def names(self, indexes: Sequence[int]) -> str:
        """Podsets by name, quoted."""
        return quoted(self.members[index].podset.name for index in indexes)

    @property
    def asked(self) -> list[_Asked]:
        """Demands with their podsets."""
        return list(zip(self.needs.demands, self.needs.owners, strict=True))


def undeclared(gang: GangDemands) -> str:
    """Resources that no resource group of the queue has."""
    parts = [
        f"{gang.names(indexes)} {_ask(indexes)} for {resource}" for resource, indexes in gang.needs.undeclared.items()
    ]
    covered = {resource for group in gang.queue.groups for resource in group.resources}
    near = next(filter(None, (meant(resource, covered) for resource in gang.needs.undeclared)), "")
    return (
        f'{joined(parts)}, which no resource group of ClusterQueue "{gang.queue.name}" has'
        f"{near or '; add it there, or leave the request out'}"
    )


def stopped(gang: GangDemands, index: int) -> str:
    """The podset after which Kueue assigns nothing."""
    member = gang.members[index]
    return (
        f"{quoted([member.podset.name])} asks only for {joined(list(member.requests))}, which no resource group of "
        f'ClusterQueue "{gang.queue.name}" has: Kueue gives no flavors to the replicated jobs after it, and admits '
        "none of them; list it last, or have it ask for a resource of the queue, too"
    )


def no_flavor(gang: GangDemands) -> str:
    """Podsets that may use no flavor."""
    parts = []
    for demand, owners in gang.asked:
        if demand.flavors:
            continue
        reasons = {name: why for index in owners for name, why in gang.needs.refused[index].items()}
        shown = [f"{name}: {why}" for name, why in list(reasons.items())[:_NAMED]]
        if len(reasons) > _NAMED:
            shown.append(f"{len(reasons) - _NAMED} more")
        why = "; ".join(shown) or "the group has none"
        parts.append(f"no flavor of {joined(list(demand.amounts))} is one for {gang.names(owners)} ({why})")
    return "; ".join(parts)


def exceeds(gang: GangDemands, parts: Sequence[int]) -> str:
    """Resource groups in which no choice of flavors is enough."""
    available, texts = gang.capacity.ceiling, []
    for part in parts:
        asked = [one for one in gang.asked if one[0].part == part and any(one[0].amounts.values())]
        alone = [one for one in asked if all(_short(one[0], flavor, available) for flavor in one[0].flavors)]
        texts.append(f"{_one(gang, *alone[0]) if alone else _several(gang, asked)}; {_advice(gang, asked)}")
    return "; ".join(texts)


def _one(gang: GangDemands, demand: Demand, owners: Sequence[int]) -> str:
    """One demand that exceeds every flavor, with the nearest flavor."""
    available = gang.capacity.ceiling
    short = {flavor: _short(demand, flavor, available) for flavor in demand.flavors}

    def distance(flavor: str) -> tuple[float, int]:
        shares = [amount / demand.amounts[resource] for resource, amount in short[flavor].items()]
        return max(shares, default=0.0), demand.flavors.index(flavor)

    nearest = min(short, key=distance)
    resource = max(short[nearest], key=lambda name: short[nearest][name] / demand.amounts[name])
    ceiling = gang.capacity.ceilings[nearest, resource]
    others = "" if len(short) == 1 else ", nor have the other flavors room for all of it"
    return (
        f"{gang.names(owners)} {_ask(owners)} for {show(resource, demand.amounts[resource])} in all, "
        f'and flavor "{nearest}" can never give more than {figure(resource, ceiling.amount or 0)}'
        f" ({ceiling.limit}){others}"
    )


def _several(gang: GangDemands, asked: Sequence[_Asked]) -> str:
    """Demands that fit separately but not together."""
    available, demands = gang.capacity.ceiling, [demand for demand, _ in asked]
    flavors = list(dict.fromkeys(flavor for demand in demands for flavor in demand.flavors))
    names = gang.names([index for _, owners in asked for index in owners])
    for resource, total in totals(demands).items():
        amounts = [available.get((flavor, resource), 0) for flavor in flavors]
        there = sum(amount or 0 for amount in amounts)
        if None not in amounts and total > there:
            limit = f" ({gang.capacity.ceilings[flavors[0], resource].limit})" if len(flavors) == 1 else ""
            which = "flavor" if len(flavors) == 1 else "flavors"
            return (
                f"{names} ask for {show(resource, total)} together, and {which} {quoted(flavors)} can never give "
                f"more than {figure(resource, there)}{limit}"
            )
    sizes = joined([f"{gang.names(owners)} ({show_all(demand.amounts)})" for demand, owners in asked])
    limits = []
    for flavor in flavors[:_NAMED]:
        most = {resource: amount for (name, resource), amount in available.items() if name == flavor}
        shown = [f"{'any' if n is None else figure(resource, n)} {resource}" for resource, n in most.items()]
        limits.append(f'"{flavor}" ({joined(shown)})')
    return f"{sizes} do not fit together in any choice of flavors: {joined(limits)} at most"


def _advice(gang: GangDemands, asked: Sequence[_Asked]) -> str:
    """Changes that would help."""
    increase = relief([demand for demand, _ in asked], gang.capacity.ceiling)
    more = f'{show_all(increase.more)} more in flavor "{increase.flavor}" would do' if increase else ""
    # Where several podsets share the quota, fewer pods of any of them could help.
    fewer = _fewer(gang, *asked[0]) if len(asked) == 1 and len(asked[0][1]) == 1 else ""
    return ", and so would ".join(part for part in (more, fewer) if part) or "ask for less, or split the JobSet"


def _fewer(gang: GangDemands, demand: Demand, owners: Sequence[int]) -> str:
    """Number of pods of a single podset that would fit."""
    member = gang.members[owners[0]]
    most = 0
    for flavor in demand.flavors:
        pods = member.podset.pods
        for resource, asked in member.requests.items():
            there = gang.capacity.ceilings[flavor, resource].amount if resource in demand.amounts and asked else None
            if there is not None:
                pods = min(pods, there // asked)
        most = max(most, pods)
    return f"{show('pods', most)} instead of {member.podset.pods}" if most else ""


def _short(demand: Demand, flavor: str, available: Available) -> dict[str, int]:
    """Amounts by which a flavor is too small for a demand alone."""
    short = {}
    for resource, amount in demand.amounts.items():
        there = available.get((flavor, resource), 0)
        if there is not None and amount > there:
            short[resource] = amount - there
    return short


def late(gang: GangDemands, choice: Sequence[str], *, movable: bool) -> str:
    """It fits, but not at the first try; ``movable`` is whether the replicated jobs may be reordered."""
    return (
        f"it fits ({_where(gang, choice)}), but Kueue, which gives flavors in the order of the replicated jobs, finds "
        "this only when it tries again, and others that come and go may make it begin anew; "
        f"{_better(gang, movable=movable)}"
    )


def missed(gang: GangDemands, choice: Sequence[str], *, movable: bool) -> str:
    """It would fit, but Kueue does not find it at any try."""
    return (
        f"it would fit ({_where(gang, choice)}), but Kueue gives flavors in the order of the replicated jobs, and does "
        f"not find this at any of its tries; {_better(gang, movable=movable)}"
    )


def _where(gang: GangDemands, choice: Sequence[str]) -> str:
    pairs = zip(gang.needs.owners, choice, strict=True)
    return joined([f'{gang.names(owners)} in "{flavor}"' for owners, flavor in pairs if flavor])


def _better(gang: GangDemands, *, movable: bool) -> str:
    """An order with which Kueue would find it, the largest first, or another remedy."""
    available = gang.capacity.ceiling
    by_group: dict[tuple[int, ...], list[Demand]] = {}
    for demand, owners in gang.asked:
        by_group.setdefault(owners, []).append(demand)

    def weight(group: tuple[int, ...]) -> float:
        # Of an unlimited flavor any amount is no share at all, of one that lacks the resource the whole.
        shares = [
            amount / (there or amount)
            for demand in by_group[group]
            for flavor in demand.flavors
            for resource, amount in demand.amounts.items()
            if amount and (there := available.get((flavor, resource), 0)) is not None
        ]
        return max(shares, default=0.0)

    ranked = sorted(by_group, key=weight, reverse=True)
    walk = [demand for group in ranked for demand in by_group[group]]
    # The largest first is a guess: it is recommended only where Kueue's own walk succeeds with it.
    if not movable or greedy(walk, when_empty(gang.queue, gang.node, gang.capacity)) is None:
        return "pin them by a nodeSelector with the flavors' labels"
    order = ", ".join(gang.members[index].podset.name for group in ranked for index in group)
    return f"list the replicated jobs as {order}"


def waiting(
    short: Mapping[Pair, int], problem: str, holders: Sequence[tuple[QueuedWorkload, Amounts]], reader: str | None
) -> str:
    """What is missing now, and who has it, as ``reader`` may know: amounts, or a domain by ``problem``."""
    text = _missing(short, problem)
    if holders:
        text += f", in use by {quoted(holder.title_for(reader) for holder, _ in holders)}"
    return text


def preempting(short: Mapping[Pair, int], problem: str, preempted: Sequence[Candidate], reader: str | None) -> str:
    """What is missing now, and the workloads that Kueue would preempt for it."""
    freed: Counter[str] = Counter()
    for one in preempted:
        freed.update(by_resource(one.held))
    names = quoted(one.workload.title_for(reader) for one in preempted)
    return f"{_missing(short, problem)}; Kueue would preempt {names} for it, which frees {show_all(freed)}"


def _missing(short: Mapping[Pair, int], problem: str) -> str:
    if problem and not short:
        return f"there is quota, but {problem}"
    missing = joined([f'{show(resource, amount)} in flavor "{flavor}"' for (flavor, resource), amount in short.items()])
    return f"{missing or 'quota that others borrow'} short now"


def _ask(indexes: Sequence[int]) -> str:
    return "asks" if len(indexes) == 1 else "ask"
