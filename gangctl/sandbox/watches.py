"""Watches: the changes after a revision, filtered by a selection.

An object that enters the selection is ADDED, one that leaves it DELETED, for any
kind of change in the store.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from gangctl.sandbox import errors
from gangctl.sandbox.conversion import in_version
from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.kinds import ResourceKind
from gangctl.sandbox.objects import Object
from gangctl.sandbox.reads import parse_revision
from gangctl.sandbox.selectors import selection
from gangctl.sandbox.store import Change, Store, Stored

EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"


@dataclass(frozen=True, slots=True)
class WatchQuery:
    """``metav1.ListOptions`` of a watch."""

    labels: str = ""
    fields: str = ""
    resource_version: str = ""
    bookmarks: bool = False
    initial_events: bool = False


class Watch:
    """One watch: :meth:`take` events, :meth:`wait` for more, :meth:`close` it.

    410 as StatusError if the revision has expired, 400 for selectors.
    """

    def __init__(self, store: Store, kind: ResourceKind, namespace: str | None, query: WatchQuery) -> None:
        """Start after ``query.resource_version``; with "" or "0" with the present objects."""
        self.kind = kind
        self._namespace = namespace
        self._chosen = selection(kind, query.labels, query.fields)
        self._store = store
        revision = _watch_revision(query.resource_version)
        self._initial: list[tuple[EventType, Stored]] = []
        if revision == 0 or query.initial_events:
            if query.initial_events and revision > store.revision:
                raise errors.too_large(revision, store.revision)
            items = (in_version(kind, stored) for stored in store.items(kind.storage, namespace))
            self._initial = [("ADDED", stored) for stored in items if self._chosen.matches(stored.obj)]
            revision = store.revision
            if query.initial_events and query.bookmarks:
                self._initial.append(("BOOKMARK", self.bookmark(revision, initial_events_end=True)))
        self._subscription = store.subscribe(kind.storage, revision)
        self._after = revision

    def take(self) -> list[tuple[EventType, Stored]]:
        """The events since the last call, frozen, in order."""
        events, self._initial = self._initial, []
        for change in self._subscription.take():
            events += self._events(change)
        return events

    async def wait(self) -> None:
        """Wait until there may be events."""
        if not self._initial:
            await self._subscription.wait()

    def close(self) -> None:
        """Unsubscribe."""
        self._subscription.close()

    def end(self) -> None:
        """End it from the server's side, and wake its waiters."""
        self._subscription.end()

    @property
    def ended(self) -> bool:
        """Whether the server ended it."""
        return self._subscription.ended

    def bookmark(self, revision: int | None = None, *, initial_events_end: bool = False) -> Stored:
        """The object of a BOOKMARK: after the pending events, no earlier revision follows."""
        revision = max(self._store.revision, revision or 0)
        metadata: Object = {"resourceVersion": str(revision)}
        if initial_events_end:
            metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
        return Stored({"kind": self.kind.kind, "apiVersion": self.kind.api_version, "metadata": metadata}, revision)

    def _events(self, change: Change) -> Iterator[tuple[EventType, Stored]]:
        # A watch from a future revision has no events until then.
        if change.revision <= self._after or self._namespace not in {None, change.key[0]}:
            return
        new = in_version(self.kind, change.new)
        is_in = not change.gone and self._chosen.matches(new.obj)
        was_in = change.old is not None and self._chosen.matches(in_version(self.kind, change.old).obj)
        if is_in:
            yield ("MODIFIED" if was_in else "ADDED"), new
        elif was_in:
            yield "DELETED", new if change.gone or change.old is None else self._left(change.old, change.revision)

    def _left(self, old: Stored, revision: int) -> Stored:
        """The last selected state of an object that left the selection, at the revision of the change."""
        obj = in_version(self.kind, old).obj
        return Stored({**obj, "metadata": {**obj["metadata"], "resourceVersion": str(revision)}}, revision)


def _watch_revision(text: str) -> int:
    try:
        return parse_revision(text)
    except ValueError as error:
        raise StatusError(500, "", f'resourceVersion: Invalid value: "{text}": {error}') from error
