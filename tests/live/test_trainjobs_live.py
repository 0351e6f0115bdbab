"""docs/howto/trainjobs.md with Kubeflow Trainer, which applies JobSets with ForceOwnership: no gang is lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.cases import object_name
from tests.controlplane.api import Object, path_of
from tests.controlplane.components.trainer import API_VERSION, USER
from tests.controlplane.kubelet import Kubelet
from tests.controlplane.nodes import add_nodes, remove_nodes
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
from tests.docpages import Page
from tests.live.cluster import JOBSETS, Cluster
from tests.live.fixtures import alone
from tests.live.gangctl import Gangctl
from tests.live.observe import gang_of, no_gang, running_pods
from tests.live.test_lifecycle_live import restarted
from tests.live.transcript import BODIES, keeps_its_gang
from tests.live.workplace import Workplace

pytestmark = [
    pytest.mark.components("trainer"),
    pytest.mark.full("Kubeflow Trainer would have to be built"),
]

PAGE: Final = Page("howto/trainjobs.md")
POOL: Final = {"example.com/pool": "training"}
Run = Callable[[str], Awaitable[str]]


@pytest.fixture(scope="module")
def running() -> Iterator[Gangctl]:
    """gangctl beside Trainer."""
    yield from alone("1.37", ("jobset", "trainer"), audit_bodies=BODIES)


@pytest.fixture(scope="module")
def plane(running: Gangctl) -> ControlPlane:
    """The plane that both run on."""
    return running.plane


@pytest.fixture
def run(cluster: Cluster, tmp_path: Path) -> Run:
    """Run the command of the page that begins with these words, beside its files, in the namespace of the test."""
    place = Workplace(tmp_path, cluster.plane.kubeconfig)
    place.settle_in()
    for name, text in PAGE.files.items():
        (tmp_path / name).write_text(text.replace("team-a", cluster.namespace))

    async def run(words: str) -> str:
        (command,) = [each for each, _ in PAGE.commands if each.startswith(words)]
        return await place.run(command.replace("team-a", cluster.namespace))

    return run


async def create_runtime(cluster: Cluster, name: str, *initializers: Object, **metadata: Object) -> None:
    """The runtime of the page under another name, with other metadata of its JobSets and with initializers."""
    runtime = yaml.safe_load(PAGE.files["runtime.yaml"])
    runtime["metadata"]["name"] = name
    template = runtime["spec"]["template"]
    template["metadata"] = metadata
    (node,) = template["spec"]["replicatedJobs"]
    if initializers:
        node["dependsOn"] = [{"name": each["name"], "status": "Complete"} for each in initializers]
    template["spec"]["replicatedJobs"] = [*initializers, node]
    await cluster.api.create(path_of(API_VERSION, "clustertrainingruntimes"), runtime)


async def test_a_trainjob_is_a_gang_from_creation_to_deletion(cluster: Cluster, kubelet: Kubelet, run: Run) -> None:
    nodes = await add_nodes(cluster.api, 1, cpu="8", labels=POOL)
    expected = (f"{USER}: patch jobsets", "jobset-controller: create jobs", "jobset-controller: update jobs")
    async with keeps_its_gang(cluster, *expected):
        await run("kubectl apply -f runtime.yaml")
        await run("kubectl apply -f train.yaml")
        assert "train: Ready, 4 of 4 pods ready" in await run("gangctl wait")
        assert "minCount 4" in await run("gangctl describe")
        uid = (await cluster.jobset("train"))["metadata"]["uid"]

        await kubelet.fail((await running_pods(cluster, 4))[0])
        await restarted(cluster, 1)
        await running_pods(cluster, 4)

        await run('kubectl patch trainjob train -n team-a --type merge -p \'{"spec": {"suspend": true}}\'')
        await run("kubectl wait")
        await no_gang(cluster)
        await run("kubectl patch trainjob train -n team-a --type merge --patch-file")
        await run('kubectl patch trainjob train -n team-a --type merge -p \'{"spec": {"suspend": false}}\'')
        for pod in await running_pods(cluster, 4):
            assert pod["spec"]["nodeSelector"] == POOL
        gang = await gang_of(cluster, "train")
        group = object_name("train", uid, "jobset", 1)
        assert gang.references == {"train-node-0": {"podGroupName": group}}
        assert gang.group_min_count(group) == 4
        assert "nothing to explain" in await run("gangctl why")

        await run("kubectl delete")
        await no_gang(cluster)
        assert await cluster.api.list(cluster.path(JOBSETS, "jobsets")) == []
    await remove_nodes(cluster.api, nodes)


@pytest.mark.usefixtures("kubelet")
async def test_a_user_asks_for_a_gang_that_the_runtime_does_not_ask_for(cluster: Cluster, run: Run) -> None:
    await create_runtime(cluster, "torch")
    async with keeps_its_gang(cluster, f"{USER}: patch jobsets", "jobset-controller: create jobs"):
        await run("kubectl create -f own.yaml")
        gang = await gang_of(cluster, "own")
        await running_pods(cluster, 2)
    assert gang.references == {"own-node-0": {"podGroupName": next(iter(gang.groups))}}


async def test_the_message_of_a_rejected_jobset_is_an_event_of_its_trainjob(cluster: Cluster, run: Run) -> None:
    await create_runtime(cluster, "wrong", annotations={"gangctl.dev/gang-mode": "Gangs"})
    body = {**yaml.safe_load(PAGE.files["train.yaml"]), "metadata": {"name": "train"}}
    body["spec"]["runtimeRef"]["name"] = "wrong"
    await cluster.api.create(cluster.path(API_VERSION, "trainjobs"), body)

    async def recorded() -> bool:
        if "gangctl.dev/gang-mode" not in (events := await run("kubectl events")):
            raise NotYet(events)
        return True

    await wait_for(recorded, what="the event")
    assert await cluster.api.list(cluster.path(JOBSETS, "jobsets")) == []


async def test_workers_are_a_gang_that_starts_after_the_initializers(cluster: Cluster, kubelet: Kubelet) -> None:
    name = "dataset-initializer"
    pod = {"restartPolicy": "Never", "containers": [{"name": name, "image": "none"}]}
    labels = {"trainer.kubeflow.org/trainjob-ancestor-step": name}
    initializer = {"name": name, "template": {"metadata": {"labels": labels}, "spec": {"template": {"spec": pod}}}}
    await create_runtime(cluster, "staged", initializer, annotations={"gangctl.dev/gang-mode": "Gang"})
    body = {**yaml.safe_load(PAGE.files["train.yaml"]), "metadata": {"name": "train"}}
    body["spec"]["runtimeRef"]["name"] = "staged"
    async with keeps_its_gang(cluster, f"{USER}: patch jobsets", "jobset-controller: create jobs"):
        await cluster.api.create(cluster.path(API_VERSION, "trainjobs"), body)
        await kubelet.finish((await running_pods(cluster, 1))[0])
        await running_pods(cluster, 4)
        gang = await gang_of(cluster, "train")
    workload = object_name("train", (await cluster.jobset("train"))["metadata"]["uid"], "workload")
    assert gang.min_counts(workload) == {name: 1, "node": 4}
