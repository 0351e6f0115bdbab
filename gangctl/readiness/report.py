"""Readiness as plain data: the object ``Gang`` of ``gangctl.dev/v1alpha1``, in the cluster and in ``-o json`` alike.

The shape is published (``manifests/gang-objects`` and ``docs/gang.schema.json``), so every key is always there; times
are RFC 3339, empty where there is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal, TypedDict

from gangctl.readiness.phases import GangPhase
from gangctl.readiness.result import Cause, Counts, GroupReadiness, Readiness

API_VERSION: Final = "gangctl.dev/v1alpha1"
KIND: Final = "Gang"
MOST_GROUPS: Final = 256
"""Groups listed in one object; more are counted in the sums only."""
MOST_CAUSES: Final = 5


class PodCounts(TypedDict):
    """Pods by how far they have come."""

    desired: Annotated[int, "As configured: pods that exist at once when none has finished."]
    minimum: Annotated[int, "Pods that have to be placed together, as it is now (minCount)."]
    wanted: Annotated[int, "Pods that should exist now: desired without those that have finished."]
    created: int
    scheduled: Annotated[int, "Of those created, on a node."]
    ready: int
    succeeded: int
    stranded: Annotated[int, "Pods that hold nodes while their group is short of its minimum."]


class CauseReport(TypedDict):
    """Why it is not ready."""

    reason: Annotated[str, "Stable, CamelCase."]
    message: str
    blocking: Annotated[bool, "Whether it does not end by itself."]
    groups: Annotated[list[str], "Groups it holds back, empty for all."]
    pods: int
    since: str
    evidence: list[str]
    remedy: str
    command: Annotated[str, "The next command to run, empty where there is none to suggest."]


class GroupReport(TypedDict):
    """One gang at run time."""

    name: str
    template: str
    replicatedJobs: list[str]
    phase: str
    since: str
    pods: PodCounts


class ConditionReport(TypedDict):
    """As ``metav1.Condition``."""

    type: str
    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str
    lastTransitionTime: str


class GangStatus(TypedDict):
    """How far the JobSet of the same name has come."""

    phase: str
    since: str
    ready: Annotated[str, "Ready pods of those wanted, for people: 3/8."]
    reason: Annotated[str, "Why it is not ready: the most likely cause, empty where there is nothing to explain."]
    message: str
    level: str
    localQueue: str
    clusterQueue: str
    attempt: Annotated[int, "Restarts of the JobSet so far."]
    pods: PodCounts
    groups: list[GroupReport]
    causes: list[CauseReport]
    admittedTime: str
    scheduledTime: str
    readyTime: str
    conditions: Annotated[list[ConditionReport], "Ready, for kubectl wait and for the health checks of GitOps tools."]


def gang_status(readiness: Readiness) -> GangStatus:
    """The status of its Gang object."""
    first = readiness.causes[0] if readiness.causes else None
    return {
        "phase": readiness.phase.value,
        "since": rfc3339(readiness.since),
        "ready": f"{readiness.counts.ready}/{readiness.counts.wanted}",
        "reason": first.reason.value if first else "",
        "message": first.message if first else "",
        "level": readiness.level,
        "localQueue": readiness.local_queue,
        "clusterQueue": readiness.cluster_queue,
        "attempt": readiness.attempt,
        "pods": _counts(readiness.counts),
        "groups": [_group(group) for group in readiness.groups[:MOST_GROUPS]],
        "causes": [_cause(cause) for cause in readiness.causes[:MOST_CAUSES]],
        "admittedTime": rfc3339(readiness.admitted_at),
        "scheduledTime": rfc3339(readiness.placed_at),
        "readyTime": rfc3339(readiness.ready_at),
        "conditions": [_ready_condition(readiness, first)],
    }


def gang_object(readiness: Readiness) -> dict[str, Any]:
    """The whole object, as ``gangctl get -o json`` prints it."""
    metadata: Mapping[str, Any] = {"name": readiness.name, "namespace": readiness.namespace}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "status": gang_status(readiness)}


def rfc3339(seconds: int) -> str:
    """Unix seconds as Kubernetes writes times, empty for 0."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if seconds else ""


def _counts(counts: Counts) -> PodCounts:
    return {
        "desired": counts.desired,
        "minimum": counts.minimum,
        "wanted": counts.wanted,
        "created": counts.created,
        "scheduled": counts.placed,
        "ready": counts.ready,
        "succeeded": counts.finished,
        "stranded": counts.stranded,
    }


def _group(group: GroupReadiness) -> GroupReport:
    return {
        "name": group.name,
        "template": group.template,
        "replicatedJobs": list(group.replicated_jobs),
        "phase": group.phase.value,
        "since": rfc3339(group.since),
        "pods": _counts(group.counts),
    }


def _cause(cause: Cause) -> CauseReport:
    return {
        "reason": cause.reason.value,
        "message": cause.message,
        "blocking": cause.blocking,
        "groups": list(cause.groups),
        "pods": cause.pods,
        "since": rfc3339(cause.since),
        "evidence": list(cause.evidence),
        "remedy": cause.remedy,
        "command": cause.command,
    }


def _ready_condition(readiness: Readiness, first: Cause | None) -> ConditionReport:
    """True once all pods are ready, and for good after success."""
    ready = readiness.phase in {GangPhase.READY, GangPhase.SUCCEEDED}
    return {
        "type": "Ready",
        "status": "True" if ready else "False",
        "reason": readiness.phase.value,
        "message": first.message if first else readiness.phase.sentence,
        "lastTransitionTime": rfc3339(readiness.since),
    }
