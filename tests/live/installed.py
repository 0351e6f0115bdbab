"""What there is of an installation in a cluster."""

from __future__ import annotations

from typing import Final

from tests.controlplane.api import path_of
from tests.live.cluster import Cluster

REGISTRATIONS: Final = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")


async def is_gone(cluster: Cluster, path: str) -> bool:
    """Whether there is no such object."""
    return await cluster.api.found(path) is None


async def registered(cluster: Cluster) -> dict[str, list[str]]:
    """Webhooks by gangctl's configuration."""
    return {
        f"{plural}/{each['metadata']['name']}": [hook["name"] for hook in each.get("webhooks", [])]
        for plural in REGISTRATIONS
        for each in await cluster.api.list(path_of("admissionregistration.k8s.io/v1", plural))
        if each["metadata"]["name"].startswith("gangctl-")
    }
