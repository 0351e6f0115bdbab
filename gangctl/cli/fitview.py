"""The report of a fit as text: one sentence, the quotas, the podsets, and the holders."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Final

from gangctl.cli.messages import full_name
from gangctl.cli.output import Section, Table
from gangctl.fit.report import (
    DomainReport,
    FitReport,
    HolderReport,
    LimitReport,
    PodSetReport,
    PreemptedReport,
    StartReport,
    WorkerFit,
    figure,
)
from gangctl.kueue.amounts import DAY, HOUR, MINUTE, UNLIMITED, span

_VERDICTS: Final = {"never": "never fits", "not-now": "does not fit now", "fits": "fits", "unknown": "unknown"}
_LEGEND: Final = (
    "SOURCE: the flavor, or what sets the limit. MAXIMUM: the most that could ever be had, borrowing included. "
    "NOMINAL: the queue's own quota. FREE: what could be had now. MISSING: by how much REQUESTED exceeds MAXIMUM."
)


def amount(resource: str, value: int) -> str:
    """An amount in the unit of its resource, or that it is unlimited."""
    return "no bound" if value >= UNLIMITED else figure(resource, value)


def amounts(values: Iterable[tuple[str, int]]) -> str:
    """Several amounts with their resources, in one cell."""
    return ", ".join(f"{resource} {amount(resource, value)}" for resource, value in values)


def fit_sections(report: FitReport, remarks: Iterable[str] = (), workers: Sequence[WorkerFit] = ()) -> list[Section]:
    """The sections to print; ``remarks`` are lines on the JobSet's present state."""
    identity = report["metadata"]
    name = full_name(identity["namespace"], identity["name"])
    lines = [report["message"]]
    if report["queue"]:
        behind = f", ClusterQueue {report['clusterQueue']}" if report["clusterQueue"] else ""
        lines.append(f"LocalQueue {report['queue']}{behind}")
    if report["starts"] is not None:
        lines.append(_starts(report["starts"]))
    warnings = [f"not known: {each}" for each in report["unknown"]]
    sections = [
        Section(
            f"JobSet {name}: {_VERDICTS[report['verdict']]} ({report['reason']})",
            (*lines, *remarks),
            warnings=tuple(warnings),
        )
    ]
    if workers:
        rows = tuple((each["name"], _VERDICTS[each["verdict"]], each["reason"], each["message"]) for each in workers)
        sections.append(Section("Worker clusters", table=Table(("CLUSTER", "VERDICT", "REASON", "MESSAGE"), rows)))
    if report["limits"]:
        sections.append(_limits(report["limits"]))
    if report["podSets"]:
        sections.append(_podsets(report["podSets"]))
    if report["domains"]:
        sections.append(_domains(report["domains"]))
    if report["preempts"]:
        sections.append(_preempts(report["preempts"]))
    elif report["holders"]:
        sections.append(_holders(report["holders"]))
    return sections


def _starts(starts: StartReport) -> str:
    """When it starts, in one line; the latest start is rounded up."""
    earliest, latest = starts["earliest"], starts["latest"]
    if latest is None:
        when = f"not within {span(timedelta(seconds=earliest))}"
    else:
        unit = HOUR if latest >= DAY else MINUTE if latest >= HOUR else 1
        end = span(timedelta(seconds=-(-latest // unit) * unit))
        begin = f"in {span(timedelta(seconds=earliest))} to {end}" if earliest else f"within {end}"
        when = f"{begin}, if nothing new goes before it"
    return f"Starts: {when} ({'; '.join(starts['why'])})" if starts["why"] else f"Starts: {when}"


def _limits(limits: Iterable[LimitReport]) -> Section:
    rows = tuple(
        (
            each["flavor"] or each["limit"],
            each["resource"],
            *(amount(each["resource"], value) for value in (each["requested"], each["maximum"], each["nominal"])),
            *(amount(each["resource"], value) for value in (each["used"], each["free"])),
            amount(each["resource"], each["missing"]) if each["missing"] else "",
        )
        for each in limits
    )
    headers = ("SOURCE", "RESOURCE", "REQUESTED", "MAXIMUM", "NOMINAL", "USED", "FREE", "MISSING")
    return Section("Resources", table=Table(headers, rows), legend=_LEGEND)


def _podsets(podsets: Iterable[PodSetReport]) -> Section:
    rows: list[tuple[str, ...]] = []
    for each in podsets:
        refused = [f"not {flavor}: {why}" for flavor, why in each["refused"].items()]
        verdict = "; ".join([*_chosen(each), *refused])
        rows.append((each["name"], str(each["pods"]), amounts(each["requests"].items()), verdict))
    return Section("Podsets", table=Table(("PODSET", "PODS", "REQUESTS-PER-POD", "FLAVORS"), tuple(rows)))


def _chosen(podset: PodSetReport) -> list[str]:
    """Resources by the flavor that Kueue would assign."""
    by_flavor: dict[str, list[str]] = {}
    for resource, flavor in podset["flavors"].items():
        by_flavor.setdefault(flavor, []).append(resource)
    return [f"{flavor}: {', '.join(resources)}" for flavor, resources in by_flavor.items()]


def _domains(domains: Iterable[DomainReport]) -> Section:
    rows = tuple(
        (
            each["podSet"],
            each["flavor"],
            each["level"],
            each["domain"],
            *(str(each[count]) for count in ("requested", "maximum", "free")),
            str(each["assigned"]) if each["assigned"] else "",
        )
        for each in domains
    )
    headers = ("PODSET", "FLAVOR", "LEVEL", "DOMAIN", "PODS", "MAXIMUM", "FREE", "ASSIGNED")
    legend = (
        "PODS: all of the podset. MAXIMUM: those that the domain has room for with nothing else on its nodes. "
        "FREE: those that it has room for now. ASSIGNED: those that would be there now."
    )
    return Section("Domains", table=Table(headers, rows), legend=legend)


def _holders(holders: Iterable[HolderReport]) -> Section:
    headers = ("NAME", "CLUSTERQUEUE", "PRIORITY", "HOLDS")
    return Section("Who holds what it waits for", table=Table(headers, tuple(map(_holder, holders))))


def _preempts(preempted: Iterable[PreemptedReport]) -> Section:
    headers = ("NAME", "CLUSTERQUEUE", "PRIORITY", "FREES", "REASON")
    rows = tuple((*_holder(each), each["why"]) for each in preempted)
    return Section("What Kueue would preempt for it", table=Table(headers, rows))


def _holder(holder: HolderReport) -> tuple[str, ...]:
    return (
        f"{holder['kind']} {holder['namespace']}/{holder['name']}",
        holder["clusterQueue"],
        str(holder["priority"]),
        amounts(holder["resources"].items()),
    )
