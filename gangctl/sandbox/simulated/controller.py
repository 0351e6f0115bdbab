"""Base of simulated controllers: mirrors store the objects of a kind, in order of arrival, and queue keys of changes.

Conditions have one entry for each type, and the time of its last change of status. Events are recorded once per object,
for ``kubectl describe``, and not counted. Pods of a Job are evaluated alike by all of them; sets of completion indexes
are lists of intervals: ``0-2,5,7-9``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final, TypeVar

from gangctl.api.objects import Key, condition_of, copy
from gangctl.runtime.events import truncate
from gangctl.sandbox.api import Api
from gangctl.sandbox.controllers import SandboxController
from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.kinds import ResourceKind
from gangctl.sandbox.objects import Object, generated_name, name_of, namespace_of, now_micro, seconds_since
from gangctl.sandbox.requests import Caller, DeleteOptions, Propagation
from gangctl.sandbox.store import StoredChange, from_storage


def is_true(obj: Mapping[str, Any], kind: str) -> bool:
    """Whether the object has the condition with status True."""
    return condition_of(obj, kind).get("status") == "True"


def first_true(obj: Mapping[str, Any], kinds: Iterable[str]) -> Object | None:
    """The first condition of these types that is True."""
    return next((condition_of(obj, kind) for kind in kinds if is_true(obj, kind)), None)


_REMEMBERED: Final = 4096
# The namespace is being deleted, or gone.
_LOST: Final = frozenset({403, 404})


class Recorder:
    """Records events of one controller."""

    def __init__(self, api: Api, caller: Caller, controller: str) -> None:
        """``controller`` is the real one's name."""
        self._api = api
        self._kind = api.kind("events.events.k8s.io")
        self._caller = caller
        self._controller = controller
        self._recorded: dict[tuple[str, str, str], None] = {}

    async def record(
        self, about: Object, api_version: str, reason: str, note: str, *, warning: bool = False, again: bool = False
    ) -> None:
        """Record an event, unless this object has the same one, or also ``again``.

        A terminating namespace accepts none.
        """
        metadata = about["metadata"]
        key = metadata["uid"], reason, note
        if key in self._recorded and not again:
            return
        # The API server accepts events of cluster-scoped objects only in this namespace.
        namespace = metadata.get("namespace") or "default"
        event: Object = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": generated_name(f"{metadata['name']}."), "namespace": namespace},
            "eventTime": now_micro(),
            "reportingController": self._controller,
            "reportingInstance": "sandbox",
            "action": "Reconciling",
            "reason": reason,
            "type": "Warning" if warning else "Normal",
            "note": truncate(note),
            "regarding": {
                "apiVersion": api_version,
                "kind": about["kind"],
                "name": metadata["name"],
                "namespace": metadata.get("namespace", ""),
                "uid": metadata["uid"],
                "resourceVersion": metadata["resourceVersion"],
            },
        }
        try:
            await self._api.create(self._kind, namespace, event, self._caller)
        except StatusError as error:
            if error.code not in _LOST:
                raise
        # Only now: one that was refused is recorded by the next try.
        self._recorded[key] = None
        if len(self._recorded) > _REMEMBERED:
            del self._recorded[next(iter(self._recorded))]


Notice = Callable[[Object], None]
"""Called with the new state of an object, or the last one of a deleted object."""

Index = Callable[[Object], str | None]
"""The one value that an object is found by, or None."""


def key_of(obj: Object) -> Key:
    """Namespace and name of an object."""
    return namespace_of(obj), name_of(obj)


