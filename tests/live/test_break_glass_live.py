"""docs/runbooks/break-glass.md, command by command, on a cluster whose gangctl was killed: each has its effect.

By each way of installing gangctl. No pod runs on these planes: where the Deployment has replicas, the process is one.
The copies of manifests and chart lead API servers to it (``incluster.py``); all else is as a user has it.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import yaml

from gangctl.webhooks.configurations import GANGPOLICIES_WEBHOOK, JOBS_WEBHOOK, KEYS_WEBHOOK
from tests.controlplane.api import ApiFailure, Object, path_of
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
from tests.jobsets import REF, jobset, rj
from tests.live.cluster import Cluster, refused
from tests.live.gangctl import OWN_NAMESPACE, Gangctl, create_namespaces
from tests.live.incluster import InCluster, build, on_loopback
from tests.live.installed import REGISTRATIONS, is_gone
from tests.live.observe import gang_of, webhooks_noticed
from tests.live.policed import GROUP
from tests.live.workplace import CommandFailed, Workplace
from tests.manifests.files import ROOT, documents
from tests.manifests.helm import Helm

pytestmark = pytest.mark.controlplane

RUNBOOK = (ROOT / "docs" / "runbooks" / "break-glass.md").read_text()
CHECK, SKIP, IGNORE, OFF, FREE = "Check that gangctl is the cause", "1. ", "2. ", "3. ", "4. "
KUSTOMIZE, HELM, AFTERWARDS = "With kustomize", "With Helm", "With every installation"
GANGS, POLICIES, DEFAULTS = "jobsets.gangs.gangctl.dev", "fail.policies.gangctl.dev", "defaults.gangctl.dev"


def blocks(heading: str) -> list[list[str]]:
    """The code blocks under a heading, each a list of lines."""
    sections = re.split(r"^###? ", RUNBOOK, flags=re.MULTILINE)
    (section,) = [each for each in sections if each.startswith(heading)]
    found = re.findall(r"^```sh\n(.*?)^```$", section, flags=re.MULTILINE | re.DOTALL)
    return [block.splitlines() for block in found]


def test_every_command_is_part_of_a_tested_step() -> None:
    """The number of blocks under each heading: the tests below run them all."""
    counts = {CHECK: 1, SKIP: 1, IGNORE: 2, OFF: 2, FREE: 1, KUSTOMIZE: 1, HELM: 1, AFTERWARDS: 1}
    headings = re.findall(r"^###? (.*)$", RUNBOOK, flags=re.MULTILINE)
    found = {heading: len(blocks(heading)) for heading in headings if blocks(heading)}
    assert [*found.values()] == [*counts.values()]
    assert [heading for heading, start in zip(found, counts, strict=True) if not heading.startswith(start)] == []


class Night:
    """A cluster whose gangctl was killed, and its person on call."""

    def __init__(self, workplace: Workplace, gangctl: Gangctl) -> None:
        self.plane = gangctl.plane
        self.gangctl = gangctl
        self._workplace = workplace
        self._count = 0

    async def gangctl_returns(self) -> None:
        """Start it again. The one that was killed would hold its Lease a while longer."""
        await self.plane.api.delete(
            path_of("coordination.k8s.io/v1", "leases", namespace=OWN_NAMESPACE, name="gangctl")
        )
        await self.gangctl.process.start()

    async def follow(self, heading: str, block: int = 0) -> str:
        """Run every command of a block under a heading literally; what they print."""
        return "\n".join([await self.run(command) for command in blocks(heading)[block]])

    async def run(self, command: str) -> str:
        """Run a command where the copies are."""
        return await self._workplace.run(command)

    async def passes(self, namespace: str, *, mode: str | None = "Gang") -> Object:
        """Create one more JobSet."""
        self._count += 1
        return await Cluster(self.plane, namespace).create_jobset(
            jobset(f"js{self._count}", rj("w", 1, 1, 1), mode=mode)
        )

    async def is_ganged_soon(self, namespace: str) -> None:
        """One more JobSet gets a gang, once the API server asks for it again: until then they pass without one."""

        async def ganged() -> bool:
            if REF not in str(made := await self.passes(namespace)):
                raise NotYet(str(made["metadata"]))
            return True

        await wait_for(ganged, what="a JobSet with a gang", tolerate=(ApiFailure,))

    async def is_blocked(self, namespace: str, *, mode: str | None = "Gang") -> None:
        """One more JobSet is refused because gangctl does not answer."""
        failure = await refused(self.passes(namespace, mode=mode))
        assert "failed calling webhook" in failure.message
        assert "gangctl.dev" in failure.message

    async def failure_policies(self) -> dict[str, str]:
        """Of gangctl's webhooks, by name; missing ones have none."""
        live = [
            each
            for plural in REGISTRATIONS
            for each in await self.plane.api.list(path_of("admissionregistration.k8s.io/v1", plural))
            if each["metadata"]["name"].startswith("gangctl-")
        ]
        found = [hook for each in live for hook in each.get("webhooks", [])]
        assert len({each["failurePolicy"] for each in found if each["name"] == GANGS}) <= 1
        policies = {each["name"]: each["failurePolicy"] for each in found}
        assert policies.pop(JOBS_WEBHOOK) == "Fail", "no step of the page takes it away"
        for always in (GANGPOLICIES_WEBHOOK, KEYS_WEBHOOK):
            assert policies.pop(always, "Ignore") == "Ignore", "no step has to ask for it"
        return policies

    async def has_failure_policies(self, wanted: dict[str, str]) -> None:
        """Wait until gangctl has put the webhooks of policies in: it does that when it leads."""

        async def so() -> bool:
            if (found := await self.failure_policies()) != wanted:
                raise NotYet(str(found))
            return True

        await wait_for(so, what="the webhooks")

    async def replicas(self) -> int:
        """What the Deployment is to have."""
        path = path_of("apps/v1", "deployments", namespace=OWN_NAMESPACE, name="gangctl")
        return int((await self.plane.api.get(path))["spec"]["replicas"])

    async def has_events(self) -> None:
        """The page's command lists the JobSets that run without a gang."""

        async def listed() -> bool:
            return "NotGanged" in await self.run(blocks(AFTERWARDS)[0][-1])

        await wait_for(listed, what="the events of those that run without a gang")


