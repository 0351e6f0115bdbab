"""The life of every simulated controller: mirrors tell which keys changed, and remember what there is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, ClassVar, Final, TypeVar

from gangctl.sandbox.caller import DeleteOptions, Propagation
from gangctl.sandbox.controller import Controller
from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.objects import Object, namespace_of
from gangctl.sandbox.simulated.mirror import Index, Mirror, key_of

K = TypeVar("K", str, tuple[str, str], tuple[str, str, str])

_PASSED_BY: Final = frozenset({404, 409})


class SimulatedController(Controller[K]):
    """One controller beside the API server."""

    workers: ClassVar[int] = 1

    def mirror(self, resource: str, notice: Callable[[Object], None], index: Index | None = None) -> Mirror:
        """Follow a resource, such as ``jobs.batch``."""
        return Mirror(self.api, self.api.kind(resource), notice, index)

    async def run(self) -> None:
        """Play until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for number in range(self.workers):
                tasks.create_task(super().run(), name=f"{self.name}-{number}")

    async def create(self, mirror: Mirror, obj: Object) -> Object:
        """Create an object, which passes admission as anybody's."""
        return await self.api.create(mirror.kind, namespace_of(obj), obj, self.caller)

    async def update(self, mirror: Mirror, obj: Object, subresource: str = "") -> Object:
        """Replace an object on the condition that it is still the one that was read."""
        return await self.api.update(mirror.kind, *key_of(obj), obj, self.caller, subresource=subresource)

    async def delete(
        self,
        mirror: Mirror,
        obj: Object,
        *,
        propagation: Propagation = "Background",
        grace_seconds: int | None = None,
    ) -> None:
        """Delete this very object; that it is gone already, or replaced, is fine."""
        options = DeleteOptions(propagation=propagation, grace_seconds=grace_seconds, uid=obj["metadata"]["uid"])
        try:
            await self.api.delete(mirror.kind, *key_of(obj), self.caller, options)
        except StatusError as error:
            if error.code not in _PASSED_BY:
                raise

    async def patch(self, mirror: Mirror, obj: Object, patch: Object, subresource: str = "") -> bool:
        """Patch this very object strategically; False when it is gone, or another one has its name."""
        metadata = {"uid": obj["metadata"]["uid"], **patch.get("metadata", {})}
        body: Any = {**patch, "metadata": metadata}
        try:
            await self.api.patch(mirror.kind, *key_of(obj), body, "strategic", self.caller, subresource=subresource)
        except StatusError as error:
            if error.code not in _PASSED_BY:
                raise
            return False
        return True
