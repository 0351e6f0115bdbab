"""docs/runbooks/break-glass.md, command by command, on a cluster whose gangctl was killed: each does what it says."""

from __future__ import annotations

import re
import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.controlplane.api import ApiFailure, Object, path_of
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
from tests.jobsets import REF, jobset, rj
from tests.live.cluster import Cluster, refused
from tests.live.gangctl import OWN_NAMESPACE, Gangctl, create_namespaces
from tests.live.observe import gang_of
from tests.manifests.files import MANIFESTS, ROOT, one
from tests.manifests.kubectl import Kubectl

pytestmark = pytest.mark.controlplane

RUNBOOK = (ROOT / "docs" / "runbooks" / "break-glass.md").read_text()
REGISTRATIONS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")


def commands(heading: str) -> list[list[str]]:
    """What stands in the code block under a heading, one argument list for each line."""
    sections = re.split(r"^## ", RUNBOOK, flags=re.MULTILINE)
    (section,) = [each for each in sections if each.startswith(heading)]
    (block,) = re.findall(r"^```sh\n(.*?)^```$", section, flags=re.MULTILINE | re.DOTALL)
    return [shlex.split(line) for line in block.splitlines()]


def test_every_command_belongs_to_a_step_that_is_tested() -> None:
    headings = re.findall(r"^## (.*)$", RUNBOOK, flags=re.MULTILINE)
    assert [heading[:2] for heading in headings] == ["Ch", "1.", "2.", "3.", "4.", "Ba"]
    assert all(command[0] == "kubectl" for heading in headings for command in commands(heading))


class Night:
    """A cluster whose gangctl was killed, and the two hands of whoever repairs it."""

    def __init__(self, plane: ControlPlane, kubectl: Kubectl) -> None:
        self.plane = plane
        self._kubectl = kubectl
        self._count = 0

    async def follow(self, heading: str) -> str:
        """Run every command under a heading literally; what they print."""
        outputs = [await self._kubectl.run(*command[1:]) for command in commands(heading)]
        return "\n".join(output.text for output in outputs)

    def _next(self, *, mode: str | None = "Gang") -> Object:
        self._count += 1
        return jobset(f"js{self._count}", rj("w", 1, 1, 1), mode=mode)

    async def passes(self, namespace: str, *, mode: str | None = "Gang") -> Object:
        """Create one more JobSet."""
        return await Cluster(self.plane, namespace).create_jobset(self._next(mode=mode))

    async def passes_soon(self, namespace: str) -> Object:
        """The same once the API server has noticed: it keeps webhooks and namespaces in caches of its own."""
        tolerate = (ApiFailure,)
        return await wait_for(lambda: self.passes(namespace), what="the JobSet to pass", tolerate=tolerate)

    async def is_ganged_soon(self, namespace: str) -> None:
        """One more JobSet gets a gang, once the API server asks for it again: until then they pass without one."""

        async def ganged() -> bool:
            if REF not in str(made := await self.passes(namespace)):
                raise NotYet(str(made["metadata"]))
            return True

        await wait_for(ganged, what="a JobSet with a gang", tolerate=(ApiFailure,))

    async def is_blocked(self, namespace: str) -> None:
        """One more JobSet with a gang is refused because nobody answers."""
        failure = await refused(self.passes(namespace))
        assert "failed calling webhook" in failure.message
        assert "gangs.gangctl.dev" in failure.message

    async def is_blocked_soon(self, namespace: str) -> None:
        """The same once the API server has noticed."""

        async def blocked() -> bool:
            try:
                await self.is_blocked(namespace)
            except AssertionError as error:
                raise NotYet(str(error)) from error
            return True

        await wait_for(blocked, what="JobSets to be refused")

    async def registered(self) -> list[Object]:
        """Webhook configurations of gangctl."""
        found = [
            each
            for plural in REGISTRATIONS
            for each in await self.plane.api.list(path_of("admissionregistration.k8s.io/v1", plural))
        ]
        return [each for each in found if each["metadata"]["name"] == "gangctl-gangs"]


