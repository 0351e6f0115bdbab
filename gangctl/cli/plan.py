"""``gangctl plan``: the gangs of a JobSet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import click

from gangctl.api.quantity import figure
from gangctl.api.requests import together
from gangctl.cli import options
from gangctl.cli.manifests import PlannedManifest, PlanQuestion, plan_manifests
from gangctl.cli.messages import note, plural
from gangctl.cli.output import TABLE, Section, Table, print_answer
from gangctl.cli.quantities import with_quantities
from gangctl.gang.config import read_config
from gangctl.gang.naming import UID_PLACEHOLDER
from gangctl.gang.plan import build_objects
from gangctl.gang.report import GroupReport, JobReport, PlanReport, TemplateReport

_PLACEHOLDER: Final = f"{UID_PLACEHOLDER[:13]} in names is a placeholder for the first digits of the JobSet's UID"
_LEGEND: Final = (
    "MINPODS: pods that the gang needs at once, fewer than all with a minCount. CPU and the columns after it: what all "
    "its pods request. "
    "JOBS: ReplicatedJob, number of its Jobs x pods of each."
)


@click.command()
@options.files
@options.namespace
@options.output("table", "yaml", "json", "name")
@options.no_headers
@options.kubernetes
@options.cluster
@options.gang_schedulers
@options.colour
def plan(
    *,
    filenames: tuple[str, ...],
    namespace: str | None,
    form: str,
    no_headers: bool,
    kube: str | None,
    cluster: options.ClusterFlags,
    gang_schedulers: tuple[str, ...],
) -> None:
    """Show which gangs a JobSet becomes.

    Prints for each JobSet in the input, and for that which a PathwaysJob becomes, the gangs it is
    scheduled in, how many pods each needs at once (MINPODS), and what all its pods request together.
    JOBS has the Jobs of each ReplicatedJob: "workers 2x8" are two Jobs of eight pods each,
    "slice[1] 1x4" is the Job of index 1. Nothing is created.

    A JobSet is checked as an API server with JobSet does it: unknown fields are noted, and one that
    is refused, or whose Jobs are, is an error. With --kubeconfig or --context one that does not exist
    yet has the defaults that GangPolicies of the cluster give to new JobSets, and a note names pods
    that are larger than any node of the cluster.

    Names of gangs have the first digits of the JobSet's UID. Without a UID in the file these are
    the placeholder 00000000-0000.
    """
    planned = plan_manifests(PlanQuestion(filenames, namespace, kube, cluster, gang_schedulers), sizes=True)
    reports = [with_quantities(preview.report, PlanReport) for preview in planned]
    names = runtime_objects(planned) if form == "name" else ()
    if form != TABLE and any(map(_has_placeholder, planned)):
        note(_PLACEHOLDER)
    print_answer(
        form,
        reports,
        lambda: [Section(table=_table(planned), legend=_LEGEND), *map(_section, planned)],
        names,
        headers=not no_headers,
    )


def runtime_objects(planned: Iterable[PlannedManifest]) -> list[dict[str, object]]:
    """Objects of a gang at run time: PodGroups, on Kubernetes 1.35 the Workload."""
    resources = []
    for preview in planned:
        if preview.planned.plan is not None:
            objects = build_objects(preview.planned.plan, preview.planned.generation)
            resources += objects[1:] or objects
    return resources


def _has_placeholder(each: PlannedManifest) -> bool:
    return each.report["workload"] is not None and not each.manifest.jobset.uid


def _section(each: PlannedManifest) -> Section:
    report = each.report
    gangs, pods = len(report["groups"]), plural(report["totalPods"], "pod")
    # If a gang is requested, a warning has the reason.
    why_none = "" if read_config(each.planned.jobset)[0].asks_for_gangs else ": none is asked for"
    lines = [
        f"{report['gangedPods']} of {pods} in {plural(gangs, 'gang')}" if gangs else f"{pods}, no gang{why_none}",
        f"Kubernetes {report['kubernetes']}, {report['apiGeneration']}",
    ]
    if report["workload"]:
        lines.append(f"Workload {report['workload']}")
        if _has_placeholder(each):
            lines.append(_PLACEHOLDER)
    if report["queue"]:
        lines.append(f"LocalQueue {report['queue']}")
    lines += _details(report)
    return Section(
        title=f"{each.manifest.kind} {each.manifest.title}",
        lines=tuple(lines),
        warnings=tuple(f"{warning['reason']}: {warning['message']}" for warning in report["warnings"]),
    )


def _details(report: PlanReport) -> list[str]:
    """Details without a column in the table."""
    lines = []
    if (composite := report["composite"]) is not None:
        lines.append(f"CompositePodGroup {composite['name']}: all {composite['minGroupCount']} gangs start together")
    same: dict[str, list[str]] = {}
    for template in report["templates"]:
        same.setdefault(", ".join(_options(template)), []).append(template["name"])
    for text, names in same.items():
        if text:
            lines.append(text if len(same) == 1 else f"{', '.join(names)}: {text}")
    lines += _smaller_starts(report)
    alone = Counter((job["replicatedJob"], job["pods"]) for job in report["jobs"] if job["group"] is None)
    if alone and report["groups"]:
        lines.append("Not in a gang: " + ", ".join(f"{name} {jobs}x{pods}" for (name, pods), jobs in alone.items()))
    return lines


def _smaller_starts(report: PlanReport) -> list[str]:
    """The gangs that start with fewer than all of their pods, by template."""
    pods = Counter[str | None]()
    for job in report["jobs"]:
        pods[job["group"]] += job["pods"]
    lines = (
        f"a gang of {group['template']} starts with {group['minCount']} of its {pods[group['name']]} pods (minCount); "
        f"its amounts in the table are of all {pods[group['name']]}"
        for group in report["groups"]
        if group["minCount"] < pods[group["name"]]
    )
    return list(dict.fromkeys(lines))


def _options(template: TemplateReport) -> Iterator[str]:
    if template["topologyKey"]:
        yield f"all pods of a gang on one {template['topologyKey']}"
    if template["disruption"]:
        yield f"preempted {'as a whole' if template['disruption'] == 'all' else 'pod by pod'}"
    if template["priorityClassName"]:
        yield f"priority {template['priorityClassName']}"
    if template["resourceClaims"]:
        yield f"all pods of a gang share {', '.join(template['resourceClaims'])}"


def _table(planned: Sequence[PlannedManifest]) -> Table:
    """All gangs; a JobSet without one has a row of its own."""
    requested = together([group["resources"] for preview in planned for group in preview.report["groups"]])
    others = [name for name in requested if name not in {"cpu", "memory"}]
    headers = ("JOBSET", "GANG", "MINPODS", "CPU", "MEMORY", *others, "JOBS")
    rows: list[tuple[str, ...]] = []
    for preview in planned:
        report, title = preview.report, preview.manifest.title
        members: dict[str | None, list[JobReport]] = {}
        for job in report["jobs"]:
            members.setdefault(job["group"], []).append(job)
        replicas = Counter(job["replicatedJob"] for jobs in members.values() for job in jobs)
        for group in report["groups"]:
            rows.append(_row(title, group, others, _jobs(members.get(group["name"], ()), replicas)))
        if not report["groups"]:
            rows.append((title, *("" for _ in headers[2:]), _jobs(members.get(None, ()), replicas)))
    return Table(headers, tuple(rows))


def _row(title: str, group: GroupReport, others: Iterable[str], jobs: str) -> tuple[str, ...]:
    resources = group["resources"]
    return (
        title,
        group["name"],
        str(group["minCount"]),
        *(figure(name, resources.get(name, 0)) for name in ("cpu", "memory", *others)),
        jobs,
    )


def _jobs(members: Sequence[JobReport], replicas: Mapping[str, int]) -> str:
    """The Jobs of a gang, or those in none, as ``name JOBSxPODS``; a gang of one replica by its index."""
    counts = Counter((job["replicatedJob"], job["pods"]) for job in members)
    parts = []
    for (name, pods), jobs in counts.items():
        one_of_many = jobs == 1 and replicas[name] > 1
        parts.append(f"{name}[{members[0]['index']}] 1x{pods}" if one_of_many else f"{name} {jobs}x{pods}")
    return ", ".join(parts)
