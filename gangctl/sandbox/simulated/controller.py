"""Base of simulated controllers: mirrors store the objects, and queue keys of changes."""

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
        self,
        mirror: Mirror,
        obj: Object,
        *,
        propagation: Propagation = "Background",
        grace_seconds: int | None = None,
    ) -> None:
        """Delete exactly this object, if it still exists."""
        options = DeleteOptions(propagation=propagation, grace_seconds=grace_seconds, uid=obj["metadata"]["uid"])
        try:
            await self.api.delete(mirror.kind, *key_of(obj), self.caller, options)
        except StatusError as error:
            if error.code not in _PASSED_BY:
                raise

    async def patch(self, mirror: Mirror, obj: Object, patch: Object, subresource: str = "") -> bool:
        """Patch exactly this object strategically; False if it is gone, or another one has its name."""
        metadata = {"uid": obj["metadata"]["uid"], **patch.get("metadata", {})}
        body: Any = {**patch, "metadata": metadata}
        try:
            await self.api.patch(mirror.kind, *key_of(obj), body, "strategic", self.caller, subresource=subresource)
        except StatusError as error:
            if error.code not in _PASSED_BY:
                raise
            return False
        return True
