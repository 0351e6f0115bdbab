"""A scheduler without gang scheduling: it places pods of a gang one by one, and only missing conditions show that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gangctl.errors import plural
from gangctl.gang.reasons import Reason
from gangctl.readiness.causes.commands import Command
from gangctl.readiness.causes.context import LATE, SOON, Context, Finding, Until
from gangctl.readiness.causes.objects import about_group, gangs
from gangctl.readiness.membership import Group
from gangctl.readiness.reading import unix


def scheduling_gate_off(context: Context) -> Iterator[Finding]:
    """Pods were placed, but their group has no condition: the scheduler does not support groups.

    From Kubernetes 1.36 on it writes the group's condition in the cycle in which it places the pods, and places none
    before the minimum fits.
    """
    if context.capabilities is None or not context.runs:
        return
    evaluate = _partial_since if not context.capabilities.pod_groups else _without_condition_since
    partly: list[tuple[Group, int]] = []
    whole: list[tuple[Group, int]] = []
    for group in gangs(context):
        since = evaluate(group)
        if not since:
            continue
        partial = _placed(group) < group.minimum and any(not pod.node for pod in group.bound)
        patience = SOON if partial else LATE
        if context.now - since < patience:
            yield Until(since + patience)
        else:
            (partly if partial else whole).append((group, since))
    if partly:
        yield _gate_off(context, partly, partial=True)
    if whole:
        yield _gate_off(context, whole, partial=False)


def _placed(group: Group) -> int:
    return sum(1 for pod in group.bound if pod.node)


def _without_condition_since(group: Group) -> int:
    """Since when pods of a group without a condition are placed, 0 if that proves nothing."""
    placed = [pod.placed_at for pod in group.bound if pod.node and pod.placed_at]
    found = group.pod_group
    if found is None or found.scheduled is not None or not placed:
        return 0
    # A group that was created again has no condition either, and may get none while its pods run.
    return max(placed) if unix(found.created) <= min(placed) else 0


def _partial_since(group: Group) -> int:
    """Since when a group is placed in part although all its pods existed; the only evidence before 1.36."""
    placed = [pod for pod in group.bound if pod.node and pod.placed_at]
    left = [pod for pod in group.bound if not pod.node]
    clean = not (group.succeeded or group.leaving or group.earlier or group.over)
    if not clean or not placed or not left or len(placed) >= group.minimum:
        return 0
    first = min(pod.placed_at for pod in placed)
    return max(pod.placed_at for pod in placed) if all(0 < pod.created <= first for pod in left) else 0


def _gate_off(context: Context, found: Sequence[tuple[Group, int]], *, partial: bool) -> Finding:
    groups = [group for group, _ in found]
    since = min(at for _, at in found)
    capabilities = context.capabilities
    condition = "PodGroupInitiallyScheduled" if capabilities and capabilities.min_count_mutable else "PodGroupScheduled"
    evidence = [
        f"group {group.name}: {_placed(group)} of {plural(len(group.bound), 'pod')} have nodes, {group.minimum} "
        f"must start together, and the last was placed {context.ago(at)}"
        for group, at in sorted(found, key=lambda each: each[0].name)[:4]
    ]
    if capabilities is not None and capabilities.pod_groups:
        evidence.append(f"{plural(len(groups), 'PodGroup')} without condition {condition}")
    gates = "GenericWorkload" if capabilities and capabilities.min_count_mutable else "GenericWorkload, GangScheduling"
    return context.cause(
        Reason.SCHEDULING_GATE_OFF,
        "the scheduler places the pods of a gang one by one: it does not look at groups"
        if partial
        else "the scheduler has placed all pods without looking at their group: another time it may place some only",
        evidence=evidence,
        remedy=f"start kube-scheduler with --feature-gates that enable {gates}, the same as kube-apiserver",
        command=context.suggest(Command.SCHEDULER_FLAGS)
        if partial
        else about_group(context, Command.SHOW_GROUP, groups[0]),
        groups=groups,
        pods=sum(len(group.bound) - _placed(group) for group in groups),
        since=since,
        blocking=partial,
    )
