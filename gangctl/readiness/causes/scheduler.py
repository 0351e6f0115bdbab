"""Causes from the scheduler's conditions of a group, from one that writes none, and from one that knows no groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gangctl.api.meta import DEFAULT_SCHEDULER
from gangctl.errors import plural
from gangctl.gang.config import read_config
from gangctl.gang.desired import LISTED, listed
from gangctl.gang.reasons import Reason
from gangctl.readiness.causes.context import LATE, QUICK, SOON, Command, Context, Suggestion, counted, gated, oldest
from gangctl.readiness.causes.messages import (
    CLAIMS,
    FILTERS,
    SELECTED,
    SIZE,
    VOLUME,
    Refusal,
    of_the_group,
    read_refusal,
)
from gangctl.readiness.causes.objects import about_group, gangs
from gangctl.readiness.facts import PodFacts, unix
from gangctl.readiness.membership import Group
from gangctl.readiness.result import Cause

_BACKOFF: Final = 10
"""Seconds that the scheduler waits at most before it tries again what may fit now (podMaxBackoffSeconds)."""
_FLUSH: Final = 300
"""Seconds after which it retries all unschedulable pods (flushUnschedulablePodsLeftover)."""
_INVALID: Final = frozenset({"PodGroupError", "CompositePodGroupError", "Invalid"})
"""Reasons for a group that the scheduler finds invalid: since 1.38, and ``Invalid`` of composite groups in 1.37."""
_ERRORS: Final = _INVALID | {"SchedulerError"}


@dataclass(frozen=True, slots=True)
class _Refused:
    """A group that the scheduler rejected: its pods without a node, and all messages."""

    group: Group
    pods: Sequence[PodFacts]
    messages: Sequence[str]
    reasons: frozenset[str]
    """Of the conditions."""
    since: int
    refusal: Refusal


_Texts = tuple[str, Sequence[str], str, Suggestion]
"""Message, evidence, remedy and command of a cause."""


def _refused_groups(context: Context) -> Iterator[_Refused]:
    for group in context.groups:
        waiting = [pod for pod in group.pods if not pod.node]
        held = any(gated(pod) for pod in waiting)
        refused = [pod for pod in waiting if pod.refused and not gated(pod)]
        if held:
            # A group that waits only for gated pods was rejected because of these.
            refused = [pod for pod in refused if not of_the_group(pod.refusal)]
        condition = group.scheduled
        condition = None if condition is None or condition.status or held or not waiting else condition
        if not refused and condition is None:
            continue
        messages = [pod.refusal for pod in refused] + ([condition.message] if condition is not None else [])
        since = oldest([*(pod.refused_at for pod in refused), unix(condition.since) if condition is not None else 0])
        found = frozenset([pod.refused for pod in refused] + ([condition.reason] if condition is not None else []))
        yield _Refused(group, waiting, messages, found, since, read_refusal(messages))


def refused(context: Context) -> Iterator[Cause]:
    """The scheduler rejected the group."""
    buckets: dict[tuple[Reason, str], list[_Refused]] = {}
    for held in _refused_groups(context):
        reason, refusal = _reason(context, held), held.refusal
        if reason in {Reason.SCHEDULER_BACKOFF, Reason.PRIORITY_MISMATCH}:
            short = ""  # reported once for all groups, a rejection once for each different one
        elif refusal.minimum not in {None, held.group.minimum} and _composite(context):
            short = f"room for {refusal.placed} of {refusal.minimum} gangs"
        else:
            short = refusal.short or max(held.messages, key=lambda message: (len(message), message), default="")
        buckets.setdefault((reason, short), []).append(held)
    for (reason, short), found in buckets.items():
        found.sort(key=lambda held: held.group.name)
        message, evidence, remedy, command = _TELLERS[reason](context, found, short)
        since = oldest(held.since for held in found)
        yield context.cause(
            reason,
            message,
            evidence=evidence,
            remedy=remedy,
            command=command,
            groups=[held.group for held in found],
            pods=_pods(found),
            since=since,
            blocking=reason is not Reason.SCHEDULER_BACKOFF,
        )


def _reason(context: Context, held: _Refused) -> Reason:
    if held.refusal.priorities is not None or _priorities(context, held.group):
        return Reason.PRIORITY_MISMATCH
    if not held.refusal.filters.isdisjoint(CLAIMS) or (held.refusal.hidden and _claims(context, held)):
        return Reason.VOLUME_NOT_BOUND
    if held.reasons & _ERRORS:
        return Reason.SCHEDULER_ERROR
    # The scheduler knows more than gangctl counts: it is contradicted only where it may just not have tried again yet.
    if _has_room(context, held) and held.refusal.counted and not context.late(held.since, _FLUSH + _BACKOFF):
        return Reason.SCHEDULER_BACKOFF
    if _topology_key(held.group) and (held.refusal.no_domain or (held.refusal.placements or 0) > 1):
        return Reason.TOPOLOGY_TOO_SMALL
    return Reason.UNSCHEDULABLE


def _has_room(context: Context, held: _Refused) -> bool:
    return context.snapshot.on_nodes.fits_now.get(held.group.name) is True


def _topology_key(group: Group) -> str:
    return group.pod_group.topology_key if group.pod_group is not None else ""


def _priorities(context: Context, group: Group) -> set[int]:
    """Priorities of pods that differ from their group's, if the scheduler checks that."""
    capabilities, found = context.capabilities, group.pod_group
    if capabilities is None or not capabilities.uniform_priority or found is None or found.priority is None:
        return set()
    return {pod.priority for pod in group.bound} - {found.priority}


