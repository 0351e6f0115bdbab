"""Readiness as plain data: the object ``Gang`` of ``gangctl.dev/v1alpha1``, in the cluster and in ``-o json`` alike.

The shape is published (``manifests/gang-objects`` and ``docs/gang.schema.json``), so every key is always there; times
are RFC 3339, empty where there is none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from gangctl.api.meta import API_VERSION
from gangctl.api.reportfields import TIME, as_json
from gangctl.readiness.result import Cause, Counts, GangPhase, GroupReadiness, Readiness

KIND: Final = "Gang"
MOST_GROUPS: Final = 256
"""Groups listed in one object; more are counted in the sums only."""
MOST_CAUSES: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionReport:
    """As metav1.Condition."""

    type: Annotated[str, "Ready."] = "Ready"
    status: Literal["True", "False", "Unknown"]
    reason: Annotated[str, "The phase."]
    message: str
    last_transition_time: Annotated[int, TIME]


@dataclass(frozen=True, slots=True, kw_only=True)
class GangStatus:
    """How far the JobSet of the same name has come; times are RFC 3339, empty where there is none."""

    phase: Annotated[GangPhase, f"One of {', '.join(GangPhase)}."]
    since: Annotated[int, "When it came into that phase.", TIME]
    ready: Annotated[str, "Ready pods of those wanted, for people: 3/8."]
    reason: Annotated[str, "Why it is not ready: the most likely cause, empty where there is nothing to explain."]
    message: Annotated[str, "That cause in a sentence."]
    lost: Annotated[str, "Why it is a gang in name only, whatever its phase: a reason, empty where the promise holds."]
    level: Annotated[str, "What its gangs consist of: None, JobSet, ReplicatedJob, Replica or Mixed."]
    local_queue: Annotated[str, "Its queue of Kueue, empty without one."]
    cluster_queue: Annotated[str, "The ClusterQueue behind it."]
    cluster: Annotated[str, "The worker cluster on which MultiKueue runs it, empty without one."]
    attempt: Annotated[int, "Restarts of the JobSet so far."]
    pods: Counts
    groups: Annotated[tuple[GroupReadiness, ...], f"Its gangs, the first {MOST_GROUPS} of them."]
    causes: Annotated[tuple[Cause, ...], f"Why it is not ready, the most likely first, at most {MOST_CAUSES}."]
    admitted_time: Annotated[int, "When it was free to start: admitted by Kueue, or created.", TIME]
    scheduled_time: Annotated[int, "When the last pod that was needed got its node.", TIME]
    ready_time: Annotated[int, "When the last pod became ready.", TIME]
    conditions: Annotated[
        tuple[ConditionReport, ...], "Ready, for kubectl wait and for the health checks of GitOps tools."
    ]


@dataclass(frozen=True, slots=True)
class GangMetadata:
    """Name and namespace of the JobSet."""

    name: str
    namespace: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GangStanding:
    """Where a JobSet that asks for a gang stands."""

    api_version: Literal["gangctl.dev/v1alpha1"] = API_VERSION
    kind: Literal["Gang"] = KIND
    metadata: GangMetadata
    status: GangStatus


def status_of(readiness: Readiness) -> GangStatus:
    """The status of its Gang object."""
    first = readiness.causes[0] if readiness.causes else None
    ready = ConditionReport(
        # True once all pods are ready, and for good after success.
        status="True" if readiness.phase in {GangPhase.READY, GangPhase.SUCCEEDED} else "False",
        reason=readiness.phase.value,
        message=first.message if first else readiness.phase.sentence,
        last_transition_time=readiness.since,
    )
    return GangStatus(
        phase=readiness.phase,
        since=readiness.since,
        ready=f"{readiness.counts.ready}/{readiness.counts.wanted}",
        reason=first.reason.value if first else "",
        message=first.message if first else "",
        lost=readiness.lost.reason.value if readiness.lost else "",
        level=readiness.level,
        local_queue=readiness.local_queue,
        cluster_queue=readiness.cluster_queue,
        cluster=readiness.cluster,
        attempt=readiness.attempt,
        pods=readiness.counts,
        groups=readiness.groups[:MOST_GROUPS],
        causes=readiness.causes[:MOST_CAUSES],
        admitted_time=readiness.admitted_at,
        scheduled_time=readiness.placed_at,
        ready_time=readiness.ready_at,
        conditions=(ready,),
    )


def gang_status(readiness: Readiness) -> dict[str, Any]:
    """The status of its Gang object."""
    return as_json(status_of(readiness))


def gang_object(readiness: Readiness) -> dict[str, Any]:
    """The whole object, as ``gangctl get -o json`` prints it."""
    return as_json(
        GangStanding(metadata=GangMetadata(readiness.name, readiness.namespace), status=status_of(readiness))
    )
