"""Causes from what the scheduler says of pods and of their group: it has refused them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gangctl.errors import plural
from gangctl.fit.report import show
from gangctl.gang.config import read_config
from gangctl.gang.desired import LISTED, listed
from gangctl.gang.reasons import Reason
from gangctl.readiness.autoscaling import NODE_SECONDS, sayings
from gangctl.readiness.causes.context import (
    THEY_END,
    Command,
    Context,
    Suggestion,
    gated,
    oldest,
    unschedulable,
    volume_claims,
)
from gangctl.readiness.causes.filters import CLAIMS, COUNTED, DEVICES, FILTERS, SELECTED, SIZE, VOLUME
from gangctl.readiness.causes.messages import Refusal, of_the_group, read_refusal
from gangctl.readiness.facts import PodFacts, unix
from gangctl.readiness.membership import Group
from gangctl.readiness.result import Cause

_BACKOFF: Final = 10
"""Seconds that the scheduler waits at most before it tries again what may fit now (podMaxBackoffSeconds)."""
_FLUSH: Final = 300
"""Seconds after which it retries all unschedulable pods (flushUnschedulablePodsLeftover)."""
_INVALID: Final = frozenset({"PodGroupError", "CompositePodGroupError", "Invalid"})
"""Reasons for a group that the scheduler finds invalid: since 1.38, and ``Invalid`` of composite groups in 1.37."""
_PASSING: Final = frozenset({Reason.SCHEDULER_BACKOFF, Reason.SCALE_UP_RUNNING})
"""Causes that end by themselves."""


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
        # The scheduler looks at no group before its minimum exists: what it said was of pods that are gone.
        together = context.capabilities is not None and group.scope is not None
        if together and len(group.bound) < min(group.minimum, group.wanted):
            continue
        waiting = [pod for pod in group.pods if not pod.node]
        held = any(gated(pod) for pod in waiting)
        refused = [pod for pod in waiting if group.refuses(pod)]
        if held:
            # A group that waits only for gated pods was rejected because of these.
            refused = [pod for pod in refused if not of_the_group(pod.refusal)]
        condition = None if held else group.rejected
        if not refused and condition is None:
            continue
        messages = [pod.refusal for pod in refused] + ([condition.message] if condition is not None else [])
        written = unix(condition.since) if condition is not None else 0
        born = oldest(pod.created for pod in waiting)
        # The group outlives an eviction, and its condition keeps the time of the first refusal.
        since = oldest([*(pod.refused_at for pod in refused), written if written >= born else 0])
        since = since or (born if written else 0)
        reasons = frozenset([pod.refused for pod in refused] + ([condition.reason] if condition is not None else []))
        yield _Refused(group, waiting, messages, reasons, since, read_refusal(messages))


def refused(context: Context) -> Iterator[Cause]:
    """The scheduler rejected the group."""
    buckets: dict[tuple[Reason, str, bool], list[_Refused]] = {}
    for held in _refused_groups(context):
        reason, refusal = _reason(context, held), held.refusal
        preempts = reason is Reason.UNSCHEDULABLE and _preempts(context, held)
        if preempts or reason in _PASSING or reason is Reason.PRIORITY_MISMATCH:
            short = ""  # reported once for all groups, a rejection once for each different one
        elif refusal.minimum not in {None, held.group.minimum} and _composite(context):
            short = f"room for {refusal.placed} of {refusal.minimum} gangs"
        else:
            short = refusal.short or max(held.messages, key=lambda message: (len(message), message), default="")
        buckets.setdefault((reason, short, preempts), []).append(held)
    for (reason, short, preempts), bucket in buckets.items():
        bucket.sort(key=lambda held: held.group.name)
        message, evidence, remedy, command = (_preemption if preempts else _TELLERS[reason])(context, bucket, short)
        since = oldest(held.since for held in bucket)
        yield context.cause(
            reason,
            message,
            evidence=evidence,
            remedy=remedy,
            command=command,
            groups=[held.group for held in bucket],
            pods=_pods(bucket),
            since=since,
            blocking=not preempts and reason not in _PASSING,
        )


def _reason(context: Context, held: _Refused) -> Reason:
    if held.refusal.priorities is not None or _priorities(context, held.group):
        return Reason.PRIORITY_MISMATCH
    # Before all that is about nodes: none helps while a claim is not bound.
    if not held.refusal.filters.isdisjoint(CLAIMS) or (held.refusal.hidden and _claims(context, held)):
        return Reason.VOLUME_NOT_BOUND
    failed = "SchedulerError" in held.reasons and not unschedulable(held.pods) and DEVICES not in held.refusal.filters
    if held.reasons & _INVALID or failed:
        return Reason.SCHEDULER_ERROR
    # The scheduler knows more than gangctl counts: it is contradicted only where it may just not have tried again yet.
    if _has_room(context, held) and held.refusal.counted and not context.late(held.since, _FLUSH + _BACKOFF):
        return Reason.SCHEDULER_BACKOFF
    if _preempts(context, held):
        return Reason.UNSCHEDULABLE
    said = _of_an_autoscaler(context, held)
    if said is not None or not _in_domains(held):
        return said or Reason.UNSCHEDULABLE
    # Full domains are no reason to give up, and only a count of the nodes distinguishes them from small ones.
    if _never(context):
        return Reason.TOPOLOGY_TOO_SMALL
    # The first nodes of a node group that was scaled to zero may be on their way, and the controller reads no events of
    # autoscalers.
    late = held.refusal.no_domain and context.late(held.since, NODE_SECONDS)
    return Reason.TOPOLOGY_TOO_SMALL if late else Reason.UNSCHEDULABLE


def _preempts(context: Context, held: _Refused) -> bool:
    """Whether the scheduler waits for the end of pods that it has preempted for the group."""
    if not any(pod.nominated for pod in held.pods):
        return False
    capabilities = context.capabilities
    grouped = capabilities is not None and capabilities.pod_groups and held.group.scope is not None
    # A pod of a group that finds no node itself keeps its nomination after the preemption has failed (1.37). On 1.35
    # those that wait on their nodes for the others of the gang are nominated, too: what counts are these others.
    return held.refusal.preempts if grouped else all(pod.nominated for pod in held.pods if pod.refused)


def _of_an_autoscaler(context: Context, held: _Refused) -> Reason | None:
    """What follows from what autoscalers said of a group's pods; None if they said nothing."""
    ups = context.snapshot.on_nodes.scale_ups
    # One that names a node adds none, and refuses none.
    last = [ups[pod.name] for pod in held.pods if pod.name in ups]
    # One that is not ready yet is on its way.
    unready = {name for name, node in (context.snapshot.nodes or {}).items() if not node.ready}
    said = [one for one in last if not one.there or one.node in unready]
    coming = [one for one in said if one.running(context.now)]
    for one in coming:
        # It is no longer believed then, without a change of any object.
        context.late(one.at, NODE_SECONDS)
    # One whose node is there, or was the first of several to join, waits for the others.
    named = sum(one.there and one.node not in unready and one.running(context.now) for one in last)
    if coming and len(coming) + named == len(held.pods):
        return Reason.SCALE_UP_RUNNING
    if len(coming) < len(said):
        return Reason.SCALE_UP_REFUSED
    # They add nodes for some, and ignore the others.
    return Reason.UNSCHEDULABLE if coming else None