@pytest.fixture
def workplace(bare_plane: ControlPlane, tmp_path: Path) -> Workplace:
    found = Workplace(tmp_path, bare_plane.kubeconfig)
    found.settle_in()
    return found


@asynccontextmanager
async def night(workplace: Workplace, gangctl: Gangctl, webhooks: tuple[str, ...] = (GANGS,)) -> AsyncIterator[Night]:
    """Two namespaces with work in one of them, and gangctl, which is installed and asked by its webhooks, is killed."""
    hands, stuck = Night(workplace, gangctl), Cluster(gangctl.plane, "team-a")
    try:
        await gangctl.process.start()
        for team in ("team-a", "team-b"):
            # The test before may have had one of this name, which goes when it is empty.
            await wait_for(partial(is_gone, stuck, path_of("v1", "namespaces", name=team)), what=f"no {team}")
        await create_namespaces(gangctl.plane, ["team-a", "team-b"])
        await hands.has_failure_policies(dict.fromkeys(webhooks, "Fail"))
        await webhooks_noticed(gangctl.plane)
        await stuck.create_jobset(jobset("stuck", rj("w", 1, 1, 1), mode="Gang"))
        await gang_of(stuck, "stuck")
        await gangctl.process.kill()
        yield hands
    finally:
        await gangctl.close()


async def installed_by_kustomize(workplace: Workplace, plane: ControlPlane) -> InCluster:
    """``manifests/base``, and a policy that concerns every JobSet."""
    gangctl = InCluster(plane, await build(workplace.home), "--shutdown-delay=0")
    for name in ("services.yaml", "webhooks.yaml"):
        path = workplace.home / "manifests" / "base" / name
        adapted = [on_loopback(each, gangctl.webhook_address) for each in documents(path)]
        path.write_text(yaml.safe_dump_all(adapted), encoding="utf-8")
    overlay = workplace.home / "manifests" / "cluster" / "kustomization.yaml"
    overlay.parent.mkdir()
    overlay.write_text("resources: [../base]\nimages: [{name: gangctl, newName: registry.example/gangctl}]\n")
    await workplace.run(blocks(KUSTOMIZE)[0][0])
    await gangctl.mount()
    spec: Object = {"validations": [{"expression": "true", "message": "never"}], "defaults": {"gangMode": "Off"}}
    policy: Object = {"apiVersion": GROUP, "kind": "GangPolicy", "metadata": {"name": "any"}, "spec": spec}

    async def created() -> Object:
        return await plane.api.create(path_of(GROUP, "gangpolicies"), policy)

    await wait_for(created, what="GangPolicies to be served", tolerate=(ApiFailure,))
    return gangctl


