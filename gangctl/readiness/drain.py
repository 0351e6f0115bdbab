"""What a drain of nodes takes from one JobSet: the gangs that lose a pod, and how long these have run."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from gangctl.readiness.facts import Snapshot
from gangctl.readiness.membership import members
from gangctl.readiness.result import Readiness


@dataclass(frozen=True, slots=True)
class Stopped:
    """The gangs of a JobSet that lose a pod: a gang that loses one does not go on without it."""

    groups: tuple[str, ...]
    there: int
    """Their pods on the nodes."""
    pods: int
    """All of their pods that have a node."""
    since: int
    """When the first of them was whole, Unix seconds; 0 if none ever was, or if that is not known."""
    lost: int
    """Seconds that their pods have run since then, summed; 0 where that is not known."""


def stopped(snapshot: Snapshot, readiness: Readiness, nodes: Container[str], now: float) -> Stopped | None:
    """What of a JobSet stops if all pods leave these nodes; None for nothing. ``now`` is Unix seconds."""
    hit = [
        (group, sum(pod.node in nodes for pod in (*group.pods, *group.leaving, *group.earlier)))
        for group in members(snapshot)
    ]
    known = {group.name: group for group in readiness.groups}
    groups = [(known[group.name], there) for group, there in hit if there and group.name in known]
    if not groups:
        return None
    whole = [(group.ready_at or group.placed_at, group.counts.placed) for group, _ in groups]
    return Stopped(
        tuple(group.name for group, _ in groups),
        sum(there for _, there in groups),
        sum(placed for _, placed in whole),
        min((since for since, _ in whole if since), default=0),
        sum(max(0, int(now) - since) * placed for since, placed in whole if since),
    )
