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
    why: str = ""
    """What it waits for, in a few words."""


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
        # Without a scope its pods do not wait for each other: those that run do their work.
        if group.scope is None or not 0 < len(placed) < group.needed:
            continue
        unplaced = [pod for pod in group.bound if not pod.node]
        missing = group.needed - len(placed)
        if hope := _hope(snapshot, group, placed, unplaced):
            gangs.append(Stranded(group.name, missing, why=hope))
            continue
        look_again, why = _time(group, placed, unplaced, seen.get(group.name, now), delay), "it may wait for so long"
        running = [
            scale_ups[pod.name] for pod in unplaced if pod.name in scale_ups and scale_ups[pod.name].running(now)
        ]
        if running:
            last = max(running, key=lambda one: one.at)
            look_again, why = max(look_again, last.at + NODE_SECONDS), f"an autoscaler adds a node for {last.pod}"
        if now < look_again:
            gangs.append(Stranded(group.name, missing, look_again=look_again, why=why))
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


def _hope(snapshot: Snapshot, group: Group, placed: Sequence[PodFacts], unplaced: Sequence[PodFacts]) -> str:
    """What may still complete the gang and has no time, in a few words; empty for nothing."""
    nodes = snapshot.nodes
    if nodes is None:
        return "whether its nodes are ready is not known"
    if group.earlier or group.leaving_jobs:
        return "the JobSet restarts"
    lost = {name for name, node in nodes.items() if not node.ready}
    waiting = next(filter(None, map(_pending, unplaced)), "")
    if not waiting and unplaced and not unschedulable(unplaced):
        waiting = f"the scheduler fails on {unplaced[0].name}"
    returning = next((pod for pod in placed if pod.node in lost or pod.node not in nodes), None)
    if waiting:
        return waiting
    if returning is not None:
        return f"node {returning.node} of {returning.name} may return"
    if len(group.bound) >= group.needed:
        return ""
    # Its Job makes another pod once the first has ended, which on a lost node it does not, and once it may.
    held = any(pod.node in lost for pod in group.leaving)
    denied = pod_denials(snapshot, [group])
    return "" if held or any(job.name in denied for job in group.planned) else "pods are not made yet"


def _pending(pod: PodFacts) -> str:
    """What is still to happen to a pod without a node, in a few words; empty where the scheduler has found none."""
    if gated(pod):
        return f"{pod.name} has scheduling gates"
    if pod.nominated:
        return f"the scheduler makes room for {pod.name} on {pod.nominated}"
    return "" if pod.refused else f"the scheduler has not decided about {pod.name}"
