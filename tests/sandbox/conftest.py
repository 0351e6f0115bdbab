from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from gangctl.sandbox.api import Api
from gangctl.sandbox.server import SandboxOptions
from tests.sandbox.faults import FaultySandbox
from tests.sandbox.wire import Wire


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
async def sandbox() -> AsyncIterator[FaultySandbox]:
    async with FaultySandbox(SandboxOptions(tls=False)) as running:
        yield running


@pytest.fixture
async def wire(sandbox: FaultySandbox) -> AsyncIterator[Wire]:
    async with Wire(sandbox.url, sandbox.token("tester")) as connected:
        yield connected
