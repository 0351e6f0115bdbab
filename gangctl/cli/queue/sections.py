"""Reports of queues as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from gangctl.cli.fitview import amount
from gangctl.cli.output import Section, Table
from gangctl.cli.queue.report import BorrowerReport, MemberReport, QueueDescription, QueueFacts, QueueReport
from gangctl.kueue.moments import age, span

_NONE: Final = "-"


def list_sections(reports: Sequence[QueueReport]) -> list[Section]:
    """The queues, and the quotas of the ClusterQueues behind them."""
    if not reports:
        return [Section("no queue")]
    local = reports[0]["queue"] == "LocalQueue"
    headers = (*(("NAMESPACE", "QUEUE") if local else ()), "CLUSTERQUEUE", "COHORT", "STRATEGY", "PENDING", "ADMITTED")
    rows = tuple(
        (
            *((each["metadata"]["namespace"], each["metadata"]["name"]) if local else ()),
            each["clusterQueue"],
            each["cohort"] or _NONE,
            each["strategy"] or _NONE,
            str(each["pending"]),
            str(each["admitted"]),
            f"{each['state']} ({each['reason']})" if each["reason"] else each["state"],
        )
        for each in reports
    )
    right = frozenset({len(headers) - 2, len(headers) - 1})
    count = f"{len(reports)} {reports[0]['queue']}{'' if len(reports) == 1 else 's'}"
    sections = [Section(count, table=Table((*headers, "STATE"), rows, right=right))]
    behind = {each["clusterQueue"]: each for each in reports if each["quotas"]}
    if behind:
        sections.append(Section("Quota", table=quota_table(behind.values())))
    return sections


def quota_table(reports: Iterable[QueueFacts], *, named: bool = True) -> Table:
    """Quotas of ClusterQueues, by name or of the only one."""
    rows = tuple(
        (
            *((report["clusterQueue"],) if named else ()),
            quota["flavor"],
            quota["resource"],
            amount(quota["resource"], quota["used"]),
            amount(quota["resource"], quota["nominal"]),
            "no bound" if quota["borrowable"] is None else amount(quota["resource"], quota["borrowable"]),
            amount(quota["resource"], quota["free"]),
        )
        for report in reports
        for quota in report["quotas"]
    )
    headers = (*(("CLUSTERQUEUE",) if named else ()), "FLAVOR", "RESOURCE", "IN USE", "NOMINAL", "BORROWABLE", "FREE")
    return Table(headers, rows, right=frozenset(range(len(headers) - 4, len(headers) - 1)))


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
        sections.append(Section("Quota", table=quota_table([report], named=False)))
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
    headers = ("POS", "GANG", *(("QUEUE",) if several else ()), "PRIORITY", "PODS", "PHASE", "SINCE", "WAITS FOR")
    rows = tuple(
        (
            _NONE if each["position"] is None else str(each["position"]),
            _name(each, several=several),
            *((each["localQueue"],) if several else ()),
            str(each["priority"]),
            str(each["pods"]),
            each["phase"],
            _since(each, now),
            _reason(each),
        )
        for each in report["members"]
    )
    right = frozenset({0, *(index for index, header in enumerate(headers) if header in {"PRIORITY", "PODS"})})
    stuck = tuple(f"{each['name']}: {each['stuck']}" for each in report["members"] if each["stuck"])
    return Section("In order of admission", table=Table(headers, rows, right=right), warnings=stuck)


def _name(member: MemberReport, *, several: bool) -> str:
    """A JobSet by its name alone, others with their kind."""
    name = f"{member['namespace']}/{member['name']}" if several else member["name"]
    return name if member["kind"] == "JobSet" else f"{member['kind']} {name}"


def _since(member: MemberReport, now: datetime) -> str:
    since = age(member["since"], now)
    return _NONE if since is None else span(since)


_SILENT: Final = frozenset({"Admitted", "Succeeded", "Failed"})


def _reason(member: MemberReport) -> str:
    """What it waits for: from its state, else Kueue's message."""
    if member["detail"]:
        return member["detail"]
    if member["phase"] in _SILENT:
        return _NONE
    return member["message"] or member["reason"] or "Kueue has not looked at it yet"
