"""A kind that is watched if it may be: what is known of it, and why there is nothing to be had where there is not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from gangctl.runtime.informer import Informer, InformerObserver
from gangctl.runtime.store import Store

T = TypeVar("T")

_NOT_READ: Final = "not read yet"


class Source(InformerObserver, Generic[T]):
    """One kind's informer, and why there is nothing to be had from it, if so."""

    def __init__(self, informer: Callable[[InformerObserver], Informer[T]], observer: InformerObserver) -> None:
        """``informer`` makes it, with this source as its observer; ``observer`` is told as well."""
        self._observer = observer
        self._reason = _NOT_READ
        self.informer = informer(self)
        self.settled = asyncio.Event()
        """Everything was seen once, or cannot be read."""

    @property
    def store(self) -> Store[T]:
        """What was last seen."""
        return self.informer.store

    @property
    def known(self) -> bool:
        """Whether all of it has been seen, and the server still serves it."""
        return self.informer.synced.is_set()

    def trouble(self) -> str:
        """What is not known and why, empty when it is known."""
        return "" if self.known else f"{self.informer.resource.plural} {self._reason}"

    def restarted(self, reason: str) -> None:
        """An informer says why it begins anew."""
        self._observer.restarted(reason)
        if not self.known:
            self._reason = (
                "are not served" if reason == "absent" else f"cannot be read ({reason.removesuffix('Error').lower()})"
            )
            self.settled.set()

    def broken(self, what: str) -> None:
        """An informer met an object that it does not understand."""
        self._observer.broken(what)

    def forget(self) -> None:
        """Know nothing, as at the beginning; not while it runs."""
        self.informer.forget()
        self.settled.clear()
        self._reason = _NOT_READ

    async def run(self) -> None:
        """Keep it current until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.informer.run())
            group.create_task(self._see())

    async def _see(self) -> None:
        await self.informer.synced.wait()
        self.settled.set()
