"""One store for a collection that is watched per namespace: the server sends nothing of other namespaces."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from gangctl.api.store import Store
from gangctl.client.client import Client
from gangctl.client.resources import Resource
from gangctl.runtime.informer import Informer, Projection

T = TypeVar("T")


class Namespaces(Protocol):
    """The active namespaces."""

    def current(self) -> Collection[str]:
        """Their names now."""
        ...

    def subscribe(self, on_change: Callable[[], None]) -> None:
        """Call this when they may have changed."""
        ...


@dataclass(frozen=True, slots=True)
class _Followed(Generic[T]):
    """One namespace's informer, and the time (monotonic seconds) of its start."""

    informer: Informer[T]
    task: asyncio.Task[None]
    since: float


class PerNamespaceInformer(Informer[T]):
    """An informer with a separate watch for each active namespace, of a kind that every API server has.

    It is synced when all namespaces that were active at its start have been listed; later ones are listed in addition.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource,
        project: Projection[T],
        namespaces: Namespaces,
        *,
        store: Store[T] | None = None,
        on_synced: Callable[[], None] | None = None,
        **settings: Any,
    ) -> None:
        """Do nothing yet; ``settings`` are those of an :class:`~gangctl.runtime.informer.Informer`."""
        super().__init__(client, resource, project, store=store, on_synced=on_synced, **settings)
        self._namespaces = namespaces
        self._changed = asyncio.Event()
        self._followed: dict[str, _Followed[T]] = {}
        shared: dict[str, Any] = {"store": self.store, "on_synced": self._note_synced, "handlers": self._handlers}
        self._one = partial(Informer[T], client, resource, project, **settings, **shared)
        namespaces.subscribe(self._changed.set)

    def contact_age(self) -> float | None:
        """Seconds since the last data from the server, for the namespace with the longest silence.

        Without active namespaces it is as if there had just been data.
        """
        if not self._followed:
            return 0.0 if self.synced.is_set() else None
        now = self._clock.now()
        ages = ((one.informer.contact_age(), now - one.since) for one in self._followed.values())
        return max(running if age is None else age for age, running in ages)

    async def _run(self) -> None:
        # Again only after :meth:`forget`.
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    # Before the read: a change during the stops below causes another round.
                    self._changed.clear()
                    wanted = set(self._namespaces.current())
                    for namespace in [followed for followed in self._followed if followed not in wanted]:
                        await self._stop(namespace)
                    for namespace in sorted(wanted - self._followed.keys()):
                        informer = self._one(namespace=namespace)
                        task = group.create_task(informer.run(), name=f"{self.resource.plural} of {namespace}")
                        self._followed[namespace] = _Followed(informer, task, self._clock.now())
                    # Where no namespace is active, no informer calls it.
                    self._note_synced()
                    await self._changed.wait()
        finally:
            self._followed.clear()

    async def _stop(self, namespace: str) -> None:
        task = self._followed.pop(namespace).task
        task.cancel()
        await asyncio.wait({task})
        # After the informer has ended, and can store nothing more.
        self._notify(self.store.retain((), namespace))

    def _note_synced(self) -> None:
        if not self.synced.is_set() and all(one.informer.synced.is_set() for one in self._followed.values()):
            self.synced.set()
            self._on_synced()
