"""The shortest proof on a real node, and in the first tier where a node is built: a gang trains in containers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controlplane.binaries import COMPONENTS
from tests.controlplane.build import not_built
from tests.controlplane.images import pause_image, python_image
from tests.controlplane.machine import NoMachine, require_machine
from tests.controlplane.minors import NEWEST
from tests.controlplane.plane import ControlPlane
from tests.live.gangctl import Gangctl
from tests.node.cluster import RealCluster, example, finished

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("real-node")]


def images() -> list[Path]:
    """What the containers are made from. NoMachine where a node cannot run, or would have to be built for minutes."""
    require_machine()
    if missing := not_built(name for name, each in COMPONENTS.items() if each.node):
        raise NoMachine(f"{', '.join(missing)} not built: make cluster or make test-full builds what is missing")
    return [pause_image(), python_image()]


async def test_a_gang_trains_in_containers(tmp_path: Path) -> None:
    try:
        archives = images()
    except NoMachine as missing:
        pytest.skip(f"no real node: {missing}")
    async with ControlPlane.start(NEWEST, nodes=1, images=archives) as plane, Gangctl(plane):
        real = RealCluster(plane, tmp_path)
        await real.nodes_ready()
        async with real.namespace() as cluster:
            await cluster.create_jobset(example(STEPS="60"))
            status = await finished(cluster)
            assert status["terminalState"] == "Completed"
            assert "None" not in {str(pod["spec"].get("schedulingGroup")) for pod in await cluster.pods()}
            await real.trained(cluster, "y = 2.96 x + 2.00")
