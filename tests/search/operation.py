"""How gangctl is run in the simulation: its replicas, its flags, and what an administrator does to its registration."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from gangctl.api.meta import GANG_REF, JOBSET_NAME
from gangctl.errors import ConfigError
from gangctl.webhooks.configurations import JOBS_NAME, NAME
from tests.faults.world import ADMIN, World
from tests.search.memory import MemoryLoop

Object = dict[str, Any]

_SERVICE: Final = 30_000
_LEASE_SECONDS: Final = 100.0
_DISCOVERY_SECONDS: Final = 300.0
"""The cluster is not upgraded here, and discovery takes most of an hour in which nothing happens."""
_GROUP: Final = "admissionregistration.k8s.io"

REGISTERED: Final[Mapping[str, tuple[str, str]]] = {
    "policy": (f"mutatingadmissionpolicies.{_GROUP}", NAME),
    "binding": (f"mutatingadmissionpolicybindings.{_GROUP}", NAME),
    "jobs": (f"mutatingwebhookconfigurations.{_GROUP}", JOBS_NAME),
    "mutating": (f"mutatingwebhookconfigurations.{_GROUP}", NAME),
    "validating": (f"validatingwebhookconfigurations.{_GROUP}", NAME),
}
"""What an administrator may delete or edit: resource and name."""

_NOWHERE: Final = {"matchLabels": {"there": "none"}}
STRAY: Final = "other"
"""A group that another webhook chooses for the Jobs of :data:`STRAYS`."""
STRAYS: Final = "r1"


class Operation(NamedTuple):
    """How gangctl is run."""

    replicas: int = 1
    registration: str = "manage"
    """``--webhook-registration``."""
    unregisters: bool = False
    """``--unregister-on-exit`` is asked for."""
    stray: bool = False
    """Another owner's policy writes :data:`STRAY` into the Jobs of :data:`STRAYS`."""


class Replicas:
    """The processes of gangctl, and which of them run."""

    def __init__(self, world: World, directory: Path, operation: Operation) -> None:
        self._world = world
        self._operation = operation
        extra = range(1, operation.replicas)
        self.worlds = (
            world,
            *(World(world.sandbox, world.simulated, directory / str(n), frozenset()) for n in extra),
        )
        self.running: set[int] = set()
        self.absent = True
        """No new JobSet has to become a gang: gangctl has never run, or has unregistered itself."""
        self._unregisters = operation.unregisters

    async def open(self) -> None:
        """Register everything, and start every replica."""
        loop = cast(MemoryLoop, asyncio.get_running_loop())
        ports = loop.services[_SERVICE] = []
        for world in self.worlds:
            ports.append(next(loop.free))
            world.flags = {
                "webhook_url": f"https://127.0.0.1:{_SERVICE}",
                "webhook_bind_address": f"127.0.0.1:{ports[-1]}",
                "leader_elect": self._operation.replicas > 1,
                "lease_duration": _LEASE_SECONDS,
                "discovery_period": _DISCOVERY_SECONDS,
            }
        if self._operation.registration != "manage":
            await self.start(0)
            await self.stop(0)
        for number, world in enumerate(self.worlds):
            world.flags |= {
                "webhook_registration": self._operation.registration,
                "unregister_on_exit": self._unregisters,
            }
            await self.start(number)

    async def start(self, number: int) -> None:
        """Start one that does not run."""
        if number in self.running:
            return
        world = self.worlds[number]
        try:
            await world.start_gangctl()
        except ConfigError:
            # What gangctl refuses to do is left out.
            self._unregisters = world.flags["unregister_on_exit"] = False
            await world.start_gangctl()
        self.running.add(number)
        self.absent = False

    async def stop(self, number: int) -> None:
        """Ask one to end."""
        if number in self.running:
            self.running.remove(number)
            await self.worlds[number].stop_gangctl()
            self.absent = self.absent or (self._unregisters and not self.running)

    async def crash(self, number: int) -> None:
        """End one in the middle of whatever it does."""
        if number in self.running:
            self.running.remove(number)
            await self.worlds[number].crash_gangctl()

    async def start_all(self) -> None:
        """Start whatever does not run."""
        for number in range(len(self.worlds)):
            await self.start(number)

    async def close(self) -> None:
        """End those that the world itself does not know."""
        for world in self.worlds[1:]:
            await world.close()

    async def tamper(self, target: str, how: str) -> None:
        """Delete or edit one of :data:`REGISTERED`, so that it does not act any more."""
        api = self._world.api
        resource, name = REGISTERED[target]
        if how == "delete":
            await api.delete(api.kind(resource), "", name, ADMIN)
            return
        live = await api.get(api.kind(resource), "", name)
        for match in _matches(target, live):
            match["namespaceSelector"] = _NOWHERE
        patch = {key: live[key] for key in ("spec", "webhooks") if key in live}
        await api.patch(api.kind(resource), "", name, patch, "merge", ADMIN)

    async def add_stray(self) -> None:
        """The other owner's policy; it is in effect before gangctl's, which then leaves these Jobs alone."""
        api = self._world.api
        version, metadata = f"{_GROUP}/v1", {"name": "another-owner"}
        label = "object.metadata.labels['jobset.sigs.k8s.io/replicatedjob-name']"
        of_jobs = {"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["jobs"]}
        group = f"Object.spec.template.spec.schedulingGroup{{podGroupName: '{STRAY}'}}"
        expression = f"[JSONPatch{{op: 'add', path: '/spec/template/spec/schedulingGroup', value: {group}}}]"
        spec = {
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "matchConstraints": {"resourceRules": [of_jobs], "objectSelector": _labelled()},
            "matchConditions": [
                {"name": "one", "expression": f"{label} == '{STRAYS}' && '{GANG_REF}' in object.metadata.annotations"}
            ],
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
        }
        policy = {"apiVersion": version, "kind": "MutatingAdmissionPolicy", "metadata": metadata, "spec": spec}
        binding = {"apiVersion": version, "kind": "MutatingAdmissionPolicyBinding", "metadata": metadata}
        await api.create(api.kind(REGISTERED["policy"][0]), "", policy, ADMIN)
        await api.create(
            api.kind(REGISTERED["binding"][0]), "", {**binding, "spec": {"policyName": metadata["name"]}}, ADMIN
        )


def _labelled() -> Object:
    return {"matchExpressions": [{"key": JOBSET_NAME, "operator": "Exists"}]}


def _matches(target: str, live: Object) -> Iterator[Object]:
    """What has a namespaceSelector."""
    if "webhooks" in live:
        yield from live["webhooks"]
    else:
        yield live["spec"]["matchConstraints" if target == "policy" else "matchResources"]
