"""What one gang took and lost, as far as the objects that exist have it: attempts, time on nodes, the last loss.

Pods that have finished count until they did so, as long as they exist. Pods that are gone took their times with them,
and API servers keep events for an hour: what cannot be known is listed, and not guessed. The metrics of gangctl count
the same by queue, from the moment at which gangctl leads.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Annotated, Final, TypedDict

from gangctl.api.reportfields import rfc3339
from gangctl.cli.gangs.state import EventDetail
from gangctl.cli.gangs.views import ago
from gangctl.cli.messages import plural
from gangctl.cli.output import Section, Table
from gangctl.gang.reasons import Reason
from gangctl.kueue.amounts import span
from gangctl.readiness.facts import EndedPod, PodFacts, Snapshot, unix
from gangctl.readiness.membership import Group, members
from gangctl.readiness.result import PODS, GangPhase, Readiness

_RESTARTED: Final = re.compile(r"Restart\w+FailurePolicyAction")
"""JobSet's events for a restart of the JobSet, or of one Job (pkg/constants/constants.go of JobSet 0.12)."""
GONE: Final = "the time of pods that are gone: metric gangctl_gang_allocated_resource_seconds_total has it, by queue"
BEFORE_SUSPENSION: Final = (
    "the time of pods before its last suspension, if it had any: metric gangctl_gang_allocated_resource_seconds_total "
    "has it, by queue"
)
ENDED_READY: Final = "for how long pods that have finished were ready"
ELSEWHERE: Final = "the time of its pods: they are on a worker cluster"
UNREAD: Final = "the time of its pods: they may not be read"
NO_LOSS: Final = "whether it lost a member before: API servers keep events for an hour"
EVENTS_SECONDS: Final = 3600.0
"""Default of ``--event-ttl`` of API servers."""
NO_CAUSE: Final = "why it lost a member: no event or cause is left"


class HeldResource(TypedDict):
    """Time for which pods have held one resource, times what they request of it."""

    resource: Annotated[str, "pods (1 each), or an extended resource that they request."]
    allocatedSeconds: Annotated[int, "Since they got their nodes, until they finished."]
    readySeconds: Annotated[int, "Since they became ready, of the pods that are ready."]


class LastLoss(TypedDict):
    """The last time at which the gang was no longer ready, or JobSet restarted it."""

    time: Annotated[str, "RFC 3339; empty where none is known."]
    cause: Annotated[str, "Empty where it is not known."]


class GangCosts(TypedDict):
    """What a gang took and lost."""

    attempts: Annotated[int, "The first and one for each restart."]
    resources: Annotated[list[HeldResource], "Of the pods that exist now, finished ones included."]
    lastLoss: LastLoss
    unknown: Annotated[list[str], "What the objects that exist do not have."]


def costs_of(
    snapshot: Snapshot,
    gang: Readiness,
    events: Sequence[EventDetail],
    ended: Iterable[EndedPod],
    *,
    only: str,
    now: float,
) -> GangCosts:
    """The costs of a gang, or of its group ``only``, empty for all; events and pods are those of the JobSet."""
    unseen = ELSEWHERE if snapshot.jobset.managed_elsewhere else "" if snapshot.pods_known else UNREAD
    groups = [group for group in members(snapshot) if only in {"", group.name}]
    pods = [pod for group in groups for pod in (*group.pods, *group.leaving, *group.earlier)]
    over = [] if unseen else list(_of_groups(ended, groups, unix(snapshot.jobset.created)))
    at, cause = _last_loss(gang, events, unix(snapshot.jobset.restarting_at))
    unknown = [unseen] if unseen else list(_untimed(over))
    if not unseen and (gang.attempt or at or _lacks(gang, groups, pods, over)):
        unknown.append(GONE)
    elif not unseen and (snapshot.jobset.suspended_at or snapshot.jobset.resumed_at):
        unknown.append(BEFORE_SUSPENSION)
    # In its first hour all of its events still exist; where there are none, they may not be readable.
    if not at and not (events and now - gang.created_at < EVENTS_SECONDS):
        unknown.append(NO_LOSS)
    elif at and not cause:
        unknown.append(NO_CAUSE)
    return {
        "attempts": gang.attempt + 1,
        "resources": [] if unseen else list(_held(pods, over, now)),
        "lastLoss": {"time": rfc3339(at), "cause": cause},
        "unknown": unknown,
    }


