"""The summary of gangs as a person reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gangctl.cli.fitview import amounts
from gangctl.cli.gangs.gangviews import NONE, ago, plural
from gangctl.cli.gangs.summary import QueueSummary, Summary, WaitingReport
from gangctl.cli.output import Section, Table
from gangctl.readiness.reading import unix

_HEADERS: Final = ("NAMESPACE", "QUEUE", "GANGS", "BLOCKED", "READY", "STRANDED", "OLDEST", "PHASES")


def summary_sections(summary: Summary, now: float) -> list[Section]:
    """Everything: all together, each queue, and who waits."""
    pods = summary["pods"]
    if not summary["gangs"]:
        return [Section("no gang")]
    title = f"{plural(summary['gangs'], 'gang')}, {pods['ready']} of {plural(pods['wanted'], 'pod')} ready"
    warnings = [plural(pods["stranded"], "stranded pod")] if pods["stranded"] else []
    if summary["blocked"]:
        warnings.append(f"{plural(summary['blocked'], 'gang')} blocked")
    rows = tuple(_row(each, now) for each in summary["queues"])
    sections = [
        Section(
            f"{title}, {', '.join(warnings)}" if warnings else title,
            table=Table(_HEADERS, rows, right=frozenset({2, 3, 4, 5, 6})),
        )
    ]
    asked = tuple(
        (each["namespace"], each["localQueue"] or NONE, amounts(each["requests"].items()))
        for each in summary["queues"]
        if each["requests"]
    )
    if asked:
        sections.append(Section("Requested", table=Table(("NAMESPACE", "QUEUE", "RESOURCES"), asked)))
    if summary["waiting"]:
        rows = tuple(_waiting(each, now) for each in summary["waiting"])
        headers = ("NAMESPACE", "NAME", "PHASE", "SINCE", "REASON", "WHY")
        sections.append(Section("Not ready", table=Table(headers, rows)))
    return sections


def _row(queue: QueueSummary, now: float) -> tuple[str, ...]:
    pods = queue["pods"]
    return (
        queue["namespace"],
        queue["localQueue"] or NONE,
        str(queue["gangs"]),
        str(queue["blocked"]),
        f"{pods['ready']}/{pods['wanted']}",
        str(pods["stranded"]),
        ago(unix(queue["oldest"]), now),
        _counted(queue["phases"]),
    )


def _waiting(gang: WaitingReport, now: float) -> tuple[str, ...]:
    return (
        gang["namespace"],
        gang["name"],
        gang["phase"],
        ago(unix(gang["since"]), now),
        gang["reason"] or NONE,
        gang["message"],
    )


def _counted(phases: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {phase}" for phase, count in phases.items())
