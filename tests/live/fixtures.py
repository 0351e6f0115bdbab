"""gangctl beside the shared planes: one process per minor, started when a test first asks for it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.controlplane.plane import ControlPlane
from tests.live.cluster import Cluster
from tests.live.gangctl import Gangctl, install_rights


@pytest.fixture(scope="session")
def running(plane: ControlPlane) -> Iterator[Gangctl]:
    """The minor's gangctl, running; a test that stops it starts it again."""
    gangctl = Gangctl(plane)

    async def start() -> None:
        await install_rights(plane)
        await gangctl.process.start()

    asyncio.run(start())
    yield gangctl
    asyncio.run(gangctl.close())


@pytest.fixture
def cluster(plane: ControlPlane, namespace: str, running: Gangctl) -> Cluster:
    """A namespace of the test's own on a plane with gangctl."""
    assert running.process.running, "an earlier test left gangctl stopped"
    return Cluster(plane, namespace)