def _lacks(gang: Readiness, groups: Sequence[Group], pods: Sequence[PodFacts], over: Sequence[EndedPod]) -> bool:
    """Whether pods of this attempt existed that do not any more."""
    failed = sum(job.failed for group in groups for job in group.jobs)
    if failed > sum(one.pod.phase == "Failed" for one in over):
        return True
    planned = sum(job.pods for group in groups for job in group.planned)
    return (gang.been_ready or gang.phase.over) and len(pods) + len(over) < planned


def _of_groups(ended: Iterable[EndedPod], groups: Iterable[Group], created: int) -> Iterator[EndedPod]:
    """Those of some groups that had nodes, without those of an earlier JobSet of the name."""
    jobs = {(job.replicated_job, job.index) for group in groups for job in group.planned}
    for one in ended:
        if one.pod.node and (one.pod.replicated_job, one.pod.job_index) in jobs and one.pod.created >= created:
            yield one


def _untimed(over: Sequence[EndedPod]) -> Iterator[str]:
    """What is not known of pods that have finished."""
    if untimed := sum(not one.at for one in over):
        yield f"when {plural(untimed, 'pod')} ended, whose containers have no finishedAt"
    if over:
        yield ENDED_READY


def _held(pods: Iterable[PodFacts], over: Iterable[EndedPod], now: float) -> Iterator[HeldResource]:
    sums: dict[str, list[float]] = {PODS: [0.0, 0.0]}
    times = [(one.pod, one.at) for one in over if one.at]
    for pod, until in [*((pod, now) for pod in pods if pod.node), *times]:
        allocated = max(0.0, until - (pod.placed_at or pod.created))
        # A pod cannot be ready for longer than it has had its node, whatever the clocks of nodes say.
        ready = min(allocated, max(0.0, now - pod.ready_at)) if pod.ready and not pod.deleting else 0.0
        for resource, amount in ((PODS, 1), *pod.extended):
            own = sums.setdefault(resource, [0.0, 0.0])
            own[0] += amount * allocated
            own[1] += amount * ready
    for resource in sorted(sums):
        allocated, ready = sums[resource]
        yield {"resource": resource, "allocatedSeconds": int(allocated), "readySeconds": int(ready)}


def _last_loss(gang: Readiness, events: Sequence[EventDetail], restarting_at: int) -> tuple[int, str]:
    """When it was no longer ready, Unix seconds, 0 if that is not known; and why, empty if that is not known."""
    losses = [(unix(event["lastTime"]), _cause(event)) for event in events if event["reason"] == Reason.GANG_DEGRADED]
    losses += [(unix(event["lastTime"]), event["message"]) for event in events if _RESTARTED.fullmatch(event["reason"])]
    if gang.phase is GangPhase.DEGRADED:
        # The cause of now is newer than the one at the time of the event.
        losses = [(gang.since, gang.causes[0].message if gang.causes else _latest(losses)[1])]
    elif restarting_at > _latest(losses)[0]:
        losses = [(restarting_at, "")]
    return _latest(losses)


def _latest(losses: Sequence[tuple[int, str]]) -> tuple[int, str]:
    return max(losses, default=(0, ""))


def _cause(event: EventDetail) -> str:
    """What the event names after its first colon."""
    return event["message"].partition(": ")[2]


def costs_section(costs: GangCosts, now: float) -> Section:
    """The section for a terminal."""
    restarts = costs["attempts"] - 1
    lines = [f"attempt {costs['attempts']}, {plural(restarts, 'restart') if restarts else 'no restart'}"]
    if (at := unix(costs["lastLoss"]["time"])) or costs["lastLoss"]["cause"]:
        lines.append(f"last loss {ago(at, now)} ago: {costs['lastLoss']['cause'] or 'the cause is not known'}")
    lines += [f"not known: {what}" for what in costs["unknown"]]
    partly = ENDED_READY in costs["unknown"]
    rows = tuple(
        (
            held["resource"],
            span(timedelta(seconds=held["allocatedSeconds"])),
            "" if partly else span(timedelta(seconds=held["readySeconds"])),
            f"{held['readySeconds'] / held['allocatedSeconds']:.0%}" if held["allocatedSeconds"] and not partly else "",
        )
        for held in costs["resources"]
    )
    headers = ("RESOURCE", "ALLOCATED", "READY", "READY/ALLOCATED")
    return Section("Attempts and time on nodes", tuple(lines), Table(headers, rows) if rows else None)
