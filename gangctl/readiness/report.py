"""Readiness as plain data: the object ``Gang`` of ``gangctl.dev/v1alpha1``, in the cluster and in ``-o json`` alike.

The shape is published (``manifests/gang-objects`` and ``docs/gang.schema.json``), so every key is always there; times
are RFC 3339, empty where there is none.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Final, Literal, TypedDict

from gangctl.readiness.result import Cause, Counts, GangPhase, GroupReadiness, Readiness

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
    created: Annotated[int, "Pods that exist and have not finished; those that terminate are not counted."]
    scheduled: Annotated[int, "Of those created, on a node."]
    ready: Annotated[int, "Of those created, ready."]
    succeeded: Annotated[int, "Pods that have finished with success."]
    stranded: Annotated[int, "Pods that hold nodes while their group is short of its minimum."]


class CauseReport(TypedDict):
    """Why it is not ready."""

    reason: Annotated[str, "Stable, CamelCase."]
    message: Annotated[str, "One sentence."]
    blocking: Annotated[bool, "Whether it does not end by itself."]
    groups: Annotated[list[str], "Groups it holds back, empty for all."]
    pods: Annotated[int, "Pods it holds back, as far as that can be said."]
    since: Annotated[str, "When it began, empty where that is not known."]
    evidence: Annotated[list[str], "Facts as they were seen, the most telling first."]
    remedy: Annotated[str, "What to do about it, empty where there is nothing."]
    command: Annotated[str, "The next command to run, empty where there is none to suggest."]


class GroupReport(TypedDict):
    """One gang at run time."""

    name: Annotated[str, "Its PodGroup; on Kubernetes 1.35 its group of a Workload."]
    template: Annotated[str, "The template of the Workload that it is made from."]
    replicatedJobs: Annotated[list[str], "Whose pods are in it."]
    phase: Annotated[str, "As that of the JobSet."]
    since: Annotated[str, "When it came into that phase."]
    pods: PodCounts


class ConditionReport(TypedDict):
    """As metav1.Condition."""

    type: Annotated[str, "Ready."]
    status: Literal["True", "False", "Unknown"]
    reason: Annotated[str, "The phase."]
    message: str
    lastTransitionTime: str


class GangStatus(TypedDict):
    """How far the JobSet of the same name has come; times are RFC 3339, empty where there is none."""

    phase: Annotated[str, f"One of {', '.join(GangPhase)}."]
    since: Annotated[str, "When it came into that phase."]
    ready: Annotated[str, "Ready pods of those wanted, for people: 3/8."]
    reason: Annotated[str, "Why it is not ready: the most likely cause, empty where there is nothing to explain."]
    message: Annotated[str, "That cause in a sentence."]
    lost: Annotated[str, "Why it is a gang in name only, whatever its phase: a reason, empty where the promise holds."]
    level: Annotated[str, "What its gangs consist of: None, JobSet, ReplicatedJob, Replica or Mixed."]
    localQueue: Annotated[str, "Its queue of Kueue, empty without one."]
    clusterQueue: Annotated[str, "The ClusterQueue behind it."]
    cluster: Annotated[str, "The worker cluster on which MultiKueue runs it, empty without one."]
    attempt: Annotated[int, "Restarts of the JobSet so far."]
    pods: PodCounts
    groups: Annotated[list[GroupReport], f"Its gangs, the first {MOST_GROUPS} of them."]
    causes: Annotated[list[CauseReport], f"Why it is not ready, the most likely first, at most {MOST_CAUSES}."]
    admittedTime: Annotated[str, "When it was free to start: admitted by Kueue, or created."]
    scheduledTime: Annotated[str, "When the last pod that was needed got its node."]
    readyTime: Annotated[str, "When the last pod became ready."]
    conditions: Annotated[list[ConditionReport], "Ready, for kubectl wait and for the health checks of GitOps tools."]


class GangMetadata(TypedDict):
    """Name and namespace of the JobSet."""

    name: str
    namespace: str


class Gang(TypedDict):
    """Where a JobSet that asks for a gang stands."""

    apiVersion: Literal["gangctl.dev/v1alpha1"]
    kind: Literal["Gang"]
    metadata: GangMetadata
    status: GangStatus


def gang_status(readiness: Readiness) -> GangStatus:
    """The status of its Gang object."""
    first = readiness.causes[0] if readiness.causes else None
    return {
        "phase": readiness.phase.value,
        "since": rfc3339(readiness.since),
        "ready": f"{readiness.counts.ready}/{readiness.counts.wanted}",
        "reason": first.reason.value if first else "",
        "message": first.message if first else "",
        "lost": readiness.lost.reason.value if readiness.lost else "",
        "level": readiness.level,
        "localQueue": readiness.local_queue,
        "clusterQueue": readiness.cluster_queue,
        "cluster": readiness.cluster,
        "attempt": readiness.attempt,
        "pods": _counts(readiness.counts),
        "groups": [_group(group) for group in readiness.groups[:MOST_GROUPS]],
        "causes": [_cause(cause) for cause in readiness.causes[:MOST_CAUSES]],
        "admittedTime": rfc3339(readiness.admitted_at),
        "scheduledTime": rfc3339(readiness.placed_at),
        "readyTime": rfc3339(readiness.ready_at),
        "conditions": [_ready_condition(readiness, first)],
    }


def gang_object(readiness: Readiness) -> Gang:
    """The whole object, as ``gangctl get -o json`` prints it."""
    metadata: GangMetadata = {"name": readiness.name, "namespace": readiness.namespace}
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
