"""Which function reads which fact."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

from gangctl.cli.doctor.facts import Facts
from gangctl.cli.doctor.gathering import cluster, gangs, installed, rights
from gangctl.cli.doctor.gathering.gatherer import Gatherer, Place
from gangctl.client.client import Client

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
    "rights": rights.rights,
}


async def gather(client: Client, place: Place, names: Iterable[str]) -> Facts:
    """Read these facts; the version is always asked for first, and shows whether anybody answers."""
    gatherer = Gatherer(client, place, READERS)
    await gatherer.fact("version")
    found = await gatherer.gather(sorted(set(names) & READERS.keys()))
    return Facts(now=time.time(), namespace=place.namespace, **found)
