"""
The fixtures of the suite.

    server       one API server after the other: each minor, for real and as the sandbox
    namespace    a namespace of the test's own on it
    shapes       Workloads and PodGroups as the server's minor writes them
    workload     the path of a Workload in the namespace, with templates g and h
    hooks        admission webhooks of the test's own in that namespace
"""

import re
import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.conformance.background import background
from tests.conformance.gangs import Shapes
from tests.conformance.grounds import REAL, Server, SharedSandboxes, grounds, on_a_plane
from tests.conformance.objects import workloads
from tests.conformance.webhooks import Hooks, WebhookServer
from tests.controlplane.api import path_of
from tests.controlplane.fixtures import SharedPlanes
from tests.controlplane.minors import MINORS
from tests.controlplane.pki import Authority

NAMESPACES = path_of("v1", "namespaces")
DIFFERENT = frozenset({"test_gang_references", "test_pod_groups", "test_workloads"})
"""Modules about what is another API on each minor: the first tier runs them on all of them."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what differs on older minors; the list has the tests of other directories, too."""
    for item in items:
        if item.path.parent == Path(__file__).parent and item.path.stem in DIFFERENT:
            item.add_marker(pytest.mark.differs(*MINORS))


@pytest.fixture(scope="session")
def shared_sandboxes() -> Iterator[SharedSandboxes]:
    with SharedSandboxes() as sandboxes:
        yield sandboxes


@pytest.fixture(scope="session", params=grounds())
def server(request: pytest.FixtureRequest, shared_planes: SharedPlanes, shared_sandboxes: SharedSandboxes) -> Server:
    kind, minor = request.param
    return on_a_plane(shared_planes.get(minor)) if kind == REAL else shared_sandboxes.get(minor)


@pytest.fixture
async def namespace(request: pytest.FixtureRequest, server: Server) -> str:
    slug = (
        re.sub(r"[^a-z0-9]+", "-", request.node.originalname.lower().removeprefix("test_")).strip("-")[:40].strip("-")
    )
    name = f"{slug}-{secrets.token_hex(3)}"
    await server.api.create(NAMESPACES, {"metadata": {"name": name}})
    # It stays: a real server goes through every resource to empty a namespace; hundreds would hold up the tests.
    return name


@pytest.fixture(scope="session")
def listener(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebhookServer]:
    server = WebhookServer(Authority("webhooks-ca", tmp_path_factory.mktemp("webhooks")))
    with background("webhooks") as thread:
        thread.run(server.open())
        yield server
        thread.run(server.close())


@pytest.fixture
async def hooks(server: Server, namespace: str, listener: WebhookServer) -> AsyncIterator[Hooks]:
    hooks = Hooks(server, namespace, listener)
    yield hooks
    await hooks.close()


@pytest.fixture
def shapes(server: Server) -> Shapes:
    return Shapes(server)


@pytest.fixture
async def workload(server: Server, namespace: str, shapes: Shapes) -> str:
    """The path of a Workload with two templates, g and h."""
    body = shapes.workload(shapes.template("g"), shapes.template("h"))
    await server.api.create(workloads(server, namespace), body)
    return workloads(server, namespace, "w")
