from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from gangctl.client.client import Client
from gangctl.client.transport import Transport
from tests.client.server import ScriptedServer
from tests.credentials import StaticCredentials


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    async with ScriptedServer() as running:
        yield running


@pytest.fixture
async def transport(server: ScriptedServer) -> AsyncIterator[Transport]:
    async with Transport(StaticCredentials(server.url, token="t0")) as opened:
        yield opened


@pytest.fixture
def client(transport: Transport) -> Client:
    return Client(transport)
