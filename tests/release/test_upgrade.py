"""A gangctl of the version before is replaced by this one under running gangs: nothing of theirs is written."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from gangctl.client.client import Client
from gangctl.client.config import load_cluster
from gangctl.client.resources import JOBS, JOBSETS, PODS, Resource
from gangctl.client.transport import Transport
from gangctl.demo.child import controller
from gangctl.demo.simulated import write_private
from gangctl.sandbox.simulated import SimulatedControllers, add_nodes
from release.build import build
from release.source import export, previous, source
from tests.controlplane.wait import NotYet, wait_for
from tests.jobsets import jobset, rj
from tests.release.conftest import ROOT
from tests.sandbox.faults import FaultySandbox

WORKLOADS, GROUPS = (
    Resource("scheduling.k8s.io", "v1beta1", kind.lower() + "s", kind) for kind in ("Workload", "PodGroup")
)
WHOLE = jobset("whole", rj("a", 1, 2, 2, cpu="100m"), rj("b", 1, 1, 1, cpu="100m"), mode="Gang", namespace="default")
APART = jobset("apart", rj("w", 2, 2, 2, cpu="100m", mode="ReplicatedGang"), namespace="default")
WAITING = jobset("waiting", rj("w", 1, 2, 2, cpu="100m"), mode="Gang", namespace="default", suspend=True)


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package of the version before, in a directory of its own."""
    place = tmp_path_factory.mktemp("before")
    try:
        revision = previous(ROOT)
    except subprocess.CalledProcessError as problem:
        pytest.skip(f"a shallow clone has no version before: {problem.stderr}")
    export(ROOT, revision, place / "tree")
    (wheel,) = build(place / "tree", place / "dist", source(ROOT, revision).time, ["wheel"])
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(place / "package")
    return place / "package"


async def test_an_upgrade_of_gangctl_writes_nothing_to_running_gangs(
    before: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with FaultySandbox() as sandbox, SimulatedControllers(sandbox.api):
        await add_nodes(sandbox.api, 2)
        files = {user: tmp_path / user for user in ("person", "before", "after")}
        for user, file in files.items():
            write_private(file, sandbox.kubeconfig(user=user))
        async with Transport(await load_cluster(kubeconfig=files["person"])) as transport:
            client = Client(transport)
            with monkeypatch.context() as patch:
                patch.setenv("PYTHONPATH", str(before))
                patch.setenv("PYTHONSAFEPATH", "1")  # or the working directory would come first
                assert package_of_a_child().is_relative_to(before)
                async with controller(str(files["before"]), None, tmp_path / "before.log"):
                    for each in (WHOLE, APART, WAITING):
                        await client.create(JOBSETS, each)
                    await wait_for(lambda: bound(client, 7), what="both gangs to be bound")
            assert sandbox.audit.writes_by("before")
            made = await everything(client)
            assert len(made["podgroups"]) == 3

            assert not package_of_a_child().is_relative_to(before)
            async with controller(str(files["after"]), None, tmp_path / "after.log"):
                await client.merge_patch(JOBSETS, "waiting", {"spec": {"suspend": False}}, namespace="default")
                await wait_for(lambda: bound(client, 9), what="the gang that was suspended to be bound")
            now = await everything(client)
            for kind, objects in made.items():
                for name, what in objects.items():
                    assert name.startswith("waiting") or now[kind][name] == what
            written = {(each.resource, each.name) for each in sandbox.audit.writes_by("after")}
            gangs = {name for resource, name in written if resource in {"workloads", "podgroups", "jobs", "jobsets"}}
            assert not [name for name in gangs if not name.startswith("waiting")]


def package_of_a_child() -> Path:
    """Where a Python that this process starts finds gangctl."""
    command = [sys.executable, "-c", "import gangctl; print(gangctl.__file__)"]
    return Path(subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip())


async def bound(client: Client, count: int) -> bool:
    pods = (await client.list(PODS, "default")).items
    nodes = [pod for pod in pods if pod["spec"].get("nodeName")]
    if len(nodes) != count:
        raise NotYet(f"{len(nodes)} of {len(pods)} pods have a node")
    return True


async def everything(client: Client) -> dict[str, dict[str, Any]]:
    """Of each kind, by name: which object it is and what it asks for. Its status goes on changing."""
    return {
        resource.plural: {
            each["metadata"]["name"]: (each["metadata"]["uid"], each["spec"])
            for each in (await client.list(resource, "default")).items
        }
        for resource in (WORKLOADS, GROUPS, JOBS)
    }
