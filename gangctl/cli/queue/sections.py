"""Reports of queues as text."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from gangctl.cli.fitview import amount
from gangctl.cli.output import Entry, Section, Table
from gangctl.cli.quantities import with_quantities
from gangctl.cli.queue.report import (
    BorrowerReport,
    MemberReport,
    QueueDescription,
    QueueFacts,
    QueueReport,
    resource_name,
)
from gangctl.kueue.amounts import age, span

_LOCAL: Final = ("NAMESPACE", "QUEUE")
_HEADERS: Final = ("CLUSTERQUEUE", "COHORT", "STRATEGY", "PENDING", "ADMITTED", "STATE")
WIDE_HEADERS: Final = ("QUOTA-USED", "MESSAGE")
LIST_LEGEND: Final = (
    "PENDING: Workloads without quota. ADMITTED: those that hold quota. QUOTA-USED: what the ClusterQueue uses of its "
    "own quota, by flavor and resource."
)
_QUOTA_LEGEND: Final = (
    "BORROWABLE: the most that could ever be borrowed. FREE: what could be had now, with what can be borrowed."
)


def list_headers(*, local: bool) -> tuple[str, ...]:
    """Headers of LocalQueues or ClusterQueues."""
    return (*_LOCAL, *_HEADERS) if local else _HEADERS


def list_entry(report: QueueReport, *, local: bool) -> Entry:
    """One queue of a list."""
    identity = report["metadata"]
    used = (
        f"{each['flavor']}/{each['resource']}={amount(each['resource'], each['used'])}"
        f"/{amount(each['resource'], each['nominal'])}"
        for each in report["quotas"]
    )
    row = (
        *((identity["namespace"], identity["name"]) if local else ()),
        report["clusterQueue"],
        report["cohort"],
        report["strategy"],
        str(report["pending"]),
        str(report["admitted"]),
        f"{report['state']} ({report['reason']})" if report["reason"] else report["state"],
        ",".join(used),
        report["message"],
    )
    return Entry(with_quantities(report, QueueReport), row, resource_name(report))


def _quota(report: QueueFacts) -> Section:
    """The quotas of the ClusterQueue."""
    rows = tuple(
        (
            quota["flavor"],
            quota["resource"],
            amount(quota["resource"], quota["used"]),
            amount(quota["resource"], quota["nominal"]),
            "no bound" if quota["borrowable"] is None else amount(quota["resource"], quota["borrowable"]),
            amount(quota["resource"], quota["free"]),
        )
        for quota in report["quotas"]
    )
    headers = ("FLAVOR", "RESOURCE", "USED", "NOMINAL", "BORROWABLE", "FREE")
    return Section("Quota", table=Table(headers, rows), legend=_QUOTA_LEGEND)


def describe_sections(report: QueueDescription, now: datetime) -> list[Section]:
    """One queue, with what is in it."""
    identity = report["metadata"]
    name = f"{identity['namespace']}/{identity['name']}" if identity["namespace"] else identity["name"]
    behind = [
        f"ClusterQueue {report['clusterQueue']}" if report["queue"] == "LocalQueue" else "",
        f"cohort {report['cohort']}" if report["cohort"] else "",
        report["strategy"],
    ]
    lines = [", ".join(filter(None, behind)), f"{report['pending']} pending, {report['admitted']} admitted"]
    warnings = [report["message"]] if report["message"] else []
    sections = [
        Section(
            f"{report['queue']} {name}: {report['state']}",
            tuple(filter(None, lines)),
            warnings=(*warnings, *report["stuck"]),
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
        (each["clusterQueue"], each["flavor"], each["resource"], amount(each["resource"], each["borrowed"]))
        for each in borrowers
    )
    return Section("Who borrows", table=Table(("CLUSTERQUEUE", "FLAVOR", "RESOURCE", "BORROWED"), rows))


def _members(report: QueueDescription, now: datetime) -> Section:
    """The gangs, and other objects in the queue with their kinds."""
    several = report["queue"] == "ClusterQueue"
    away = any(each["cluster"] for each in report["members"])
    headers = (
        *("POSITION", "GANG"),
        *(("QUEUE",) if several else ()),
        *("PRIORITY", "PODS", "PHASE", "SINCE"),
        *(("CLUSTER",) if away else ()),
        "WAITS-FOR",
    )
    rows = tuple(
        (
            "" if each["position"] is None else str(each["position"]),
            _name(each, several=several),
            *((each["localQueue"],) if several else ()),
            str(each["priority"]),
            str(each["pods"]),
            each["phase"],
            _since(each, now),
            *((each["cluster"],) if away else ()),
            _reason(each),
        )
        for each in report["members"]
    )
    stuck = tuple(f"{each['name']}: {each['stuck']}" for each in report["members"] if each["stuck"])
    return Section("In order of admission", table=Table(headers, rows), warnings=stuck)


def _name(member: MemberReport, *, several: bool) -> str:
    """A JobSet by its name alone, others with their kind."""
    name = f"{member['namespace']}/{member['name']}" if several else member["name"]
    return name if member["kind"] == "JobSet" else f"{member['kind']} {name}"


def _since(member: MemberReport, now: datetime) -> str:
    since = age(member["since"], now)
    return "" if since is None else span(since)


_SILENT: Final = frozenset({"Admitted", "Succeeded", "Failed"})


def _reason(member: MemberReport) -> str:
    """What it waits for: from its state, else Kueue's message."""
    if member["detail"]:
        return member["detail"]
    if member["phase"] in _SILENT:
        return ""
    return member["message"] or member["reason"] or "Kueue has not looked at it yet"
