from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from gangctl.client.client import Client
from gangctl.client.transport import Transport, TransportOptions
from tests.client.clock import VirtualClock
from tests.client.server import ScriptedServer
from tests.credentials import StaticCredentials


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    async with ScriptedServer() as running:
        yield running


@pytest.fixture
async def client(server: ScriptedServer) -> AsyncIterator[Client]:
    """Sends each request once, so that a test counts what the runtime asks for."""
    async with Transport(StaticCredentials(server.url), TransportOptions(attempts=1)) as transport:
        yield Client(transport)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()