async def test_break_glass_with_an_installation_by_kustomize(workplace: Workplace, bare_plane: ControlPlane) -> None:
    """The whole page."""
    gangctl = await installed_by_kustomize(workplace, bare_plane)
    async with night(workplace, gangctl, (GANGS, POLICIES, DEFAULTS)) as hands:
        await hands.is_blocked("team-a")
        await hands.is_blocked("team-a", mode=None)
        printed = await hands.follow(CHECK)
        assert "mutatingwebhookconfiguration.admissionregistration.k8s.io/gangctl-gangs" in printed
        assert re.search(r"^gangctl +0/2 ", printed, flags=re.MULTILINE), printed

        await hands.follow(SKIP)
        await namespaces_noticed(hands, "team-a")
        await hands.is_blocked("team-b")

        await hands.follow(IGNORE)
        await webhooks_noticed(bare_plane)
        await hands.is_blocked("team-b")
        assert await hands.failure_policies() == {GANGS: "Ignore", POLICIES: "Fail", DEFAULTS: "Fail"}
        await hands.follow(IGNORE, 1)
        await webhooks_noticed(bare_plane)
        assert REF not in str(await hands.passes("team-b"))
        assert await hands.failure_policies() == {GANGS: "Ignore", POLICIES: "Ignore", DEFAULTS: "Ignore"}

        await hands.follow(OFF)
        await hands.follow(OFF, 1)
        assert await hands.replicas() == 0
        assert await hands.failure_policies() == {}
        await hands.passes("team-b")
        assert len((await Cluster(bare_plane, "team-a").gangs()).workloads) == 1
        await hands.follow(FREE)
        await wait_for(lambda: without_gangs(hands), what="the stuck JobSet's objects to go with it")

        kustomize, install = blocks(KUSTOMIZE)[0]
        await hands.passes("team-b")
        await hands.run(kustomize)
        assert await hands.replicas() == 2
        await hands.gangctl_returns()
        printed = await hands.follow(AFTERWARDS)
        assert "registered as this version wants them" in printed
        await hands.is_ganged_soon("team-a")
        await hands.has_events()
        every = dict.fromkeys((GANGS, POLICIES, DEFAULTS), "Fail")
        await hands.has_failure_policies(every)

        await gangctl.process.kill()
        await hands.follow(IGNORE)
        await hands.follow(IGNORE, 1)
        await hands.gangctl_returns()
        await hands.has_failure_policies({**every, GANGS: "Ignore"})
        await hands.run(install)
        assert await hands.failure_policies() == every


async def namespaces_noticed(hands: Night, namespace: str) -> None:
    """Wait until JobSets of a namespace pass without a gang: the API server keeps its labels in a cache."""

    async def passes() -> bool:
        assert REF not in str(await hands.passes(namespace))
        return True

    await wait_for(passes, what="the JobSet to pass", tolerate=(ApiFailure,))


async def without_gangs(hands: Night) -> bool:
    return not (await Cluster(hands.plane, "team-a").gangs()).workloads


async def installed_by_helm(workplace: Workplace, plane: ControlPlane) -> InCluster:
    """The chart. What this plane has of gangctl from the beginning becomes part of the release."""
    chart = workplace.home / "charts" / "gangctl"
    objects = Helm(workplace.home).template()
    gangctl = InCluster(plane, objects, "--shutdown-delay=0")
    webhooks, services = chart / "templates" / "webhooks.yaml", chart / "templates" / "services.yaml"
    port = gangctl.webhook_address.rpartition(":")[2]
    text = webhooks.read_text(encoding="utf-8")
    assert text.count("port: 443\n") == 5
    webhooks.write_text(text.replace("port: 443\n", f"port: {port}\n"), encoding="utf-8")
    text = services.read_text(encoding="utf-8")
    before, _, after = text.partition("spec:\n")
    later = after.partition("---\n")[2]
    assert "gangctl-webhook" in before
    assert "gangctl-metrics" in later
    outside = "spec:\n  type: ExternalName\n  externalName: localhost\n---\n"
    services.write_text(f"{before}{outside}{later}", encoding="utf-8")
    adopt = "--take-ownership --force-conflicts"
    await workplace.run(
        f"helm install gangctl charts/gangctl --namespace {OWN_NAMESPACE} --set image.repository=gangctl {adopt}"
    )
    await gangctl.mount()
    return gangctl


async def test_break_glass_with_an_installation_by_helm(workplace: Workplace, bare_plane: ControlPlane) -> None:
    """What comes back otherwise."""
    gangctl = await installed_by_helm(workplace, bare_plane)
    async with night(workplace, gangctl) as hands:
        ((upgrade,),) = blocks(HELM)
        await hands.follow(IGNORE)
        with pytest.raises(CommandFailed, match=r'conflict with "kubectl-patch".*failurePolicy'):
            await hands.run(upgrade.removesuffix(" --force-conflicts"))
        assert await hands.failure_policies() == {GANGS: "Ignore"}
        await hands.run(upgrade)
        assert await hands.failure_policies() == {GANGS: "Fail"}

        await hands.follow(IGNORE)
        await hands.follow(OFF)
        await hands.follow(OFF, 1)
        assert await hands.failure_policies() == {}
        await hands.follow(HELM)
        assert await hands.failure_policies() == {GANGS: "Fail"}
        assert await hands.replicas() == 2
        await hands.gangctl_returns()
        await hands.is_ganged_soon("team-a")


async def test_break_glass_with_a_gangctl_outside_of_the_cluster(
    workplace: Workplace, bare_plane: ControlPlane
) -> None:
    """It restores by itself what the page lists."""
    async with night(workplace, gangctl := Gangctl(bare_plane)) as hands:
        await hands.follow(CHECK)
        await hands.passes("team-a", mode=None)
        await hands.is_blocked("team-a")
        await hands.follow(IGNORE)
        await webhooks_noticed(bare_plane)
        assert REF not in str(await hands.passes("team-a"))
        await gangctl.process.start()
        assert await hands.failure_policies() == {GANGS: "Fail"}
        await gangctl.process.kill()
        await hands.follow(OFF, 1)
        assert await hands.failure_policies() == {}
        await gangctl.process.start()
        assert await hands.failure_policies() == {GANGS: "Fail"}
        await hands.is_ganged_soon("team-a")
