"""The API server's own controllers: garbage collector, deletion of namespaces, protection of PodGroups, quotas.

They are level-triggered, as the real ones are: a key names an object, not an event. The garbage collector follows
kube-controller-manager's: an owner that does not exist (any more, or under that UID) is ignored; an object is deleted
after its last owner, but not if it names one that cannot be looked up; ``foregroundDeletion`` waits for dependents
that block it, ``orphan`` removes their references.
The server puts a finalizer on every PodGroup; here it is taken away from one that is being deleted when no pod refers
to it any more that has not finished.
"""

from __future__ import annotations

import asyncio
import traceback
from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import ClassVar, Final, Generic, NamedTuple, TypeVar

import structlog

from gangctl.api.objects import Key, copy
from gangctl.api.pods import is_finished
from gangctl.runtime.controller import RetryPolicy, WorkQueue
from gangctl.sandbox.api import Api
from gangctl.sandbox.deletion import FOREGROUND, ORPHAN
from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.kinds import ResourceKind
from gangctl.sandbox.objects import Object
from gangctl.sandbox.requests import Caller, DeleteOptions, Propagation
from gangctl.sandbox.rules.gangs import PROTECTION
from gangctl.sandbox.rules.quotas import QUOTAS, status_of
from gangctl.sandbox.store import StoredChange

K = TypeVar("K", bound=Hashable)

_RETRY: Final = RetryPolicy(base_seconds=0.01, cap_seconds=1.0, jitter=0.0)
_NOT_FOUND: Final = 404

_log = structlog.get_logger("gangctl.sandbox")


class SandboxController(ABC, Generic[K]):
    """One controller, known to webhooks as ``system:sandbox:NAME``."""

    name: ClassVar[str]

    def __init__(self, api: Api) -> None:
        """Use ``api``, but not before :meth:`run`."""
        self.api = api
        self.caller = Caller(f"system:sandbox:{self.name}", ("system:masters",))
        self.queue: WorkQueue[K] = WorkQueue(policy=_RETRY)
        self._failing: set[K] = set()
        """Keys whose unexpected error is logged already."""

    @abstractmethod
    async def reconcile(self, key: K) -> None:
        """Reconcile the object of ``key``; an error is logged and triggers a retry."""

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            key = await self.queue.get()
            try:
                await self.reconcile(key)
            except StatusError as error:
                # Also after a 404, which a webhook may have given: of an object that is gone nothing is done then.
                delay = self.queue.add_failed(key)
                _log.debug("tried again", controller=self.name, key=key, error=str(error), again_in=delay)
            except Exception as error:  # noqa: BLE001 -- one object must not end the cluster
                self.queue.add_failed(key)
                # Once for each key, which fails at each retry, and without the error's text, which may hold objects.
                if key not in self._failing:
                    self._failing.add(key)
                    last = traceback.extract_tb(error.__traceback__)[-1]
                    what = f"{type(error).__name__} in {last.name} ({last.filename}:{last.lineno})"
                    _log.error(
                        "a simulated controller failed, and tries again", controller=self.name, key=key, error=what
                    )
            except asyncio.CancelledError:
                # The server closes: what has begun is done when it opens again.
                self.queue.add(key)
                raise
            else:
                self.queue.forget(key)
                self._failing.discard(key)
            finally:
                self.queue.done(key)


