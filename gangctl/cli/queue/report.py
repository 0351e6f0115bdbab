"""Output of ``gangctl queue`` as plain data: every key is always present.

The schema is published (``docs/queue-list.schema.json`` and ``docs/queue-describe.schema.json``, generated from the
types below).
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypedDict

from gangctl.api.reportschema import QUANTITY, SIGNED
from gangctl.kueue.states import Phase

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
    used: Annotated[int, "What its Workloads hold.", QUANTITY]
    nominal: Annotated[int, "The queue's own quota.", QUANTITY]
    borrowed: Annotated[int, "What it uses beyond its own quota.", QUANTITY]
    borrowable: Annotated[int | None, "The most that could ever be borrowed; null without a bound.", QUANTITY]
    free: Annotated[int, "What could be had now, borrowing included.", QUANTITY]


class BorrowerReport(TypedDict):
    """Who uses more than its own quota in a cohort."""

    clusterQueue: str
    flavor: str
    resource: str
    borrowed: Annotated[int, "What it uses beyond its own quota.", QUANTITY]


class MemberReport(TypedDict):
    """A Workload of Kueue in a queue; one of a JobSet is a gang."""

    position: Annotated[
        int | None, "Of those that wait in the ClusterQueue, from 1, in the order that Kueue tries them."
    ]
    apiVersion: Annotated[str, "Of what it is a Workload of."]
    kind: Annotated[str, "What it is a Workload of: JobSet, Job and others; Workload for one without an owner."]
    name: Annotated[str, "Of the JobSet or other job; of the Workload for one without an owner."]
    namespace: str
    workload: Annotated[str, "Name of Kueue's Workload, in the same namespace."]
    localQueue: str
    priority: Annotated[int, "Of the Workload; more is tried first.", SIGNED]
    pods: int
    phase: Annotated[str, f"One of {', '.join(Phase)}."]
    reason: Annotated[str, "Kueue's own."]
    message: Annotated[str, "Kueue's own."]
    detail: Annotated[str, "What it waits for beyond that: checks, an end of a backoff."]
    since: Annotated[str, "When it came into that phase: RFC 3339, empty where that is not known."]
    cluster: Annotated[str, "The worker cluster on which MultiKueue runs it, empty without one."]
    stuck: Annotated[str, "Why it does not get on by itself, and what helps; empty when it does, or only waits."]
    trouble: Annotated[str, "The same in one word; stable and CamelCase, empty as stuck is."]


class QueueFacts(TypedDict):
    """One queue and the ClusterQueue behind it."""

    apiVersion: Literal["gangctl.dev/v1alpha1"]
    metadata: Identity
    queue: Annotated[QueueKind, "What kind of queue it is."]
    clusterQueue: Annotated[str, "The one behind it, or itself; it may not exist."]
    cohort: Annotated[str, "Empty where there is none."]
    strategy: Annotated[str, "BestEffortFIFO or StrictFIFO; empty where there is no ClusterQueue."]
    state: State
    reason: Annotated[str, "Why it is not active; stable and CamelCase, empty when it is."]
    message: Annotated[str, "The same in a sentence."]
    pending: Annotated[int, "Workloads of the queue without quota."]
    admitted: Annotated[int, "Workloads of the queue that hold quota."]
    quotas: Annotated[list[QuotaReport], "Of the ClusterQueue."]


class QueueReport(QueueFacts):
    """One queue and the ClusterQueue behind it."""

    kind: Literal["QueueSummary"]


class QueueDescription(QueueFacts):
    """One queue and the ClusterQueue behind it, with what is in it."""

    kind: Literal["QueueDescription"]
    members: Annotated[list[MemberReport], "Those that hold quota first, then those that wait, in order."]
    borrowers: Annotated[list[BorrowerReport], "ClusterQueues of the same cohort that use more than is theirs."]
    stuck: Annotated[list[str], "What keeps the whole queue from getting on."]


def resource_name(report: QueueReport) -> dict[str, Any]:
    """What ``-o name`` prints of it: the queue itself."""
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": report["queue"], "metadata": report["metadata"]}
