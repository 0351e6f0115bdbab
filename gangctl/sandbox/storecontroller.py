"""A controller inside the sandbox: called for every change in the store, it does what that change calls for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import ClassVar, Final, Generic, TypeVar

import structlog

from gangctl.runtime.queue import RetryPolicy, WorkQueue
from gangctl.sandbox.api import Api
from gangctl.sandbox.caller import Caller
from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.kinds import ResourceKind
from gangctl.sandbox.store import Change

K = TypeVar("K", bound=Hashable)

_RETRY: Final = RetryPolicy(base_seconds=0.02, cap_seconds=2.0, jitter=0.0)
_NOT_FOUND: Final = 404

_log = structlog.get_logger("gangctl.sandbox")


class StoreController(ABC, Generic[K]):
    """One controller of the server's own, known to webhooks as ``system:sandbox:NAME``."""

    name: ClassVar[str]

    def __init__(self, api: Api) -> None:
        """Hear of changes from now on; nothing is done before :meth:`run`."""
        self.api = api
        self.store = api.store
        self.caller = Caller(f"system:sandbox:{self.name}", ("system:masters",))
        self.queue: WorkQueue[K] = WorkQueue(policy=_RETRY)
        self.store.listen(self.changed)

    @abstractmethod
    def changed(self, storage: str, change: Change) -> None:
        """Queue what a change makes worth a look."""

    @abstractmethod
    async def reconcile(self, key: K) -> None:
        """Bring in order what ``key`` stands for; a :class:`StatusError` but 404 means try again later."""

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            key = await self.queue.get()
            try:
                await self.reconcile(key)
            except StatusError as error:
                if error.code != _NOT_FOUND:
                    delay = self.queue.add_failed(key)
                    _log.debug("tried again", controller=self.name, key=key, error=str(error), again_in=delay)
            else:
                self.queue.forget(key)
            finally:
                self.queue.done(key)

    def kind_of(self, storage: str) -> ResourceKind | None:
        """A served kind that is stored under this key; None when it is served no more."""
        return next((kind for kind in self.api.registry if kind.storage == storage), None)
