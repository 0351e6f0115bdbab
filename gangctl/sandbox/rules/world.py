"""What rules may see of the rest of the cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gangctl.sandbox.objects import Object


class World(Protocol):
    """Stored objects, frozen; resources are named as in ``jobs.batch``, "" is the namespace of what has none."""

    def __call__(self, resource: str, namespace: str, name: str) -> Object | None:
        """One object, or None."""
        ...

    def all(self, resource: str, namespace: str | None = None) -> Sequence[Object]:
        """Every object of a namespace, or of all."""
        ...