def _messages(found: Sequence[_Refused]) -> list[str]:
    """The scheduler's messages, those about nodes first."""
    messages = sorted({message for held in found for message in held.messages if message})
    return [f"scheduler: {message}" for message in sorted(messages, key=of_the_group)[:3]]


def _composite(context: Context) -> list[str]:
    if not read_config(context.snapshot.jobset)[0].options.composite:
        return []
    return ["all gangs of the JobSet start together (option composite): the scheduler refuses all if one has no place"]


def _pods(found: Sequence[_Refused]) -> int:
    return sum(len(held.pods) for held in found)


def _describe(context: Context, found: Sequence[_Refused]) -> Suggestion:
    pods = [pod for held in found for pod in held.pods]
    telling = [pod for pod in pods if pod.refusal and not of_the_group(pod.refusal)]
    return context.suggest(Command.DESCRIBE_POD, pod=min(pod.name for pod in telling or pods))


def _who(found: Sequence[_Refused]) -> str:
    count = _pods(found)
    return f"{plural(count, 'pod')} of {found[0].group.name}" if len(found) == 1 else plural(count, "pod")


def _unschedulable(context: Context, found: Sequence[_Refused], short: str) -> _Texts:
    since, refusal = oldest(held.since for held in found), found[0].refusal
    together = " together" if any(held.group.scope is not None for held in found) else ""
    never = _never(context)
    message = never or f"the scheduler finds no nodes for {_who(found)}{together}"
    first = f"refused for the first time {context.ago(since)}" if since else ""
    return (
        message + ((f" ({short})" if never else f": {short}") if short else ""),
        [
            *_messages(found),
            *_composite(context),
            first,
            *context.snapshot.on_nodes.scaling,
            *_newcomers(context, found),
            *context.snapshot.on_nodes.changes,
            _UNCOUNTED if _has_room(context, found[0]) else "",
        ],
        _help(refusal, never=bool(never)) + _another_queue(context, refusal),
        _compare(context, found) if _is_short(refusal, never=bool(never)) else _describe(context, found),
    )


def _newcomers(context: Context, found: Sequence[_Refused]) -> Iterator[str]:
    """Who took the place of pods that came back: others that have what is short, and came after the gang was placed."""
    if not any(pod.node for held in found for pod in held.group.pods):
        return
    for _, what in found[0].refusal.reasons:
        others = context.snapshot.on_nodes.newcomers.get(what.removeprefix("short of "), ())
        if others:
            more = f" and {len(others) - LISTED} more" if len(others) > LISTED else ""
            yield f"{what}: since its pods were placed there came {', '.join(others[:LISTED])}{more}"


_UNCOUNTED: Final = (
    "by gangctl's count its pods have room now: the scheduler counts something else, or it does not try again"
)


def _claims(context: Context, held: _Refused) -> set[str]:
    """PersistentVolumeClaims of its pods."""
    entries = {pod.replicated_job for pod in held.pods}
    return {claim for rj in context.snapshot.jobset.replicated_jobs if rj.name in entries for claim in rj.volumes}


_BEFORE_NODES: Final = "so Kubernetes 1.37 reports pods that are refused before any node is looked at"


def _volume(context: Context, found: Sequence[_Refused], short: str) -> _Texts:
    """No node helps before the claim is bound."""
    hidden = found[0].refusal.hidden
    if hidden:
        names = listed(claim for held in found for claim in _claims(context, held))
        short = f"PersistentVolumeClaim {names} does not exist, is not bound, or is in use by another pod"
    return (
        f"{_who(found)} cannot be placed before a volume is there: {short}",
        [*_messages(found), _BEFORE_NODES if hidden else ""],
        "; ".join(known.remedy for known in CLAIMS) if hidden else _help(found[0].refusal, never=False),
        context.suggest(Command.CLAIMS),
    )