class Mirror:
    """Objects of one kind in the order in which they came. They are the server's own: never change one."""

    def __init__(self, api: Api, kind: ResourceKind, notice: Notice, index: Index | None = None) -> None:
        """Call ``notice`` for all objects, and for every change; ``index`` returns the value for :meth:`indexed`."""
        self.kind = kind
        self._notice = notice
        self._index = index
        self._objects: dict[Key, Object] = {}
        self._indexed: dict[str, dict[Key, Object]] = {}
        for stored in api.store.items(kind.storage):
            self._put(key_of(stored.obj), None, stored.obj)
        api.store.listen(self._changed)

    def __iter__(self) -> Iterator[Object]:
        return iter(list(self._objects.values()))

    def get(self, key: Key) -> Object | None:
        """The object of that namespace and name."""
        return self._objects.get(key)

    def indexed(self, value: str) -> list[Object]:
        """The objects whose index is ``value``."""
        # A copy: callers use it across writes, which change the index.
        return list(self._indexed.get(value, {}).values())

    def _changed(self, storage: str, change: StoredChange) -> None:
        if storage == self.kind.storage:
            old = None if change.old is None else change.old.obj
            self._put(change.key, old, change.new.obj, gone=change.gone)

    def _put(self, key: Key, old: Object | None, new: Object, *, gone: bool = False) -> None:
        new = from_storage(self.kind, new)
        if gone:
            del self._objects[key]
        else:
            self._objects[key] = new
        if self._index is not None:
            before = None if old is None else self._index(old)
            after = None if gone else self._index(new)
            if before is not None and before != after:
                self._indexed[before].pop(key)
                if not self._indexed[before]:
                    del self._indexed[before]
            if after is not None:
                self._indexed.setdefault(after, {})[key] = new
        # Last: what is notified reads the mirror.
        self._notice(new)


K = TypeVar("K", str, tuple[str, str], tuple[str, str, str])


class SimulatedController(SandboxController[K]):
    """One controller beside the API server."""

    workers: ClassVar[int] = 1

    def mirror(self, resource: str, notice: Callable[[Object], None], index: Index | None = None) -> Mirror:
        """Follow a resource, such as ``jobs.batch``."""
        return Mirror(self.api, self.api.kind(resource), notice, index)

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for number in range(self.workers):
                tasks.create_task(super().run(), name=f"{self.name}-{number}")

    async def create(self, mirror: Mirror, obj: Object) -> Object:
        """Create an object, through admission."""
        return await self.api.create(mirror.kind, namespace_of(obj), obj, self.caller)

    async def update(self, mirror: Mirror, obj: Object, subresource: str = "") -> Object:
        """Replace an object, if it is unchanged since it was read."""
        return await self.api.update(mirror.kind, *key_of(obj), obj, self.caller, subresource=subresource)

    async def delete(
        self, mirror: Mirror, obj: Object, *, propagation: Propagation = "Background", grace_seconds: int | None = None
    ) -> None:
        """Delete exactly this object, if it still exists."""
        options = DeleteOptions(propagation=propagation, grace_seconds=grace_seconds, uid=obj["metadata"]["uid"])
        try:
            await self.api.delete(mirror.kind, *key_of(obj), self.caller, options)
        except StatusError as error:
            if not error.about_another:
                raise

    async def expire(self, mirror: Mirror, obj: Object, key: K, ended: Object) -> None:
        """Delete an object whose ``ttlSecondsAfterFinished`` is over since that condition, or queue it for then."""
        ttl = obj["spec"].get("ttlSecondsAfterFinished")
        if ttl is None or is_deleted(obj):
            return
        left = int(ttl) - seconds_since(ended["lastTransitionTime"])
        if left > 0:
            self.queue.add_after(key, left)
        else:
            await self.delete(mirror, obj, propagation="Foreground")

    async def patch(self, mirror: Mirror, obj: Object, patch: Object, subresource: str = "") -> bool:
        """Patch exactly this object strategically; False if it is gone, or another one has its name."""
        metadata = {"uid": obj["metadata"]["uid"], **patch.get("metadata", {})}
        body: Any = {**patch, "metadata": metadata}
        try:
            await self.api.patch(mirror.kind, *key_of(obj), body, "strategic", self.caller, subresource=subresource)
        except StatusError as error:
            if not error.about_another:
                raise
            return False
        return True


INDEX = "batch.kubernetes.io/job-completion-index"
"""Label and annotation of a pod of an Indexed Job."""


def parse_indexes(text: str) -> set[int]:
    """The numbers of a list of intervals."""
    indexes: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        indexes.update(range(int(first), int(last or first) + 1))
    return indexes


