"""
The fixtures of the suite.

    server       one API server after the other: each minor, for real and as the sandbox
    namespace    a namespace of the test's own on it
"""

import re
import secrets
from collections.abc import Iterator

import pytest

from tests.conformance.grounds import REAL, Server, grounds, in_a_sandbox, on_a_plane
from tests.controlplane.api import path_of
from tests.controlplane.fixtures import SharedPlanes

# The suite's own questions are asserted there too.
pytest.register_assert_rewrite("tests.conformance.answers")

NAMESPACES = path_of("v1", "namespaces")


@pytest.fixture(scope="session", params=grounds())
def server(request: pytest.FixtureRequest, shared_planes: SharedPlanes) -> Iterator[Server]:
    kind, minor = request.param
    if kind == REAL:
        yield on_a_plane(shared_planes.get(minor))
        return
    with in_a_sandbox(minor) as sandbox:
        yield sandbox


@pytest.fixture
async def namespace(request: pytest.FixtureRequest, server: Server) -> str:
    slug = (
        re.sub(r"[^a-z0-9]+", "-", request.node.originalname.lower().removeprefix("test_")).strip("-")[:40].strip("-")
    )
    name = f"{slug}-{secrets.token_hex(3)}"
    await server.api.create(NAMESPACES, {"metadata": {"name": name}})
    # It stays: a real server goes through every resource to empty a namespace; hundreds would hold up the tests.
    return name
