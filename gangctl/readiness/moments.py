"""When a group entered its phase, was placed and became ready: from times in its objects.

So a restarted controller reports the same times. The previous result is used only if no object has the time, for
example when a degraded gang lost a pod that has been replaced since.

Whether a group was ready before: from the previous result, else from its pods.
A restarted controller has no previous result, but a lost pod leaves traces: its condition Ready became false long
after it was placed, or its replacement was created after the gang had been placed. The gang was ready if all other
pods were ready before the first of these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gangctl.readiness.facts import PodFacts, unix
from gangctl.readiness.membership import Group, Totals, nth
from gangctl.readiness.result import GangPhase, GroupReadiness

FIRST_STATUS_SECONDS: Final = 5
"""Time after ``status.startTime`` within which the kubelet writes Ready for the first time, as false: it writes both at
once, by one clock."""
UNKNOWN_STATUS_SECONDS: Final = 30
"""The same after the placement, where that time is not known."""


@dataclass(slots=True)
class Traces:
    """Evidence in pods. ``ready_by`` is when the last of the ready pods became ready."""

    ready: int = 0
    ready_by: int = 0
    turned: int = 0
    """Pods that were ready, and no longer are."""
    replaced: int = 0
    """Pods created after the gang was placed that have not been ready."""
    never: int = 0
    """Initial pods of the gang that have not been ready."""
    lost_at: int = 0
    """When the first pod was lost after the others were ready; 0 if none was."""

    @property
    def complete(self) -> bool:
        """Whether all pods were ready before the first was lost."""
        return self.never == 0 and self.ready + self.turned > 0 and not 0 < self.lost_at < self.ready_by


def scheduled_at(group: Group) -> int:
    """When the scheduler placed the gang, by its PodGroup; 0 if it has not.

    The condition is never reset, and groups survive restarts and evictions: if all pods are younger it is of an earlier
    start.
    """
    scheduled = group.scheduled
    if scheduled is None or not scheduled.status:
        return 0
    since = unix(scheduled.since)
    return since if any(pod.created <= since for pod in (*group.pods, *group.leaving)) else 0


def traces(group: Group) -> Traces:
    """Evidence in the pods of this attempt."""
    evidence = Traces()
    begun = _begun(group)
    lost: list[int] = []
    for pod in (*group.pods, *group.leaving):
        if pod.ready and pod.node:
            evidence.ready += 1
            evidence.ready_by = max(evidence.ready_by, pod.ready_at)
        elif _turned(pod):
            evidence.turned += 1
            lost.append(pod.ready_at)
        elif 0 < begun < pod.created:
            evidence.replaced += 1
            lost.append(pod.created)
        else:
            evidence.never += 1
    evidence.lost_at = min(lost, default=0)
    return evidence


def shows_readiness(group: Group, found: Traces) -> bool:
    """Whether a group that is not ready was ready before, by its pods alone."""
    missing = group.wanted - len(group.pods) - len(group.leaving)
    # Where pods may come later than others, missing ones are no trace: perhaps they were never made.
    if missing > 0 and not _begun(group):
        return False
    return found.complete and (found.turned + found.replaced + len(group.leaving) > 0 or missing > 0)


def _turned(pod: PodFacts) -> bool:
    """Whether a pod that is not ready was ready before."""
    placed = pod.placed_at or pod.created
    first = pod.started_at + FIRST_STATUS_SECONDS if pod.started_at else placed + UNKNOWN_STATUS_SECONDS
    return bool(pod.node) and pod.ready_at > first


def _begun(group: Group) -> int:
    """When the gang was placed, so that later pods are replacements; 0 if unknown.

    It is unknown for gangs that grow, or start in stages: there later pods are no replacements, unless their Jobs
    have lost some.
    """
    known = scheduled_at(group)
    together = group.scope is not None and not group.unlinked and group.needed >= group.wanted
    if not together and not any(job.failed for job in group.jobs):
        return 0
    return known or min((pod.placed_at for pod in group.pods if pod.node and pod.placed_at), default=0)


_LASTING: Final = frozenset({GangPhase.DEGRADED, GangPhase.RESTARTING, GangPhase.SUCCEEDED})
"""Phases whose traces disappear while they last: the previous result is preferred."""


@dataclass(frozen=True, slots=True)
class Life:
    """Facts of a group besides its pods."""

    begun: int
    """When its JobSet was allowed to start, or began its last restart."""
    attempt: int
    now: int
    before: GroupReadiness | None
    """Its previous result in this attempt."""


def since(phase: GangPhase, group: Group, totals: Totals, found: Traces, life: Life) -> int:
    """When it entered its phase."""
    same = life.before.since if life.before is not None and life.before.phase is phase else 0
    if phase in _LASTING and same:
        return same
    written = _written(phase, group, totals, found, life)
    if phase is GangPhase.SCHEDULING and life.before is not None:
        # No object has the time at which gates were removed, or nodes chosen for pods that were refused before.
        later = life.before.phase in {GangPhase.GATED, GangPhase.UNSCHEDULABLE}
        return max(written, life.now if later else same)
    if phase is GangPhase.READY:
        # After pods finish, the last of the remaining ones may have become ready earlier.
        return max(written, same) or life.now
    return written or same or life.now


def _written(phase: GangPhase, group: Group, totals: Totals, found: Traces, life: Life) -> int:
    """The time from objects in the cluster, 0 if they have none."""
    match phase:
        case GangPhase.PENDING | GangPhase.WAITING_FOR_PODS:
            return life.begun or (totals.created_at[0] if totals.created_at else 0)
        case GangPhase.SCHEDULING | GangPhase.GATED:
            return nth(totals.created_at, group.needed)
        case GangPhase.UNSCHEDULABLE:
            rejected_at = unix(group.rejected.since) if group.rejected is not None else 0
            # The condition of a group is never reset: it may be older than all present pods.
            return totals.refused_at or max(rejected_at, nth(totals.created_at, group.needed))
        case GangPhase.PARTIALLY_PLACED:
            return nth(totals.placed_at, 1)
        case GangPhase.STARTING:
            return nth(totals.placed_at, group.needed)
        case GangPhase.PARTIALLY_READY:
            # The first may have been ready before the last had a node.
            return max(nth(totals.placed_at, group.needed), nth(totals.ready_at, 1))
        case GangPhase.READY:
            return nth(totals.ready_at, group.enough)
        case GangPhase.DEGRADED:
            return found.lost_at
        case GangPhase.RESTARTING:
            lost = (pod.ready_at for pod in group.earlier if not pod.ready)
            return life.begun or max(lost, default=0)
        case _:
            # A terminated pod is not ready.
            return max((pod.ready_at for pod in group.over), default=0)


def placed_at(group: Group, totals: Totals, been_ready: bool, life: Life) -> int:
    """When the last needed pod got its node, the first time in this attempt; 0 before that."""
    if life.before is not None and life.before.placed_at:
        return life.before.placed_at
    if group.finished:
        return max((pod.placed_at for pod in group.over), default=0)
    decided = scheduled_at(group)
    # A pod that was replaced was placed later than the gang: then the scheduler's condition has the time.
    now = nth(totals.placed_at, group.needed)
    if now or been_ready:
        return min(now, decided) if now and decided else now or decided or nth(totals.placed_at, len(totals.placed_at))
    return 0


def ready_at(group: Group, totals: Totals, been_ready: bool, life: Life) -> int:
    """When the last pod became ready, the first time in this attempt; 0 before that."""
    if life.before is not None and life.before.ready_at:
        return life.before.ready_at
    if not been_ready:
        return 0
    return nth(totals.ready_at, group.enough) or nth(totals.ready_at, len(totals.ready_at))
