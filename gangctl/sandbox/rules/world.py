"""The view of the cluster for rules."""

from __future__ import annotations

from dataclasses import dataclass

from gangctl.sandbox.objects import Object
from gangctl.sandbox.store import Store


@dataclass(frozen=True, slots=True)
class World:
    """Stored objects, frozen; resources are named as in ``jobs.batch``, "" is the namespace of what has none."""

    store: Store

    def __call__(self, resource: str, namespace: str, name: str) -> Object | None:
        """One object, or None."""
        stored = self.store.get(resource, (namespace, name))
        return None if stored is None else stored.obj

    def all(self, resource: str) -> list[Object]:
        """Every object of all namespaces."""
        return [stored.obj for stored in self.store.items(resource)]
