"""
Two real nodes for the tests of this directory: containerd, kubelet, kube-proxy and CoreDNS beside the control plane.

The tests share them one after the other; each installs gangctl as a user does, and leaves nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.images import gangctl_image, pause_image, python_image
from tests.controlplane.machine import NoMachine, require_machine
from tests.controlplane.minors import NEWEST
from tests.controlplane.plane import ControlPlane
from tests.node.cluster import RealCluster


# Until its end, this process is in the network of the nodes: tests of other directories must not be.
@pytest.fixture(scope="package")
def real_plane() -> Iterator[ControlPlane]:
    """The plane with its nodes; skipped, with what is missing, where a node cannot run."""
    try:
        require_machine()
        images = [pause_image(), python_image(), gangctl_image()]
    except NoMachine as missing:
        pytest.skip(f"no real node: {missing}")

    async def start() -> ControlPlane:
        return await ControlPlane.start(NEWEST, nodes=2, images=images)

    plane = asyncio.run(start())
    yield plane
    asyncio.run(plane.close())


@pytest.fixture
async def real(real_plane: ControlPlane, tmp_path: Path) -> RealCluster:
    """The cluster, without gangctl."""
    cluster = RealCluster(real_plane, tmp_path)
    await cluster.nodes_ready()
    return cluster
