"""PathwaysJobs in a sandbox, and the controller that follows them, in virtual time: ``play(acts)`` runs one test.

They are defined as upstream defines them: what lets the most pass.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from prometheus_client import CollectorRegistry

from gangctl.client.client import Client
from gangctl.controllers.pathways.controller import PathwaysController, PathwaysMetrics
from gangctl.gang.reasons import Notice
from gangctl.pathways.options import PathwaysOptions
from gangctl.pathways.result import RenderingInputs
from gangctl.pathways.status import PathwaysFacts
from gangctl.pathways.words import GROUP, UPSTREAM_LEASE
from gangctl.runtime.controller import ControllerObserver
from gangctl.runtime.manager import Manager
from gangctl.sandbox.api import SYSTEM, DeleteOptions
from gangctl.sandbox.errors import StatusError
from tests.controllers.stage import NAMESPACE, USER, Observed, beside, stage, while_leading
from tests.faults import virtual_time
from tests.pathways.samples import pathways_job
from tests.pathways.upstream_definition import upstream_definition
from tests.sandbox.faults import FaultySandbox, Match

Object = dict[str, Any]
JOBS = f"pathwaysjobs.{GROUP}"
JOBSETS = "jobsets.jobset.x-k8s.io"
LEASES = "leases.coordination.k8s.io"
DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
LONG_SECONDS = 600.0
"""Longer than every back-off."""
CREATES = Match(USER, frozenset({"create"}), JOBSETS)
STATUSES = Match(USER, frozenset({"patch"}), JOBS, "status")


class Watcher(PathwaysMetrics, ControllerObserver):
    """Keeps the recorded events."""

    def __init__(self) -> None:
        super().__init__(CollectorRegistry())
        self.down: list[bool] = []
        self.phases: dict[tuple[str, str], str] = {}
        self.errors: list[str] = []

    def on_status_change(self, before: PathwaysFacts | None, now: PathwaysFacts | None) -> None:
        if before is not None:
            del self.phases[before.key]
        if now is not None:
            self.phases[now.key] = str(now.status.phase)

    def set_deferring(self, *, deferring: bool) -> None:
        self.down.append(deferring)

    def failed(self, kind: str) -> None:
        self.errors.append(kind)


class Context:
    """A sandbox, PathwaysJobs in it, and a controller that comes and goes."""

    def __init__(self, sandbox: FaultySandbox, client: Client) -> None:
        self.sandbox = sandbox
        self.api = sandbox.api
        self.client = client
        self.leads = True
        self.setting = RenderingInputs()
        self.options = PathwaysOptions()
        self.serves = True
        """Whether gangctl serves the namespace."""
        self.recorded: list[Notice] = []
        """All recorded events, equal ones about one object once, as they are written."""
        self.watcher = Watcher()
        self._words: set[tuple[str, Notice]] = set()
        self.controller = self._make()

    def _say(self, job: PathwaysFacts, notice: Notice) -> None:
        if (job.uid, notice) not in self._words:
            self._words.add((job.uid, notice))
            self.recorded.append(notice)

    def _make(self) -> PathwaysController:
        return PathwaysController(
            Manager(self.client, while_leading(self.client, lambda: self.leads), metrics=Observed(self.watcher)),
            self._say,
            setting=lambda: self.setting,
            options=self.options,
            serves=lambda _: self.serves,
            metrics=self.watcher,
        )

    @asynccontextmanager
    async def running(self, seconds: float = 5.0) -> AsyncIterator[PathwaysController]:
        """A controller without the state of earlier ones, after its first ``seconds``."""
        self.controller = self._make()
        async with beside(self.controller.run()):
            await asyncio.sleep(seconds)
            yield self.controller

    @property
    def reasons(self) -> list[str]:
        """Of all recorded events."""
        return [each.reason.value for each in self.recorded]

    def writes(self) -> list[str]:
        """What gangctl wrote: ``create jobsets``, ``patch pathwaysjobs/status``; also what was refused."""
        found = []
        for each in self.sandbox.audit.writes_by(USER):
            plural = each.resource.partition(".")[0]
            found.append(f"{each.verb} {plural}{'/' if each.subresource else ''}{each.subresource}")
        return found

    def reads(self) -> list[str]:
        """What gangctl looked at besides following: ``get jobsets``."""
        asked = [each for each in self.sandbox.audit if each.user == USER]
        return [f"get {each.resource.partition('.')[0]}" for each in asked if each.verb == "get"]

    # PathwaysJobs

    async def define(self) -> None:
        await self.api.create(self.api.kind(DEFINITIONS), "", upstream_definition(), SYSTEM)
        await asyncio.sleep(1)

    async def submit(self, name: str = "pw", **changes: Any) -> Object:
        return await self.api.create(self.api.kind(JOBS), NAMESPACE, pathways_job(name, **changes), SYSTEM)

    async def job(self, name: str = "pw") -> Object:
        return await self.api.get(self.api.kind(JOBS), NAMESPACE, name)

    async def edit(self, patch: Object, name: str = "pw", kind: str = JOBS, subresource: str = "") -> None:
        await self.api.patch(self.api.kind(kind), NAMESPACE, name, patch, "merge", SYSTEM, subresource=subresource)

    async def status(self, name: str = "pw") -> Object:
        found: Object = (await self.job(name)).get("status", {})
        return found

    async def phase(self, name: str = "pw") -> str:
        """The condition that is True and its reason, with what is terminal in front."""
        status = await self.status(name)
        held = [
            each for each in status.get("conditions", []) if each["status"] == "True" and each["type"] != "Degraded"
        ]
        words = [f"{each['type']}: {each['reason']}" for each in held]
        return " ".join(filter(None, [status.get("terminalState", "").upper(), *words]))

    async def delete(self, name: str = "pw", kind: str = JOBS, propagation: Any = "Background") -> None:
        await self.api.delete(self.api.kind(kind), NAMESPACE, name, SYSTEM, DeleteOptions(propagation=propagation))

    # JobSets

    async def jobset(self, name: str = "pw") -> Object | None:
        try:
            return await self.api.get(self.api.kind(JOBSETS), NAMESPACE, name)
        except StatusError:
            return None

    async def foreign(self, name: str = "pw", owner: Object | None = None) -> Object:
        """Create a JobSet that is not gangctl's."""
        job = {"template": {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}}}
        body: Object = {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": {"name": name, "ownerReferences": [owner] if owner else []},
            "spec": {"replicatedJobs": [{"name": each, **job} for each in ("pathways-head", "worker")]},
        }
        return await self.api.create(self.api.kind(JOBSETS), NAMESPACE, body, SYSTEM)

    async def stands(
        self, *conditions: str, name: str = "pw", up: Mapping[str, int] | None = None, **more: Any
    ) -> None:
        """Play the JobSet controller: conditions that are True, or False with a "-" in front; Jobs that are ready."""
        entries = [
            {
                "type": each.removeprefix("-"),
                "status": "False" if each.startswith("-") else "True",
                "reason": f"Because{each.removeprefix('-')}",
                "message": "as played",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
            for each in conditions
        ]
        counts = {"succeeded": 0, "failed": 0, "active": 0, "suspended": 0}
        jobs = [{"name": key, "ready": ready, **counts} for key, ready in (up or {}).items()]
        status = {"restarts": 0, "conditions": entries, "replicatedJobsStatus": jobs, **more}
        kind = self.api.kind(JOBSETS)
        patch = {"status": status}
        await self.api.patch(kind, NAMESPACE, name, patch, "merge", SYSTEM, subresource="status")

    async def node(self, room: Mapping[str, str]) -> None:
        """Add a node that has this room."""
        kind = self.api.kind("nodes")
        await self.api.create(kind, "", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}, SYSTEM)
        status = {"status": {"capacity": {**room}, "allocatable": {**room}}}
        await self.api.patch(kind, "", "n", status, "merge", SYSTEM, subresource="status")

    # The upstream controller

    async def lease(self, holder: str, renewed: int = 0, namespace: str = "upstream") -> None:
        """Take, renew or give back (an empty holder) the Lease of upstream's leader."""
        spec = {
            "holderIdentity": holder,
            "leaseDurationSeconds": 15,
            "renewTime": f"2020-01-01T00:{renewed // 60:02}:{renewed % 60:02}.000000Z",
        }
        body = {"metadata": {"name": UPSTREAM_LEASE, "namespace": namespace}, "spec": spec}
        kind = self.api.kind(LEASES)
        try:
            await self.api.patch(kind, namespace, UPSTREAM_LEASE, {"spec": spec}, "merge", SYSTEM)
        except StatusError:
            await self.namespace(namespace)
            await self.api.create(
                kind, namespace, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **body}, SYSTEM
            )

    @asynccontextmanager
    async def upstream(self) -> AsyncIterator[None]:
        """Another holder renews the Lease, and at the end stops without releasing it."""
        await self.lease("upstream")

        async def renew() -> None:
            for number in range(1, 3600):
                await asyncio.sleep(2)
                await self.lease("upstream", number)

        async with beside(renew()):
            yield

    async def namespace(self, name: str) -> None:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        try:
            await self.api.create(self.api.kind("namespaces"), "", body, SYSTEM)
        except StatusError as error:
            if error.code != 409:
                raise


Play = Callable[[Context], Awaitable[None]]


def play(acts: Play, *, defined: bool = True) -> None:
    """Run a test in virtual time."""

    async def main() -> None:
        async with stage() as (sandbox, client):
            context = Context(sandbox, client)
            if defined:
                await context.define()
            await acts(context)

    virtual_time.run(main())
