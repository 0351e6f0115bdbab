"""Why a gang is not ready: causes with what shows them and what helps, the most likely first.

Each cause is a small function of a module by subject; :mod:`.ranking` puts them in order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from gangctl.gang.reasons import Reason
from gangctl.readiness.causes import (
    api,
    containers,
    disruption,
    gateoff,
    jobs,
    nodes,
    objects,
    pods,
    queue,
    quorum,
    scheduler,
    suspended,
    unknown,
)
from gangctl.readiness.causes.context import Context, Finder, Finding, Until
from gangctl.readiness.causes.ranking import place_of
from gangctl.readiness.facts import Snapshot
from gangctl.readiness.membership import Group
from gangctl.readiness.result import Cause, Readiness

FINDERS: Final[tuple[Finder, ...]] = (
    suspended.suspended,
    queue.in_queue,
    api.api_unavailable,
    api.not_ganged,
    api.field_dropped,
    objects.name_conflict,
    objects.pod_group_missing,
    objects.pod_group_terminating,
    objects.foreign_workload,
    quorum.unreachable_minimum,
    gateoff.scheduling_gate_off,
    jobs.exclusive_deadlock,
    jobs.job_creation_refused,
    jobs.pod_creation_refused,
    jobs.waiting_for_stage,
    jobs.pods_missing,
    pods.pods_gated,
    pods.restarting,
    pods.pods_terminating,
    scheduler.refused,
    scheduler.scheduler_silent,
    nodes.node_lost,
    disruption.preempted,
    containers.troubles,
    containers.starting,
    containers.not_ready,
)
"""In any order: the ranking decides."""

PROMISES: Final[Mapping[Reason, Finder]] = {
    Reason.NOT_GANGED: api.not_ganged,
    Reason.FIELD_DROPPED: api.field_dropped,
    Reason.SCHEDULING_GATE_OFF: gateoff.scheduling_gate_off,
}
"""What breaks the promise that a gang starts whole; gangs that are ready without it have it, too."""

MOST_CAUSES: Final = 16
"""Kept of one JobSet: the likeliest. Hundreds of groups may each be refused in their own words."""


def find_causes(
    snapshot: Snapshot, groups: Sequence[Group], readiness: Readiness, now: float, *, kept: bool = False
) -> tuple[tuple[Cause, ...], float | None]:
    """Why it is not ready, and when (Unix seconds) time alone will have changed that; total.

    ``groups`` are all of the JobSet (:func:`gangctl.readiness.membership.members`); ``readiness`` is the one found for
    them, without causes. ``kept`` texts name times, others say how long ago these were.
    """
    context = _context(snapshot, groups, readiness, now, kept=kept)
    found = [each for finder in FINDERS for each in finder(context)]
    if not any(isinstance(each, Cause) for each in found):
        found += unknown.unknown(context)
    return _ranked(found, now)


def find_broken_promises(
    snapshot: Snapshot, groups: Sequence[Group], readiness: Readiness, now: float, *, kept: bool = False
) -> tuple[tuple[Cause, ...], float | None]:
    """As :func:`find_causes`, and only what makes it a gang in name: also of one that is ready."""
    context = _context(snapshot, groups, readiness, now, kept=kept)
    return _ranked([each for finder in PROMISES.values() for each in finder(context)], now)


def _context(snapshot: Snapshot, groups: Sequence[Group], readiness: Readiness, now: float, *, kept: bool) -> Context:
    return Context(snapshot, [group for group in groups if not group.finished], readiness, now, len(groups), kept)


def _ranked(found: Sequence[Finding], now: float) -> tuple[tuple[Cause, ...], float | None]:
    causes = [each for each in found if isinstance(each, Cause)]
    looks = [each.at for each in found if isinstance(each, Until)]
    ranked = sorted(causes, key=place_of)[:MOST_CAUSES]
    return tuple(ranked), min((at for at in looks if at > now), default=None)