class StoreController(SandboxController[K]):
    """A controller of the server itself, called for every change in the store."""

    def __init__(self, api: Api) -> None:
        """Subscribe to changes."""
        super().__init__(api)
        self.store = api.store
        self.store.listen(self.changed)

    @abstractmethod
    def changed(self, storage: str, change: StoredChange) -> None:
        """Queue the keys that a change affects."""

    def kind_of(self, storage: str) -> ResourceKind | None:
        """A served kind that is stored under this key; None if it is no longer served."""
        return next((kind for kind in self.api.registry if kind.storage == storage), None)

    async def patch(self, kind: ResourceKind, obj: Object, fields: Object) -> None:
        """Change fields of the metadata of exactly this object, if it is unchanged."""
        metadata = obj["metadata"]
        patch = {"metadata": {"resourceVersion": metadata["resourceVersion"], "uid": metadata["uid"], **fields}}
        await self.api.patch(kind, metadata.get("namespace", ""), metadata["name"], patch, "merge", self.caller)

    async def release(self, kind: ResourceKind, obj: Object, finalizer: str) -> None:
        """Remove a finalizer."""
        left = [kept for kept in obj["metadata"].get("finalizers") or [] if kept != finalizer]
        await self.patch(kind, obj, {"finalizers": left or None})

    async def delete_all(self, kind: ResourceKind, namespace: str | None = None) -> bool:
        """Delete all objects that are not being deleted already; returns whether there was any at all."""
        objects = self.store.items(kind.storage, namespace)
        for metadata in (stored.obj["metadata"] for stored in objects):
            if "deletionTimestamp" in metadata:
                continue
            # As the namespace controller does: the default of a Job would give it the orphan finalizer.
            options = DeleteOptions(propagation="Background")
            try:
                await self.api.delete(kind, metadata.get("namespace", ""), metadata["name"], self.caller, options)
            except StatusError as error:
                if error.code != _NOT_FOUND:
                    raise
        return bool(objects)


class GraphNode(NamedTuple):
    """An object: its storage key, and its namespace and name."""

    storage: str
    key: Key