_MORE_NODES: Final = (
    "add nodes that can hold it (an autoscaler may be about to), or ask for less in a new JobSet: the end of other "
    "pods does not help"
)


def _never(context: Context) -> str:
    """Why the nodes can never hold it, as a clause; empty if they can, and if that is unknown."""
    text = context.snapshot.on_nodes.never
    return f"{text[:1].lower()}{text[1:]}"


def _compare(context: Context, found: Sequence[_Refused]) -> Suggestion:
    """The command that compares it with the nodes, for users who may read these."""
    return _describe(context, found) if context.snapshot.nodes is None else context.suggest(Command.FIT_NODES)


def _is_short(refusal: Refusal, *, never: bool) -> bool:
    """Whether it is about the size of the gang and of the nodes, not about which nodes its pods may use."""
    return not refusal.filters.isdisjoint(SIZE) or (never and not refusal.reasons)


def _help(refusal: Refusal, *, never: bool) -> str:
    short = _is_short(refusal, never=never)
    helps = [_MORE_NODES] if short and never else []
    helps += [known.remedy for known in FILTERS if known in refusal.filters and not (never and known in SIZE)]
    return "; ".join(dict.fromkeys(helps)) or (
        "see what the scheduler says of single pods; all of a gang have to fit at once"
    )


def _another_queue(context: Context, refusal: Refusal) -> str:
    """What helps where Kueue has added the labels of a flavor to what its pods select."""
    labels = context.snapshot.on_nodes.flavors
    if not labels or refusal.filters.isdisjoint({SELECTED, VOLUME}):
        return ""
    return f"; use another queue: the flavors of this one add {listed(labels)} to what its pods select"


def _topology(context: Context, found: Sequence[_Refused], short: str) -> _Texts:
    first = found[0]
    key, refusal = _topology_key(first.group), first.refusal
    never = _never(context)
    shown = context.snapshot.nodes is not None
    command = context.suggest(Command.NODE_LABELS, label=key) if shown else _describe(context, found)
    if never and not refusal.no_domain:
        message, remedy, command = never, _MORE_NODES, _compare(context, found)
    elif refusal.no_domain:
        message = f'no nodes that its pods may use share a value of label "{key}"'
        remedy = "label the nodes, or name a label that they have as topologyKey in a new JobSet"
    else:
        message = (
            f'none of the {refusal.placements} values of node label "{key}" has room for all {first.group.minimum} '
            "pods of a gang"
        )
        remedy = "wait until one such domain has room, make the gang smaller, or use a topologyKey with larger domains"
    tried = f"in the domain tried first: {short}" if refusal.short else ""
    return message, [tried, *_messages(found), *_composite(context)], remedy, command


def _error(context: Context, found: Sequence[_Refused], short: str) -> _Texts:
    invalid = any(held.reasons & _INVALID for held in found)
    what = f"finds the group of {_who(found)} invalid" if invalid else f"fails on {_who(found)}"
    return (
        f"the scheduler {what}: {short or 'it does not say why'}",
        _messages(found),
        "put right what it says; an error of the scheduler itself is in its log",
        _describe(context, found),
    )


def _backoff(context: Context, found: Sequence[_Refused], _short: str) -> _Texts:
    """It was rejected, but would fit now: this should not last long."""
    since = oldest(held.since for held in found)
    remedy = f"wait: it tries again within {_BACKOFF} s of what may help, and after {_FLUSH // 60} minutes in any case"
    return (
        f"the scheduler has refused {_who(found)}, and by gangctl's count there is room now",
        [f"refused for the first time {context.ago(since)}", *_messages(found)],
        remedy,
        _describe(context, found),
    )


def _priority(context: Context, found: Sequence[_Refused], _short: str) -> _Texts:
    evidence = []
    for held in found[:3]:
        pods, have = _priorities(context, held.group), held.group.pod_group
        if pods and have is not None:
            named = f" of {have.priority_class}" if have.priority_class else " of no class"
            evidence.append(
                f"group {held.group.name} has priority {have.priority}{named}, its pods have "
                f"{listed(str(number) for number in pods)}"
            )
    message = "the scheduler refuses a gang whose pods have another priority than their PodGroup"
    remedy = (
        "both are fixed once made: give all pods of the gang one priorityClassName, leave spec.priority to the "
        "cluster, and create the JobSet again; a changed PriorityClass or global default does this, too"
    )
    return message, [*evidence, *_messages(found)], remedy, context.suggest(Command.PRIORITIES)


