"""The commands of docs/install.md, as they stand there, on a real API server.

No pod runs on this plane, so that whoever asks for a gang is refused for as long as the webhooks are there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from tests.controlplane.api import ApiFailure, path_of
from tests.controlplane.wait import wait_for
from tests.jobsets import jobset, rj
from tests.live.cluster import Cluster, refused
from tests.live.definitions import path_of_definition, withdraw
from tests.live.gangctl import OWN_NAMESPACE
from tests.live.installed import is_gone, registered
from tests.live.workplace import Workplace
from tests.manifests.definitions.policies import definitions
from tests.manifests.files import ROOT

pytestmark = pytest.mark.controlplane

TEXT = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
LINES = re.findall(r"^    (\w\S* .*?)(?: +# (needs .*))?$", re.sub(r"(?ms)^```.*?^```$", "", TEXT), flags=re.MULTILINE)
RUN = [command for command, mark in LINES if not mark]
OVERLAY = re.findall(
    r"^`(manifests/cluster/kustomization.yaml)`:\n\n```yaml\n(.*?)^```$", TEXT, flags=re.MULTILINE | re.DOTALL
)
INSTALL = "gangctl install --image registry.example/gangctl:0.1.0"
UNANSWERED = "failed calling webhook"
GANG = jobset("gang", rj("w", 1, 2, 2, mode="Gang"))
DEPLOYMENT = path_of("apps/v1", "deployments", namespace=OWN_NAMESPACE, name="gangctl")


@dataclass
class Operator(Workplace):
    """A person with a terminal in the tree, who has typed these commands of the page."""

    done: list[str] = field(default_factory=list)

    def settle_in(self) -> None:
        super().settle_in()
        for name, text in OVERLAY:
            (self.home / name).parent.mkdir()
            (self.home / name).write_text(text, encoding="utf-8")

    async def types(self, start: str) -> str:
        """Run the one command of the page that begins like this; what it prints."""
        (command,) = [each for each in RUN if each.startswith(start) and each not in self.done]
        self.done.append(command)
        return await self.run(command)


@pytest.fixture
def operator(bare: Cluster, tmp_path: Path) -> Operator:
    somebody = Operator(tmp_path, bare.plane.kubeconfig)
    somebody.settle_in()
    return somebody


def test_commands_that_are_not_run_are_marked() -> None:
    assert {mark for _, mark in LINES} == {"", "needs nodes", "needs a container engine"}
    assert {command.split()[0] for command, mark in LINES if mark == "needs a container engine"} == {"make"}
    assert len(OVERLAY) == 1


async def test_every_command_does_what_the_page_describes(bare: Cluster, operator: Operator) -> None:
    # The page begins with a cluster that has nothing of it.
    await withdraw(bare.api, definitions().values())
    await by_kustomize_and_by_gangctl(bare, operator)
    await by_helm(bare, operator)
    assert sorted(operator.done) == sorted(RUN)


async def by_kustomize_and_by_gangctl(cluster: Cluster, operator: Operator) -> None:
    await operator.types("kubectl apply -k manifests/cluster")
    deployment = await cluster.api.get(DEPLOYMENT)
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert (deployment["spec"]["replicas"], container["image"]) == (3, "registry.example/gangctl:0.1.0")
    assert "--kueue-check=true" in container["args"]
    again = (await operator.types(f"{INSTALL} --component high-availability")).splitlines()
    # Kubectl sends some selectors again whatever they are, and calls it configured.
    assert not [line for line in again if line.endswith(" created")], "the same objects, another way"
    assert "deployment.apps/gangctl unchanged" in again
    assert "mutatingadmissionpolicy.admissionregistration.k8s.io/gangctl-gangs" in await operator.types(
        f"{INSTALL} --kubeconfig"
    )
    assert "customresourcedefinition.apiextensions.k8s.io/gangs.gangctl.dev" in await operator.types(
        f"{INSTALL} --component gang-objects"
    )
    await operator.types("gangctl get -A")
    await operator.types("gangctl install --uninstall --component")
    assert await registered(cluster) == {}
    assert await is_gone(cluster, DEPLOYMENT)
    assert not await is_gone(cluster, definition())
    await operator.types("gangctl install --uninstall --everything")
    assert await is_gone(cluster, definition())
    assert await is_gone(cluster, path_of("v1", "namespaces", name=OWN_NAMESPACE))


async def by_helm(cluster: Cluster, operator: Operator) -> None:
    await operator.types("helm install")
    await operator.types("kubectl label namespace")
    assert (await cluster.api.get(DEPLOYMENT))["spec"]["replicas"] == 2
    assert len(await registered(cluster)) == 5
    await in_force(cluster)
    with pytest.raises(ApiFailure, match=UNANSWERED):
        await cluster.create_jobset(GANG)
    await operator.types("helm upgrade")
    assert (await cluster.api.get(DEPLOYMENT))["spec"]["replicas"] == 3
    await operator.types("helm uninstall")
    assert await registered(cluster) == {}
    assert await is_gone(cluster, DEPLOYMENT)
    assert not await is_gone(cluster, definition())
    await no_longer_in_force(cluster)
    await cluster.create_jobset(GANG)


async def in_force(cluster: Cluster) -> None:
    """Wait until the API server has noticed webhooks that are registered."""

    async def unanswered() -> bool:
        return UNANSWERED in (await refused(cluster.create_jobset(GANG, dry_run=True))).message

    await wait_for(unanswered, what="the webhooks to be called", tolerate=(AssertionError,))


async def no_longer_in_force(cluster: Cluster) -> None:
    """Wait until the API server has noticed that there are none any more."""
    dry_run = partial(cluster.create_jobset, GANG, dry_run=True)
    await wait_for(dry_run, what="a JobSet to pass", tolerate=(ApiFailure,))


def definition() -> str:
    return path_of_definition(next(iter(definitions().values())))
