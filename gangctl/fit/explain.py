"""Why a gang does not fit, in one sentence, and the smallest change that would help."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gangctl.fit.candidates import Candidate
from gangctl.fit.demands import Member, Needs
from gangctl.fit.now import Capacity, when_empty
from gangctl.fit.quotas import by_resource
from gangctl.fit.relief import relief
from gangctl.fit.search import Available, Demand, greedy
from gangctl.fit.tree import Node, Pair
from gangctl.fit.words import figure, joined, quoted, show, show_all
from gangctl.kueue.objects import Amounts, ClusterQueue, QueuedWorkload

BLOCKS = "; the queue is StrictFIFO: it would stay at the head and block every workload behind it"
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Gang:
    """A JobSet's podsets, and their demands on a ClusterQueue."""

    members: Sequence[Member]
    needs: Needs
    queue: ClusterQueue
    node: Node
    """The queue in the tree of quotas."""
    capacity: Capacity

    def names(self, indexes: Sequence[int]) -> str:
        """Podsets by name, quoted."""
        return quoted(self.members[index].podset.name for index in indexes)

    def part(self, number: int) -> tuple[list[Demand], list[tuple[int, ...]]]:
        """Demands of one resource group, and their podsets."""
        chosen = [index for index, demand in enumerate(self.needs.demands) if demand.part == number]
        return [self.needs.demands[index] for index in chosen], [self.needs.owners[index] for index in chosen]


def undeclared(gang: Gang) -> str:
    """Resources that no resource group of the queue has."""
    parts = [
        f"{gang.names(indexes)} {_ask(indexes)} for {resource}" for resource, indexes in gang.needs.undeclared.items()
    ]
    return (
        f'{joined(parts)}, which no resource group of ClusterQueue "{gang.queue.name}" has; '
        "add it there, or leave the request out"
    )


def no_flavor(gang: Gang) -> str:
    """Podsets that may use no flavor."""
    parts = []
    for demand, owners in zip(gang.needs.demands, gang.needs.owners, strict=True):
        if not demand.flavors:
            parts.append(f"no flavor of {_list(demand.amounts)} is one for {gang.names(owners)} ({_why(gang, owners)})")
    return "; ".join(parts)


def _why(gang: Gang, owners: Sequence[int]) -> str:
    reasons = {name: why for index in owners for name, why in gang.needs.refused[index].items()}
    shown = [f"{name}: {why}" for name, why in list(reasons.items())[:_NAMED]]
    if len(reasons) > _NAMED:
        shown.append(f"{len(reasons) - _NAMED} more")
    return "; ".join(shown) or "the group has none"


def exceeds(gang: Gang, parts: Sequence[int]) -> str:
    """Resource groups in which no choice of flavors is enough."""
    return "; ".join(_exceeds(gang, *gang.part(part)) for part in parts)


def _exceeds(gang: Gang, demands: Sequence[Demand], owners: Sequence[tuple[int, ...]]) -> str:
    available = gang.capacity.ceiling
    for demand, indexes in zip(demands, owners, strict=True):
        if not any(_short(demand, flavor, available) == {} for flavor in demand.flavors):
            return f"{_one(gang, demand, indexes)}; {_advice(gang, demands, owners)}"
    return f"{_several(gang, demands, owners)}; {_advice(gang, demands, owners)}"


def _one(gang: Gang, demand: Demand, owners: Sequence[int]) -> str:
    """One demand that exceeds every flavor, with the nearest flavor."""
    available = gang.capacity.ceiling
    short = {flavor: _short(demand, flavor, available) for flavor in demand.flavors}
    nearest = min(short, key=lambda flavor: (_far(short[flavor], demand.amounts), demand.flavors.index(flavor)))
    resource = max(short[nearest], key=lambda name: short[nearest][name] / demand.amounts[name])
    ceiling = gang.capacity.ceilings[nearest, resource]
    others = "" if len(short) == 1 else ", nor have the other flavors room for all of it"
    return (
        f"{gang.names(owners)} {_ask(owners)} for {show(resource, demand.amounts[resource])} in all, "
        f'and flavor "{nearest}" can never give more than {figure(resource, ceiling.amount or 0)}'
        f" ({ceiling.limit}){others}"
    )


def _several(gang: Gang, demands: Sequence[Demand], owners: Sequence[tuple[int, ...]]) -> str:
    """Demands that fit separately but not together."""
    available = gang.capacity.ceiling
    flavors = list(dict.fromkeys(flavor for demand in demands for flavor in demand.flavors))
    names = gang.names([index for indexes in owners for index in indexes])
    sums: dict[str, int] = {}
    for demand in demands:
        for resource, amount in demand.amounts.items():
            sums[resource] = sums.get(resource, 0) + amount
    for resource, total in sums.items():
        amounts = [available.get((flavor, resource), 0) for flavor in flavors]
        there = sum(amount or 0 for amount in amounts)
        if None not in amounts and total > there:
            limit = f" ({gang.capacity.ceilings[flavors[0], resource].limit})" if len(flavors) == 1 else ""
            which = "flavor" if len(flavors) == 1 else "flavors"
            return (
                f"{names} ask for {show(resource, total)} together, and {which} {quoted(flavors)} can never give "
                f"more than {figure(resource, there)}{limit}"
            )
    each = joined([_sizes(gang, demand, indexes) for demand, indexes in zip(demands, owners, strict=True)])
    limits = joined([f'"{flavor}" ({_ceilings(gang, flavor)})' for flavor in flavors[:_NAMED]])
    return f"{each} do not fit together in any choice of flavors: {limits} at most"


