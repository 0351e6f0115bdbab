"""One run of the doctor: read the facts, create the canary, run the checks."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from gangctl import __version__
from gangctl.cli.cluster import connect
from gangctl.cli.doctor.canary import CanaryOptions, run_canary
from gangctl.cli.doctor.checks import CHECKS
from gangctl.cli.doctor.facts import Facts
from gangctl.cli.doctor.gathering import cluster, gangs, installed
from gangctl.cli.doctor.gathering.gatherer import Gatherer, Place
from gangctl.cli.doctor.outcome import Result, examine
from gangctl.cli.doctor.report import DoctorReport, doctor_report
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
    "skipped": installed.skipped,
    "kueue_versions": installed.kueue_versions,
    "kueue_configuration": installed.kueue_configuration,
    "kueue_checks": installed.kueue_checks,
    "gated": installed.gated,
    "gangs": gangs.gangs,
    "job_workloads": gangs.job_workloads,
    "leaving": gangs.leaving,
    "rights": cluster.rights,
}


async def gather(client: Client, place: Place, names: Iterable[str]) -> Facts:
    """Read these facts; the version comes first, and shows whether the cluster is reachable."""
    gatherer = Gatherer(client, place, READERS)
    await gatherer.fact("version")
    found = await gatherer.gather(sorted(set(names) & READERS.keys()))
    return Facts(now=time.time(), namespace=place.namespace, **found)


@dataclass(frozen=True, slots=True)
class Asking:
    """Options of a run."""

    subjects: Sequence[Subject]
    namespace: str | None
    gangctl_namespace: str | None
    kueue_namespace: str
    canary: float | None
    """Timeout of each step of the canary in seconds; None without one."""
    agree: Callable[[str], None]
    """Called with the canary's namespace before anything is created; raises to stop it."""


def look(cluster: ClusterFlags, asking: Asking) -> DoctorReport:
    """Check the cluster of a kubeconfig."""

    async def ask(client: Client, config: ClusterConfig) -> DoctorReport:
        home = asking.namespace or config.namespace or "default"
        results = await examine_all(client, home, asking)
        return doctor_report(results, cluster=config.origin, namespace=home, version=__version__)

    return connect(cluster, ask)


async def examine_all(client: Client, namespace: str, asking: Asking) -> list[Result]:
    """Run every selected check."""
    place = Place(namespace, asking.gangctl_namespace, asking.kueue_namespace)
    facts = await gather(client, place, [name for each in asking.subjects for name in CHECKS[each.id].facts])
    if asking.canary is not None:
        asking.agree(namespace)
        facts = replace(facts, canary=await run_canary(client, CanaryOptions(namespace, asking.canary)))
    return [examine(each, CHECKS[each.id], facts) for each in asking.subjects]
