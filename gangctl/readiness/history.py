"""Whether a group was ready before: from what is remembered, else from what its pods show.

A controller that was restarted remembers nothing, but a pod that is lost leaves traces: its condition Ready turned
false long after it was placed, or the pod in its place was made after the gang had been placed. The gang was ready when
all the others were ready before the first of that happened.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gangctl.readiness.facts import PodFacts
from gangctl.readiness.membership import Group
from gangctl.readiness.reading import unix

FIRST_STATUS_SECONDS: Final = 30
"""Within that time after a pod was placed its kubelet writes Ready for the first time, as false."""
RESTARTED_SECONDS: Final = 5
"""The same for pods whose containers have started again: these were up once."""


@dataclass(slots=True)
class Traces:
    """What pods show. ``ready_by`` is when the last of those became ready that still are."""

    ready: int = 0
    ready_by: int = 0
    turned: int = 0
    """Pods that were ready, and are not."""
    replaced: int = 0
    """Pods made after the gang was placed, that have not been ready themselves."""
    never: int = 0
    """Pods that have not been ready, of those that the gang began with."""
    lost_at: int = 0
    """When the first pod was lost, of those lost after the others were ready; 0 where none was."""

    @property
    def complete(self) -> bool:
        """Whether, by what they show, all pods were ready before the first was lost."""
        return self.never == 0 and self.ready + self.turned > 0 and not 0 < self.lost_at < self.ready_by


def scheduled_at(group: Group) -> int:
    """When the scheduler placed the gang, by its PodGroup; 0 where it has not.

    The condition is never taken back, and groups outlive restarts and evictions: where all pods are younger it is of an
    earlier life.
    """
    said = group.pod_group.scheduled if group.pod_group is not None else None
    if said is None or not said.status:
        return 0
    since = unix(said.since)
    return since if any(pod.created <= since for pod in (*group.pods, *group.leaving)) else 0


def traces(group: Group) -> Traces:
    """What the pods of this attempt show."""
    found = Traces()
    begun = _begun(group)
    lost: list[int] = []
    for pod in (*group.pods, *group.leaving):
        if pod.ready and pod.node:
            found.ready += 1
            found.ready_by = max(found.ready_by, pod.ready_at)
        elif _turned(pod):
            found.turned += 1
            lost.append(pod.ready_at)
        elif 0 < begun < pod.created:
            found.replaced += 1
            lost.append(pod.created)
        else:
            found.never += 1
    found.lost_at = min(lost, default=0)
    return found


def shows_readiness(group: Group, found: Traces) -> bool:
    """Whether a group that is not ready was ready once, by the traces of its pods alone."""
    missing = group.wanted - len(group.pods) - len(group.leaving)
    if missing > 0 and not _begun(group):
        return False
    return found.complete and (found.turned + found.replaced + len(group.leaving) > 0 or missing > 0)


def _turned(pod: PodFacts) -> bool:
    """Whether a pod that is not ready was ready before."""
    placed = pod.placed_at or pod.created
    usual = RESTARTED_SECONDS if pod.restarts else FIRST_STATUS_SECONDS
    return bool(pod.node) and pod.ready_at > placed + usual


def _begun(group: Group) -> int:
    """When the gang was placed, so that pods made later stand in for others; 0 where that cannot be told.

    It cannot for what grows, or is made in stages: there pods are made later that stand in for none, unless their Jobs
    have lost some.
    """
    known = scheduled_at(group)
    together = group.scope is not None and not group.unlinked and group.needed >= group.wanted
    if not together and not any(job.failed for job in group.jobs):
        return 0
    return known or min((pod.placed_at for pod in group.pods if pod.node and pod.placed_at), default=0)
