"""Clusters on which no gang can be made: gangctl says so and waits; who asks for a gang gets 422, all else passes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.controlplane.api import ApiFailure
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
from tests.jobsets import jobset, rj
from tests.live.cluster import Cluster, refused
from tests.live.gangctl import Gangctl, create_namespaces
from tests.live.observe import gang_of

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("unavailable")]

GANGED = jobset("js", rj("w", 1, 1, 1, mode="Gang"))
PLAIN = jobset("plain", rj("w", 1, 1, 1))


@asynccontextmanager
async def gangctl_on(
    gates: dict[str, bool], runtime_config: dict[str, bool], *arguments: str
) -> AsyncIterator[tuple[Cluster, Gangctl]]:
    plane = ControlPlane.start("1.37", ("jobset",), gates=gates, runtime_config=runtime_config, scheduler=False)
    async with plane as started, Gangctl(started, "--discovery-period", "1", *arguments) as gangctl:
        await create_namespaces(started, ["t"])
        yield Cluster(started, "t"), gangctl


async def test_without_the_api_until_the_cluster_is_given_it(plane_1_37: ControlPlane) -> None:
    """The API group is off, and is switched on under the running gangctl, as an upgrade would."""
    assert plane_1_37.minor.name == "1.37"
    async with gangctl_on({}, {"scheduling.k8s.io/v1beta1": False}) as (cluster, gangctl):
        failure = await refused(cluster.create_jobset(GANGED))
        assert failure.status == 422
        assert "serves no Workloads in scheduling.k8s.io" in failure.message
        await cluster.create_jobset(PLAIN)
        assert "no gang scheduling API" in gangctl.process.log.read_text()
        server = cluster.plane.process("kube-apiserver")
        server.command = [part.replace("v1beta1=false", "v1beta1=true") for part in server.command]
        await cluster.plane.restart("kube-apiserver")

        async def accepted() -> bool:
            answer = await cluster.create_jobset(GANGED, dry_run=True)
            return "gang-ref" in str(answer)

        await wait_for(accepted, what="gangctl to find the API", tolerate=(ApiFailure,))
        await cluster.create_jobset(GANGED)
        await gang_of(cluster, "js")


async def test_where_the_field_is_dropped(plane_1_37: ControlPlane) -> None:
    """The API is served and the gate is off: pods would silently lose their group."""
    assert plane_1_37.minor.name == "1.37"
    async with gangctl_on({"GenericWorkload": False}, {}, "--unavailable", "allow") as (cluster, gangctl):
        text = gangctl.process.log.read_text()
        if "drops spec.schedulingGroup" not in text and "serves no Workloads" not in text:
            raise NotYet(text)
        created = await cluster.create_jobset(GANGED)
        assert "gang-ref" not in str(created)

        async def told() -> bool:
            if await cluster.reasons("js") != ["GangAPIUnavailable"]:
                raise NotYet(str(await cluster.reasons("js")))
            return True

        await wait_for(told, what="the event")