def _has_room(context: Context, held: _Refused) -> bool:
    return context.snapshot.on_nodes.fits_now.get(held.group.name) is True


def _topology_key(group: Group) -> str:
    return group.pod_group.topology_key if group.pod_group is not None else ""


def _in_domains(held: _Refused) -> bool:
    """Whether the scheduler looked for one domain that holds the whole group, and found none."""
    return bool(_topology_key(held.group)) and (held.refusal.no_domain or (held.refusal.placements or 0) > 1)


def _priorities(context: Context, group: Group) -> set[int]:
    """Priorities of pods that differ from their group's, if the scheduler checks that."""
    capabilities, pod_group = context.capabilities, group.pod_group
    if capabilities is None or not capabilities.uniform_priority or pod_group is None or pod_group.priority is None:
        return set()
    return {pod.priority for pod in group.bound} - {pod_group.priority}


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
    if _in_domains(found[0]):
        return _topology(context, found, short)
    since, refusal = oldest(held.since for held in found), found[0].refusal
    together = " together" if any(held.group.scope is not None for held in found) else ""
    never = _never(context)
    message = never or (
        f"{_who(found)} cannot be bound to the nodes that were found"
        if DEVICES in refusal.filters
        else f"the scheduler finds no nodes for {_who(found)}{together}"
    )
    first = f"refused for the first time {context.ago(since)}" if since else ""
    return (
        message + ((f" ({short})" if never else f": {short}") if short else ""),
        [
            *_messages(found),
            *_composite(context),
            first,
            *([] if never else _holders(context, found)),
            *_sayings(context, found),
            *_newcomers(context, found),
            *context.snapshot.on_nodes.changes,
            # Not where the message has what gangctl does not count.
            _UNCOUNTED if _has_room(context, found[0]) and refusal.filters <= frozenset(COUNTED) else "",
        ],
        _help(refusal, never=bool(never)) + _another_queue(context, refusal),
        _compare(context, found) if _is_short(refusal, never=bool(never)) else _describe(context, found),
    )


def _preemption(context: Context, found: Sequence[_Refused], _short: str) -> _Texts:
    nodes = {pod.nominated for held in found for pod in held.pods} - {""}
    where = f"{'node' if len(nodes) == 1 else 'nodes'} {listed(nodes)}"
    return (
        f"the scheduler makes room for {_who(found)} on {where} by preemption of pods of lower priority",
        [*_messages(found), *_composite(context)],
        THEY_END,
        _describe(context, found),
    )


