"""``gangctl plan``: the gangs of a JobSet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import click

from gangctl.api.quantity import show_bytes, show_milli
from gangctl.cli import options
from gangctl.cli.manifests import PlannedManifest, cluster_rules, plan_manifests
from gangctl.cli.output import Section, Table, print_answer
from gangctl.gang.build import build_objects
from gangctl.gang.config import read_config
from gangctl.gang.report import GroupReport, PlanReport
from gangctl.gang.requests import together

SHOWN_GROUPS = 8
"""Groups of one template in a table; others differ only by their index."""


@click.command()
@options.files
@options.namespace
@options.output("table", "yaml", "json", "name")
@options.kubernetes
@options.cluster
@options.gang_schedulers
@options.colour
def plan(
    *,
    filenames: tuple[str, ...],
    namespace: str | None,
    form: str,
    kube: str | None,
    cluster: options.ClusterFlags,
    gang_schedulers: tuple[str, ...],
) -> None:
    """Show which gangs a JobSet becomes.

    Prints for each JobSet in the input, and for that which a PathwaysJob becomes, the gangs it is
    scheduled in, how many pods each needs at once (MIN), and what these pods request together.
    Nothing is created.
    Without a UID in the file, the names of gangs are those of the placeholder UID.
    """
    planned = plan_manifests(filenames, namespace, cluster_rules(kube, cluster, gang_schedulers))
    reports = [each.report for each in planned]
    names = runtime_objects(planned) if form == "name" else ()
    print_answer(form, reports, lambda: [_section(each) for each in planned], names)


def runtime_objects(planned: Iterable[PlannedManifest]) -> list[dict[str, object]]:
    """Objects of a gang at run time: PodGroups, on Kubernetes 1.35 the Workload."""
    found = []
    for each in planned:
        if each.planned.plan is not None:
            objects = build_objects(each.planned.plan, each.planned.generation)
            found += objects[1:] or objects
    return found


def _section(each: PlannedManifest) -> Section:
    report = each.report
    gangs = len(report["groups"])
    ganged = f"{report['gangedPods']} of {report['totalPods']} pods in {gangs} gang{'s' if gangs > 1 else ''}"
    lines = [
        ganged if gangs else f"{report['totalPods']} pods, no gang{_why_none(each)}",
        f"Kubernetes {report['kubernetes']}, {report['apiGeneration']}",
    ]
    if report["workload"]:
        lines.append(f"Workload {report['workload']}")
    if report["queue"]:
        lines.append(f"Queue {report['queue']}")
    lines += _details(report)
    return Section(
        title=f"{each.manifest.kind} {each.manifest.title}",
        lines=tuple(lines),
        table=_table(report) if gangs else None,
        warnings=tuple(f"{warning['reason']}: {warning['message']}" for warning in report["warnings"]),
    )


def _why_none(each: PlannedManifest) -> str:
    """If a gang is requested, a warning has the reason."""
    return "" if read_config(each.planned.jobset)[0].asks_for_gangs else ": none is asked for"


def _details(report: PlanReport) -> list[str]:
    """Details without a column in the table."""
    lines = []
    constraints = {(t["topologyKey"], t["disruption"], t["priorityClassName"]) for t in report["templates"]}
    for topology, disruption, priority in sorted(constraints):
        parts = []
        if topology:
            parts.append(f"all pods of a gang on one {topology}")
        if disruption:
            parts.append(f"preempted {'as a whole' if disruption == 'all' else 'pod by pod'}")
        if priority:
            parts.append(f"priority {priority}")
        if parts:
            lines.append(", ".join(parts))
    alone = Counter({(job["replicatedJob"], job["pods"]): 0 for job in report["jobs"] if job["group"] is None})
    alone.update((job["replicatedJob"], job["pods"]) for job in report["jobs"] if job["group"] is None)
    if alone and report["groups"]:
        lines.append("Not in a gang: " + ", ".join(f"{name} {jobs}x{pods}" for (name, pods), jobs in alone.items()))
    return lines


def _table(report: PlanReport) -> Table:
    groups = report["groups"]
    others = [name for name in together([group["resources"] for group in groups]) if name not in {"cpu", "memory"}]
    headers = ("GANG", "MIN", "CPU", "MEMORY", *others, "JOBS")
    rows: list[tuple[str, ...]] = []
    shown: Counter[str] = Counter()
    for group in groups:
        shown[group["template"]] += 1
        if shown[group["template"]] <= SHOWN_GROUPS:
            rows.append(_row(report, group, others))
    rows += [
        (f"({count - SHOWN_GROUPS} more of {template})", *("" for _ in headers[1:]))
        for template, count in shown.items()
        if count > SHOWN_GROUPS
    ]
    return Table(headers, tuple(rows), right=frozenset(range(1, len(headers) - 1)))


def _row(report: PlanReport, group: GroupReport, others: Iterable[str]) -> tuple[str, ...]:
    resources = group["resources"]
    return (
        group["name"],
        str(group["minCount"]),
        show_milli(resources["cpu"]),
        show_bytes(resources["memory"]),
        *(_show(name, resources.get(name, 0)) for name in others),
        _jobs(report, group),
    )


def _show(name: str, amount: int) -> str:
    """Storage and huge pages are bytes, everything else is counted."""
    return show_bytes(amount) if name == "ephemeral-storage" or name.startswith("hugepages-") else str(amount)


def _jobs(report: PlanReport, group: GroupReport) -> str:
    """The Jobs of a gang as ``name JOBSxPODS``; a gang of one replica by its index."""
    members = [job for job in report["jobs"] if job["group"] == group["name"]]
    counts = Counter((job["replicatedJob"], job["pods"]) for job in members)
    replicas = Counter(job["replicatedJob"] for job in report["jobs"])
    parts = []
    for (name, pods), jobs in counts.items():
        one_of_many = jobs == 1 and replicas[name] > 1
        parts.append(f"{name}[{members[0]['index']}] 1x{pods}" if one_of_many else f"{name} {jobs}x{pods}")
    return ", ".join(parts)
