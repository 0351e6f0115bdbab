"""Gang objects as they are written into a sandbox, in virtual time: ``play(acts)`` runs one test."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from gangctl.api.jobset import JobSet
from gangctl.client.client import Client
from gangctl.cluster.members import project_jobset
from gangctl.controllers.readiness.gangobjects import GangObjects
from gangctl.gang.reasons import Reason
from gangctl.readiness.result import Cause, Counts, GangPhase, Readiness
from gangctl.runtime.controller import ControllerObserver
from gangctl.runtime.manager import Manager
from gangctl.sandbox.api import SYSTEM, DeleteOptions
from gangctl.sandbox.errors import StatusError
from tests.controllers.stage import NAMESPACE, USER, Observed, beside, stage, while_leading
from tests.faults import virtual_time
from tests.jobsets import jobset, rj
from tests.manifests.definitions.gangs import definitions
from tests.sandbox.faults import FaultySandbox

Object = dict[str, Any]
GANGS = "gangs.gangctl.dev"
DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
JOBSETS = "jobsets.jobset.x-k8s.io"
LONG_SECONDS = 600.0
"""Longer than every back-off."""


class Errors(ControllerObserver):
    """Counts errors by their class."""

    def __init__(self) -> None:
        self.kinds: list[str] = []

    def failed(self, kind: str) -> None:
        self.kinds.append(kind)


class Context:
    """A sandbox, JobSets in it, and Gang objects that the leader writes."""

    def __init__(self, sandbox: FaultySandbox, client: Client) -> None:
        self.sandbox = sandbox
        self.api = sandbox.api
        self.client = client
        self.cache: dict[tuple[str, str], JobSet] = {}
        self.unfollowed: set[str] = set()
        self.errors = Errors()
        self.leads = True
        self.objects = self._make()

    def _make(self) -> GangObjects:
        return GangObjects(
            Manager(self.client, while_leading(self.client, lambda: self.leads), metrics=Observed(self.errors)),
            jobset=self.cache.get,
            follows=lambda each: each.name not in self.unfollowed,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[GangObjects]:
        """A gangctl that has just begun to lead, without the state of earlier ones."""
        self.objects = self._make()
        async with beside(self.objects.run()):
            yield self.objects

    async def define(self) -> None:
        (body,) = definitions().values()
        await self.api.create(self.api.kind(DEFINITIONS), "", body, SYSTEM)

    async def jobset(self, name: str = "js") -> Readiness:
        """Create a JobSet; where it stands at first."""
        raw = jobset(name, rj("w", 1, 8, 8, mode="Gang"), namespace=NAMESPACE)
        raw["metadata"].pop("uid", None)
        created = await self.api.create(self.api.kind(JOBSETS), NAMESPACE, raw, SYSTEM)
        self.cache[NAMESPACE, name] = project_jobset(created)
        uid = str(created["metadata"]["uid"])
        return Readiness(NAMESPACE, name, uid, GangPhase.PENDING, 1_700_000_000, Counts(8, 8, 8), ())

    async def delete_jobset(self, name: str = "js") -> None:
        self.cache.pop((NAMESPACE, name), None)
        await self.api.delete(self.api.kind(JOBSETS), NAMESPACE, name, SYSTEM, DeleteOptions(propagation="Background"))

    async def gang(self, name: str = "js") -> Object | None:
        try:
            return await self.api.get(self.api.kind(GANGS), NAMESPACE, name)
        except StatusError:
            return None

    async def phase(self, name: str = "js") -> str:
        gang = await self.gang(name)
        return str((gang or {}).get("status", {}).get("phase", ""))

    def writes(self) -> list[str]:
        """What gangctl wrote: ``create``, ``patch status``, ``delete``."""
        return [f"{each.verb} {each.subresource}".strip() for each in self.sandbox.audit.writes_by(USER)]


Play = Callable[[Context], Awaitable[None]]


def play(acts: Play, *, defined: bool = True) -> None:
    """Run a test in virtual time."""

    async def main() -> None:
        async with stage() as (sandbox, client):
            context = Context(sandbox, client)
            if defined:
                await context.define()
                await asyncio.sleep(1)
            await acts(context)

    virtual_time.run(main())


def at(before: Readiness, phase: GangPhase, ready: int = 0, **changes: Any) -> Readiness:
    """The same a second later, in another phase."""
    counts = Counts(8, 8, 8, 8, 8, ready)
    return dataclasses.replace(before, phase=phase, since=before.since + 1, counts=counts, **changes)


def because(before: Readiness, message: str) -> Readiness:
    return dataclasses.replace(before, causes=(Cause(Reason.UNSCHEDULABLE, message, since=before.since),))
