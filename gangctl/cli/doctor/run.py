"""One run of the doctor: read the facts, create the canary, run the checks."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from gangctl import __version__
from gangctl.cli.cluster import connect
from gangctl.cli.doctor.canary import run_canary
from gangctl.cli.doctor.checks import CHECKS
from gangctl.cli.doctor.facts import Facts
from gangctl.cli.doctor.gathering import cluster, gangs, installed
from gangctl.cli.doctor.gathering.gatherer import Gatherer
from gangctl.cli.doctor.outcome import examine, overall
from gangctl.cli.doctor.report import DoctorReport, check_report
from gangctl.cli.doctor.subjects import Subject
from gangctl.cli.options import ClusterFlags
from gangctl.client.client import Client
from gangctl.client.config import ClusterConfig

READERS: Final[Mapping[str, Callable[[Gatherer], Awaitable[Any]]]] = {
    "version": cluster.version,
    "served": cluster.served,
    "stored": cluster.stored,
    "pod_field": cluster.pod_field,
    "job_policy": cluster.job_policy,
    "jobset_versions": cluster.jobset_versions,
    "jobset_schedules": cluster.jobset_schedules,
    "dry_run": cluster.dry_run,
    "configurations": installed.configurations,
    "endpoints": installed.endpoints,
    "gangctl_namespace": installed.gangctl_namespace,
    "deployments": installed.deployments,
    "leases": installed.leases,
    "policies": installed.policies,
    "skipped": installed.skipped,
    "kueue_versions": installed.kueue_versions,
    "kueue_configuration": installed.kueue_configuration,
    "kueue_checks": installed.kueue_checks,
    "read": gangs.read,
    "gangs": gangs.gangs,
    "job_workloads": gangs.job_workloads,
    "leaving": gangs.leaving,
    "quotas": gangs.quotas,
    "rights": cluster.rights,
}


def look(
    cluster: ClusterFlags,
    subjects: Sequence[Subject],
    *,
    namespace: str | None,
    gangctl_namespace: str | None,
    kueue_namespace: str,
    canary: float | None,
    agree: Callable[[str], None],
) -> DoctorReport:
    """Check the cluster of a kubeconfig.

    ``canary`` is the timeout of each step of the canary in seconds, None without one. ``agree`` is called with its
    namespace before anything is created, and raises to stop it.
    """

    async def ask(client: Client, config: ClusterConfig) -> DoctorReport:
        home = namespace or config.namespace or "default"
        gatherer = Gatherer(client, home, gangctl_namespace, kueue_namespace, READERS)
        # It shows whether the cluster is reachable.
        await gatherer.fact("version")
        wanted = {name for each in subjects for name in CHECKS[each.id].facts}
        found = await gatherer.gather(sorted(wanted & READERS.keys()))
        facts = Facts(now=time.time(), namespace=home, **found)
        if canary is not None:
            agree(home)
            facts = replace(facts, canary=await run_canary(client, home, canary))
        outcomes = [examine(CHECKS[each.id], facts) for each in subjects]
        return {
            "cluster": config.origin,
            "namespace": home,
            "gangctl": __version__,
            "verdict": overall(each.verdict for each in outcomes).value,
            "checks": list(map(check_report, subjects, outcomes)),
        }

    return connect(cluster, ask)
