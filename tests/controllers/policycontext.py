"""Everything about policies but webhooks, beside a sandbox."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from gangctl.api.objects import Object
from gangctl.client.client import Client
from gangctl.client.pacing import Clock
from gangctl.client.resources import Resource
from gangctl.client.transport import Transport
from gangctl.controllers.exported import ExportedPolicies
from gangctl.controllers.policies import Key, PolicyKeeper, PolicyStatusWriter
from gangctl.controllers.policy_sources import (
    GANG_POLICIES,
    GANG_POLICY_EXCEPTIONS,
    Parameters,
    PolicySources,
)
from gangctl.errors import NotFoundError
from gangctl.policy.load import load_policy
from gangctl.policy.loaded import LoadedPolicy, PolicySet
from gangctl.runtime.controller import Controller, ControllerOptions
from gangctl.runtime.informer import InformerOptions
from gangctl.sandbox.server import SandboxOptions
from tests.controlplane.wait import NotYet, wait_for
from tests.credentials import StaticCredentials
from tests.manifests.definitions.policies import definitions
from tests.resources import CUSTOM_RESOURCE_DEFINITIONS
from tests.sandbox.faults import FaultySandbox

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
QUICK = InformerOptions(base_delay_seconds=0.02, cap_delay_seconds=0.05)
RULE = {"expression": "has(object.metadata.labels)", "message": "labels are needed"}


class Bench:
    """Loads policies for real and keeps the sets that are put in force."""

    def __init__(self) -> None:
        self.sets: list[PolicySet] = []
        self.loads: list[str] = []
        self.problem = ""

    async def load(self, document: Object) -> LoadedPolicy:
        self.loads.append(document["metadata"]["name"])
        if document["metadata"]["name"] == "poison":
            raise RecursionError("deep")
        return load_policy(document)

    async def install(self, policies: PolicySet) -> None:
        self.sets.append(policies)


class Context:
    """Everything about policies but webhooks, beside a sandbox."""

    def __init__(self, sandbox: FaultySandbox, client: Client) -> None:
        self.sandbox = sandbox
        self.client = client
        self.bench = Bench()
        self.sources = PolicySources(client, self._wake, options=QUICK, confirm_seconds=0.3)
        self.parameters = Parameters(client, self._wake, retry_seconds=0.05)
        self.exported = ExportedPolicies(client, self._wake, options=QUICK)
        self.keeper = PolicyKeeper(
            self.sources, self.parameters, self.exported, self.bench, now=Clock().wall, on_status_change=self._enqueue
        )
        writer = PolicyStatusWriter(client, self.sources, self.keeper, Clock().wall)
        self.statuses: Controller[Key] = Controller("policies", writer.reconcile, options=ControllerOptions(workers=1))
        self.sources.subscribe(self._enqueue)

    def _wake(self) -> None:
        self.keeper.wake()

    def _enqueue(self, key: Key) -> None:
        self.statuses.enqueue(key)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for each in (self.sources.run(), self.exported.run(), self.keeper.run(), self.statuses.run()):
                group.create_task(each)

    async def define(self) -> None:
        for definition in definitions().values():
            await self.client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
        for resource in (GANG_POLICIES, GANG_POLICY_EXCEPTIONS):
            await wait_for(lambda resource=resource: self.client.list(resource), tolerate=(NotFoundError,))  # type: ignore[misc]  # bound on purpose

    async def policy(self, name: str = "p", **spec: Any) -> Object:
        spec = {"validations": [RULE], **spec}
        return await self.create(GANG_POLICIES, {"metadata": {"name": name}, "spec": spec})

    async def create(self, resource: Resource, body: Object) -> Object:
        """Create a custom resource, which needs its type."""
        return await self.client.create(resource, {"apiVersion": resource.api_version, "kind": resource.kind, **body})

    async def in_force(self, condition: Callable[[PolicySet], object]) -> PolicySet:
        async def met() -> bool:
            current = self.keeper.current
            if not condition(current):
                names = [each.name for each in current.policies], [each.name for each in current.broken]
                raise NotYet(f"set {current.generation}: {names}")
            return True

        await wait_for(met, what="the policies to be in force", interval=0.01)
        return self.keeper.current

    async def condition(self, resource: Resource, name: str, reason: str, words: str = "") -> dict[str, Any]:
        """The only condition of a policy or an exception, once it has this reason, and these words in its message."""

        async def recorded() -> dict[str, Any]:
            status = (await self.client.get(resource, name)).get("status") or {}
            found = [each for each in status.get("conditions", []) if each["reason"] == reason]
            if not found or words not in found[0]["message"]:
                raise NotYet(str(status))
            assert status["observedGeneration"] == found[0]["observedGeneration"]
            return dict(found[0])

        return await wait_for(recorded, what=f"the status of {name} to say {reason}", interval=0.02)

    def writes(self) -> list[str]:
        return [f"{each.verb} {each.resource}/{each.subresource}" for each in self.sandbox.audit if each.subresource]


@pytest.fixture
async def context(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Context]:
    # No policy is in force before its parameters are read, or cannot be.
    monkeypatch.setattr("gangctl.controllers.policy_sources.SETTLE_SECONDS", 300.0)
    async with (
        FaultySandbox(SandboxOptions(tls=False)) as sandbox,
        Transport(StaticCredentials(sandbox.url, token=sandbox.token())) as transport,
    ):
        yield Context(sandbox, Client(transport))


@asynccontextmanager
async def running(context: Context) -> AsyncIterator[None]:
    task = asyncio.create_task(context.run())
    try:
        await asyncio.wait_for(context.keeper.synced.wait(), 300)
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def names(policies: PolicySet) -> list[str]:
    return [each.name for each in policies.policies]
