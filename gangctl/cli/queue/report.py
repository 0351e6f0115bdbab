"""Output of ``gangctl queue`` as plain data and as text: every key is always present.

The schema is published (``docs/queue-list.schema.json`` and ``docs/queue-describe.schema.json``, generated from the
types below).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Final, Literal, TypedDict

from gangctl.api.reportfields import QUANTITY, SIGNED
from gangctl.cli.fitting import amount
from gangctl.cli.messages import full_name
from gangctl.cli.output import ListItem, Section, Table
from gangctl.cli.quantities import with_quantities
from gangctl.kueue.amounts import age, span
from gangctl.kueue.names import API_VERSION as KUEUE
from gangctl.kueue.states import QueuePhase

SUMMARY: Final = "QueueSummary"
DESCRIPTION: Final = "QueueDescription"

USAGE: Final = "what its Workloads hold: {}"
FREE: Final = "what is free in flavors that ClusterQueues of its cohort may hold and do not list: {}"
COHORT: Final = "what its cohort lends: {}"
POSITIONS: Final = "positions, and the head of the queue: {}"
UNORDERED: Final = "positions, and the head of the queue: in which order Kueue tries what waits ({})"
NAMESPACE: Final = "whether its namespaceSelector takes the namespace: the labels of that are not known"
WITHOUT_WORKLOAD: Final = "which JobSets have no Workload: JobSets may not be read"

State = Literal["active", "stopped", "missing", "inactive"]
QueueKind = Literal["LocalQueue", "ClusterQueue"]


class QueueIdentity(TypedDict):
    """Which queue."""

    name: str
    namespace: Annotated[str, "Empty of a ClusterQueue."]


class QuotaReport(TypedDict):
    """One resource in one flavor of a ClusterQueue."""

    flavor: str
    resource: str
    used: Annotated[int | None, "What its Workloads hold; null if unknown.", QUANTITY]
    nominal: Annotated[int, "The queue's own quota.", QUANTITY]
    borrowed: Annotated[int | None, "What it uses beyond its own quota; null if unknown.", QUANTITY]
    borrowable: Annotated[
        int | None, "The most that could ever be borrowed; null without a bound, or unknown.", QUANTITY
    ]
    free: Annotated[int | None, "What is available now, borrowing included; null if unknown.", QUANTITY]


class BorrowerReport(TypedDict):
    """Who uses more than its own quota in a cohort."""

    clusterQueue: str
    flavor: str
    resource: str
    borrowed: Annotated[int, "What it uses beyond its own quota.", QUANTITY]


class MemberReport(TypedDict):
    """A Workload of Kueue in a queue; one of a JobSet is a gang."""

    position: Annotated[
        int | None,
        "Of those that wait in the ClusterQueue, from 1, in the order that Kueue tries them; or unknown.",
    ]
    apiVersion: Annotated[str, "Of what it is a Workload of."]
    kind: Annotated[str, "What it is a Workload of: JobSet, Job and others; Workload for one without an owner."]
    name: Annotated[str, "Of the JobSet or other job; of the Workload for one without an owner."]
    namespace: str
    workload: Annotated[str, "Name of Kueue's Workload, in the same namespace."]
    localQueue: str
    priority: Annotated[int, "Of the Workload; more is tried first.", SIGNED]
    pods: int
    phase: Annotated[str, f"One of {', '.join(QueuePhase)}."]
    reason: Annotated[str, "Kueue's own."]
    message: Annotated[str, "Kueue's own."]
    detail: Annotated[str, "What it waits for beyond that: checks, an end of a backoff."]
    since: Annotated[str, "When it came into that phase: RFC 3339, empty where that is not known."]
    cluster: Annotated[str, "The worker cluster on which MultiKueue runs it, empty without one."]
    stuck: Annotated[str, "Why it needs a change, and which; empty if it is admitted, or only waits."]
    trouble: Annotated[str, "The same in one word; stable and CamelCase, empty as stuck is."]


class QueueAndCluster(TypedDict):
    """One queue and the ClusterQueue behind it."""

    apiVersion: Literal["gangctl.dev/v1alpha1"]
    metadata: QueueIdentity
    queue: Annotated[QueueKind, "What kind of queue it is."]
    clusterQueue: Annotated[str, "The one behind it, or itself; it may not exist."]
    cohort: Annotated[str, "Empty where there is none."]
    strategy: Annotated[str, "BestEffortFIFO or StrictFIFO; empty where there is no ClusterQueue."]
    state: State
    reason: Annotated[str, "Why it is not active; stable and CamelCase, empty when it is."]
    message: Annotated[str, "The same in a sentence."]
    pending: Annotated[int, "Workloads of the queue without quota."]
    admitted: Annotated[int, "Workloads of the queue that hold quota."]
    oldest: Annotated[str, "When the oldest pending Workload was created: RFC 3339, empty where none is pending."]
    quotas: Annotated[list[QuotaReport], "Of the ClusterQueue."]
    unknown: Annotated[list[str], "What is not known: fields that depend on it are null."]


class QueueReport(QueueAndCluster):
    """One queue and the ClusterQueue behind it."""

    kind: Literal["QueueSummary"]


class QueueDescription(QueueAndCluster):
    """One queue and the ClusterQueue behind it, with what is in it."""

    kind: Literal["QueueDescription"]
    members: Annotated[list[MemberReport], "Those that hold quota first, then those that wait, in order."]
    borrowers: Annotated[
        list[BorrowerReport] | None, "ClusterQueues of the same cohort that use more than is theirs; null if unknown."
    ]
    stuck: Annotated[list[str], "Why no Workload of the queue is admitted, a sentence each."]


LOCAL_HEADERS: Final = ("NAMESPACE", "QUEUE")
HEADERS: Final = ("CLUSTERQUEUE", "COHORT", "STRATEGY", "PENDING", "ADMITTED", "STATE")
WIDE_HEADERS: Final = ("OLDEST", "QUOTA-USED", "MESSAGE")
LIST_LEGEND: Final = (
    "PENDING: Workloads without quota. ADMITTED: those that hold quota. OLDEST: age of the oldest pending one. "
    "QUOTA-USED: what the ClusterQueue uses of its own quota, by flavor and resource."
)
_QUOTA_LEGEND: Final = (
    "BORROWABLE: the most that could ever be borrowed. FREE: what is available now, with what can be borrowed."
)


def list_entry(report: QueueReport, now: datetime, *, local: bool) -> ListItem:
    """One queue of a list."""
    identity = report["metadata"]
    used = (
        f"{quota['flavor']}/{quota['resource']}={_known(quota['resource'], quota['used'])}"
        f"/{amount(quota['resource'], quota['nominal'])}"
        for quota in report["quotas"]
    )
    row = (
        *((identity["namespace"], identity["name"]) if local else ()),
        report["clusterQueue"],
        report["cohort"],
        report["strategy"],
        str(report["pending"]),
        str(report["admitted"]),
        f"{report['state']} ({report['reason']})" if report["reason"] else report["state"],
        _age(report["oldest"], now),
        ",".join(used),
        report["message"],
    )
    named = {"apiVersion": KUEUE, "kind": report["queue"], "metadata": identity}
    return ListItem(with_quantities(report, QueueReport), row, named)


def _known(resource: str, value: int | None) -> str:
    """An amount, or that it is not known."""
    return "unknown" if value is None else amount(resource, value)


def _quota(report: QueueAndCluster) -> Section:
    """The quotas of the ClusterQueue."""
    unknown = any(fact.startswith(COHORT.format("")) for fact in report["unknown"])
    unbounded = "unknown" if unknown else "no bound"
    rows = tuple(
        (
            quota["flavor"],
            quota["resource"],
            _known(quota["resource"], quota["used"]),
            amount(quota["resource"], quota["nominal"]),
            unbounded if quota["borrowable"] is None else amount(quota["resource"], quota["borrowable"]),
            _known(quota["resource"], quota["free"]),
        )
        for quota in report["quotas"]
    )
    headers = ("FLAVOR", "RESOURCE", "USED", "NOMINAL", "BORROWABLE", "FREE")
    return Section("Quota", table=Table(headers, rows), legend=_QUOTA_LEGEND)


def describe_sections(report: QueueDescription, now: datetime) -> list[Section]:
    """One queue, with what is in it."""
    identity = report["metadata"]
    name = full_name(identity["namespace"], identity["name"])
    behind = [
        f"ClusterQueue {report['clusterQueue']}" if report["queue"] == "LocalQueue" else "",
        f"cohort {report['cohort']}" if report["cohort"] else "",
        report["strategy"],
    ]
    lines = [", ".join(filter(None, behind)), f"{report['pending']} pending, {report['admitted']} admitted"]
    warnings = [report["message"]] if report["message"] else []
    unknown = [f"not known: {fact}" for fact in report["unknown"]]
    sections = [
        Section(
            f"{report['queue']} {name}: {report['state']}",
            tuple(filter(None, lines)),
            warnings=(*warnings, *report["stuck"], *unknown),
        )
    ]
    if report["quotas"]:
        sections.append(_quota(report))
    if report["borrowers"]:
        sections.append(_borrowers(report["borrowers"]))
    if report["members"]:
        sections.append(_members(report, now))
    return sections


def _borrowers(borrowers: Iterable[BorrowerReport]) -> Section:
    rows = tuple(
        (
            borrower["clusterQueue"],
            borrower["flavor"],
            borrower["resource"],
            amount(borrower["resource"], borrower["borrowed"]),
        )
        for borrower in borrowers
    )
    return Section("Who borrows", table=Table(("CLUSTERQUEUE", "FLAVOR", "RESOURCE", "BORROWED"), rows))


def _members(report: QueueDescription, now: datetime) -> Section:
    """The gangs, and other objects in the queue with their kinds."""
    several = report["queue"] == "ClusterQueue"
    away = any(member["cluster"] for member in report["members"])
    headers = (
        *("POSITION", "GANG"),
        *(("QUEUE",) if several else ()),
        *("PRIORITY", "PODS", "PHASE", "SINCE"),
        *(("CLUSTER",) if away else ()),
        "WAITS-FOR",
    )
    rows = tuple(
        (
            "" if member["position"] is None else str(member["position"]),
            _name(member, several=several),
            *((member["localQueue"],) if several else ()),
            str(member["priority"]),
            str(member["pods"]),
            member["phase"],
            _age(member["since"], now),
            *((member["cluster"],) if away else ()),
            _reason(member),
        )
        for member in report["members"]
    )
    stuck = tuple(f"{member['name']}: {member['stuck']}" for member in report["members"] if member["stuck"])
    return Section("In order of admission", table=Table(headers, rows), warnings=stuck)


def _name(member: MemberReport, *, several: bool) -> str:
    """A JobSet by its name alone, others with their kind."""
    name = f"{member['namespace']}/{member['name']}" if several else member["name"]
    return name if member["kind"] == "JobSet" else f"{member['kind']} {name}"


def _age(time: str, now: datetime) -> str:
    """Of a time; empty where there is none."""
    elapsed = age(time, now)
    return "" if elapsed is None else span(elapsed)


_SILENT: Final = frozenset({"Admitted", "Succeeded", "Failed"})


def _reason(member: MemberReport) -> str:
    """What it waits for: from its state, else Kueue's message."""
    if member["detail"]:
        return member["detail"]
    if member["phase"] in _SILENT:
        return ""
    return member["message"] or member["reason"] or "Kueue has not processed it yet"
