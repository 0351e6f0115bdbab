"""An informer of an optional kind: what is known of it, and why it is unavailable if it is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf
from typing import Any, Final, Generic, TypeVar

from gangctl.api.store import Store
from gangctl.client.client import Client
from gangctl.client.resources import Resource
from gangctl.runtime.informer import Informer, InformerObserver

T = TypeVar("T")

RETRY_SECONDS: Final = 10.0
"""How often a missing or forbidden kind is tried again."""
CONFIRM_SECONDS: Final = 15.0
"""An API server that starts may deny for a moment what it serves: a kind is gone after two denials, so far apart."""

_NOT_READ: Final = "not read yet"


class InformerSource(InformerObserver, Generic[T]):
    """One kind's informer, and why it has no data, if so."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        project: Callable[[dict[str, Any]], T | None],
        *,
        observer: InformerObserver,
        on_change: Callable[[], None] = lambda: None,
        on_absent: Callable[[], None] = lambda: None,
        confirm_seconds: float = inf,
        confirm_empty: bool = True,
        informer: Callable[..., Informer[T]] = Informer,
        **settings: Any,
    ) -> None:
        """``observer`` is notified of what the informer meets; ``settings`` are those of an :class:`Informer`.

        ``on_change`` is also called when everything becomes known, ``on_absent`` when the server begins to deny the
        kind. With ``confirm_seconds`` it counts as :attr:`missing` when the server denies it again after that time,
        which is a change, too; without ``confirm_empty`` at once where nothing of the kind is known.
        """
        self._observer = observer
        self._on_change = on_change
        self._on_absent = on_absent
        self._confirm_seconds = confirm_seconds
        self._confirm_empty = confirm_empty
        self._gone_at: float | None = None
        """When a denial confirms the first one."""
        self._reason = _NOT_READ
        self.missing = False
        """Whether the kind counts as not served."""
        self.informer = informer(client, resource, project, on_synced=self._synced, observer=self, **settings)
        self.settled = asyncio.Event()
        """Set when it was synced once, or cannot be read."""

    @property
    def store(self) -> Store[T]:
        """The cached objects."""
        return self.informer.store

    @property
    def known(self) -> bool:
        """Whether it is synced, and the server still serves it."""
        return self.informer.synced.is_set()

    def trouble(self) -> str:
        """What is not known and why, empty when it is known."""
        return "" if self.known else f"{self.informer.resource.plural} {self._reason}"

    def restarted(self, reason: str) -> None:
        """Record why the informer starts again."""
        self._observer.restarted(reason)
        # Every watch ends after some minutes, and what was read stays known.
        if self.known:
            return
        self._reason = (
            "are not served" if reason == "absent" else f"cannot be read ({reason.removesuffix('Error').lower()})"
        )
        self.settled.set()
        if reason == "absent":
            self._denied()

    def broken(self, what: str) -> None:
        """Record an object that the informer does not understand."""
        self._observer.broken(what)

    def forget(self) -> None:
        """Return to the initial state; not while it runs."""
        self.informer.forget()
        self.settled.clear()
        self._reason = _NOT_READ

    def _denied(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._gone_at is None:
            self._gone_at = now + self._confirm_seconds
            gone = not (self._confirm_empty or len(self.store))
            self._on_absent()
        else:
            # Only a denial confirms one: in between the server may have failed, or may be sending a list.
            gone = now >= self._gone_at
        if gone and not self.missing:
            self.missing = True
            self._on_change()

    def _synced(self) -> None:
        self.missing, self._gone_at = False, None
        self.settled.set()
        # Notify here, because an empty or unchanged list changes no object.
        self._on_change()
