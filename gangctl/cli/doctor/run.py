"""One look at a cluster: the facts are read, the canary flown, the checks carried out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from gangctl.cli.cluster import connect
from gangctl.cli.doctor.canary import Flight, fly
from gangctl.cli.doctor.checks import CHECKS
from gangctl.cli.doctor.gathering.gatherer import Place
from gangctl.cli.doctor.gathering.readers import gather
from gangctl.cli.doctor.outcome import Result, examine
from gangctl.cli.doctor.subjects import Subject
from gangctl.cli.options import ClusterFlags
from gangctl.client.client import Client
from gangctl.client.config import ClusterConfig


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


def look(cluster: ClusterFlags, asking: Asking) -> Findings:
    """Look at the cluster of a kubeconfig."""

    async def ask(client: Client, config: ClusterConfig) -> Findings:
        home = asking.namespace or config.namespace or "default"
        return Findings(config.origin, home, await examine_all(client, home, asking))

    return connect(cluster, ask)


async def examine_all(client: Client, namespace: str, asking: Asking) -> list[Result]:
    """Carry out every check that was asked for."""
    place = Place(namespace, asking.gangctl_namespace, asking.kueue_namespace)
    facts = await gather(client, place, [name for each in asking.subjects for name in CHECKS[each.id].facts])
    if asking.canary is not None:
        asking.agree(namespace)
        facts = replace(facts, canary=await fly(client, Flight(namespace, asking.canary)))
    return [examine(each, CHECKS[each.id], facts) for each in asking.subjects]
