"""The end of a namespace: everything in it is deleted, and when nothing is left, it goes itself."""

from __future__ import annotations

from typing import ClassVar

from gangctl.sandbox.caller import DeleteOptions
from gangctl.sandbox.controller import StoreController
from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.objects import copy
from gangctl.sandbox.store import Change

NAMESPACES = "namespaces"
_NOT_FOUND = 404


class NamespaceController(StoreController[str]):
    """Works on the names of namespaces that are Terminating."""

    name: ClassVar[str] = "namespace-controller"

    def changed(self, storage: str, change: Change) -> None:
        """A namespace was deleted, or something that lies in one on its way out is gone."""
        namespace = change.key[1] if storage == NAMESPACES else change.key[0]
        if (storage == NAMESPACES and not change.gone) or (change.gone and namespace):
            self.queue.add(namespace)

    async def reconcile(self, key: str) -> None:
        """Delete what is left, or let the namespace go."""
        stored = self.store.get(NAMESPACES, ("", key))
        if stored is None or "deletionTimestamp" not in stored.obj["metadata"]:
            return
        if await self._emptied(key):
            final = copy(stored.obj)
            final["spec"] = {}
            kind = self.api.kind(NAMESPACES)
            await self.api.update(kind, "", key, final, self.caller, subresource="finalize")

    async def _emptied(self, namespace: str) -> bool:
        """Delete everything that is not on its way out already; whether nothing is left."""
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
        # Whatever has gone at once has been seen by `changed`, which brings the namespace here again.
        return not left
