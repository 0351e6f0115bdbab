"""One look at a cluster: the facts are read, the canary flown, the checks carried out."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import structlog

from gangctl.cli.doctor.canary import Flight, fly
from gangctl.cli.doctor.checks import CHECKS
from gangctl.cli.doctor.gathering.gatherer import Place
from gangctl.cli.doctor.gathering.readers import gather
from gangctl.cli.doctor.outcome import Result, examine
from gangctl.cli.doctor.subjects import Subject
from gangctl.client.client import Client
from gangctl.client.config import load_cluster
from gangctl.client.transport import Transport


@dataclass(frozen=True, slots=True)
class Asking:
    """What was asked for."""

    subjects: Sequence[Subject]
    namespace: str | None
    gangctl_namespace: str | None
    kueue_namespace: str
    canary: float | None
    """How long each step of it may take in seconds; None without one."""
    agree: Callable[[str], None]
    """Called with the canary's namespace before anything is created; raises to stop it."""


@dataclass(frozen=True, slots=True)
class Findings:
    """What came of it: where the cluster was found, where dry runs were made, and the results."""

    cluster: str
    namespace: str
    results: list[Result]


def look(kubeconfig: str | None, context: str | None, asking: Asking) -> Findings:
    """Look at the cluster of a kubeconfig."""
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(file=sys.stderr))

    async def ask() -> Findings:
        cluster = await load_cluster(kubeconfig=kubeconfig, context=context)
        async with Transport(cluster) as transport:
            home = asking.namespace or cluster.namespace or "default"
            return Findings(cluster.origin, home, await examine_all(Client(transport), home, asking))

    return asyncio.run(ask())


async def examine_all(client: Client, namespace: str, asking: Asking) -> list[Result]:
    """Carry out every check that was asked for."""
    place = Place(namespace, asking.gangctl_namespace, asking.kueue_namespace)
    facts = await gather(client, place, [name for each in asking.subjects for name in CHECKS[each.id].facts])
    if asking.canary is not None:
        asking.agree(namespace)
        facts = replace(facts, canary=await fly(client, Flight(namespace, asking.canary)))
    return [examine(each, CHECKS[each.id], facts) for each in asking.subjects]
