"""Who has what a gang waits for: the gangs and pods on the nodes that its own pods may be placed on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gangctl.fit.placedpods import PlacedPod
from gangctl.kueue.objects import PODS


@dataclass(frozen=True, slots=True)
class Holder:
    """A JobSet, or a pod that is of none, and what it has of one resource."""

    title: str
    amount: int
    pods: int
    nodes: int
    since: str
    """When the first of its pods was created, RFC 3339."""


def holders_of(pods: Iterable[PlacedPod], resource: str) -> list[Holder]:
    """Who has a resource, the largest first."""
    by_owner: dict[str, list[tuple[int, PlacedPod]]] = {}
    for pod in pods:
        amount = 1 if resource == PODS else pod.requests.get(resource, 0)
        if amount > 0:
            kind, name = ("JobSet", pod.jobset) if pod.jobset else ("pod", pod.name)
            by_owner.setdefault(f"{kind} {pod.namespace}/{name}", []).append((amount, pod))
    holders = [
        Holder(
            title,
            sum(amount for amount, _ in held),
            len(held),
            len({pod.node for _, pod in held}),
            # Kubernetes writes times in one form, in UTC: their texts have their order.
            min(pod.created for _, pod in held),
        )
        for title, held in by_owner.items()
    ]
    return sorted(holders, key=lambda holder: (-holder.amount, holder.title))
