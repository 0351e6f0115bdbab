"""What ``gangctl queue`` answers, as plain data: every key is always there; amounts are milli-CPU, bytes and counts."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypedDict

API_VERSION: Final = "gangctl.dev/v1alpha1"
SUMMARY: Final = "QueueSummary"
DESCRIPTION: Final = "QueueDescription"

State = Literal["active", "stopped", "missing", "inactive"]
QueueKind = Literal["LocalQueue", "ClusterQueue"]


class Identity(TypedDict):
    """Which queue."""

    name: str
    namespace: Annotated[str, "Empty of a ClusterQueue."]


class QuotaReport(TypedDict):
    """One resource in one flavor of a ClusterQueue."""

    flavor: str
    resource: str
    used: Annotated[int, "What its Workloads hold."]
    nominal: int
    borrowed: Annotated[int, "What it uses beyond its own quota."]
    borrowable: Annotated[int | None, "The most that could ever be borrowed; null without a bound."]
    free: Annotated[int, "What could be had now, borrowing included."]


class BorrowerReport(TypedDict):
    """Who uses more than its own quota in a cohort."""

    clusterQueue: str
    flavor: str
    resource: str
    borrowed: int


class MemberReport(TypedDict):
    """A Workload of Kueue in a queue; one of a JobSet is a gang."""

    position: Annotated[
        int | None, "Of those that wait in the ClusterQueue, from 1, in the order that Kueue tries them."
    ]
    apiVersion: Annotated[str, "Of what it is a Workload of."]
    kind: Annotated[str, "What it is a Workload of: JobSet, Job and others; Workload for one without an owner."]
    name: str
    namespace: str
    workload: Annotated[str, "Name of Kueue's Workload, in the same namespace."]
    localQueue: str
    priority: int
    pods: int
    phase: str
    reason: Annotated[str, "Kueue's own."]
    message: Annotated[str, "Kueue's own."]
    detail: Annotated[str, "What it waits for beyond that: checks, an end of a backoff."]
    since: Annotated[str, "RFC 3339."]
    stuck: Annotated[str, "Why it does not get on by itself, and what helps; empty when it does, or only waits."]
    trouble: Annotated[str, "The same in one word; stable and CamelCase."]


class QueueReport(TypedDict):
    """One queue and the ClusterQueue behind it."""

    apiVersion: Literal["gangctl.dev/v1alpha1"]
    kind: Literal["QueueSummary", "QueueDescription"]
    metadata: Identity
    queue: QueueKind
    clusterQueue: str
    cohort: str
    strategy: Annotated[str, "BestEffortFIFO or StrictFIFO; empty where there is no ClusterQueue."]
    state: State
    reason: Annotated[str, "Why it is not active; stable and CamelCase, empty when it is."]
    message: str
    pending: Annotated[int, "Workloads of the queue without quota."]
    admitted: Annotated[int, "Workloads of the queue that hold quota."]
    quotas: Annotated[list[QuotaReport], "Of the ClusterQueue."]


class QueueDescription(QueueReport):
    """The same, with what is in it."""

    members: Annotated[list[MemberReport], "Those that hold quota first, then those that wait, in order."]
    borrowers: Annotated[list[BorrowerReport], "ClusterQueues of the same cohort that use more than is theirs."]
    stuck: Annotated[list[str], "What keeps the whole queue from getting on."]


def resource_name(report: QueueReport) -> dict[str, Any]:
    """What ``-o name`` prints of it: the queue itself."""
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": report["queue"], "metadata": report["metadata"]}
