"""The phase of one group of a JobSet that is neither suspended nor finished.

A group *needs* as many pods as have to be placed together (:attr:`Group.needed`) to be placed at all, and *wants* all
that should exist now to be ready. Both are the same but for gangs that have grown beyond their minCount where that
cannot change: what they have beyond it never strands them, but they are ready only with it.
"""

from __future__ import annotations

from gangctl.readiness.membership import Group
from gangctl.readiness.phases import GangPhase
from gangctl.readiness.totals import Totals


def phase_of_group(group: Group, totals: Totals, attempt: int, *, been_ready: bool, counting: bool) -> GangPhase:
    """How far it has come; total.

    ``been_ready`` says whether it was ready before in this attempt, and ``counting`` that the pods which are missing
    may merely have finished, and keep it from nothing.
    """
    counts = totals.counts
    if group.finished:
        return GangPhase.SUCCEEDED
    if counts.created < counts.wanted and _is_leaving(group, attempt):
        return GangPhase.RESTARTING
    if counts.wanted > 0 and (counts.ready >= counts.wanted or counting):
        return GangPhase.READY
    if been_ready:
        return GangPhase.DEGRADED
    if counts.created == 0 or totals.bound < group.needed:
        made = counts.created > 0 or group.jobs
        return GangPhase.WAITING_FOR_PODS if made else GangPhase.PENDING
    if totals.bound_placed < group.needed:
        return _unplaced(group, totals)
    return GangPhase.PARTIALLY_READY if counts.ready else GangPhase.STARTING


def _is_leaving(group: Group, attempt: int) -> bool:
    """Whether something of an earlier attempt is still there."""
    return bool(group.earlier) or any(job.attempt < attempt for job in group.leaving_jobs)


def _unplaced(group: Group, totals: Totals) -> GangPhase:
    """All pods that it needs exist, and not all of these have nodes."""
    if totals.free < group.needed:
        return GangPhase.GATED
    if totals.bound_placed:
        return GangPhase.PARTIALLY_PLACED
    said = group.pod_group.scheduled if group.pod_group is not None else None
    if totals.refused or (said is not None and not said.status):
        return GangPhase.UNSCHEDULABLE
    return GangPhase.SCHEDULING
