"""Running and waiting gangs by queue: phases, pods, requests, and the longest waiting one.

The schema is published (``docs/top.schema.json``, generated from the types below): every key is always present.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypedDict

from gangctl.api.jobset import read_jobset
from gangctl.api.meta import API_VERSION
from gangctl.api.reportfields import QUANTITY, rfc3339
from gangctl.api.requests import times, together
from gangctl.cli.fitting import amount
from gangctl.cli.gangs.state import GangState
from gangctl.cli.gangs.views import ago
from gangctl.cli.messages import plural
from gangctl.cli.output import Section, Table
from gangctl.gang.plan import replicated_job_pods
from gangctl.gang.report import requests_per_pod
from gangctl.readiness.facts import unix
from gangctl.readiness.result import GangPhase, Readiness

KIND: Final = "GangSummary"
MOST_WAITING: Final = 10
_PHASE: Final = f"One of {', '.join(GangPhase)}."


class Pods(TypedDict):
    """Pods of several gangs."""

    wanted: Annotated[int, "Pods that should exist now."]
    ready: Annotated[int, "Of those, ready."]
    stranded: Annotated[int, "They hold nodes while their group is short of its minimum."]


class WaitingReport(TypedDict):
    """A gang that is not as it should be."""

    namespace: str
    name: Annotated[str, "Of the JobSet."]
    phase: Annotated[str, _PHASE]
    reason: Annotated[str, "The most likely cause, stable and CamelCase; empty where none is known."]
    message: Annotated[str, "That cause, or what the phase means, in a sentence."]
    blocking: Annotated[bool, "Whether it needs a change."]
    stranded: Annotated[int, "Pods that hold nodes while their group is short of its minimum."]
    since: Annotated[str, "When it came into that phase: RFC 3339, empty where that is not known."]


class QueueSummary(TypedDict):
    """The gangs of a queue, or those of a namespace that are in none."""

    namespace: str
    localQueue: Annotated[str, "Empty for gangs that are in none."]
    clusterQueue: Annotated[str, "The ClusterQueue behind it, empty where that is not known."]
    gangs: int
    blocked: Annotated[int, "Gangs that need a change."]
    phases: Annotated[dict[str, int], "Gangs by phase; phases without any are left out."]
    pods: Pods
    requests: Annotated[dict[str, int], "Of all pods of the gangs that are not over.", QUANTITY]
    oldest: Annotated[str, "Since when the one that waits longest is in its phase; empty if none waits."]


class Summary(TypedDict):
    """What ``gangctl top`` shows: trouble first."""

    apiVersion: Literal["gangctl.dev/v1alpha1"]
    kind: Literal["GangSummary"]
    gangs: int
    blocked: Annotated[int, "Gangs that something blocks that does not end by itself."]
    phases: Annotated[dict[str, int], "Gangs by phase; phases without any are left out."]
    pods: Pods
    queues: list[QueueSummary]
    waiting: Annotated[list[WaitingReport], f"Gangs that are not as they should be, at most {MOST_WAITING}."]


@dataclass(frozen=True, slots=True)
class SummedGang:
    """One gang, and the total requests of its pods."""

    gang: Readiness
    requests: dict[str, int]


def seen(state: GangState, gang: Readiness) -> SummedGang:
    """A gang with the requests of its JobSet; none after it has finished."""
    stored = state.jobsets.get(*gang.key)
    if stored is None or gang.phase.over:
        return SummedGang(gang, {})
    jobset, _ = read_jobset(stored.raw)
    requests, _ = requests_per_pod(stored.raw)
    pods = map(replicated_job_pods, jobset.replicated_jobs)
    return SummedGang(gang, together([times(request, count) for request, count in zip(requests, pods, strict=True)]))


def summarise(gangs: Iterable[SummedGang]) -> Summary:
    """The whole summary, problems first."""
    listed = list(gangs)
    by_queue: dict[tuple[str, str, str], list[SummedGang]] = {}
    for entry in listed:
        gang = entry.gang
        by_queue.setdefault((gang.namespace, gang.local_queue, gang.cluster_queue), []).append(entry)
    queues = [_queue(key, own) for key, own in by_queue.items()]
    waiting = sorted(
        (entry.gang for entry in listed if not entry.gang.phase.settled),
        key=lambda gang: (-gang.counts.stranded, gang.blocked_by is None, gang.since, gang.key),
    )
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "gangs": len(listed),
        "blocked": sum(queue["blocked"] for queue in queues),
        "phases": _phases(listed),
        "pods": _pods(listed),
        "queues": sorted(queues, key=_worst_first),
        "waiting": [_waiting(gang) for gang in waiting[:MOST_WAITING]],
    }


def _worst_first(queue: QueueSummary) -> tuple[int, int, str, str, str]:
    # "~" sorts after every year: queues without waiting gangs come last.
    return (
        -queue["pods"]["stranded"],
        -queue["blocked"],
        queue["oldest"] or "~",
        queue["namespace"],
        queue["localQueue"],
    )


def _queue(key: tuple[str, str, str], own: Sequence[SummedGang]) -> QueueSummary:
    namespace, local_queue, cluster_queue = key
    since = [gang.gang.since for gang in own if not gang.gang.phase.settled and gang.gang.since]
    return {
        "namespace": namespace,
        "localQueue": local_queue,
        "clusterQueue": cluster_queue,
        "gangs": len(own),
        "blocked": sum(gang.gang.blocked_by is not None for gang in own),
        "phases": _phases(own),
        "pods": _pods(own),
        "requests": {name: amount for name, amount in together([gang.requests for gang in own]).items() if amount},
        "oldest": rfc3339(min(since, default=0)),
    }


def _phases(gangs: Iterable[SummedGang]) -> dict[str, int]:
    """Gangs in each phase, in the order of the lifecycle."""
    count = Counter(gang.gang.phase for gang in gangs)
    return {phase.value: count[phase] for phase in GangPhase if count[phase]}


def _pods(gangs: Sequence[SummedGang]) -> Pods:
    counts = [gang.gang.counts for gang in gangs]
    return {
        "wanted": sum(count.wanted for count in counts),
        "ready": sum(count.ready for count in counts),
        "stranded": sum(count.stranded for count in counts),
    }


def _waiting(gang: Readiness) -> WaitingReport:
    first = gang.causes[0] if gang.causes else None
    return {
        "namespace": gang.namespace,
        "name": gang.name,
        "phase": gang.phase.value,
        "reason": first.reason.value if first else "",
        "message": first.message if first else gang.phase.sentence.rstrip("."),
        "blocking": gang.blocked_by is not None,
        "stranded": gang.counts.stranded,
        "since": rfc3339(gang.since),
    }


_HEADERS: Final = ("NAMESPACE", "QUEUE", "GANGS", "BLOCKED", "READY", "STRANDED", "OLDEST", "PHASES", "REQUESTED")
_WAITING: Final = ("NAMESPACE", "NAME", "PHASE", "SINCE", "REASON", "MESSAGE")
_LEGEND: Final = (
    "READY: pods that are ready, of those that should exist now. STRANDED: pods that hold nodes while their gang is "
    "short of its minimum. OLDEST: how long the oldest gang that is not ready has been in its phase."
)


def summary_sections(summary: Summary, now: float) -> list[Section]:
    """The queues, and the gangs that are not ready."""
    if not summary["gangs"]:
        return []
    pods = summary["pods"]
    totals = (
        f"{plural(summary['gangs'], 'gang')}, {summary['blocked']} blocked. {pods['ready']} of "
        f"{plural(pods['wanted'], 'pod')} ready, {pods['stranded']} stranded."
    )
    queues = Table(_HEADERS, tuple(_row(queue, now) for queue in summary["queues"]))
    waiting = Table(_WAITING, tuple(_waiting_row(waiter, now) for waiter in summary["waiting"]))
    tables = [queues, waiting] if waiting.rows else [queues]
    return [*(Section(table=table) for table in tables), Section(legend=f"{totals}\n{_LEGEND}")]


def _row(queue: QueueSummary, now: float) -> tuple[str, ...]:
    pods = queue["pods"]
    return (
        queue["namespace"],
        queue["localQueue"],
        str(queue["gangs"]),
        str(queue["blocked"]),
        f"{pods['ready']}/{pods['wanted']}",
        str(pods["stranded"]),
        ago(unix(queue["oldest"]), now),
        ",".join(f"{phase}={count}" for phase, count in queue["phases"].items()),
        ",".join(f"{name}={amount(name, value)}" for name, value in queue["requests"].items()),
    )


def _waiting_row(gang: WaitingReport, now: float) -> tuple[str, ...]:
    return (
        gang["namespace"],
        gang["name"],
        gang["phase"],
        ago(unix(gang["since"]), now),
        gang["reason"],
        gang["message"],
    )
