"""Totals over the pods of one group, in one pass: a gang may have 10,000."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gangctl.readiness.membership import Group
from gangctl.readiness.result import Counts


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts for users, and facts of the pods that are placed together (:attr:`Group.bound`), which determine phases.

    Times are sorted.
    """

    counts: Counts
    bound: int
    """Pods placed together that exist."""
    bound_placed: int
    free: int
    """Existing pods on a node or without gates."""
    refused: int
    """Pods without a node that the scheduler has rejected."""
    refused_at: int
    """When the first of these was rejected, 0 if unknown."""
    created_at: Sequence[int]
    """Of the pods placed together."""
    placed_at: Sequence[int]
    """Of the pods placed together; the creation time if unknown."""
    ready_at: Sequence[int]
    """Of all ready pods."""


def totals(group: Group, *, runs: bool) -> Totals:
    """The sum. ``runs`` is whether its pods should run: pods of a gang that should end do not wait.

    A pod is ready only on a node, so that there are never more ready than placed pods.
    """
    bound = group.bound
    placed = bound_placed = free = refused = refused_at = 0
    placed_times: list[int] = []
    ready_times = [pod.ready_at for pod in group.pods if pod.ready and pod.node]
    for pod in bound:
        if pod.node:
            bound_placed += 1
            placed_times.append(pod.placed_at or pod.created)
        elif pod.gates or pod.refused == "SchedulingGated":
            continue
        elif pod.refused:
            refused += 1
            refused_at = min(refused_at or pod.refused_at, pod.refused_at or refused_at)
        free += 1
    placed = bound_placed if bound is group.pods else sum(1 for pod in group.pods if pod.node)
    counts = Counts(
        desired=group.desired,
        minimum=group.minimum,
        wanted=group.wanted,
        created=len(group.pods),
        placed=placed,
        ready=len(ready_times),
        finished=group.succeeded,
        stranded=placed if runs and bound_placed < group.needed else 0,
    )
    return Totals(
        counts=counts,
        bound=len(bound),
        bound_placed=bound_placed,
        free=free,
        refused=refused,
        refused_at=refused_at,
        created_at=sorted(pod.created for pod in bound),
        placed_at=sorted(placed_times),
        ready_at=sorted(ready_times),
    )


def nth(times: Sequence[int], number: int) -> int:
    """The time at which the given number was reached; 0 if there are fewer times.

    >>> nth([10, 20, 30], 2), nth([10], 2), nth([10], 0)
    (20, 0, 0)
    """
    return times[number - 1] if 0 < number <= len(times) else 0
