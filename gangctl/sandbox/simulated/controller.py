"""The life of every simulated controller: mirrors tell which keys changed, workers bring one after the other in order.

Level-triggered, as the real controllers are: a key says where to look, not what happened.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Final, Generic, TypeVar

import structlog

from gangctl.runtime.queue import RetryPolicy, WorkQueue
from gangctl.sandbox.api import Api
from gangctl.sandbox.caller import Caller, DeleteOptions, Propagation
from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.objects import Object, name_of, namespace_of
from gangctl.sandbox.simulated.mirror import Index, Mirror

K = TypeVar("K", str, tuple[str, str], tuple[str, str, str])

_RETRY: Final = RetryPolicy(base_seconds=0.01, cap_seconds=1.0, jitter=0.0)
_NOT_FOUND: Final = 404
_CONFLICT: Final = 409

_log = structlog.get_logger("gangctl.sandbox")


class SimulatedController(ABC, Generic[K]):
    """One controller beside the API server, which knows it as ``system:sandbox:NAME``."""

    name: ClassVar[str]
    workers: ClassVar[int] = 1

    def __init__(self, api: Api) -> None:
        """Play beside ``api``."""
        self.api = api
        self.caller = Caller(f"system:sandbox:{self.name}", ("system:masters",))
        self.queue: WorkQueue[K] = WorkQueue(policy=_RETRY)
        self._mirrors: list[Mirror] = []

    def mirror(self, resource: str, notice: Callable[[Object], None], index: Index | None = None) -> Mirror:
        """Follow a resource, such as ``jobs.batch``."""
        found = Mirror(self.api, self.api.kind(resource), notice, index)
        self._mirrors.append(found)
        return found

    async def run(self) -> None:
        """Play until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for mirror in self._mirrors:
                tasks.create_task(mirror.follow(), name=f"{self.name}-{mirror.kind.plural}")
            for number in range(self.workers):
                tasks.create_task(self._work(), name=f"{self.name}-{number}")

    async def _work(self) -> None:
        for mirror in self._mirrors:
            await mirror.synced.wait()
        while True:
            key = await self.queue.get()
            try:
                await self.reconcile(key)
            except StatusError as refused:
                # What is gone needs nothing more; a change of it brings the key again.
                if refused.code != _NOT_FOUND:
                    delay = self.queue.add_failed(key)
                    _log.debug("refused", controller=self.name, key=key, error=str(refused), again_in=delay)
            else:
                self.queue.forget(key)
            finally:
                self.queue.done(key)

    @abstractmethod
    async def reconcile(self, key: K) -> None:
        """Bring what ``key`` stands for in order; a :class:`StatusError` means try again later."""

    async def create(self, mirror: Mirror, obj: Object) -> Object:
        """Create an object, which passes admission as anybody's."""
        created = await self.api.create(mirror.kind, namespace_of(obj), obj, self.caller)
        mirror.saw(created)
        return created

    async def update(self, mirror: Mirror, obj: Object, subresource: str = "") -> Object:
        """Replace an object on the condition that it is still the one that was read."""
        updated = await self.api.update(
            mirror.kind, namespace_of(obj), name_of(obj), obj, self.caller, subresource=subresource
        )
        mirror.saw(updated)
        return updated

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
            await self.api.delete(mirror.kind, namespace_of(obj), name_of(obj), self.caller, options)
        except StatusError as error:
            if error.code not in {_NOT_FOUND, _CONFLICT}:
                raise
