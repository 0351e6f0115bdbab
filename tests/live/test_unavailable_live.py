"""Clusters on which no gang can be made: gangctl reports it and waits; a gang gets 422, all else is admitted."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.controlplane.api import ApiFailure, path_of
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, read_until, wait_for
from tests.jobsets import jobset, rj
from tests.live.causes import why
from tests.live.cluster import Cluster, refused
from tests.live.gangctl import OWN_NAMESPACE, Gangctl, create_namespaces
from tests.live.observe import gang_of

pytestmark = pytest.mark.controlplane

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


async def test_gangs_are_refused_without_the_scheduling_api_until_it_is_served() -> None:
    """The API group is off, and is switched on under the running gangctl, as an upgrade would."""
    async with gangctl_on({}, {"scheduling.k8s.io/v1beta1": False}, "--leader-elect=true") as (cluster, gangctl):
        failure = await refused(cluster.create_jobset(GANGED))
        assert failure.status == 422
        assert "serves no Workloads in scheduling.k8s.io" in failure.message
        await cluster.create_jobset(PLAIN)
        assert "no gang scheduling API" in gangctl.process.log.read_text()
        status, message = await plan_live(cluster.plane)
        assert status == 3
        assert "serves no Workloads in scheduling.k8s.io" in message
        server = cluster.plane.process("kube-apiserver")
        server.command = [part.replace("v1beta1=false", "v1beta1=true") for part in server.command]
        await cluster.plane.restart("kube-apiserver")

        async def accepted() -> bool:
            answer = await cluster.create_jobset(GANGED, dry_run=True)
            return "gang-ref" in str(answer)

        await wait_for(accepted, what="gangctl to find the API", tolerate=(ApiFailure,))
        await cluster.create_jobset(GANGED)
        await gang_of(cluster, "js")
        assert await plan_live(cluster.plane) == (0, "")
        await gives_the_lease_back(cluster.plane, gangctl)


async def gives_the_lease_back(plane: ControlPlane, gangctl: Gangctl) -> None:
    """After SIGTERM, when it has ended; its webhooks stay."""
    lease = path_of("coordination.k8s.io/v1", "leases", namespace=OWN_NAMESPACE, name="gangctl")
    assert (await plane.api.get(lease))["spec"]["holderIdentity"]
    await gangctl.end()
    assert not (await plane.api.get(lease))["spec"].get("holderIdentity")
    assert await configurations(plane) == {"gangctl-gangs"}
    assert gangctl.process.log.read_text().rstrip().endswith("}")
    assert '"event": "ended"' in gangctl.process.log.read_text()


async def configurations(plane: ControlPlane) -> set[str]:
    """Names of gangctl's that both kinds have in common."""
    kinds = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
    found = [await plane.api.list(path_of("admissionregistration.k8s.io/v1", kind)) for kind in kinds]
    names = [{each["metadata"]["name"] for each in items} for items in found]
    return {name for name in names[0] & names[1] if name.startswith("gangctl-")}


async def plan_live(plane: ControlPlane) -> tuple[int, str]:
    """``gangctl plan`` against a cluster: exit code and stderr."""
    file = plane.directory / "jobset.json"
    file.write_text(json.dumps(GANGED))
    command = ["plan", "-f", str(file), "--kubeconfig", str(plane.kubeconfig)]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gangctl", *command), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    _, said = await process.communicate()
    return process.returncode or 0, said.decode()


async def test_gangs_are_refused_where_the_reference_is_dropped() -> None:
    """The API is served and the gate is off: pods would silently lose their group."""
    flags = ["--unavailable", "allow", "--unregister-on-exit"]
    async with gangctl_on({"GenericWorkload": False}, {}, *flags) as (cluster, gangctl):
        status, message = await plan_live(cluster.plane)
        assert status == 3
        assert "GenericWorkload" in message
        assert "GenericWorkload" in gangctl.process.log.read_text()
        created = await cluster.create_jobset(GANGED)
        assert "gang-ref" not in str(created)

        async def reported() -> bool:
            if await cluster.reasons("js") != ["GangAPIUnavailable"]:
                raise NotYet(str(await cluster.reasons("js")))
            return True

        await wait_for(reported, what="the event")

        await read_until(
            lambda: why(cluster.plane, "t"),
            lambda answer: (answer.first, answer.blocking) == ("GangAPIUnavailable", True),
            "gangctl why to name it",
        )
        assert await configurations(cluster.plane) == {"gangctl-gangs"}
        await gangctl.end()
        assert await configurations(cluster.plane) == set()
