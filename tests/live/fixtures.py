"""gangctl beside the shared planes, one process per minor; and planes to which tests bring their own gangctl.

cluster   a namespace of the test's own on the shared plane of a minor, on which gangctl runs
bare      the same on a plane without gangctl, which the next test finds as this one did
own       a namespace on a plane that is this test's alone, to kill, hang and configure it
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import pytest

from tests.controlplane.kubelet import Kubelet
from tests.controlplane.nodes import add_nodes, remove_nodes
from tests.controlplane.plane import RUNNING, ControlPlane
from tests.live.bareplane import BarePlane
from tests.live.cluster import Cluster
from tests.live.gangctl import Gangctl, create_namespaces, prepare


def alone(minor: str, components: Sequence[str] = ("jobset",), **options: Any) -> Iterator[Gangctl]:
    """gangctl on a plane of its own, for a fixture; ``options`` are those of ControlPlane.start."""

    async def start() -> Gangctl:
        plane = await ControlPlane.start(minor, components, **options)
        await prepare(plane)
        gangctl = Gangctl(plane)
        await gangctl.start()
        return gangctl

    async def close(gangctl: Gangctl) -> None:
        await gangctl.close()
        await gangctl.plane.close()

    gangctl = asyncio.run(start())
    yield gangctl
    asyncio.run(close(gangctl))


@pytest.fixture(scope="session")
def running(plane: ControlPlane) -> Iterator[Gangctl]:
    """The minor's gangctl, running; a test that stops it starts it again."""
    gangctl = Gangctl(plane)

    async def start() -> None:
        await prepare(plane)
        await gangctl.start()

    asyncio.run(start())
    yield gangctl
    asyncio.run(gangctl.close())


@pytest.fixture
def cluster(plane: ControlPlane, namespace: str, running: Gangctl) -> Cluster:
    """A namespace of the test's own on a plane with gangctl."""
    assert running.process.running, "an earlier test left gangctl stopped"
    return Cluster(plane, namespace)


@pytest.fixture
async def kubelet(cluster: Cluster) -> AsyncIterator[Kubelet]:
    """Capacity for small gangs, for pods in the room of the namespace, and what runs them."""
    nodes = await add_nodes(cluster.api, 2, cpu="8", labels=cluster.room["nodeSelector"])
    async with Kubelet(cluster.api) as kubelet:
        yield kubelet
    await remove_nodes(cluster.api, nodes)


class BarePlanes:
    """A worker's bare plane; when a test has left it in a state from which it cannot be cleaned, the next one."""

    def __init__(self) -> None:
        self._current: BarePlane | None = None

    async def get(self) -> BarePlane:
        if self._current is not None and self._current.plane not in RUNNING:
            # Paused, since no file before this one was thought to need it any more (tests/order.py).
            await self.close()
        if self._current is None:
            self._current = await BarePlane.start()
        return self._current

    async def close(self) -> None:
        if self._current is not None:
            plane, self._current = self._current.plane, None
            await plane.close()


@pytest.fixture(scope="session")
def bare_planes() -> Iterator[BarePlanes]:
    planes = BarePlanes()
    yield planes
    asyncio.run(planes.close())


@pytest.fixture
async def bare_plane(bare_planes: BarePlanes) -> AsyncIterator[ControlPlane]:
    """A plane without gangctl; whatever a test brings along, but for running processes, is taken away afterwards."""
    bare = await bare_planes.get()
    yield bare.plane
    try:
        await bare.clean()
    except BaseException:
        await bare_planes.close()
        raise


@pytest.fixture
async def bare(bare_plane: ControlPlane, request: pytest.FixtureRequest) -> Cluster:
    """A namespace of the test's own on that plane."""
    return await place_for(bare_plane, request.node.name)


@pytest.fixture
async def own_plane() -> AsyncIterator[ControlPlane]:
    """A plane of the test's own, without gangctl."""
    async with ControlPlane.start("1.37", ("jobset",), scheduler=False) as plane:
        await prepare(plane)
        yield plane


@pytest.fixture
async def own(own_plane: ControlPlane, request: pytest.FixtureRequest) -> Cluster:
    """A namespace on a plane of the test's own."""
    return await place_for(own_plane, request.node.name)


async def place_for(plane: ControlPlane, test: str) -> Cluster:
    """A new namespace for a test, by the name of the test."""
    slug = re.sub(r"[^a-z0-9]+", "-", test.lower()).strip("-")[:40].strip("-")
    name = f"{slug}-{secrets.token_hex(3)}"
    await create_namespaces(plane, [name])
    return Cluster(plane, name)
