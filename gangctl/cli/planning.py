"""From manifests to plans, by the functions that the webhooks and the controller call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gangctl.api.scheduling import NEWEST, Generation, generation_of_minor
from gangctl.cli.manifests import Manifest, Problems, read_manifests
from gangctl.cli.options import ClusterFlags
from gangctl.gang.plan import make_plan
from gangctl.gang.report import Planned, PlanReport, plan_report, requests_per_pod
from gangctl.gang.resolve import ClusterRules, resolve


@dataclass(frozen=True, slots=True)
class PlannedManifest:
    """A JobSet of the input, what was decided about it, and the report on that."""

    manifest: Manifest
    planned: Planned
    report: PlanReport


def cluster_rules(kube: str | None, cluster: ClusterFlags, gang_schedulers: Sequence[str] = ()) -> ClusterRules:
    """What decisions depend on besides the manifests."""
    generation = _generation(kube, cluster)
    return ClusterRules(generation, frozenset(gang_schedulers)) if gang_schedulers else ClusterRules(generation)


def _generation(kube: str | None, cluster: ClusterFlags) -> Generation:
    """The API generation to answer for: as asked, as discovered where a cluster is named, else the newest."""
    if kube is not None:
        return generation_of_minor(kube) or NEWEST
    if not cluster.given:
        return NEWEST
    from gangctl.cli.cluster import ask_cluster, discover_generation  # noqa: PLC0415 -- 400 ms that files do without

    return ask_cluster(cluster, discover_generation)


def plan_manifests(
    filenames: Sequence[str], namespace: str | None, rules: ClusterRules, uid: str | None = None
) -> list[PlannedManifest]:
    """Plan every JobSet and PathwaysJob in these files; InvalidInputError with all errors of all of them."""
    problems = Problems()
    found = []
    for manifest in read_manifests(filenames, namespace, rules.generation):
        errors = list(manifest.errors)
        if manifest.readable:
            resolution = resolve(manifest.jobset, rules)
            errors += manifest.at_source([*resolution.errors, *requests_per_pod(manifest.raw)[1]])
        if problems.add(manifest.document, errors):
            continue
        plan = make_plan(manifest.jobset, resolution.stamps, resolution.config.options, uid)
        planned = Planned(manifest.jobset, plan, (*manifest.notices, *resolution.notices), rules.generation)
        report, _ = plan_report(manifest.raw, planned)
        found.append(PlannedManifest(manifest, planned, report))
    problems.raise_if_any()
    return found
