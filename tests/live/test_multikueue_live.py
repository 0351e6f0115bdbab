"""docs/howto/multikueue.md on a manager and two workers: gangs run there as a whole, and the manager shows where."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.controlplane.api import Object
from tests.controlplane.nodes import add_nodes, remove_nodes
from tests.controlplane.wait import NotYet, wait_for
from tests.docpages import Page
from tests.jobsets import REF
from tests.live.cluster import JOBSETS, Cluster
from tests.live.multikueue import MANAGER, Planes, Team
from tests.live.observe import gang_of, no_gang, running_pods
from tests.live.workplace import Workplace

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.components("kueue"),
    pytest.mark.timeout(1800),
    pytest.mark.full("three control planes"),
]

PAGE: Final = Page("howto/multikueue.md")
WEST, EAST = "west", "east"
READY: Final = "Ready, 4 of 4 pods ready"


@dataclass(frozen=True)
class Shell:
    """A shell beside the files of the page, with a context for each cluster; ``transcript`` has what was run."""

    place: Workplace
    namespace: str

    @property
    def transcript(self) -> Path:
        return self.place.home / "transcript"

    async def run(self, command: str) -> str:
        """Run a line for namespace ``team-a``; what it printed."""
        out = await self.place.run(command.replace("team-a", self.namespace))
        with self.transcript.open("a") as file:
            file.write(f"$ {command}\n{out.replace(self.namespace, 'team-a')}\n")
        return out.replace(self.namespace, "team-a")

    async def page(self, words: str, **context: str) -> str:
        """Run the command of the page that begins with these words; ``west`` may be another cluster."""
        (command,) = [each for each, _ in PAGE.commands if each.startswith(words)]
        return await self.run(command.replace(f"--context {WEST}", f"--context {context.get(WEST, WEST)}"))

    async def until(self, command: str, words: str) -> str:
        """Run a command until its output has these words."""

        async def there() -> str:
            out = await self.place.run(command.replace("team-a", self.namespace))
            if words not in out:
                raise NotYet(out)
            return await self.run(command)

        return await wait_for(there, f"{words} in {command}")

    async def cluster_of(self, name: str) -> str:
        """The worker cluster of a JobSet, once it has one."""
        command = f"gangctl get {name} -n {self.namespace} --context manager -o jsonpath='{{.status.cluster}}'"
        return await wait_for(lambda: self.place.run(command), f"{name} to be dispatched")


@pytest.fixture(scope="module")
def planes() -> Iterator[Planes]:
    stack = AsyncExitStack()
    yield asyncio.run(Planes.start(stack, WEST, EAST))
    asyncio.run(stack.aclose())


@pytest.fixture
async def team(planes: Planes, tmp_path: Path) -> AsyncIterator[Team]:
    """Quota for one gang of the page on each worker cluster, and for three in the manager's queue."""
    async with Team.make(planes, tmp_path, "12", west="4", east="4") as team:
        yield team


@pytest.fixture
def shell(team: Team, tmp_path: Path) -> Shell:
    """With the JobSet of the page, and two others that differ from it by name."""
    place = Workplace(tmp_path, team.kubeconfig)
    place.settle_in()
    for name, text in PAGE.files.items():
        (tmp_path / name).write_text(text.replace("team-a", team.namespace))
    raw: Object = yaml.safe_load((tmp_path / "train.yaml").read_text())
    for name in ("second", "third"):
        raw["metadata"]["name"] = name
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(raw))
    return Shell(place, team.namespace)


@pytest.fixture
async def nodes(team: Team) -> AsyncIterator[Mapping[str, list[str]]]:
    """Names of the nodes of each worker cluster, at first one with three CPUs."""
    made = {name: await add_nodes(team.clusters[name].api, 1, cpu="3") for name in (WEST, EAST)}
    yield made
    for name, own in made.items():
        await remove_nodes(team.clusters[name].api, own)


def without_ages(table: str) -> list[list[str]]:
    """The cells of a table, whatever its columns are wide."""
    return [[re.sub(r"^(\d+[dhms])+$", "AGE", cell) for cell in line.split()] for line in table.splitlines()]


async def nothing_left(team: Team) -> None:
    """Wait until no cluster has a JobSet, a Workload of Kueue, or a gang."""
    for cluster in team.clusters.values():
        paths = [cluster.path(JOBSETS, "jobsets"), cluster.path("kueue.x-k8s.io/v1beta2", "workloads")]

        async def gone(cluster: Cluster = cluster, paths: list[str] = paths) -> bool:
            if left := [each["metadata"]["name"] for path in paths for each in await cluster.api.list(path)]:
                raise NotYet(str(left))
            return True

        await wait_for(gone, "all JobSets to be gone")
        await no_gang(cluster)


