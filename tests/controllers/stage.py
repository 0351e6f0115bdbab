"""What contexts in a sandbox share: a client of it, one who may write only while it leads, and what runs beside."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from prometheus_client import CollectorRegistry

from gangctl.client.client import Client, Settings
from gangctl.client.transport import Transport, TransportOptions
from gangctl.errors import LeadershipLostError
from gangctl.runtime.controller import ControllerObserver
from gangctl.runtime.metrics import RuntimeMetrics
from gangctl.sandbox.api import SYSTEM
from gangctl.sandbox.server import SandboxOptions
from tests.credentials import StaticCredentials
from tests.sandbox.faults import FaultySandbox

USER = "gangctl"
NAMESPACE = "t"


@asynccontextmanager
async def stage() -> AsyncIterator[tuple[FaultySandbox, Client]]:
    """A sandbox with one namespace, and a client that asks once."""
    async with FaultySandbox(SandboxOptions(tls=False)) as sandbox:
        credentials = StaticCredentials(sandbox.url, token=sandbox.token(USER))
        async with Transport(credentials, TransportOptions(attempts=1)) as transport:
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
            await sandbox.api.create(sandbox.api.kind("namespaces"), "", namespace, SYSTEM)
            yield sandbox, Client(transport)


def while_leading(client: Client, leads: Callable[[], bool]) -> Client:
    """The same client for someone who has to lead."""

    def guard() -> None:
        if not leads():
            raise LeadershipLostError("another one leads")

    return Client(client._transport, Settings(guard=guard))


class Observed(RuntimeMetrics):
    """Metrics whose controllers report to an observer of the test."""

    def __init__(self, observer: ControllerObserver) -> None:
        super().__init__(CollectorRegistry())
        self._observer = observer

    def controller_observer(self, name: str) -> ControllerObserver:  # noqa: ARG002 -- there is one
        return self._observer


@asynccontextmanager
async def beside(main: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run something that must not end by itself."""
    task = asyncio.create_task(main)
    try:
        yield
        await asyncio.sleep(0)
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
