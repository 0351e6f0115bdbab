"""Deletion of a namespace: its objects are deleted first, then the namespace."""

from __future__ import annotations

from typing import ClassVar, Final

from gangctl.sandbox.caller import DeleteOptions
from gangctl.sandbox.controller import StoreController
from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.objects import copy
from gangctl.sandbox.store import Change

NAMESPACES = "namespaces"
_NOT_FOUND: Final = 404


class NamespaceController(StoreController[str]):
    """Works on the names of namespaces that are Terminating."""

    name: ClassVar[str] = "namespace-controller"

    def changed(self, storage: str, change: Change) -> None:
        """A namespace was deleted, or an object in a terminating one is gone."""
        namespace = change.key[1] if storage == NAMESPACES else change.key[0]
        if (storage == NAMESPACES and not change.gone) or (change.gone and namespace):
            self.queue.add(namespace)

    async def reconcile(self, key: str) -> None:
        """Delete the remaining objects, or finalize the namespace."""
        stored = self.store.get(NAMESPACES, ("", key))
        if stored is None or "deletionTimestamp" not in stored.obj["metadata"]:
            return
        if await self._emptied(key):
            final = copy(stored.obj)
            final["spec"] = {}
            kind = self.api.kind(NAMESPACES)
            await self.api.update(kind, "", key, final, self.caller, subresource="finalize")

    async def _emptied(self, namespace: str) -> bool:
        """Delete all objects that are not being deleted already; returns whether none is left."""
        left = False
        for kind in {kind.storage: kind for kind in self.api.registry if kind.namespaced}.values():
            for stored in self.store.items(kind.storage, namespace):
                left = True
                if "deletionTimestamp" in stored.obj["metadata"]:
                    continue
                name = stored.obj["metadata"]["name"]
                options = DeleteOptions(propagation="Background")
                try:
                    await self.api.delete(kind, namespace, name, self.caller, options)
                except StatusError as error:
                    if error.code != _NOT_FOUND:
                        raise
        # Immediate deletions were seen by `changed`, which queues the namespace again.
        return not left
