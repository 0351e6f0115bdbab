"""An installation on a plane that others use, too: what is there of it, and that nothing is left of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from gangctl.policy.crd import definitions
from tests.controlplane.api import ApiFailure, path_of
from tests.live.cluster import Cluster
from tests.live.definitions import path_of_definition, serve, withdraw
from tests.live.gangctl import install_rights

REGISTRATIONS: Final = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")


@asynccontextmanager
async def found_again(cluster: Cluster) -> AsyncIterator[None]:
    """Nobody's webhooks at first; definitions and rights afterwards as they were before."""
    for name in await registered(cluster):
        # They have addresses where those of an installation have a Service, and no configuration may have both.
        await cluster.api.delete(f"/apis/admissionregistration.k8s.io/v1/{name}")
    gone = [each for each in definitions().values() if await is_gone(cluster, path_of_definition(each))]
    try:
        yield
    finally:
        await withdraw(cluster.api, gone)
        await serve(cluster.api, [each for each in definitions().values() if each not in gone])
        await install_rights(cluster.plane)


async def is_gone(cluster: Cluster, path: str) -> bool:
    """Whether there is no such object."""
    try:
        await cluster.api.get(path)
    except ApiFailure as failure:
        if failure.status == 404:
            return True
        raise
    return False


async def registered(cluster: Cluster) -> dict[str, list[str]]:
    """Webhooks by gangctl's configuration."""
    return {
        f"{plural}/{each['metadata']['name']}": [hook["name"] for hook in each.get("webhooks", [])]
        for plural in REGISTRATIONS
        for each in await cluster.api.list(path_of("admissionregistration.k8s.io/v1", plural))
        if each["metadata"]["name"].startswith("gangctl-")
    }
