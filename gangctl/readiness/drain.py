"""What a drain of nodes takes from one JobSet: the gangs that lose a pod, and how long these have run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from dataclasses import dataclass

from gangctl.api.jobset import JobSet
from gangctl.readiness.facts import Snapshot
from gangctl.readiness.membership import Group, members
from gangctl.readiness.result import Readiness


@dataclass(frozen=True, slots=True)
class Stopped:
    """What a drain takes from a JobSet: of a gang that loses a pod all pods, if it does not continue without it."""

    groups: tuple[str, ...]
    """The gangs that stop; empty if all continue."""
    there: int
    """Pods on the nodes that do not terminate anyway; 0 if all there do."""
    leaving: int
    """Pods on the nodes that terminate anyway."""
    pods: int
    """Pods with a node that stop: of a gang that continues only those there."""
    since: int
    """When the first of its gangs was whole, Unix seconds; 0 if none ever was, or if that is not known."""
    lost: int
    """Seconds that the pods that stop have run since then, summed; 0 where that is not known."""


def stopped(snapshot: Snapshot, readiness: Readiness, nodes: Container[str], now: float) -> Stopped | None:
    """What of a JobSet stops if all pods leave these nodes; None for nothing. ``now`` is Unix seconds."""
    known = {group.name: group for group in readiness.groups}
    groups: list[str] = []
    here = leaving = pods = lost = 0
    times: list[int] = []
    for group in members(snapshot):
        if group.name not in known:
            continue
        leaving += sum(pod.node in nodes for pod in (*group.leaving, *group.earlier))
        there = sum(pod.node in nodes for pod in group.pods)
        if not there:
            continue
        report = known[group.name]
        stops = not _continues(group, nodes, snapshot.jobset)
        since, gone = report.ready_at or report.placed_at, report.counts.placed if stops else there
        groups += [group.name] if stops else []
        here, pods = here + there, pods + gone
        if since:
            times.append(since)
            lost += max(0, int(now) - since) * gone
    return Stopped(tuple(groups), here, leaving, pods, min(times, default=0), lost) if here or leaving else None


def _continues(group: Group, nodes: Container[str], jobset: JobSet) -> bool:
    """Whether it stays ready: with a ``minCount`` of its own it is without the others, unless they fail their Job."""
    stay = sum(1 for pod in group.pods if pod.ready and pod.node and pod.node not in nodes)
    return group.enough < group.wanted and stay >= group.enough and not _fails_a_job(group, nodes, jobset)


def _fails_a_job(group: Group, nodes: Container[str], jobset: JobSet) -> bool:
    """Whether one of its Jobs fails by the evictions, after which JobSet restarts or fails."""
    survived = {rj.name: rj.evictions for rj in jobset.replicated_jobs}
    # Without pods that terminate already: the Job has counted them.
    failures = Counter((pod.replicated_job, pod.job_index) for pod in group.pods if pod.node in nodes)
    for job in group.jobs:
        if job.key in failures:
            failures[job.key] += job.failed
    limits = ((count, survived.get(name)) for (name, _), count in failures.items())
    return any(limit is not None and count > limit for count, limit in limits)
