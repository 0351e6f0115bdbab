"""Whether the remaining pods of a gang are to be evicted: it runs below its minimum, and nothing will complete it soon.

Such a gang holds nodes that no other gang can have, and does no work. Evicted, it waits as a whole: its new pods are
placed together or not at all. The caller has the clock and the delay that the user allows; what is unknown evicts
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gangctl.api.jobset import JobSet
from gangctl.api.meta import EVICT_STRANDED_AFTER
from gangctl.gang.validate import expected_seconds
from gangctl.readiness.autoscaling import NODE_SECONDS, ScaleUp
from gangctl.readiness.causes.context import gated, unschedulable
from gangctl.readiness.facts import PodFacts, Snapshot
from gangctl.readiness.membership import Group, members, pod_denials


def delay_of(jobset: JobSet, default: float | None) -> float | None:
    """How long a gang may run below its minimum, in seconds; None for one that may do so permanently.

    ``default`` is for one that does not say. Of a value that is none, nothing follows: the webhook warns of it.
    """
    written = jobset.annotations.get(EVICT_STRANDED_AFTER)
    return default if written is None else expected_seconds(written)


@dataclass(frozen=True, slots=True)
class Stranded:
    """A gang of which some pods hold nodes, and others that it needs have none."""

    group: str
    missing: int
    """Pods that it needs and that have no node."""
    evict: tuple[PodFacts, ...] = ()
    """Its pods to evict now; empty while it waits."""
    look_again: float | None = None
    """When time alone changes the answer, Unix seconds; None if only a change of an object does."""


def stranded(
    snapshot: Snapshot,
    now: float,
    delay: float,
    seen: Mapping[str, float],
    scale_ups: Mapping[str, ScaleUp],
) -> tuple[Stranded, ...]:
    """The stranded gangs of a JobSet, and which of their pods to evict now. Pure, and total.

    ``now`` is in Unix seconds. ``seen`` has since when a group is known to be stranded, for one whose objects do not
    show it; now, for others. ``scale_ups`` has the last that an autoscaler said of a pod, by its name.
    """
    jobset = snapshot.jobset
    # The pods of these end anyway, or are on another cluster.
    if jobset.suspend or jobset.finished or jobset.deleting or jobset.managed_elsewhere:
        return ()
    gangs = []
    for group in members(snapshot):
        placed = [pod for pod in group.bound if pod.node]
        # Without a scope, or where none of its pods names the group, they do not wait for each other: those that run do
        # their work, and new ones would be no gang either.
        outside = len(group.unlinked) == len(group.planned)
        if group.scope is None or outside or not 0 < len(placed) < group.needed:
            continue
        unplaced = [pod for pod in group.bound if not pod.node]
        missing = group.needed - len(placed)
        if _may_complete(snapshot, group, placed, unplaced):
            gangs.append(Stranded(group.name, missing))
            continue
        look_again = _time(group, placed, unplaced, seen.get(group.name, now), delay)
        running = [
            scale_ups[pod.name] for pod in unplaced if pod.name in scale_ups and scale_ups[pod.name].running(now)
        ]
        if running:
            # The autoscaler adds a node.
            look_again = max(look_again, max(one.at for one in running) + NODE_SECONDS)
        if now < look_again:
            gangs.append(Stranded(group.name, missing, look_again=look_again))
        else:
            gangs.append(Stranded(group.name, missing, tuple(sorted(placed, key=lambda pod: pod.name))))
    return tuple(gangs)


def _time(group: Group, placed: Sequence[PodFacts], unplaced: Sequence[PodFacts], seen: float, delay: float) -> float:
    """When it has been stranded for the delay."""
    if len(group.bound) < group.needed:
        # Of a pod that does not exist no object has the time since when it is missing.
        return seen + delay
    # Those to spare may never have had a node: it became short of pods with the first one that is none of them.
    lost_at = sorted(pod.created for pod in unplaced)[len(group.bound) - group.needed]
    # Whichever came last: a pod that was lost has been made anew, or one of the others was placed.
    return delay + max(lost_at, *(pod.placed_at or pod.created for pod in placed))


def _may_complete(snapshot: Snapshot, group: Group, placed: Sequence[PodFacts], unplaced: Sequence[PodFacts]) -> bool:
    """Whether something that has no time may still complete the gang."""
    nodes = snapshot.nodes
    # Whether its nodes are ready is not known, or the JobSet restarts.
    if nodes is None or group.earlier or group.leaving_jobs:
        return True
    # Below the minimum it looks at no pod, and says nothing of any.
    silent = len(group.bound) + len(group.leaving) < group.needed
    # The scheduler may fail on a pod, and not find it unschedulable.
    if any(map(gated if silent else _pending, unplaced)) or (unplaced and not (silent or unschedulable(unplaced))):
        return True
    lost = {name for name, node in nodes.items() if not node.ready}
    # A node may return.
    if any(pod.node in lost or pod.node not in nodes for pod in placed):
        return True
    if len(group.bound) >= group.needed:
        return False
    # Its Job makes another pod once the first has ended, which on a lost node it does not, and once it may.
    held = any(pod.node in lost for pod in group.leaving)
    denied = pod_denials(snapshot, [group])
    return not held and not any(job.name in denied for job in group.planned)


def _pending(pod: PodFacts) -> bool:
    """Whether the scheduler has not found yet that a pod without a node gets none, or makes room for it."""
    return gated(pod) or bool(pod.nominated) or not pod.refused