def _sayings(context: Context, found: Sequence[_Refused]) -> tuple[str, ...]:
    """What autoscalers said of the pods."""
    return sayings(context.snapshot.on_nodes.scale_ups, {pod.name for held in found for pod in held.pods}, context.now)


def _scale_up(context: Context, found: Sequence[_Refused], _short: str) -> _Texts:
    return (
        f"no nodes have room for {_who(found)} yet, and an autoscaler adds nodes for all of them",
        [*_sayings(context, found), *_messages(found), *_composite(context)],
        f"wait: a node joins within {NODE_SECONDS // 60} minutes, or the autoscaler gives up",
        _describe(context, found),
    )


def _no_scale_up(context: Context, found: Sequence[_Refused], short: str) -> _Texts:
    never = _never(context)
    more = [] if never else [_help(found[0].refusal, never=False)]
    return (
        f"no nodes have room for {_who(found)}, and an autoscaler adds none or too few"
        + (f": {short}" if short else ""),
        [
            *_sayings(context, found),
            *_messages(found),
            *_composite(context),
            *([] if never else _holders(context, found)),
            *context.snapshot.on_nodes.changes,
        ],
        "; ".join([_LARGER_NODE_GROUP, *more]),
        _describe(context, found),
    )


_LARGER_NODE_GROUP: Final = (
    "let the autoscaler add enough nodes that fit the pods (the maximum of a node group, the provider's quota), or use "
    "a queue with ProvisioningRequests, which ask for all of them at once"
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


_MOST_HOLDERS: Final = 3


def _holders(context: Context, found: Sequence[_Refused]) -> Iterator[str]:
    """Who has what is short on the nodes that the pods may be placed on: devices, or else what is named first.

    Before them, which devices none has, because no device plugin reports them.
    """
    yield from context.snapshot.on_nodes.without_plugins
    holders = context.snapshot.on_nodes.holders
    if holders is None:
        yield "who holds the nodes is not known: pods of other namespaces may not be read"
        return
    short = [what.removeprefix("short of ") for held in found for _, what in held.refusal.reasons]
    resources = sorted((name for name in dict.fromkeys(short) if holders.get(name)), key=lambda name: "/" not in name)
    for name in resources[:1]:
        first, others = holders[name][:_MOST_HOLDERS], holders[name][_MOST_HOLDERS:]
        for holder in first:
            since = unix(holder.since)
            yield (
                f"{holder.title} holds {show(name, holder.amount)}: {plural(holder.pods, 'pod')} on "
                f"{plural(holder.nodes, 'node')}" + (f", {context.lasting(since)}" if since else "")
            )
        if others:
            verb = "holds" if len(others) == 1 else "hold"
            yield f"{len(others)} more {verb} {show(name, sum(holder.amount for holder in others))}"


_UNCOUNTED: Final = (
    "by gangctl's count its pods have room now: the scheduler counts something else, or it does not try again"
)


def _claims(context: Context, held: _Refused) -> set[str]:
    """PersistentVolumeClaims of its pods."""
    return volume_claims(context, held.pods)


_LIKELY: Final = CLAIMS[:2]
"""Of the messages about claims, where it is not known which it is."""
_BEFORE_NODES: Final = "so Kubernetes 1.37 reports pods that are refused before any node is looked at"


def _volume(context: Context, found: Sequence[_Refused], short: str) -> _Texts:
    """No node helps before the claim is bound."""
    hidden, claims = found[0].refusal.hidden, {claim for held in found for claim in _claims(context, held)}
    if hidden:
        short = f"PersistentVolumeClaim {listed(claims)} does not exist, is not bound, or is in use by another pod"
    elif claims and not any(f'"{claim}"' in short for claim in claims):
        short = f"{short}; its claims: {listed(claims)}"
    return (
        f"{_who(found)} cannot be placed before a volume is there: {short}",
        [*_messages(found), _BEFORE_NODES if hidden else ""],
        "; ".join(known.remedy for known in _LIKELY) if hidden else _help(found[0].refusal, never=False),
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
        remedy = (
            "label the nodes, or name a label that they have as topologyKey in a new JobSet; an autoscaler may add "
            "nodes that have it"
        )
    else:
        message = (
            f'none of the {refusal.placements} values of node label "{key}" has room for all {first.group.minimum} '
            "pods of a gang"
        )
        remedy = "wait until one such domain has room, make the gang smaller, or use a topologyKey with larger domains"
    tried = f"in the domain tried first: {short}" if refusal.short else ""
    held = [] if never or refusal.no_domain else _holders(context, found)
    return message, [tried, *_messages(found), *_composite(context), *held, *_sayings(context, found)], remedy, command


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
    Reason.SCALE_UP_RUNNING: _scale_up,
    Reason.SCALE_UP_REFUSED: _no_scale_up,
    Reason.PRIORITY_MISMATCH: _priority,
}
