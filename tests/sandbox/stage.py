"""An API server with simulated controllers, and what tests of simulated controllers ask of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from gangctl.sandbox.admission.webhooks import WebhookAdmission
from gangctl.sandbox.api import SYSTEM, Api, DeleteOptions
from gangctl.sandbox.objects import Object
from gangctl.sandbox.requests import Attributes, Propagation
from gangctl.sandbox.server import Sandbox, SandboxOptions
from gangctl.sandbox.simulated import SimulatedControllers
from gangctl.sandbox.store import ObjectStore
from tests.controlplane.wait import NotYet, read_until, wait_for

NAMESPACE = "t"
_TURNS = 50


class NoWebhooks(WebhookAdmission):
    """Admission of a server without webhooks, for tests to extend."""

    def __init__(self) -> None:
        super().__init__(ObjectStore())


class Referring(NoWebhooks):
    """Admission that puts the pods of every new Job into a group of 1.35 called like its JobSet, as a webhook would."""

    async def mutate(self, attributes: Attributes, obj: Object) -> Object:
        if attributes.kind.plural == "jobs" and attributes.operation == "CREATE":
            name = obj["metadata"]["labels"]["jobset.sigs.k8s.io/jobset-name"]
            obj["spec"]["template"]["spec"]["workloadRef"] = {"name": name, "podGroup": "w"}
        return obj


class Stage:
    """One namespace of an API server, and its simulated."""

    def __init__(self, api: Api, simulated: SimulatedControllers) -> None:
        self.api = api
        self.simulated = simulated

    async def create(self, resource: str, body: Object) -> Object:
        return await self.api.create(self.api.kind(resource), NAMESPACE, body, SYSTEM)

    async def create_jobset(self, body: Object) -> Object:
        return await self.create("jobsets.jobset.x-k8s.io", body)

    async def patch(self, resource: str, name: str, patch: Any, subresource: str = "") -> Object:
        kind = self.api.kind(resource)
        return await self.api.patch(kind, NAMESPACE, name, patch, "merge", SYSTEM, subresource=subresource)

    async def delete(self, resource: str, name: str, propagation: Propagation = "Background") -> None:
        options = DeleteOptions(propagation=propagation)
        await self.api.delete(self.api.kind(resource), NAMESPACE, name, SYSTEM, options)

    async def get(self, resource: str, name: str) -> Object:
        return await self.api.get(self.api.kind(resource), NAMESPACE, name)

    async def jobset(self, name: str = "js") -> Object:
        return await self.get("jobsets.jobset.x-k8s.io", name)

    async def jobs(self) -> dict[str, Object]:
        return {job["metadata"]["name"]: job for job in (await self.api.list(self.api.kind("jobs.batch"))).items}

    async def pods(self, labels: str = "") -> list[Object]:
        return (await self.api.list(self.api.kind("pods"), labels=labels)).items

    async def bound(self, labels: str = "") -> list[Object]:
        return [pod for pod in await self.pods(labels) if pod["spec"].get("nodeName")]

    async def until(self, condition: Callable[[], Any], what: str) -> Any:
        """Wait for an async condition."""
        return await wait_for(condition, what=what, interval=0.005)

    async def until_bound(self, count: int, labels: str = "") -> list[Object]:
        await read_until(
            lambda: self.bound(labels), lambda pods: len(pods) == count, f"{count} bound pods", interval=0.005
        )
        return await self.bound(labels)

    async def until_phase(self, phase: str, count: int, labels: str = "") -> list[Object]:
        async def enough() -> bool:
            phases = [pod["status"]["phase"] for pod in await self.pods(labels)]
            if phases.count(phase) != count:
                raise NotYet(str(phases))
            return True

        await wait_for(enough, what=f"{count} pods {phase}", interval=0.005)
        return [pod for pod in await self.pods(labels) if pod["status"]["phase"] == phase]

    async def until_condition(self, resource: str, name: str, kind: str, status: str = "True") -> Object:
        async def holds() -> Object:
            obj = await self.get(resource, name)
            seen = {c["type"]: c["status"] for c in obj.get("status", {}).get("conditions") or []}
            if seen.get(kind) != status:
                raise NotYet(str(seen))
            return obj

        found: Object = await wait_for(holds, what=f"{kind}={status} on {name}", interval=0.005)
        return found

    async def until_it_was(self, kind: str, made: Object) -> Object:
        """Wait for a condition that was True in any state of a JobSet since ``made``: it may end before a poll."""
        storage = self.api.kind("jobsets.jobset.x-k8s.io").storage
        name = made["metadata"]["name"]
        revision = int(made["metadata"]["resourceVersion"])

        async def was() -> Object:
            for change in self.api.store.bucket(storage).since(revision):
                obj = change.new.obj
                conditions = obj.get("status", {}).get("conditions") or []
                if obj["metadata"]["name"] == name and any(
                    c["type"] == kind and c["status"] == "True" for c in conditions
                ):
                    return obj
            raise NotYet("no state had it")

        found: Object = await wait_for(was, what=f"{kind} of {name} to be true once", interval=0.005)
        return found

    async def idle(self) -> None:
        """Let all controllers act until none writes any more; one that waits for a timer counts as idle."""
        revision = -1
        while revision != self.api.store.revision:
            revision = self.api.store.revision
            for _ in range(_TURNS):
                await asyncio.sleep(0)


@asynccontextmanager
async def stage(
    minor: str = "1.37", *, api: Api | None = None, gates: Mapping[str, bool] | None = None, **options: Any
) -> AsyncIterator[Stage]:
    """Simulated controllers beside a sandbox of ``minor``, or beside a bare ``api`` without garbage collection."""
    async with AsyncExitStack() as stack:
        if api is None:
            sandbox = await stack.enter_async_context(Sandbox(SandboxOptions(minor, gates or {}, tls=False)))
            api = sandbox.api
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        await api.create(api.kind("namespaces"), "", namespace, SYSTEM)
        simulated = await stack.enter_async_context(SimulatedControllers(api, **options))
        yield Stage(api, simulated)
