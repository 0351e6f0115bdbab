"""The cluster of the simulation: what may happen to it, by name."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Final

from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.requests import DeleteOptions, Propagation
from tests.faults.matrix import Point
from tests.faults.world import ADMIN, NAMESPACE, World
from tests.live.observe import foreign_workload
from tests.search.inspection import FOREIGN, JOBS, JOBSETS, RESYNC, Inspection
from tests.search.operation import Operation, Replicas

Object = dict[str, Any]
Act = Callable[..., Coroutine[Any, Any, None]]

FINALIZER: Final = "example.com/hold"
_FAILED: Final = 500
_NOT_FOUND: Final = 404
_QUOTA: Final = "groups"
_PASSES: Final = frozenset({"suspend", "resume", "label", "hold", "release", "delete", "foreground", "orphan"})
"""Requests that need no gangctl, of a JobSet that exists."""
_MINUTES: Final = 600.0
_MOST: Final = 99


class Cluster:
    """A world of :mod:`tests.faults.world`, and the names of what may happen in it."""

    def __init__(
        self, world: World, directory: Path, manifests: Mapping[str, Object], room: int, operation: Operation
    ) -> None:
        """``room`` is the number of pods that find room, 0 if that is every pod."""
        self.world = world
        self._api = world.api
        self._manifests = manifests
        self._operation = operation
        self.replicas = Replicas(world, directory, operation)
        self.inspection = Inspection(world, manifests, room)
        self._tampered = False
        self.faults = 0
        self.acts: Final[Mapping[str, Act]] = {
            "create": self._create,
            "suspend": self._suspend,
            "resume": self._resume,
            "label": self._label,
            "hold": self._hold,
            "release": self._release,
            "resize": self._resize,
            "delete": self._delete,
            "foreground": self._foreground,
            "orphan": self._orphan,
            "succeed": self._succeed,
            "fail": self._fail,
            "evict": self._evict,
            "delete-object": self._delete_object,
            "edit-group": self._edit_group,
            "take": self._take,
            "quota": self._quota,
            "tamper": self._tamper,
            "fault": self._fault,
            "restart": self._restart,
            "stop": self._stop,
            "start": self._start,
            "crash": self._crash,
            "wait": self._wait,
            "hours": self._hours,
        }

    async def open(self) -> None:
        """gangctl runs, and another owner has a Workload."""
        await self.world.create_scheduling("workloads", foreign_workload(self.world, FOREIGN, "other"))
        await self._is_foreign("Workload", FOREIGN)
        await self.replicas.open()
        if self._operation.stray:
            await self.replicas.add_stray()

    async def perform(self, action: str) -> str:
        """Do one thing, if it is possible, and return what is wrong then."""
        name, *words = action.split()
        try:
            await self.acts[name](*words)
        except StatusError as error:
            if name in _PASSES and error.code != _NOT_FOUND:
                return f"{action} is refused: {error.message}"
            # The user's request is refused. What the sandbox itself cannot do is no refusal.
            if error.code >= _FAILED and "webhook" not in error.message:
                raise
        return self.inspection.broken() or await self.inspection.torn()

    # gangctl

    async def _start(self, number: str) -> None:
        await self.replicas.start(int(number))

    async def _stop(self, number: str) -> None:
        await self.replicas.stop(int(number))

    async def _crash(self, number: str) -> None:
        self.faults += 1
        await self.replicas.crash(int(number))

    async def _restart(self, number: str) -> None:
        if int(number) in self.replicas.running:
            await self.replicas.stop(int(number))
            await self.replicas.start(int(number))

    async def _fault(self, verb: str, resource: str, kind: str) -> None:
        self.faults += 1
        point = Point(verb, resource, dry_run=False, nth=1)
        self.world.sandbox.faults.add(point.match, point.kinds[kind])

    async def _wait(self, seconds: str) -> None:
        await self.world.rest(float(seconds))

    async def _hours(self) -> None:
        """Longer than an API server keeps events."""
        for _ in range(7):
            await self.world.rest(_MINUTES)
            await self.inspection.expire()

    # the user

    async def _create(self, name: str) -> None:
        await self.world.create(self._manifests[name])
        self.inspection.resized.discard(name)
        self.inspection.ungoverned.discard(name)
        if self.replicas.absent:
            self.inspection.ungoverned.add(name)

    async def _suspend(self, name: str) -> None:
        await self.world.patch(name, {"spec": {"suspend": True}})

    async def _resume(self, name: str) -> None:
        await self.world.patch(name, {"spec": {"suspend": False}})

    async def _label(self, name: str) -> None:
        await self.world.patch(name, {"metadata": {"labels": {"team": "a"}}})

    async def _hold(self, name: str) -> None:
        await self.world.patch(name, {"metadata": {"finalizers": [FINALIZER]}})

    async def _release(self, name: str) -> None:
        jobset = await self._api.get(self._api.kind(JOBSETS), NAMESPACE, name)
        left = [one for one in jobset["metadata"].get("finalizers") or [] if one != FINALIZER]
        await self.world.patch(name, {"metadata": {"finalizers": left or None}})

    async def _resize(self, name: str, number: str) -> None:
        await self.world.resize(name, 1 + int(number) % 4)
        self.inspection.resized.add(name)

    async def _delete(self, name: str) -> None:
        await self.world.delete(name)

    async def _foreground(self, name: str) -> None:
        await self._delete_as("Foreground", name)

    async def _orphan(self, name: str) -> None:
        """Delete the JobSet without its dependents, and its Jobs by hand."""
        await self._delete_as("Orphan", name)
        await self.world.rest(1)
        for job in await self.inspection.of_jobset(JOBS, name):
            options = DeleteOptions(propagation="Background")
            await self._api.delete(self._api.kind(JOBS), NAMESPACE, job["metadata"]["name"], ADMIN, options)

    async def _delete_as(self, propagation: Propagation, name: str) -> None:
        options = DeleteOptions(propagation=propagation)
        await self._api.delete(self._api.kind(JOBSETS), NAMESPACE, name, ADMIN, options)

    async def _delete_object(self, number: str) -> None:
        taken = {name for _, name in self.inspection.foreign}
        objects = [one for one in await self.inspection.groups() if one["metadata"]["name"] not in taken]
        if objects:
            one = objects[int(number) % len(objects)]
            await self._api.delete(self.inspection.scheduling(one["kind"]), NAMESPACE, one["metadata"]["name"], ADMIN)

    async def _edit_group(self, number: str) -> None:
        taken = {name for _, name in self.inspection.foreign}
        groups = [one["metadata"]["name"] for one in await self.inspection.groups() if one["kind"] == "PodGroup"]
        groups = [name for name in groups if name not in taken]
        if groups:
            name = groups[int(number) % len(groups)]
            self.inspection.edited.add(name)
            patch = {"spec": {"schedulingPolicy": {"gang": {"minCount": 7}}}}
            await self._api.patch(self.inspection.scheduling("PodGroup"), NAMESPACE, name, patch, "merge", ADMIN)

    async def _take(self, name: str, number: str) -> None:
        """Another owner creates a PodGroup under a name that a gang has had and that is free now."""
        present = {one["metadata"]["name"] for one in await self.inspection.groups()}
        free = [group for group in self.inspection.names[name] if group not in present]
        if free and self.world.has_groups:
            group = free[int(number) % len(free)]
            policy = {"gang": {"minCount": _MOST}}
            raw = {"metadata": {"name": group}, "spec": {"schedulingPolicy": policy}}
            version = f"scheduling.k8s.io/{self.world.version}"
            await self.world.create_scheduling("podgroups", {"apiVersion": version, "kind": "PodGroup", **raw})
            await self._is_foreign("PodGroup", group)

    async def _is_foreign(self, kind: str, name: str) -> None:
        made = await self._api.get(self.inspection.scheduling(kind), NAMESPACE, name)
        self.inspection.foreign[kind, name] = made

    # pods

    async def _succeed(self, name: str, number: str) -> None:
        if (pod := await self._running(name, number)) is not None:
            await self.world.simulated.kubelet.finish(pod)

    async def _fail(self, name: str, number: str) -> None:
        if (pod := await self._running(name, number)) is not None:
            await self.world.simulated.kubelet.fail(pod)

    async def _evict(self, name: str, number: str) -> None:
        if (pod := await self._running(name, number)) is not None:
            await self._api.delete(self._api.kind("pods"), NAMESPACE, pod["metadata"]["name"], ADMIN)

    async def _running(self, name: str, number: str) -> Object | None:
        pods = [pod for pod in await self.inspection.of_jobset("pods", name) if pod["status"].get("phase") == "Running"]
        return pods[int(number) % len(pods)] if pods else None

    # the administrator

    async def _quota(self, groups: str) -> None:
        """So many PodGroups in the namespace; the quota goes when faults end."""
        if self.world.has_groups:
            spec = {"hard": {"count/podgroups.scheduling.k8s.io": groups}}
            raw = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": _QUOTA}, "spec": spec}
            await self._api.create(self._api.kind("resourcequotas"), NAMESPACE, raw, ADMIN)

    async def _tamper(self, target: str, how: str) -> None:
        self.faults += 1
        await self.replicas.tamper(target, how)

    async def settle(self) -> str:
        """Faults end, and everything happens that is going to; what is wrong before gangctl runs again."""
        if not self.replicas.running:
            await self.world.rest(60)
            if wrong := await self.inspection.held_up():
                return wrong
        self.world.sandbox.faults.clear()
        for name in self._manifests:
            if wrong := await self.perform(f"release {name}"):
                return wrong
        await self.replicas.start_all()
        kind = self._api.kind("resourcequotas")
        for quota in (await self._api.list(kind, NAMESPACE)).items:
            await self.world.rest(RESYNC)
            if wrong := await self.inspection.crowded_out():
                return wrong
            await self._api.delete(kind, NAMESPACE, quota["metadata"]["name"], ADMIN)
        await self.world.rest(RESYNC)
        await self.inspection.expire()
        return self.inspection.broken()
