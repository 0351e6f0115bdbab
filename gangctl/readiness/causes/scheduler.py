"""Causes from a scheduler that writes no condition of a group, and from one that knows no groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from gangctl.api.meta import DEFAULT_SCHEDULER
from gangctl.api.scheduling import NEWEST
from gangctl.errors import plural
from gangctl.gang.desired import listed
from gangctl.gang.reasons import Reason
from gangctl.readiness.causes.context import (
    LATE,
    LONG,
    QUICK,
    SOON,
    Command,
    Context,
    counted,
    gated,
    oldest,
    volume_claims,
)
from gangctl.readiness.causes.objects import about_group, gangs
from gangctl.readiness.facts import PodFacts, unix
from gangctl.readiness.membership import Group
from gangctl.readiness.result import Cause

_Silent = tuple[Sequence[Group], Sequence[PodFacts], int]
"""Groups that start together, their pods without a node, and since when the scheduler should act."""


_A_SECOND: Final = 25
"""Pods that the scheduler surely binds in a second: it sends 50 requests (clientConnection.qps), on 1.35 two a pod."""


def scheduler_silent(context: Context) -> Iterator[Cause]:
    """All objects exist, but the scheduler wrote no condition: it is about to, or does not run."""
    silent: dict[tuple[bool, bool], list[_Silent]] = {}
    for together in _together(context):
        groups = [group for group in together if any(not pod.node for pod in group.bound)]
        if not groups or not all(_is_quiet(context, group) for group in together):
            continue
        waiting = [pod for group in groups for pod in group.bound if not pod.node]
        made = max(unix(group.pod_group.created) if group.pod_group is not None else 0 for group in groups)
        since = max(made, *(context.begun.get(group.name, 0) for group in groups), *(pod.created for pod in waiting))
        late = context.late(since, QUICK + sum(len(group.bound) for group in together) // _A_SECOND)
        held_back = late and any(pod.unclaimed for pod in waiting)
        silent.setdefault((late, held_back), []).append((groups, waiting, since))
    for (late, held_back), rows in silent.items():
        yield _held_back(context, rows) if held_back else _silent(context, rows, late=late)


def _together(context: Context) -> Iterator[Sequence[Group]]:
    """Each group by itself, and with option composite all: the scheduler looks at none before all are there."""
    plan = context.snapshot.assessment.plan
    composite = gangs(context) if plan is not None and plan.composite is not None else ()
    names = {group.name for group in composite}
    yield composite
    yield from ([group] for group in context.groups if group.name not in names)


def _is_quiet(context: Context, group: Group) -> bool:
    """Whether the scheduler should act, and wrote no condition."""
    if any(map(group.refuses, group.pods)) or any(map(gated, group.pods)) or _binding_of(context, group):
        return False
    if group.scope is None:
        return True
    capabilities = context.capabilities
    if capabilities is None:
        return False
    snapshot = context.snapshot
    if capabilities.pod_groups and snapshot.groups_known and group.name not in snapshot.groups:
        return False
    if snapshot.composite_missing:
        return False
    if group.rejected is not None:
        return False
    # Below its minimum the scheduler does not look at a group, and writes nothing: that is another cause.
    return counted(group) >= group.minimum


def _held_back(context: Context, found: Sequence[_Silent]) -> Cause:
    """The scheduler keeps pods from its queue, without a condition, until their ResourceClaims exist.

    Since Kubernetes 1.37 the others of their group, too.
    """
    pods = [pod for _, waiting, _ in found for pod in waiting]
    without = [pod for pod in pods if pod.unclaimed]
    templates = listed(name for pod in without for name in pod.unclaimed)
    return context.cause(
        Reason.UNSCHEDULABLE,
        f"the scheduler does not look at {plural(len(pods), 'pod')}: no ResourceClaim has been made from "
        f"ResourceClaimTemplate {templates}",
        evidence=[f"without a ResourceClaim: {listed(pod.name for pod in without)}"],
        remedy="create the ResourceClaimTemplate, or see why its claims are not made, such as a ResourceQuota: events "
        "FailedResourceClaimCreation of the pods say it, or of the PodGroup if it names the template",
        command=context.suggest(Command.DESCRIBE_POD, pod=min(pod.name for pod in without)),
        groups=[group for groups, *_ in found for group in groups],
        pods=len(pods),
        since=oldest(since for *_, since in found),
    )


def _silent(context: Context, found: Sequence[_Silent], *, late: bool) -> Cause:
    groups = [group for together, *_ in found for group in together]
    pods = [pod for _, waiting, _ in found for pod in waiting]
    since = oldest(since for *_, since in found)
    names = sorted({pod.scheduler or DEFAULT_SCHEDULER for pod in pods})
    own = names != [DEFAULT_SCHEDULER]
    who = f"scheduler {listed(names)}" if own else "the scheduler"
    if not late:
        message, remedy = f"{who} is about to look at {plural(len(pods), 'pod')}", "wait: it takes a moment"
    elif own:
        message = f"{who} does not answer for {plural(len(pods), 'pod')}"
        remedy = "name a scheduler that runs here (schedulerName) and that knows PodGroups, in a new JobSet"
    else:
        message = f"{who} does not answer for {plural(len(pods), 'pod')} that are all there"
        remedy = "see whether kube-scheduler runs, and what it logs"
        if claims := _claims_by_name(context, pods):
            remedy += f"; ResourceClaims that its pods name have to exist, too: {listed(claims)}"
    return context.cause(
        Reason.SCHEDULER_SILENT,
        message,
        evidence=[
            f"without a node and without a word of the scheduler: {listed(pod.name for pod in pods)}",
            f"the oldest of them {context.old(oldest(pod.created for pod in pods))}",
            *(
                f"group {g.name}: {plural(len(g.bound), 'pod')} there, {g.minimum} must start together"
                for g in groups[:2]
            ),
            f"spec.schedulerName: {listed(names)}",
        ],
        remedy=remedy,
        command=context.suggest(Command.SCHEDULER)
        if late and not own
        else context.suggest(Command.DESCRIBE_POD, pod=min(pod.name for pod in pods)),
        groups=groups,
        pods=len(pods),
        since=since,
        blocking=late,
    )


_BIND: Final = 600
"""Seconds that the scheduler waits at most for the volumes and devices of a pod (bindTimeoutSeconds, bindingTimeout);
then it writes a condition."""


@dataclass(frozen=True, slots=True)
class _Awaited:
    """A group, its pods that wait for volumes or devices on nodes that are chosen, and their PersistentVolumeClaims."""

    group: Group
    pods: Sequence[PodFacts]
    claims: frozenset[str]
    since: int


def _binding_of(context: Context, group: Group) -> _Awaited | None:
    """It if the scheduler has nominated all pods without a node, as before such a wait, and refused none since."""
    pods = [pod for pod in group.bound if not pod.node]
    if any(not pod.nominated or gated(pod) or group.refuses(pod) for pod in pods):
        return None
    condition, claims = group.scheduled, frozenset(volume_claims(context, pods))
    if not pods or group.rejected is not None:
        return None
    # The group may have been placed before, with other pods.
    placed = unix(condition.since) if condition is not None and condition.status else 0
    since = max(placed, context.begun.get(group.name, 0), *(pod.created for pod in pods))
    if placed < max(pod.refused_at for pod in pods) >= since:
        # No object has since when it waits. Once the scheduler gives up it refuses them anew.
        return _Awaited(group, pods, claims, 0)
    return None if context.late(since, _BIND) else _Awaited(group, pods, claims, since)


def binding(context: Context) -> Iterator[Cause]:
    """The scheduler has placed the gang, and waits for volumes or devices: normal, unless volumes take long."""
    by_kind: dict[tuple[bool, bool], list[_Awaited]] = {}
    for group in context.groups:
        if (one := _binding_of(context, group)) is not None:
            volumes = bool(one.claims)
            late = volumes and one.since > 0 and context.late(one.since, LONG)
            by_kind.setdefault((volumes, late), []).append(one)
    for (volumes, slow), rows in by_kind.items():
        pods = [pod for row in rows for pod in row.pods]
        claims, since = {claim for row in rows for claim in row.claims}, oldest(row.since for row in rows)
        yield context.cause(
            Reason.VOLUME_NOT_BOUND if volumes else Reason.SCHEDULER_SILENT,
            f"the scheduler has chosen nodes for {plural(len(pods), 'pod')}, and waits for their "
            + (f"volumes: PersistentVolumeClaim {listed(claims)}" if volumes else "devices"),
            evidence=[
                f"nominated for {listed(pod.nominated for pod in pods)}: {listed(pod.name for pod in pods)}",
                f"the newest of them {context.old(max(pod.created for pod in pods))}",
            ],
            remedy="see the events of the claims: what makes their volumes (the provisioner of the StorageClass) says "
            "there why it does not"
            if slow
            else f"wait: {'volumes are made' if volumes else 'devices are attached'}; after {_BIND // 60} minutes the "
            "scheduler gives up, and chooses nodes again",
            command=context.suggest(Command.CLAIMS)
            if volumes
            else context.suggest(Command.DESCRIBE_POD, pod=min(pod.name for pod in pods)),
            groups=[row.group for row in rows],
            pods=len(pods),
            since=since,
            blocking=slow,
        )


def _claims_by_name(context: Context, pods: Sequence[PodFacts]) -> set[str]:
    """ResourceClaims of pods, each of which holds them back until it exists, which is not known."""
    entries = {pod.replicated_job for pod in pods}
    jobs = [rj for rj in context.snapshot.jobset.replicated_jobs if rj.name in entries]
    return {claim.claim for rj in jobs for claim in rj.claims if claim.claim}


def scheduling_gate_off(context: Context) -> Iterator[Cause]:
    """Pods were placed, but their group has no condition: the scheduler does not support groups.

    From Kubernetes 1.36 on it writes the group's condition in the cycle in which it places the pods, and places none
    before the minimum fits.
    """
    if context.capabilities is None or not context.runs:
        return
    capabilities = context.capabilities
    held: dict[bool, list[tuple[Group, int]]] = {}
    for group in gangs(context):
        since = _without_condition_since(group) if capabilities.pod_groups else 0
        # With GenericWorkload and without GangScheduling, 1.36 writes the condition with the first pod that it places.
        if not capabilities.one_gate:
            since = since or _partial_since(group)
        partial = _placed(group) < group.minimum and any(not pod.node for pod in group.bound)
        if since and context.late(since, SOON if partial else LATE):
            held.setdefault(partial, []).append((group, since))
    for partial, groups in held.items():
        yield _gate_off(context, groups, partial=partial)


def _placed(group: Group) -> int:
    return sum(1 for pod in group.bound if pod.node)


def _without_condition_since(group: Group) -> int:
    """Since when pods of a group without a condition are placed, 0 if that proves nothing."""
    placed = [pod.placed_at for pod in group.bound if pod.node and pod.placed_at]
    pod_group = group.pod_group
    if pod_group is None or pod_group.scheduled is not None or not placed:
        return 0
    # A group that was created again has no condition either, and may get none while its pods run.
    return max(placed) if unix(pod_group.created) <= min(placed) else 0


def _partial_since(group: Group) -> int:
    """Since when a group is placed in part although all its pods existed; the only evidence on 1.35."""
    placed = [pod for pod in group.bound if pod.node and pod.placed_at]
    left = [pod for pod in group.bound if not pod.node]
    # With pods that have ended, a gang that is there in part may have been placed as a whole.
    clean = not (group.succeeded or group.leaving or group.earlier or group.over)
    if not clean or not placed or not left or len(placed) >= group.minimum:
        return 0
    first = min(pod.placed_at for pod in placed)
    if group.scheduled is not None:
        # A group that was placed before its other pods were made proves nothing.
        first = min(first, unix(group.scheduled.since)) if group.scheduled.status else 0
    # Pods that were created after the first was placed could not be placed with it. One that is nominated waits on its
    # node for a volume or a device, whatever was said of it before; one with an error could not be bound there.
    proof = all(0 < pod.created <= first and not pod.nominated and pod.refused != "SchedulerError" for pod in left)
    return max(pod.placed_at for pod in placed) if proof else 0


def _gate_off(context: Context, found: Sequence[tuple[Group, int]], *, partial: bool) -> Cause:
    groups, capabilities = [group for group, _ in found], context.capabilities or NEWEST.capabilities
    condition = "PodGroupInitiallyScheduled" if capabilities.one_gate else "PodGroupScheduled"
    evidence = [
        f"group {group.name}: {_placed(group)} of {plural(len(group.bound), 'pod')} have nodes, {group.minimum} "
        f"must start together, and the last was placed {context.ago(at)}"
        for group, at in sorted(found, key=lambda pair: pair[0].name)[:4]
    ]
    if bare := sum(group.pod_group is not None and group.scheduled is None for group in groups):
        evidence.append(f"{plural(bare, 'PodGroup')} without condition {condition}")
    return context.cause(
        Reason.SCHEDULING_GATE_OFF,
        "the scheduler places the pods of a gang one by one: it does not look at groups"
        if partial
        else "the scheduler has placed all pods without looking at their group: another time it may place some only",
        evidence=evidence,
        remedy=f"start kube-scheduler with the feature gate {capabilities.gates}, the same as kube-apiserver",
        command=context.suggest(Command.SCHEDULER_FLAGS)
        if partial
        else about_group(context, Command.SHOW_GROUP, groups[0]),
        groups=groups,
        pods=sum(len(group.bound) - _placed(group) for group in groups),
        since=min(at for _, at in found),
        blocking=partial,
    )