async def test_a_gang_starts_as_a_whole_on_a_worker_cluster(
    team: Team, shell: Shell, nodes: Mapping[str, list[str]]
) -> None:
    manager = team.clusters[MANAGER]
    assert "JobSet team-a/train: fits (Fits)" in await shell.page("gangctl fit")
    await shell.page("kubectl --context manager create")
    name = await shell.cluster_of("train")
    worker = team.clusters[name]
    gang = await gang_of(worker, "train")
    (group,) = gang.groups
    assert gang.group_min_count(group) == 4
    assert gang.references == {"train-worker-0": {"podGroupName": group}}
    copy, original = await worker.jobset("train"), await manager.jobset("train")
    assert (original["spec"]["managedBy"], "managedBy" in copy["spec"]) == ("kueue.x-k8s.io/multikueue", False)
    for each in (original, copy):
        assert REF in str(each["spec"]["replicatedJobs"])

    # Three CPUs are not enough for four pods: none of them gets a node.
    assert "(Unschedulable" in await shell.until(
        "gangctl why train -n team-a --context manager --worker west --worker east || true", "(Unschedulable"
    )
    why = await shell.run("gangctl why train -n team-a --context manager")
    (suggested,) = re.findall(r"^ +\$ (gangctl why .*)$", why, flags=re.MULTILINE)
    assert suggested == f"gangctl why train -n team-a --context {name}"
    assert "(Unschedulable" in await shell.run(f"{suggested} || echo exit $?")
    assert "Pending" in await shell.page("gangctl get")
    assert not [pod for pod in await worker.pods() if pod["spec"].get("nodeName")]

    nodes[name].extend(await add_nodes(worker.api, 1, cpu="1"))
    assert f"train: {READY}" in await shell.page("gangctl wait")
    await running_pods(worker, 4)
    shown = next(shown for command, _, shown in PAGE.samples if command.startswith("gangctl get"))
    assert without_ages(await shell.page("gangctl get")) == without_ages(shown.replace(WEST, name))
    described = await shell.page("gangctl describe train -n team-a --context manager")
    assert f"MultiKueue runs it on worker cluster {name}." in described
    assert f"group {group}: Ready" in described
    assert f"group {group}: Ready" in await shell.page("gangctl describe train -n team-a --context west", west=name)
    alone = await shell.run("gangctl describe train -n team-a --context manager")
    assert f"$ gangctl describe train -n team-a --context {name}" in alone
    assert "nothing to explain" in await shell.page("gangctl why")
    assert not (await manager.gangs()).names
    assert await manager.jobs() == {}

    for pod in await running_pods(worker, 4):
        await team.kubelets[name].finish(pod)
    await shell.run("gangctl wait train -n team-a --context manager --for finished")
    ended = await shell.run("gangctl describe train -n team-a --context manager")
    assert "Succeeded" in ended.splitlines()[0]
    assert f"MultiKueue ran it on worker cluster {name}." in ended
    await shell.page("kubectl --context manager delete")
    await nothing_left(team)


async def test_the_next_gang_runs_on_the_other_worker_cluster(
    team: Team, shell: Shell, nodes: Mapping[str, list[str]]
) -> None:
    for name, own in nodes.items():
        own.extend(await add_nodes(team.clusters[name].api, 1, cpu="1"))
    await shell.page("kubectl --context manager create")
    first = await shell.cluster_of("train")
    await shell.run("kubectl --context manager create -f second.yaml")
    assert {first, await shell.cluster_of("second")} == {WEST, EAST}
    waited = await shell.run("gangctl wait train second -n team-a --context manager")
    assert f"train: {READY}" in waited
    assert f"second: {READY}" in waited

    # Both are full now, and the third waits in their queues.
    await shell.run("kubectl --context manager create -f third.yaml")
    why = "gangctl why third -n team-a --context manager"
    waits = await shell.until(why, "WaitingForAdmissionCheck")
    (suggested,) = re.findall(r"^ +\$ (gangctl fit .*)$", waits, flags=re.MULTILINE)
    fit = await shell.run(f"{suggested} --context manager")
    assert "JobSet team-a/third: does not fit now (WaitsForQuota)" in fit
    queue = await shell.page("gangctl queue describe")
    assert re.search(rf"train .* Admitted .* {first}\b", queue)
    assert "it waits in the queues of worker clusters" in queue

    for pod in await running_pods(team.clusters[first], 4):
        await team.kubelets[first].finish(pod)
    assert await shell.cluster_of("third") == first
    await shell.run("gangctl wait third -n team-a --context manager")
    for name in ("train", "second", "third"):
        await shell.run(f"kubectl --context manager delete jobset {name} -n team-a")
    await nothing_left(team)


async def test_a_gang_that_fits_on_no_worker_cluster_never_fits(team: Team, shell: Shell) -> None:
    raw: Object = yaml.safe_load((shell.place.home / "train.yaml").read_text())
    raw["spec"]["replicatedJobs"][0]["template"]["spec"] |= {"parallelism": 5, "completions": 5}
    (shell.place.home / "large.yaml").write_text(yaml.safe_dump(raw))
    command = "gangctl fit -f large.yaml --context manager"
    never = await shell.run(f"{command} --worker west --worker east || echo exit $?")
    assert "JobSet team-a/train: never fits (NeverExceedsQuota)" in never
    assert never.endswith("exit 1\n")
    for name in (WEST, EAST):
        assert re.search(rf"^  {name} +never fits +NeverExceedsQuota", never, flags=re.MULTILINE)
    one = await shell.run(f"{command} --worker west")
    assert "JobSet team-a/train: unknown (Unknown)" in one
    assert await team.queued().workloads() == []


async def test_a_manager_without_the_scheduling_api_dispatches_gangs(tmp_path: Path) -> None:
    """Whether Kueue dispatches a JobSet is known only after gangctl's mutating webhook."""
    async with AsyncExitStack() as stack:
        planes = await Planes.start(stack, WEST, gates={"GenericWorkload": False})
        team = await stack.enter_async_context(Team.make(planes, tmp_path, "4", west="4"))
        manager, worker = team.clusters[MANAGER], team.clusters[WEST]
        nodes = await add_nodes(worker.api, 1, cpu="4")
        raw: Object = yaml.safe_load(PAGE.files["train.yaml"])
        assert REF not in str(await manager.create_jobset(raw))
        await running_pods(worker, 4)
        assert len((await gang_of(worker, "train")).groups) == 1
        await remove_nodes(worker.api, nodes)