def _sizes(gang: Gang, demand: Demand, owners: Sequence[int]) -> str:
    return f"{gang.names(owners)} ({show_all(demand.amounts)})"


def _ceilings(gang: Gang, flavor: str) -> str:
    amounts = {pair[1]: each.amount for pair, each in gang.capacity.ceilings.items() if pair[0] == flavor}
    return joined([f"{'any' if n is None else figure(name, n)} {name}" for name, n in amounts.items()])


def _advice(gang: Gang, demands: Sequence[Demand], owners: Sequence[tuple[int, ...]]) -> str:
    """Changes that would help."""
    found = relief(demands, gang.capacity.ceiling)
    more = f'{show_all(found.more)} more in flavor "{found.flavor}" would do' if found else ""
    fewer = _fewer(gang, demands[0], owners[0]) if len(demands) == 1 and len(owners[0]) == 1 else ""
    return ", and so would ".join(part for part in (more, fewer) if part) or "ask for less, or split the JobSet"


def _fewer(gang: Gang, demand: Demand, owners: Sequence[int]) -> str:
    """Number of pods of a single podset that would fit."""
    member = gang.members[owners[0]]
    most = 0
    for flavor in demand.flavors:
        pods = member.podset.pods
        for resource in demand.amounts:
            there = gang.capacity.ceilings[flavor, resource].amount
            if there is not None:
                pods = min(pods, there // member.requests[resource])
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


def _far(short: Amounts, of: Amounts) -> float:
    return max((amount / of[resource] for resource, amount in short.items()), default=0.0)


def late(gang: Gang, choice: Sequence[str], *, movable: bool) -> str:
    """It fits, but not at the first try; ``movable`` is whether the replicated jobs may be reordered."""
    return (
        f"it fits ({_where(gang, choice)}), but Kueue, which gives flavors in the order of the replicated jobs, finds "
        "this only when it tries again, and others that come and go may make it begin anew; "
        f"{_better(gang, movable=movable)}"
    )


def missed(gang: Gang, choice: Sequence[str], *, movable: bool) -> str:
    """It would fit, but Kueue does not find it at any try."""
    return (
        f"it would fit ({_where(gang, choice)}), but Kueue gives flavors in the order of the replicated jobs, and does "
        f"not find this at any of its tries; {_better(gang, movable=movable)}"
    )


def _where(gang: Gang, choice: Sequence[str]) -> str:
    pairs = zip(gang.needs.owners, choice, strict=True)
    return joined([f'{gang.names(owners)} in "{flavor}"' for owners, flavor in pairs if flavor])


def _better(gang: Gang, *, movable: bool) -> str:
    order = _order(gang) if movable else None
    return f"list the replicated jobs as {order}" if order else "pin them by a nodeSelector with the flavors' labels"


def _order(gang: Gang) -> str | None:
    """An order with which Kueue would find it: the largest first."""
    demands, owners = gang.needs.demands, gang.needs.owners
    groups = list(dict.fromkeys(owners))

    def weight(group: tuple[int, ...]) -> float:
        own = [demand for demand, whose in zip(demands, owners, strict=True) if whose == group]
        available = gang.capacity.ceiling
        shares = [
            amount / (available.get((flavor, resource), 0) or amount)
            for demand in own
            for flavor in demand.flavors
            for resource, amount in demand.amounts.items()
            if amount
        ]
        return max(shares, default=0.0)

    ranked = sorted(groups, key=weight, reverse=True)
    walk = [demand for group in ranked for demand, whose in zip(demands, owners, strict=True) if whose == group]
    if greedy(walk, when_empty(gang.queue, gang.node, gang.capacity)) is None:
        return None
    return ", ".join(gang.members[index].podset.name for group in ranked for index in group)


def waiting(short: Mapping[Pair, int], problem: str, holders: Sequence[tuple[QueuedWorkload, Amounts]]) -> str:
    """What is missing now, and who has it: amounts, or a domain by ``problem``."""
    text = _missing(short, problem)
    if holders:
        text += f", in use by {quoted(_owner(holder) for holder, _ in holders)}"
    return text


def preempting(short: Mapping[Pair, int], problem: str, preempted: Sequence[Candidate]) -> str:
    """What is missing now, and the workloads that Kueue would preempt for it."""
    freed: dict[str, int] = {}
    for each in preempted:
        for resource, amount in by_resource(each.held).items():
            freed[resource] = freed.get(resource, 0) + amount
    names = quoted(_owner(each.workload) for each in preempted)
    return f"{_missing(short, problem)}; Kueue would preempt {names} for it, which frees {show_all(freed)}"


def _missing(short: Mapping[Pair, int], problem: str) -> str:
    if problem and not short:
        return f"there is quota, but {problem}"
    missing = joined([f'{show(resource, amount)} in flavor "{flavor}"' for (flavor, resource), amount in short.items()])
    return f"{missing or 'quota that others borrow'} short now"


def _owner(workload: QueuedWorkload) -> str:
    return f"{workload.namespace}/{workload.owner_name or workload.name}"


def _ask(indexes: Sequence[int]) -> str:
    return "asks" if len(indexes) == 1 else "ask"


def _list(amounts: Amounts) -> str:
    return joined(list(amounts))
