"""A kind that is watched if it may be: what is known of it, and why there is nothing to be had where there is not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from gangctl.client.client import Client
from gangctl.client.resources import Resource
from gangctl.runtime.informer import Informer, InformerObserver
from gangctl.runtime.store import Store

T = TypeVar("T")

LOOK_SECONDS: Final = 10.0
"""How often what is missing, or may not be read, is tried again."""
DOUBT_SECONDS: Final = 15.0
"""An API server that starts may deny for a moment what it serves: what was there is gone when it has done so twice."""

_NOT_READ: Final = "not read yet"


class Source(InformerObserver, Generic[T]):
    """One kind's informer, and why there is nothing to be had from it, if so."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        project: Callable[[dict[str, Any]], T | None],
        *,
        observer: InformerObserver,
        on_change: Callable[[], None] = lambda: None,
        on_absent: Callable[[], None] = lambda: None,
        doubt_seconds: float | None = None,
        doubts_nothing: bool = True,
        informer: Callable[..., Informer[T]] = Informer,
        **settings: Any,
    ) -> None:
        """``observer`` is told what the informer meets; ``settings`` are those of an :class:`Informer`.

        ``on_change`` is called when everything is known from then on, ``on_absent`` when the server begins to say that
        it has no such kind. With ``doubt_seconds`` it is believed to be :attr:`missing` after so long, which is a
        change, too; without ``doubts_nothing`` at once where nothing of the kind is known.
        """
        self._observer = observer
        self._on_change = on_change
        self._on_absent = on_absent
        self._doubt_seconds = doubt_seconds
        self._doubts_nothing = doubts_nothing
        self._absent = False
        self._reason = _NOT_READ
        self.missing = False
        """Whether the server is believed not to serve it."""
        self.informer = informer(client, resource, project, on_synced=self._synced, observer=self, **settings)
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
        if self.known:
            return
        self._reason = (
            "are not served" if reason == "absent" else f"cannot be read ({reason.removesuffix('Error').lower()})"
        )
        self.settled.set()
        if reason == "absent" and not self._absent:
            self._absent = True
            self._on_absent()
            if self._doubt_seconds is None:
                return
            if self._doubts_nothing or len(self.store):
                asyncio.get_running_loop().call_later(self._doubt_seconds, self._believe)
            else:
                self._believe()

    def broken(self, what: str) -> None:
        """An informer met an object that it does not understand."""
        self._observer.broken(what)

    def forget(self) -> None:
        """Know nothing, as at the beginning; not while it runs."""
        self.informer.forget()
        self.settled.clear()
        self._reason = _NOT_READ

    def _believe(self) -> None:
        if not self.known and not self.missing:
            self.missing = True
            self._on_change()

    def _synced(self) -> None:
        self.missing = self._absent = False
        self.settled.set()
        # Told here, because an empty list, or the same as before, changes no object.
        self._on_change()
