"""
The servers that the suite runs against: each Kubernetes minor, for real and as the sandbox.

A test sees a Server and does not ask which it is. What differs between minors is data of a test, because that is
behaviour too; what differs between the real server and the sandbox is a bug in the sandbox.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Final, Self

import pytest

from gangctl.sandbox.server import Sandbox, SandboxOptions
from gangctl.sandbox.simulated import SimulatedControllers
from tests.conformance.background import background
from tests.controlplane.api import ApiClient
from tests.controlplane.minors import MINORS, Minor
from tests.controlplane.plane import ControlPlane

REAL: Final = "real"
SANDBOX: Final = "sandbox"


@dataclass(frozen=True)
class Server:
    """
    One API server; `stranger` is a client with a bearer token, or with no credentials at all for "".

    A stranger is kept as long as the server: a client that goes before its event loop does leaves connections open.
    """

    api: ApiClient
    minor: Minor
    real: bool
    stranger: Callable[[str], ApiClient]

    @property
    def gangs(self) -> str:
        """The version of scheduling.k8s.io that this minor serves gangs in."""
        return f"scheduling.k8s.io/{self.minor.scheduling_version}"


def grounds(*minors: str) -> list[object]:
    """The parameters of the fixture `server`, for some minors or for all."""
    return [_ground(kind, minor) for kind in (REAL, SANDBOX) for minor in (minors or MINORS)]


def only(*minors: str) -> pytest.MarkDecorator:
    """A behaviour that these minors have, and no other."""
    return pytest.mark.parametrize("server", grounds(*minors), indirect=True, scope="session")


def on_a_plane(plane: ControlPlane) -> Server:
    """The API server of a plane, as its administrator."""
    return Server(plane.api, plane.minor, True, cache(lambda token: ApiClient(plane.url, ca=plane.ca, token=token)))


@contextmanager
def in_a_sandbox(minor: str) -> Iterator[Server]:
    """A sandbox of its own, on a thread of its own: tests come and go with their event loops."""
    sandbox = Sandbox(SandboxOptions(minor=minor))
    controllers = SimulatedControllers(sandbox.api, roles=("jobset", "job"))
    with background(f"sandbox-{minor}") as thread:
        thread.run(sandbox.open())
        thread.run(controllers.__aenter__())
        url, ca = sandbox.url, sandbox.ca_pem.decode()
        yield Server(
            ApiClient(url, ca=ca, token=sandbox.token()),
            MINORS[minor],
            False,
            cache(lambda token: ApiClient(url, ca=ca, token=token)),
        )
        thread.run(controllers.__aexit__(None, None, None))
        thread.run(sandbox.close())


class SharedSandboxes:
    """Sandboxes by minor, started at the first request and kept: a worker may come back to one many times."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self._servers: dict[str, Server] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def get(self, minor: str) -> Server:
        if minor not in self._servers:
            self._servers[minor] = self._open.enter_context(in_a_sandbox(minor))
        return self._servers[minor]


def _ground(kind: str, minor: str) -> object:
    marks = [pytest.mark.controlplane, pytest.mark.minor(minor)] if kind == REAL else []
    return pytest.param((kind, minor), id=f"{kind}-{minor}", marks=marks)