_TELLERS: Final[Mapping[Reason, Callable[[Context, Sequence[_Refused], str], _Texts]]] = {
    Reason.UNSCHEDULABLE: _unschedulable,
    Reason.TOPOLOGY_TOO_SMALL: _topology,
    Reason.VOLUME_NOT_BOUND: _volume,
    Reason.SCHEDULER_ERROR: _error,
    Reason.SCHEDULER_BACKOFF: _backoff,
    Reason.PRIORITY_MISMATCH: _priority,
}


def scheduler_silent(context: Context) -> Iterator[Cause]:
    """All objects exist, but the scheduler wrote no condition: it is about to, or does not run."""
    silent: dict[bool, list[tuple[Group, list[PodFacts], int]]] = {}
    for group in context.groups:
        waiting = [pod for pod in group.bound if not pod.node]
        if waiting and _is_quiet(context, group):
            made = unix(group.pod_group.created) if group.pod_group is not None else 0
            since = max(made, *(pod.created for pod in waiting))
            silent.setdefault(context.late(since, QUICK), []).append((group, waiting, since))
    for late, found in silent.items():
        yield _silent(context, found, late=late)


def _is_quiet(context: Context, group: Group) -> bool:
    """Whether the scheduler should act, and wrote no condition."""
    if any(gated(pod) or (pod.refused and not pod.node) for pod in group.pods):
        return False
    if group.scope is None:
        return True
    capabilities = context.capabilities
    if capabilities is None:
        return False
    if capabilities.pod_groups and context.snapshot.groups_known and group.name not in context.snapshot.groups:
        return False
    condition = group.scheduled
    if condition is not None and not condition.status:
        return False
    return counted(group) >= group.minimum


def _silent(context: Context, found: Sequence[tuple[Group, list[PodFacts], int]], *, late: bool) -> Cause:
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
    return context.cause(
        Reason.SCHEDULER_SILENT,
        message,
        evidence=[
            f"without a node and without a word of the scheduler: {listed(pod.name for pod in pods)}",
            f"the oldest of them {context.old(oldest(pod.created for pod in pods))}",
            *(
                f"group {g.name}: {plural(len(g.bound), 'pod')} there, {g.minimum} must start together"
                for g, *_ in found[:2]
            ),
            f"spec.schedulerName: {listed(names)}",
        ],
        remedy=remedy,
        command=context.suggest(Command.SCHEDULER)
        if late and not own
        else context.suggest(Command.DESCRIBE_POD, pod=min(pod.name for pod in pods)),
        groups=[group for group, *_ in found],
        pods=len(pods),
        since=since,
        blocking=late,
    )


def scheduling_gate_off(context: Context) -> Iterator[Cause]:
    """Pods were placed, but their group has no condition: the scheduler does not support groups.

    From Kubernetes 1.36 on it writes the group's condition in the cycle in which it places the pods, and places none
    before the minimum fits.
    """
    if context.capabilities is None or not context.runs:
        return
    evaluate = _partial_since if not context.capabilities.pod_groups else _without_condition_since
    held: dict[bool, list[tuple[Group, int]]] = {}
    for group in gangs(context):
        since = evaluate(group)
        partial = _placed(group) < group.minimum and any(not pod.node for pod in group.bound)
        if since and context.late(since, SOON if partial else LATE):
            held.setdefault(partial, []).append((group, since))
    for partial, found in held.items():
        yield _gate_off(context, found, partial=partial)


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


def _gate_off(context: Context, found: Sequence[tuple[Group, int]], *, partial: bool) -> Cause:
    groups, capabilities = [group for group, _ in found], context.capabilities
    condition, gates = "PodGroupScheduled", "GenericWorkload, GangScheduling"
    if capabilities is not None and capabilities.min_count_mutable:
        condition, gates = "PodGroupInitiallyScheduled", "GenericWorkload"
    evidence = [
        f"group {group.name}: {_placed(group)} of {plural(len(group.bound), 'pod')} have nodes, {group.minimum} "
        f"must start together, and the last was placed {context.ago(at)}"
        for group, at in sorted(found, key=lambda pair: pair[0].name)[:4]
    ]
    if capabilities is not None and capabilities.pod_groups:
        evidence.append(f"{plural(len(groups), 'PodGroup')} without condition {condition}")
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
        since=min(at for _, at in found),
        blocking=partial,
    )
