"""Informers: a store of projections, kept in sync by list and watch.

An informer restarts at the right position after the end of a watch. It never gives up and never floods the server: each
early end of a connection costs a growing delay. A projection is what the caller keeps of an object; it must not be
changed once stored, because indexes are computed from it again on removal.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import structlog

from gangctl.api.objects import Key, misshapen
from gangctl.api.store import Change, Entry, Store
from gangctl.client.client import EVERYTHING, PAGE_SIZE, Client, Selection
from gangctl.client.pacing import Backoff, Clock
from gangctl.client.resources import Resource
from gangctl.client.watch import WatchOptions
from gangctl.errors import ApiError, GoneError, InputError, InvalidError, NotFoundError

T = TypeVar("T")


Handler = Callable[[T | None, T | None], None]
Projection = Callable[[dict[str, Any]], T | None]

# A server restored from a backup refuses versions it has not reached again; a list distinguishes that from a short
# outage.
_REFUSALS_BEFORE_RELIST = 5
_PASSING = {0, 429, 503}  # no answer, too busy, starting or stopping: no evidence about the version

_log = structlog.get_logger(__name__)


class InformerObserver:
    """Notified of restarts and broken objects; the default ignores them."""

    def restarted(self, reason: str) -> None:
        """Record why a watch is opened again: ended, gone, absent or the class of an error."""

    def broken(self, what: str) -> None:
        """Record that ``project`` or a handler raised on one object."""


@dataclass(frozen=True, slots=True)
class InformerOptions:
    """Options of an informer.

    Delays grow from ``base_delay_seconds`` to ``cap_delay_seconds`` and start again at the base once a watch has lived
    for ``steady_seconds``. An absent resource is retried at the cap.
    """

    page_size: int = PAGE_SIZE
    base_delay_seconds: float = 0.2
    cap_delay_seconds: float = 30.0
    steady_seconds: float = 10.0
    watch: WatchOptions = field(default_factory=WatchOptions)


class Informer(Generic[T]):
    """Mirrors a collection into ``store`` and calls every handler with each change, after the store shows it.

    ``project`` returns what to keep of an object; None means that the object is ignored. Run :meth:`run` in a task;
    cancelling it stops the informer; running it again continues from the store and reports only differences.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource,
        project: Projection[T],
        *,
        store: Store[T] | None = None,
        namespace: str | None = None,
        selection: Selection = EVERYTHING,
        on_absent: Callable[[], None] | None = None,
        on_synced: Callable[[], None] | None = None,
        observer: InformerObserver | None = None,
        options: InformerOptions | None = None,
        clock: Clock | None = None,
        randomness: Callable[[], float] = random.random,
        handlers: list[Handler[T]] | None = None,
    ) -> None:
        """Do nothing yet.

        Informers of several namespaces may share one ``store``, and the ``handlers`` of its changes. An earlier list
        may have filled the store: the first list of :meth:`run` drops what was deleted since. ``on_absent`` is called
        when the server turns out not to serve the resource, ``on_synced`` when the store is complete for the first
        time, and for the first time after that.
        """
        self.resource = resource
        self.store: Store[T] = store if store is not None else Store()
        self.synced = asyncio.Event()
        """Set from the first complete list on, until the resource is found absent."""
        self.following = False
        """Whether it runs, and the server has not last answered that it does not serve the resource."""
        self._client = client
        self._project = project
        self._namespace = namespace
        self._selection = selection
        self._on_absent = on_absent or (lambda: None)
        self._on_synced = on_synced or (lambda: None)
        self._observer = observer or InformerObserver()
        self._options = options or InformerOptions()
        self._clock = clock or Clock()
        self._backoff = Backoff(
            self._options.base_delay_seconds, self._options.cap_delay_seconds, randomness=randomness
        )
        self._handlers: list[Handler[T]] = [] if handlers is None else handlers
        self._contact: float | None = None
        self._absent = False
        self._version = ""  # where to resume; empty: list first
        self._opened: float | None = None
        self._refusals = 0
        self._trouble = ""
        self._log = _log.bind(resource=resource.qualified_name, version=resource.version)
        if namespace is not None:
            self._log = self._log.bind(namespace=namespace)

    def subscribe(self, on_change: Handler[T]) -> None:
        """Call ``on_change(old, new)`` for every change, and at once for each object in the store."""
        self._handlers.append(on_change)
        for value in self.store.values():
            on_change(None, value)

    def forget(self) -> None:
        """Empty the store without notifying handlers, and let the next :meth:`run` start over; not while one runs."""
        self._version = ""
        self._contact = None
        self.synced.clear()
        self.store.clear()

    def contact_age(self) -> float | None:
        """Seconds since the last data from the server, None before the first.

        For a healthy watch this is at most :attr:`WatchOptions.read_timeout_seconds`, since it is reopened after that
        much silence.
        """
        return None if self._contact is None else self._clock.now() - self._contact

    async def run(self) -> None:
        """Keep the store in sync until cancelled."""
        self.following = True
        try:
            await self._run()
        finally:
            self.following = False

    async def _run(self) -> None:
        while True:
            self._opened = None
            reason, delay = "ended", 0.0
            try:
                if not self._version:
                    await self._relist()
                await self._follow()
            except GoneError:
                # The store stays: a new list will show the differences.
                self._version, reason = "", "gone"
            except NotFoundError:
                reason, delay = "absent", self._options.cap_delay_seconds
                self._note_absence()
            except ApiError as error:
                reason, delay = type(error).__name__, error.retry_after or 0.0
                self._note_trouble(error)
            self._observer.restarted(reason)
            # Only a watch that has lived for a while shows that the trouble is over.
            if self._watched_seconds() >= self._options.steady_seconds:
                self._backoff.reset()
                self._refusals, self._trouble = 0, ""
            # After a normal end, too: a server that ends each watch at once must not be asked in a loop.
            await self._clock.sleep(max(delay, self._backoff.next()))

    async def _relist(self) -> None:
        """Read the whole collection page by page and drop what it no longer holds."""
        # Only what the store has by now can be gone; the names of 500,000 pods take 80 ms to free.
        seen: set[Key] | None = set() if len(self.store) else None
        version = ""
        pages = self._client.pages(
            self.resource, self._namespace, selection=self._selection, limit=self._options.page_size, ahead=True
        )
        async with aclosing(pages):
            async for page in pages:
                self._touch()
                version = page.resource_version
                for raw in page.items:
                    key = self._upsert(raw)
                    if key is not None and seen is not None:
                        seen.add(key)
        # Only what is in this namespace: informers of others may share the store.
        if seen is not None:
            self._notify(self.store.retain(seen, self._namespace))
        # Not before the end: an incomplete list is no version to resume from.
        self._version = version
        self._absent = False
        self.following = True
        if not self.synced.is_set():
            self._log.info("informer synced", objects=len(self.store))
            self.synced.set()
            self._on_synced()

    async def _follow(self) -> None:
        """Apply one watch's events until the stream ends; keep the version to resume from up to date."""
        events = self._client.watch(
            self.resource,
            self._namespace,
            resource_version=self._version,
            selection=self._selection,
            options=self._options.watch,
            on_contact=self._touch,
        )
        async with aclosing(events):
            async for event in events:
                if event.type == "DELETED":
                    self._forget(event.object)
                elif event.type != "BOOKMARK":
                    self._upsert(event.object)
                # Of bookmarks, too: the version of a quiet collection would become too old.
                self._version = event.resource_version or self._version

    def _touch(self) -> None:
        self._contact = self._clock.now()
        # Pages of a list do not count: only a watch that lives shows that the version is accepted.
        if self._opened is None and self._version:
            self._opened = self._contact

    def _watched_seconds(self) -> float:
        return 0.0 if self._opened is None else self._clock.now() - self._opened

    def _upsert(self, raw: dict[str, Any]) -> Key | None:
        """Store one object's projection; returns its key, None for an ignored object."""
        try:
            key, uid, version = _identity(raw)
        except InputError as error:
            self._not_understood(error)
            return None
        try:
            value = self._project(raw)
        except InputError as error:
            self._not_understood(error, namespace=key[0], name=key[1])
            # The object exists, so a list does not drop its last readable state.
            return key
        except Exception:  # noqa: BLE001 -- one unreadable object must not block the others
            self._log.exception("object not understood", namespace=key[0], name=key[1])
            self._observer.broken("project")
            return key
        if value is None:
            self._notify(self.store.discard(key))
            return None
        self._notify(self.store.put(key, Entry(uid, version, value)))
        return key

    def _forget(self, raw: dict[str, Any]) -> None:
        try:
            key, _, _ = _identity(raw)
        except InputError as error:
            self._not_understood(error)
        else:
            self._notify(self.store.discard(key))

    def _not_understood(self, error: InputError, **whose: str) -> None:
        """Log it for one object, and continue with the others."""
        self._log.warning("object not understood", error=error.message, **whose)
        self._observer.broken("project")

    def _notify(self, changes: list[Change[T]]) -> None:
        for old, new in changes:
            for handler in self._handlers:
                try:
                    handler(old, new)
                except Exception:  # noqa: BLE001 -- the other handlers must be notified
                    self._log.exception("handler failed")
                    self._observer.broken("handler")

    def _note_absence(self) -> None:
        """Log it once, as a warning only if it was served before: most resources are optional."""
        # The store stays: a starting API server may deny for a moment what it serves.
        self._version = ""
        self.following = False
        was_served = self.synced.is_set()
        self.synced.clear()
        if not self._absent:
            self._absent = True
            again = f"asked again every {self._options.cap_delay_seconds:g} seconds"
            if was_served:
                self._log.warning("no longer served by the cluster, what needs it has stopped", then=again)
            else:
                self._log.info("not served by the cluster, what needs it is off", then=again)
            self._on_absent()

    def _note_trouble(self, error: ApiError) -> None:
        """Log an error once, and stop resuming where the server keeps refusing it."""
        self.following = True
        if error.status not in _PASSING:
            self._refusals += 1
        # Resuming would get the same answer: the version cannot be read, or an event is too large to be received.
        refused = isinstance(error, InvalidError) or error.reason == "ResponseTooLarge"
        if refused or self._refusals >= _REFUSALS_BEFORE_RELIST:
            self._version, self._refusals = "", 0
        text = f"{type(error).__name__}: {error.message}"
        if text != self._trouble:
            self._trouble = text
            self._log.warning("cannot follow", error=text, status=error.status, reason=error.reason)


def _identity(raw: dict[str, Any]) -> tuple[Key, str, str]:
    if wrong := misshapen(raw):
        raise InputError(f"{wrong} has another type than any API server gives it")
    metadata = raw.get("metadata") or {}
    if not metadata.get("name"):
        raise InputError("an object without a name")
    key = (metadata.get("namespace") or "", metadata["name"])
    return key, metadata.get("uid") or "", metadata.get("resourceVersion") or ""
