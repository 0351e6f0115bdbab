"""The garbage collector: dependents follow their owners, as each deletion's propagation policy wants it.

Follows kube-controller-manager's ``garbagecollector``: an owner that does not exist (any more,
or under that UID) is ignored; an object is deleted after its last owner;
``foregroundDeletion`` waits for dependents that block it, ``orphan`` removes their references.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from gangctl.api.objects import Key
from gangctl.sandbox.api import Api
from gangctl.sandbox.caller import DeleteOptions, Propagation
from gangctl.sandbox.controller import StoreController
from gangctl.sandbox.deletion import FOREGROUND, ORPHAN
from gangctl.sandbox.kinds import ResourceKind
from gangctl.sandbox.objects import Object
from gangctl.sandbox.store import Change


class Node(NamedTuple):
    """An object: its storage key, and its namespace and name."""

    storage: str
    key: Key


class GarbageCollector(StoreController[Node]):
    """Deletes objects whose owners are gone."""

    name: ClassVar[str] = "generic-garbage-collector"

    def __init__(self, api: Api) -> None:
        """Start with an empty graph."""
        self._there: dict[str, Node] = {}
        self._dependents: dict[str, dict[Node, None]] = {}
        super().__init__(api)

    def changed(self, storage: str, change: Change) -> None:
        """Update the graph, and queue the objects that a change affects."""
        node, obj = Node(storage, change.key), change.new.obj
        uid = obj["metadata"]["uid"]
        for owner in _owners(change.old.obj) if change.old is not None else ():
            self._dependents.get(owner["uid"], {}).pop(node, None)
        if change.gone:
            self._there.pop(uid, None)
            self._wake([*self._dependents.get(uid, {}), *self._owners_of(obj)])
            return
        self._there[uid] = node
        for owner in _owners(obj):
            self._dependents.setdefault(owner["uid"], {})[node] = None
        if _is_held(obj) or _owners(obj):
            self.queue.add(node)
        if "deletionTimestamp" in obj["metadata"]:
            self._wake([*self._dependents.get(uid, {}), *self._owners_of(obj)])
        elif change.old is not None and _owners(change.old.obj) != _owners(obj):
            self._wake(self._owners_of(change.old.obj))

    async def reconcile(self, key: Node) -> None:
        """Finish an owner that waits for its dependents, or delete a dependent without owners."""
        stored = self.store.get(*key)
        kind = self.kind_of(key.storage)
        if stored is None or kind is None:
            return
        obj = stored.obj
        finalizers = obj["metadata"].get("finalizers") or []
        if "deletionTimestamp" in obj["metadata"]:
            if ORPHAN in finalizers:
                await self._set_free(kind, obj)
            elif FOREGROUND in finalizers:
                await self._finish(kind, obj)
        elif _owners(obj):
            await self._evaluate(kind, obj)

    async def _evaluate(self, kind: ResourceKind, obj: Object) -> None:
        solid: list[Object] = []
        waiting: list[Object] = []
        for owner in _owners(obj):
            found = self._owner(obj, owner)
            if found is None:
                continue
            (waiting if _waits_for_dependents(found) else solid).append(owner)
        if solid:
            if len(solid) < len(_owners(obj)):
                await self._own(kind, obj, solid)
            return
        propagation: Propagation = "Background"
        if waiting and self._dependents.get(obj["metadata"]["uid"]):
            # The owner waits for all its descendants, so its dependent has to wait as well.
            propagation = "Foreground"
        await self._delete(kind, obj, _by_finalizer(obj) or propagation)

    async def _finish(self, kind: ResourceKind, obj: Object) -> None:
        blocking = [
            node
            for node in self._dependents.get(obj["metadata"]["uid"], {})
            if (stored := self.store.get(*node)) is not None and _blocks(stored.obj, obj)
        ]
        if blocking:
            self._wake(blocking)
        else:
            await self._release(kind, obj, FOREGROUND)

    async def _set_free(self, kind: ResourceKind, obj: Object) -> None:
        uid = obj["metadata"]["uid"]
        for node in list(self._dependents.get(uid, {})):
            stored, dependent_kind = self.store.get(*node), self.kind_of(node.storage)
            if stored is not None and dependent_kind is not None:
                left = [owner for owner in _owners(stored.obj) if owner["uid"] != uid]
                await self._own(dependent_kind, stored.obj, left)
        await self._release(kind, obj, ORPHAN)

    async def _own(self, kind: ResourceKind, obj: Object, owners: list[Object]) -> None:
        """Leave an object only these owners."""
        await self._patch(kind, obj, {"ownerReferences": owners or None})

    async def _release(self, kind: ResourceKind, obj: Object, finalizer: str) -> None:
        left = [each for each in obj["metadata"].get("finalizers") or [] if each != finalizer]
        await self._patch(kind, obj, {"finalizers": left or None})

    async def _patch(self, kind: ResourceKind, obj: Object, fields: Object) -> None:
        metadata = obj["metadata"]
        patch = {"metadata": {"resourceVersion": metadata["resourceVersion"], "uid": metadata["uid"], **fields}}
        await self.api.patch(kind, metadata.get("namespace", ""), metadata["name"], patch, "merge", self.caller)

    async def _delete(self, kind: ResourceKind, obj: Object, propagation: Propagation) -> None:
        metadata = obj["metadata"]
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

    def _owners_of(self, obj: Object) -> list[Node]:
        return [self._there[owner["uid"]] for owner in _owners(obj) if owner["uid"] in self._there]

    def _wake(self, nodes: list[Node]) -> None:
        for node in nodes:
            self.queue.add(node)


def _owners(obj: Object) -> list[Object]:
    return obj["metadata"].get("ownerReferences") or []


def _is_held(obj: Object) -> bool:
    """Whether its deletion waits for the garbage collector."""
    return bool({FOREGROUND, ORPHAN} & set(obj["metadata"].get("finalizers") or ()))


def _waits_for_dependents(obj: Object) -> bool:
    metadata = obj["metadata"]
    return "deletionTimestamp" in metadata and FOREGROUND in (metadata.get("finalizers") or ())


def _blocks(dependent: Object, owner: Object) -> bool:
    uid = owner["metadata"]["uid"]
    return any(each["uid"] == uid and each.get("blockOwnerDeletion") for each in _owners(dependent))


def _by_finalizer(obj: Object) -> Propagation | None:
    """The policy that a finalizer set beforehand asks for."""
    finalizers = obj["metadata"].get("finalizers") or ()
    return "Orphan" if ORPHAN in finalizers else "Foreground" if FOREGROUND in finalizers else None
