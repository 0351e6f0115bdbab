"""gangctl beside the shared planes, one process per minor; and a plane on which tests break things."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Iterator
from http import HTTPStatus

import pytest

from tests.controlplane.api import ApiFailure, path_of
from tests.controlplane.plane import ControlPlane
from tests.live.cluster import JOBSETS, Cluster
from tests.live.gangctl import Gangctl, create_namespaces, install_rights


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


@pytest.fixture(scope="session")
def rough_plane() -> Iterator[ControlPlane]:
    """A plane that tests kill, hang and cut off, one after the other; gangctl they bring along."""

    async def start() -> ControlPlane:
        started = await ControlPlane.start("1.37", ("jobset",), scheduler=False)
        await install_rights(started)
        return started

    plane = asyncio.run(start())
    yield plane
    asyncio.run(plane.close())


@pytest.fixture
async def rough(rough_plane: ControlPlane, request: pytest.FixtureRequest) -> Cluster:
    """A namespace of the test's own on that plane, on which everything runs and no JobSets are left."""
    for component in rough_plane.components:
        if not rough_plane.process(component).running:
            await rough_plane.start_component(component)
    # Every gangctl that starts would read them again, and Kubernetes look after hundreds of pods of nobody.
    left = await rough_plane.api.list(path_of(JOBSETS, "jobsets"))
    for meta in (each["metadata"] for each in left):
        # One by one: all of a namespace in a single request may take longer than a request may.
        try:
            await rough_plane.api.delete(path_of(JOBSETS, "jobsets", namespace=meta["namespace"], name=meta["name"]))
        except ApiFailure as failure:
            if failure.status != HTTPStatus.NOT_FOUND:
                raise
    slug = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")[:40].strip("-")
    name = f"{slug}-{secrets.token_hex(3)}"
    await create_namespaces(rough_plane, [name])
    return Cluster(rough_plane, name)