def show_indexes(numbers: Iterable[int]) -> str:
    """The shortest list of intervals; two numbers in a row are written apart, as the Job controller does."""
    intervals: list[list[int]] = []
    for number in sorted(numbers):
        if intervals and intervals[-1][1] == number - 1:
            intervals[-1][1] = number
        else:
            intervals.append([number, number])
    shown = (
        str(first) if first == last else f"{first},{last}" if last == first + 1 else f"{first}-{last}"
        for first, last in intervals
    )
    return ",".join(shown)


FINALIZER: Final = "batch.kubernetes.io/job-tracking"
"""Finalizer of a pod until the Job controller has counted its end."""

_INDEX_VARIABLE: Final = "JOB_COMPLETION_INDEX"
# The API server cuts a longer generateName (names.MaxGeneratedNameLength), and with it the index at its end.
_LONGEST_PREFIX: Final = 58


def is_indexed(job: Object) -> bool:
    """Whether each pod has an index of its own."""
    return bool(job["spec"].get("completionMode") == "Indexed")


def index_of(pod: Object) -> int | None:
    """The completion index of a pod."""
    value = (pod["metadata"].get("annotations") or {}).get(INDEX)
    return int(value) if value is not None else None


def is_deleted(obj: Object) -> bool:
    """Whether an object is being deleted."""
    return "deletionTimestamp" in obj["metadata"]


def has_succeeded(pod: Object) -> bool:
    """Whether a pod has Succeeded."""
    return bool((pod.get("status") or {}).get("phase") == "Succeeded")


def is_failed(pod: Object, job: Object) -> bool:
    """Whether a pod counts as failed: one that is being deleted does, unless only ended ones are replaced."""
    if (pod.get("status") or {}).get("phase") == "Failed":
        return True
    if job["spec"].get("podReplacementPolicy") == "Failed":
        return False
    return is_deleted(pod) and not has_succeeded(pod)


def is_tracked(pod: Object) -> bool:
    """Whether a pod still waits for being counted."""
    return FINALIZER in (pod["metadata"].get("finalizers") or [])


def surplus(job: Object, active: Iterable[Object], wanted: int) -> list[Object]:
    """Active pods to delete: those without a valid unique index, then those with the least progress."""
    # activePodsForRemoval of the Job controller.
    going: list[Object] = []
    staying: list[Object] = []
    taken: set[int] = set()
    for pod in sorted(active, key=_progress, reverse=True):
        index = index_of(pod)
        if is_indexed(job) and (index is None or index >= int(job["spec"]["completions"]) or index in taken):
            going.append(pod)
        else:
            staying.append(pod)
            taken.add(-1 if index is None else index)
    return [*going, *staying[max(0, wanted) :]]


def _progress(pod: Object) -> tuple[bool, bool, bool]:
    phase = (pod.get("status") or {}).get("phase")
    return bool(pod["spec"].get("nodeName")), phase == "Running", is_true(pod, "Ready")


def new_pod(job: Object, index: int | None) -> Object:
    """A pod for an index, or for none."""
    template = copy(job["spec"]["template"])
    name = job["metadata"]["name"]
    metadata: Object = {
        "generateName": f"{name}-",
        "namespace": job["metadata"]["namespace"],
        "labels": template.get("metadata", {}).get("labels") or {},
        "annotations": template.get("metadata", {}).get("annotations") or {},
        "finalizers": [*(template.get("metadata", {}).get("finalizers") or []), FINALIZER],
        "ownerReferences": [
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "name": name,
                "uid": job["metadata"]["uid"],
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    spec = template["spec"]
    if index is not None:
        ending = f"-{index}-"
        metadata["generateName"] = name[: _LONGEST_PREFIX - len(ending)] + ending
        metadata["labels"][INDEX] = str(index)
        metadata["annotations"][INDEX] = str(index)
        spec["hostname"] = f"{name}-{index}"
        for container in (*(spec.get("initContainers") or []), *spec["containers"]):
            variables = container.setdefault("env", [])
            if not any(variable["name"] == _INDEX_VARIABLE for variable in variables):
                source = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}}
                variables.append({"name": _INDEX_VARIABLE, "valueFrom": source})
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
