"""Kueue's objects in a sandbox, with a test in Kueue's place, and gangctl's loops over them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from gangctl.api.jobset import JobSet, read_jobset
from gangctl.api.store import Store
from gangctl.client.client import Client, Settings
from gangctl.client.pacing import Clock
from gangctl.client.resources import JOBS, JOBSETS, NAMESPACES, Resource
from gangctl.client.transport import Transport
from gangctl.cluster.kinds import ADMISSION_CHECKS, QUEUED_WORKLOADS
from gangctl.controllers.checks.activity import GANG_ADMISSION_PARAMETERS, Checks, parameter_source
from gangctl.controllers.checks.workloads import WorkloadChecks
from gangctl.errors import NotFoundError
from gangctl.gang.reasons import Notice
from gangctl.kueue.checks import CheckProgress, Progress
from gangctl.kueue.names import CHECK_CONTROLLER
from gangctl.kueue.objects import AdmissionCheck, QueuedWorkload
from gangctl.kueue.reading import read_check, read_workload
from gangctl.runtime.controller import Action
from gangctl.runtime.informer import Informer, InformerOptions
from gangctl.sandbox.server import SandboxOptions
from tests.controllers.queues.definitions import definition
from tests.controlplane.wait import NotYet, wait_for
from tests.credentials import StaticCredentials
from tests.jobsets import jobset, rj
from tests.manifests.definitions.admissionparameters import definitions
from tests.resources import CUSTOM_RESOURCE_DEFINITIONS
from tests.sandbox.faults import FaultySandbox

Object = dict[str, Any]

QUICK = InformerOptions(base_delay_seconds=0.02, cap_delay_seconds=0.05)
DONE = CheckProgress(Progress.DONE, "all there")
KUEUE = "kueue-admission"
SINCE = "2026-01-01T00:00:00Z"


def condition(kind: str, *, status: bool = True, reason: str = "Test") -> Object:
    return {"type": kind, "status": str(status), "reason": reason, "message": "", "lastTransitionTime": SINCE}


def admission(flavor: str = "spot", count: int = 4) -> Object:
    assignment = {"name": "w", "flavors": {"cpu": flavor}, "resourceUsage": {"cpu": "4"}, "count": count}
    return {"clusterQueue": "cq", "podSetAssignments": [assignment]}


def entry(name: str, state: str = "Pending", message: str = "", **more: Any) -> Object:
    return {"name": name, "state": state, "lastTransitionTime": SINCE, "message": message, **more}


@dataclass
class Statuses:
    """Returns what a test sets."""

    now: CheckProgress = DONE
    asked: int = 0

    async def of(self, _: JobSet) -> CheckProgress:
        self.asked += 1
        return self.now


@dataclass
class JobSets:
    """The JobSets that have been seen."""

    seen: dict[tuple[str, str], JobSet] = field(default_factory=dict)

    def restarted_jobset(self, key: tuple[str, str]) -> JobSet | None:
        return self.seen.get(key)


class World:
    """A sandbox with Kueue's kinds, caches of them, and both loops, which the test calls."""

    def __init__(self, sandbox: FaultySandbox, transport: Transport) -> None:
        self.sandbox = sandbox
        self.client = Client(transport)
        self.kueue = Client(transport, Settings(field_manager=KUEUE))
        self.statuses = Statuses()
        self.jobsets = JobSets()
        self.events: list[tuple[str, str]] = []
        self.workloads: Informer[QueuedWorkload] = Informer(
            self.client,
            QUEUED_WORKLOADS,
            read_workload,
            store=Store({"owner": lambda each: [each.owner_uid]}),
            options=QUICK,
        )
        self.checks: Informer[AdmissionCheck] = Informer(self.client, ADMISSION_CHECKS, read_check, options=QUICK)
        self.reported = 0
        self.parameters = parameter_source(self.client, self._parameters_changed, options=QUICK, confirm_seconds=0.2)
        self.activity = Checks(self.client, self.client, self.checks.store, self.parameters)
        self.loop = self.process()

    def process(self) -> WorkloadChecks:
        """A loop that remembers nothing, as after a restart."""
        loop = WorkloadChecks(
            self.client,
            self.workloads.store,
            self.activity,
            self.jobsets,  # type: ignore[arg-type]  # finds one by its key
            statuses=self.statuses,  # type: ignore[arg-type]  # the one question that is asked
            record=self._say,
            now=Clock().wall,
            jitter=lambda: 0.0,
        )
        self.loop = loop
        return loop

    def _say(self, jobset: JobSet, notice: Notice) -> None:
        self.events.append((jobset.name, notice.reason.value))

    def _parameters_changed(self) -> None:
        self.reported += 1

    async def define(self, resource: Resource) -> None:
        """Serve a kind whose status is written apart."""
        body = definition(resource)
        body["spec"]["versions"][0]["subresources"] = {"status": {}}
        await self.client.create(CUSTOM_RESOURCE_DEFINITIONS, body)
        await self.served(resource)

    async def define_parameters(self) -> None:
        for body in definitions().values():
            await self.client.create(CUSTOM_RESOURCE_DEFINITIONS, body)
        await self.served(GANG_ADMISSION_PARAMETERS)

    async def served(self, resource: Resource) -> None:
        await wait_for(lambda: self.client.list(resource), tolerate=(NotFoundError,))

    async def create(self, resource: Resource, name: str, namespace: str = "", **body: Any) -> Object:
        metadata = {"name": name, **({"namespace": namespace} if namespace else {}), **body.pop("metadata", {})}
        raw = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **body}
        return await self.client.create(resource, raw)

    async def check(
        self, name: str = "gang", controller: str = CHECK_CONTROLLER, parameters: Object | None = None
    ) -> None:
        spec = {"controllerName": controller, **({"parameters": parameters} if parameters else {})}
        await self.create(ADMISSION_CHECKS, name, spec=spec)

        async def seen() -> bool:
            return self.checks.store.get("", name) is not None

        await wait_for(seen, what="the check to be seen", interval=0.01)

    async def active(self, name: str = "gang") -> Object:
        """Reconcile a check; its condition Active."""
        await self.activity.reconcile(name)
        live = await self.client.get(ADMISSION_CHECKS, name)
        (found,) = live["status"]["conditions"]
        return dict(found)

    async def known(self) -> None:
        async def met() -> bool:
            return self.parameters.known or self.parameters.missing

        await wait_for(met, what="the parameters to be known", interval=0.01)

    async def queued(
        self, *entries: Object, kind: str = "JobSet", seen: bool = True, variant: bool = False, **status: Any
    ) -> Object:
        """A Workload with quota, as Kueue writes it, and its owner, which gangctl has ``seen``.

        A ``variant`` belongs to another Workload, which has the owner.
        """
        raw = jobset("js", rj("w", 1, 4, 4, mode="Gang"))
        if kind == "Job":
            spec = raw["spec"]["replicatedJobs"][0]["template"]["spec"]
            raw = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "js"}, "spec": spec}
        owner = await self.client.create(JOBSETS if kind == "JobSet" else JOBS, raw, "t")
        if kind == "JobSet" and seen:
            self.jobsets.seen["t", "js"] = read_jobset(owner)[0]
        version, uid = owner["apiVersion"], owner["metadata"]["uid"]
        reference = {"apiVersion": version, "kind": kind, "name": "js", "uid": uid, "controller": True}
        pods = {"name": "w", "count": 4, "template": {}}
        metadata: Object = {"ownerReferences": [reference]}
        if variant:
            labels = {"kueue.x-k8s.io/concurrent-admission-parent": "true"}
            made = {"metadata": {**metadata, "labels": labels}, "spec": {"podSets": [pods], "active": True}}
            parent = await self.create(QUEUED_WORKLOADS, "parent", "t", **made)
            reference = {"apiVersion": QUEUED_WORKLOADS.api_version, "kind": "Workload", "name": "parent"}
            metadata = {"ownerReferences": [{**reference, "uid": parent["metadata"]["uid"], "controller": True}]}
        await self.create(QUEUED_WORKLOADS, "wl", "t", metadata=metadata, spec={"podSets": [pods], "active": True})
        status = {"conditions": [condition("QuotaReserved")], "admission": admission(), **status}
        return await self.as_kueue(admissionChecks=list(entries), **status)

    async def as_kueue(self, **status: Any) -> Object:
        """Apply these fields of the status as Kueue does, and wait until the cache has them."""
        body = {"metadata": {"name": "wl", "namespace": "t"}, "status": status}
        live = await self.kueue.apply(QUEUED_WORKLOADS, body, force=True, subresource="status")
        await self.seen(live)
        return live

    async def seen(self, live: Object) -> None:
        """Wait until the cache is as new as this."""
        version = live["metadata"]["resourceVersion"]

        async def met() -> bool:
            found = self.workloads.store.get("t", "wl")
            return found is not None and found.version == version

        await wait_for(met, what=f"version {version}", interval=0.01)

    async def workload(self) -> Object:
        return await self.client.get(QUEUED_WORKLOADS, "wl", "t")

    async def look(self) -> Action:
        """One reconcile of the Workload, over a cache that is current afterwards."""
        action = await self.loop.reconcile(("t", "wl"))
        await self.seen(await self.workload())
        return action

    async def state(self, name: str = "gang") -> Object:
        """The entry of a check."""
        found = [each for each in (await self.workload())["status"]["admissionChecks"] if each["name"] == name]
        return dict(found[0])

    def writes(self) -> int:
        """How often the status of a Workload was applied, by whomever."""
        return sum(each.verb == "patch" and each.name == "wl" for each in self.sandbox.audit)


@asynccontextmanager
async def world_of() -> AsyncIterator[World]:
    """A world in which Kueue's kinds are served and watched."""
    async with (
        FaultySandbox(SandboxOptions(tls=False)) as sandbox,
        Transport(StaticCredentials(sandbox.url, token=sandbox.token())) as transport,
    ):
        world = World(sandbox, transport)
        for resource in (QUEUED_WORKLOADS, ADMISSION_CHECKS):
            await world.define(resource)
        await world.client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "t"}})
        runs = (world.workloads.run(), world.checks.run(), world.parameters.informer.run())
        tasks = [asyncio.create_task(run) for run in runs]
        try:
            await world.workloads.synced.wait()
            await world.checks.synced.wait()
            yield world
            ended = [task for task in tasks if task.done()]
            if ended:
                raise NotYet(f"{ended} ended")
        finally:
            for task in tasks:
                task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.gather(*tasks)
