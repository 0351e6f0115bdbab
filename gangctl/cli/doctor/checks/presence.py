"""Whether gangctl is installed, by its webhooks, its Deployment and the Leases of its leaders."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from gangctl.api.objects import integer_at, object_at
from gangctl.cli.doctor.check import unknown
from gangctl.cli.doctor.checks import installed
from gangctl.cli.doctor.cluster import Cluster, all_of, fact, seen_or
from gangctl.client.resources import LEASES
from gangctl.errors import ForbiddenError, NotFoundError
from gangctl.readiness.facts import unix
from gangctl.runtime.shards import lease_names

ABSENT: Final = "gangctl is not installed here"
SKIPPED: Final = unknown(f"skipped: {ABSENT}, see gangctl-webhooks")
"""The outcome of checks that need gangctl where it is :func:`absent`."""
LEASE: Final = "gangctl"
"""Name of the first shard's Lease."""
OTHERS: Final = re.compile(rf"{LEASE}-shard-([1-9][0-9]?)")


async def deployments_in(cluster: Cluster, namespaces: set[str]) -> list[installed.Deployment]:
    """Those of gangctl in these namespaces, as far as they may be read."""
    everything = await seen_or(installed.deployments(cluster), ())
    return [item for item in everything if item.namespace in namespaces and "gangctl" in item.name]


@dataclass(frozen=True, slots=True)
class Lease:
    """The leader of a shard; times in Unix seconds."""

    holder: str
    renewed: int
    seconds: int

    def leads(self, now: float) -> bool:
        """Whether its holder renews it."""
        return bool(self.holder) and int(now) - self.renewed <= max(self.seconds, 1)

    def text(self, now: float) -> str:
        """Its holder, age and duration, as evidence."""
        age = max(0, int(now) - self.renewed)
        left = max(self.seconds, 1) - age
        term = f"good for {left} s more" if left >= 0 else f"expired {-left} s ago"
        return f'holder "{self.holder}", renewed {age} s ago, {term}'


@fact
async def leases(cluster: Cluster) -> dict[str, Lease]:
    """Leases of gangctl's leaders. Without the right to list, those that the Deployment's arguments imply."""
    namespace = await installed.gangctl_namespace(cluster)
    try:
        items = (await cluster.client.list(LEASES, namespace)).items
    except ForbiddenError:
        names = lease_names(LEASE, await shards(cluster, namespace) or 1)
        items = [item for item in await all_of(_get(cluster, name, namespace) for name in names) if item]
    named = ((str(item["metadata"].get("name", "")), object_at(item, "spec")) for item in items)
    return {
        name: Lease(
            str(spec.get("holderIdentity") or ""),
            unix(spec.get("renewTime")),
            integer_at(spec, "leaseDurationSeconds"),
        )
        for name, spec in named
        if name == LEASE or OTHERS.fullmatch(name)
    }


async def _get(cluster: Cluster, name: str, namespace: str) -> dict[str, Any] | None:
    try:
        return await cluster.client.get(LEASES, name, namespace)
    except NotFoundError:
        return None


async def shards(cluster: Cluster, namespace: str) -> int | None:
    """The number of shards of the gangctl in a namespace; None if no Deployment has it."""
    return max((item.shards for item in await deployments_in(cluster, {namespace})), default=None)


async def absent(cluster: Cluster) -> bool:
    """Whether nothing of gangctl is there: no webhook, no Deployment, and no Lease that a process renews.

    False where one of them may not be read. Without webhooks alone, gangctl may have been unregistered.
    """
    configurations = await seen_or(installed.configurations(cluster), None)
    if configurations is None or installed.owned_by(configurations, "gangctl"):
        return False
    deployments = await seen_or(installed.deployments(cluster), None)
    if deployments is None or any(item.is_of("gangctl") for item in deployments):
        return False
    held = await seen_or(leases(cluster), None)
    return held is not None and not any(lease.leads(cluster.now) for lease in held.values())
