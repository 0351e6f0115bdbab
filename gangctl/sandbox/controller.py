"""Controllers in and beside the sandbox: a queue of keys, and workers that reconcile one key at a time.

Level-triggered, as the real ones are: a key names an object, not an event.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import ClassVar, Final, Generic, TypeVar

import structlog

from gangctl.runtime.controller import RetryPolicy, WorkQueue
from gangctl.sandbox.api import Api
from gangctl.sandbox.caller import Caller
from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.kinds import ResourceKind
from gangctl.sandbox.store import Change

K = TypeVar("K", bound=Hashable)

_RETRY: Final = RetryPolicy(base_seconds=0.01, cap_seconds=1.0, jitter=0.0)
_NOT_FOUND: Final = 404

_log = structlog.get_logger("gangctl.sandbox")


class Controller(ABC, Generic[K]):
    """One controller, known to webhooks as ``system:sandbox:NAME``."""

    name: ClassVar[str]

    def __init__(self, api: Api) -> None:
        """Use ``api``, but not before :meth:`run`."""
        self.api = api
        self.caller = Caller(f"system:sandbox:{self.name}", ("system:masters",))
        self.queue: WorkQueue[K] = WorkQueue(policy=_RETRY)

    @abstractmethod
    async def reconcile(self, key: K) -> None:
        """Reconcile the object of ``key``; a :class:`StatusError` other than 404 triggers a retry."""

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            key = await self.queue.get()
            try:
                await self.reconcile(key)
            except StatusError as error:
                # A deleted object needs nothing more; a change of it queues the key again.
                if error.code != _NOT_FOUND:
                    delay = self.queue.add_failed(key)
                    _log.debug("tried again", controller=self.name, key=key, error=str(error), again_in=delay)
            else:
                self.queue.forget(key)
            finally:
                self.queue.done(key)


class StoreController(Controller[K]):
    """A controller of the server itself, called for every change in the store."""

    def __init__(self, api: Api) -> None:
        """Subscribe to changes."""
        super().__init__(api)
        self.store = api.store
        self.store.listen(self.changed)

    @abstractmethod
    def changed(self, storage: str, change: Change) -> None:
        """Queue the keys that a change affects."""

    def kind_of(self, storage: str) -> ResourceKind | None:
        """A served kind that is stored under this key; None if it is no longer served."""
        return next((kind for kind in self.api.registry if kind.storage == storage), None)