@asynccontextmanager
async def night(plane: ControlPlane, home: Path) -> AsyncIterator[tuple[Night, Gangctl]]:
    """gangctl as in the manifests, two namespaces with work in them, and then it is killed."""
    async with Gangctl(plane) as gangctl:
        await create_namespaces(plane, ["team-a", "team-b"])
        deployment = one(MANIFESTS / "base" / "deployment.yaml")
        deployment["metadata"]["namespace"] = OWN_NAMESPACE
        await plane.api.create(path_of("apps/v1", "deployments", namespace=OWN_NAMESPACE), deployment)
        stuck = Cluster(plane, "team-a")
        await stuck.asked()
        await stuck.create_jobset(jobset("stuck", rj("w", 1, 1, 1), mode="Gang"))
        await gang_of(stuck, "stuck")
        await gangctl.process.kill()
        yield Night(plane, Kubectl(home, plane.kubeconfig)), gangctl


async def replicas(plane: ControlPlane) -> int:
    path = path_of("apps/v1", "deployments", namespace=OWN_NAMESPACE, name="gangctl")
    return int((await plane.api.get(path))["spec"]["replicas"])


async def test_the_runbook(own_plane: ControlPlane, tmp_path: Path) -> None:
    plane = own_plane
    async with night(plane, tmp_path) as (hands, ours):
        await hands.is_blocked("team-a")
        await hands.passes("team-a", mode=None)
        printed = await hands.follow("Check that gangctl is the cause")
        assert "mutatingwebhookconfiguration.admissionregistration.k8s.io/gangctl-gangs" in printed
        assert re.search(r"^gangctl +0/2 ", printed, flags=re.MULTILINE), printed

        await hands.follow("1.")
        made = await hands.passes_soon("team-a")
        assert "gang-ref" not in str(made)
        await hands.is_blocked("team-b")

        await hands.follow("2.")
        await hands.passes_soon("team-b")
        policies = {w["name"]: w["failurePolicy"] for each in await hands.registered() for w in each["webhooks"]}
        assert policies == {"jobsets.gangs.gangctl.dev": "Ignore"}

        await hands.follow("3.")
        assert await replicas(plane) == 0
        assert await hands.registered() == []
        await hands.passes("team-b")

        gangs = await Cluster(plane, "team-a").gangs()
        assert len(gangs.workloads) == 1
        await hands.follow("4.")

        async def gone() -> bool:
            return not (await Cluster(plane, "team-a").gangs()).workloads

        await wait_for(gone, what="the stuck JobSet's objects to go with it")

        await ours.process.start()
        printed = await hands.follow("Back to normal")
        assert await replicas(plane) == 2
        assert len(await hands.registered()) == 2
        await hands.is_ganged_soon("team-a")

        async def told() -> bool:
            return "NotGanged" in await hands.follow("Back to normal")

        await wait_for(told, what="the events of those who run without a gang")

        async def told_in_each() -> bool:
            """A JobSet of team-a may have been first."""
            if "NotGanged" not in (reasons := await Cluster(plane, "team-b").reasons()):
                raise NotYet(str(reasons))
            return True

        await wait_for(told_in_each, what="the events in the other namespace")
        await a_gangctl_that_comes_back_undoes_a_patch(hands, ours)


async def a_gangctl_that_comes_back_undoes_a_patch(hands: Night, gangctl: Gangctl) -> None:
    await gangctl.process.kill()
    await hands.is_blocked("team-a")
    await hands.follow("2.")
    await hands.passes_soon("team-a")
    await gangctl.process.start()

    async def repaired() -> bool:
        found = await hands.registered()
        return {w["failurePolicy"] for each in found for w in each["webhooks"]} == {"Fail"}

    await wait_for(repaired, what="gangctl to repair its registration")
    await gangctl.process.kill()
    await hands.is_blocked_soon("team-a")