class GarbageCollector(StoreController[GraphNode]):
    """Deletes objects whose owners are gone."""

    name: ClassVar[str] = "generic-garbage-collector"

    def __init__(self, api: Api) -> None:
        """Start with an empty graph."""
        # Before super(), which subscribes: the first change needs the graph.
        self._there: dict[str, GraphNode] = {}
        self._dependents: dict[str, dict[GraphNode, None]] = {}
        super().__init__(api)

    def changed(self, storage: str, change: StoredChange) -> None:
        """Update the graph, and queue the objects that a change affects."""
        node, obj = GraphNode(storage, change.key), change.new.obj
        uid = obj["metadata"]["uid"]
        for owner in _owners(change.old.obj) if change.old is not None else ():
            dependents = self._dependents.get(owner["uid"], {})
            dependents.pop(node, None)
            if not dependents:
                self._dependents.pop(owner["uid"], None)
        if change.gone:
            self._there.pop(uid, None)
            self._wake([*self._dependents.get(uid, {}), *self._owners_of(obj)])
            return
        self._there[uid] = node
        for owner in _owners(obj):
            self._dependents.setdefault(owner["uid"], {})[node] = None
        # Also a new object: its owner may be gone already, or may never have existed.
        if FOREGROUND in _finalizers(obj) or ORPHAN in _finalizers(obj) or _owners(obj):
            self.queue.add(node)
        if "deletionTimestamp" in obj["metadata"]:
            self._wake([*self._dependents.get(uid, {}), *self._owners_of(obj)])
        # An owner in foreground deletion waits no longer for an object that has dropped its reference.
        elif change.old is not None and _owners(change.old.obj) != _owners(obj):
            self._wake(self._owners_of(change.old.obj))

    async def reconcile(self, key: GraphNode) -> None:
        """Finish an owner that waits for its dependents, or delete a dependent without owners."""
        stored = self.store.get(*key)
        kind = self.kind_of(key.storage)
        if stored is None or kind is None:
            return
        obj = stored.obj
        if "deletionTimestamp" in obj["metadata"]:
            if ORPHAN in _finalizers(obj):
                await self._set_free(kind, obj)
            elif FOREGROUND in _finalizers(obj):
                await self._finish(kind, obj)
        elif _owners(obj):
            await self._evaluate(kind, obj)

    async def _evaluate(self, kind: ResourceKind, obj: Object) -> None:
        # attemptToDeleteItem of kube-controller-manager.
        solid: list[Object] = []
        waiting: list[Object] = []
        for owner in _owners(obj):
            version, name = owner["apiVersion"], owner["kind"]
            resources = (resource for resource in self.api.registry if resource.api_version == version)
            owner_kind = next((resource for resource in resources if resource.kind == name), None)
            # restMappingError, and namespacedOwnerOfClusterScopedObjectErr: whether such an owner exists is not known.
            if owner_kind is None or (owner_kind.namespaced and not obj["metadata"].get("namespace")):
                return
            parent = self._owner(obj, owner)
            if parent is None:
                continue
            ending = "deletionTimestamp" in parent["metadata"] and FOREGROUND in _finalizers(parent)
            (waiting if ending else solid).append(owner)
        if solid:
            # References to owners in foreground deletion are removed, too: such an owner would wait for this object.
            if len(solid) < len(_owners(obj)):
                await self._own(kind, obj, solid)
            return
        propagation: Propagation = "Background"
        if ORPHAN in _finalizers(obj):  # it was set beforehand, and asks for this
            propagation = "Orphan"
        elif FOREGROUND in _finalizers(obj) or (waiting and self._dependents.get(obj["metadata"]["uid"])):
            # The owner waits for all its descendants, so its dependent has to wait as well.
            propagation = "Foreground"
        await self._delete(kind, obj, propagation)

    async def _finish(self, kind: ResourceKind, obj: Object) -> None:
        uid = obj["metadata"]["uid"]
        # processDeletingDependentsItem of kube-controller-manager.
        blocking = [
            node
            for node in self._dependents.get(uid, {})
            if (stored := self.store.get(*node)) is not None
            and any(owner["uid"] == uid and owner.get("blockOwnerDeletion") for owner in _owners(stored.obj))
        ]
        if blocking:
            self._wake(blocking)
        else:
            await self.release(kind, obj, FOREGROUND)

    async def _set_free(self, kind: ResourceKind, obj: Object) -> None:
        uid = obj["metadata"]["uid"]
        # A copy: every patch changes the graph through `changed`.
        for node in list(self._dependents.get(uid, {})):
            stored, dependent_kind = self.store.get(*node), self.kind_of(node.storage)
            if stored is not None and dependent_kind is not None:
                left = [owner for owner in _owners(stored.obj) if owner["uid"] != uid]
                await self._own(dependent_kind, stored.obj, left)
        await self.release(kind, obj, ORPHAN)

    async def _own(self, kind: ResourceKind, obj: Object, owners: list[Object]) -> None:
        """Leave an object only these owners."""
        await self.patch(kind, obj, {"ownerReferences": owners or None})

    async def _delete(self, kind: ResourceKind, obj: Object, propagation: Propagation) -> None:
        metadata = obj["metadata"]
        # With the resourceVersion: an object that gets another owner meanwhile must stay.
        options = DeleteOptions(
            propagation=propagation, uid=metadata["uid"], resource_version=metadata["resourceVersion"]
        )
        await self.api.delete(kind, metadata.get("namespace", ""), metadata["name"], self.caller, options)

    def _owner(self, obj: Object, reference: Object) -> Object | None:
        """The owner if it exists: under that UID and name, in the object's namespace or in none."""
        node = self._there.get(reference["uid"])
        stored = None if node is None else self.store.get(*node)
        if node is None or stored is None or node.key[1] != reference["name"]:
            return None
        return stored.obj if node.key[0] in {"", obj["metadata"].get("namespace", "")} else None

    def _owners_of(self, obj: Object) -> list[GraphNode]:
        return [self._there[owner["uid"]] for owner in _owners(obj) if owner["uid"] in self._there]

    def _wake(self, nodes: list[GraphNode]) -> None:
        for node in nodes:
            self.queue.add(node)


def _owners(obj: Object) -> list[Object]:
    return obj["metadata"].get("ownerReferences") or []


def _finalizers(obj: Object) -> list[str]:
    return obj["metadata"].get("finalizers") or []


NAMESPACES = "namespaces"


class NamespaceController(StoreController[str]):
    """Works on the names of namespaces that are Terminating."""

    name: ClassVar[str] = "namespace-controller"

    def changed(self, storage: str, change: StoredChange) -> None:
        """A namespace was deleted, or an object in a terminating one is gone."""
        namespace = change.key[1] if storage == NAMESPACES else change.key[0]
        if (storage == NAMESPACES and not change.gone) or (change.gone and namespace):
            self.queue.add(namespace)

    async def reconcile(self, key: str) -> None:
        """Delete the remaining objects, or finalize the namespace."""
        stored = self.store.get(NAMESPACES, ("", key))
        if stored is None or "deletionTimestamp" not in stored.obj["metadata"]:
            return
        # By storage: several versions, and both groups of Events, are the same objects.
        kinds = {kind.storage: kind for kind in self.api.registry if kind.namespaced}.values()
        remaining = False
        refusals: list[StatusError] = []
        for kind in kinds:
            try:
                # Immediate deletions are seen by `changed`, which queues the namespace again.
                remaining |= await self.delete_all(kind, key)
            except StatusError as error:
                # As deleteAllContent of kube-controller-manager, which goes on with the next kind.
                refusals.append(error)
        if refusals:
            raise refusals[0]
        if not remaining:
            final = copy(stored.obj)
            final["spec"] = {}
            kind = self.api.kind(NAMESPACES)
            await self.api.update(kind, "", key, final, self.caller, subresource="finalize")


_PODGROUPS: Final = "podgroups.scheduling.k8s.io"
_PODS: Final = "pods"


class PodGroupProtection(StoreController[Key]):
    """Works on PodGroups that are being deleted."""

    name: ClassVar[str] = "podgroup-protection-controller"

    def changed(self, storage: str, change: StoredChange) -> None:
        """A PodGroup is being deleted, or a pod that named one has finished or is gone."""
        if storage == _PODGROUPS and not change.gone:
            self.queue.add(change.key)
        elif storage == _PODS and (change.gone or is_finished(change.new.obj)):
            group = _group_of(change.new.obj)
            if group:
                self.queue.add((change.key[0], group))

    async def reconcile(self, key: Key) -> None:
        """Remove the finalizer when no pod needs the group."""
        stored = self.store.get(_PODGROUPS, key)
        if stored is None or "deletionTimestamp" not in stored.obj["metadata"]:
            return
        finalizers = stored.obj["metadata"].get("finalizers") or []
        pods = (pod.obj for pod in self.store.items(_PODS, key[0]))
        if PROTECTION not in finalizers or any(_group_of(pod) == key[1] and not is_finished(pod) for pod in pods):
            return
        await self.release(self.api.kind(_PODGROUPS), stored.obj, PROTECTION)


def _group_of(pod: Object) -> str:
    return str(((pod.get("spec") or {}).get("schedulingGroup") or {}).get("podGroupName") or "")


class QuotaController(StoreController[Key]):
    """Writes the status of ResourceQuotas."""

    name: ClassVar[str] = "resourcequota-controller"

    def changed(self, storage: str, change: StoredChange) -> None:
        """Something in the namespace of a quota has changed, or a quota."""
        del storage
        if change.key[0]:
            for quota in self.store.items(QUOTAS, change.key[0]):
                self.queue.add((change.key[0], quota.obj["metadata"]["name"]))

    async def reconcile(self, key: Key) -> None:
        """Count what the quota limits."""
        stored = self.store.get(QUOTAS, key)
        # An equal status ends it: the write of the status is a change in the namespace, too.
        if stored is None or stored.obj["status"] == (status := status_of(stored.obj, self.store)):
            return
        await self.api.update(
            self.api.kind(QUOTAS), *key, {**stored.obj, "status": status}, self.caller, subresource="status"
        )
