"""Objects in memory, one counter of revisions, and a bounded memory of changes.

The counter is shared by everything stored, as etcd's is: a resourceVersion is a revision. What is stored is frozen. A
watch, an exact list or a continued list reads past revisions; expired ones are 410. Versions of one resource are stored
as one: Events of ``v1`` and of ``events.k8s.io/v1``.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

import orjson

from gangctl.api.objects import Key
from gangctl.sandbox import errors
from gangctl.sandbox.kinds import ResourceKind
from gangctl.sandbox.objects import Object

REMEMBERED: Final = 10_000


def etcd_order(key: Key) -> str:
    """By this the API server sorts: a namespace ``a-b`` comes before ``a``, because of the slash behind it."""
    return "/".join(key)


class Stored:
    """An object as it was at a revision; ``obj`` is frozen, and ``json`` is encoded once."""

    __slots__ = ("_bare_json", "_json", "obj", "revision")

    def __init__(self, obj: Object, revision: int) -> None:
        """Take ``obj``, whose resourceVersion is ``revision``."""
        self.obj = obj
        self.revision = revision
        self._json: bytes | None = None
        self._bare_json: bytes | None = None

    @property
    def json(self) -> bytes:
        """The object as JSON."""
        if self._json is None:
            self._json = orjson.dumps(self.obj)
        return self._json

    @property
    def bare_json(self) -> bytes:
        """The object as JSON without its kind, as lists carry it."""
        if self._bare_json is None:
            bare = {key: value for key, value in self.obj.items() if key not in {"kind", "apiVersion"}}
            self._bare_json = orjson.dumps(bare)
        return self._bare_json


@dataclass(frozen=True, slots=True)
class StoredChange:
    """One write: ``old`` is None for a creation; ``gone`` for a removal, whose ``new`` is the last state."""

    revision: int
    key: Key
    old: Stored | None
    new: Stored
    gone: bool = False


Listener = Callable[[str, StoredChange], None]


class Subscription:
    """Changes that came after it was made, in order; close it when done."""

    def __init__(self, bucket: Bucket, changes: Iterable[StoredChange]) -> None:
        """Begin with ``changes``; the bucket appends the later ones."""
        self._bucket = bucket
        self._changes = deque(changes)
        self._arrived = asyncio.Event()
        self.ended = False
        if self._changes:
            self._arrived.set()

    def push(self, change: StoredChange) -> None:
        """Deliver a change."""
        self._changes.append(change)
        self._arrived.set()

    def take(self) -> list[StoredChange]:
        """The available changes, without waiting."""
        taken = list(self._changes)
        self._changes.clear()
        # An ended one stays set, so that its waiters return and see the end.
        if not self.ended:
            self._arrived.clear()
        return taken

    def end(self) -> None:
        """End the subscription, and wake its waiters."""
        self.ended = True
        self.close()
        self._arrived.set()

    async def wait(self) -> None:
        """Wait until there are changes, or it ended."""
        await self._arrived.wait()

    def close(self) -> None:
        """Unsubscribe."""
        self._bucket.subscriptions.pop(self, None)


class Bucket:
    """Everything stored under one key of :attr:`ResourceKind.storage`."""

    def __init__(self, floor: int, remembered: int) -> None:
        """Make an empty one without changes up to ``floor``, which keeps ``remembered`` changes."""
        self.objects: dict[Key, Stored] = {}
        # No set, which is ordered by addresses: a simulation with the same seed must deliver in the same order.
        self.subscriptions: dict[Subscription, None] = {}
        self._history: deque[StoredChange] = deque()
        self._floor = floor
        self._remembered = remembered

    def record(self, change: StoredChange) -> None:
        """Apply a change and deliver it."""
        if change.gone:
            del self.objects[change.key]
        else:
            self.objects[change.key] = change.new
        self._history.append(change)
        if len(self._history) > self._remembered:
            self._floor = self._history.popleft().revision
        for subscription in self.subscriptions:
            subscription.push(change)

    def forget(self, revision: int) -> None:
        """Forget every change up to ``revision``."""
        while self._history and self._history[0].revision <= revision:
            self._history.popleft()
        self._floor = max(self._floor, revision)

    def since(self, revision: int) -> list[StoredChange]:
        """The changes after ``revision``; 410 if it has expired."""
        if revision < self._floor:
            raise errors.expired(f"too old resource version: {revision} ({self._floor})")
        # Most watches begin at the present, and need no pass through thousands of changes.
        if not self._history or self._history[-1].revision <= revision:
            return []
        return [change for change in self._history if change.revision > revision]

    def at(self, revision: int) -> dict[Key, Stored]:
        """The objects at ``revision``; 410 if it has expired."""
        # The dictionary alone is copied: what is stored is frozen.
        objects = dict(self.objects)
        for change in reversed(self.since(revision)):
            if change.old is None:
                objects.pop(change.key, None)
            else:
                objects[change.key] = change.old
        return objects


class ObjectStore:
    """Every object of a server."""

    def __init__(self, remembered: int = REMEMBERED) -> None:
        """Make an empty store that keeps ``remembered`` changes of each resource."""
        # As in etcd, where the first write is 2: in lists and watches 0 means any revision.
        self.revision = 1
        self._buckets: dict[str, Bucket] = {}
        self._remembered = remembered
        self._compacted = 0
        self._listeners: list[Listener] = []

    def bucket(self, storage: str) -> Bucket:
        """The objects of one resource."""
        bucket = self._buckets.get(storage)
        if bucket is None:
            # A bucket that is made later has no changes from before the compaction, either.
            bucket = self._buckets[storage] = Bucket(self._compacted, self._remembered)
        return bucket

    def get(self, storage: str, key: Key) -> Stored | None:
        """One object, or None."""
        return self.bucket(storage).objects.get(key)

    def find(self, storage: str, namespace: str, name: str) -> Object | None:
        """One object, frozen, or None; "" is the namespace of what has none."""
        stored = self.get(storage, (namespace, name))
        return None if stored is None else stored.obj

    def items(self, storage: str, namespace: str | None = None, revision: int | None = None) -> list[Stored]:
        """The objects of a resource in the order of their keys, now or at a revision (410 when forgotten)."""
        bucket = self.bucket(storage)
        objects = bucket.objects if revision is None or revision >= self.revision else bucket.at(revision)
        if namespace is None:
            return [objects[key] for key in sorted(objects, key=etcd_order)]
        return [objects[key] for key in sorted(key for key in objects if key[0] == namespace)]

    def put(self, storage: str, key: Key, obj: Object) -> Stored:
        """Store ``obj``, which becomes the store's, under a new revision that is written into it."""
        bucket = self.bucket(storage)
        self.revision += 1
        obj["metadata"]["resourceVersion"] = str(self.revision)
        stored = Stored(obj, self.revision)
        self._record(storage, StoredChange(self.revision, key, bucket.objects.get(key), stored))
        return stored

    def remove(self, storage: str, key: Key) -> Stored:
        """Remove an object; watches get its last state with the revision of the removal."""
        bucket = self.bucket(storage)
        old = bucket.objects[key]
        self.revision += 1
        obj = {**old.obj, "metadata": {**old.obj["metadata"], "resourceVersion": str(self.revision)}}
        stored = Stored(obj, self.revision)
        self._record(storage, StoredChange(self.revision, key, old, stored, gone=True))
        return stored

    def listen(self, listener: Listener) -> None:
        """Call ``listener`` at once with the storage key and every change of every resource; it must not write."""
        self._listeners.append(listener)

    def _record(self, storage: str, change: StoredChange) -> None:
        # Before the listeners: they read the store.
        self.bucket(storage).record(change)
        for listener in self._listeners:
            listener(storage, change)

    def subscribe(self, storage: str, since: int) -> Subscription:
        """Changes of a resource after ``since``; 410 when that is not remembered."""
        bucket = self.bucket(storage)
        # Registered after since(), which raises for an expired revision.
        subscription = Subscription(bucket, bucket.since(since))
        bucket.subscriptions[subscription] = None
        return subscription

    def end_subscriptions(self, storage: str) -> None:
        """End those of a resource that is not served any more."""
        for subscription in list(self.bucket(storage).subscriptions):
            subscription.end()

    def compact(self) -> None:
        """Discard past changes, like etcd's compaction and a full watch cache: older revisions are 410 from now on."""
        self._compacted = self.revision
        for bucket in self._buckets.values():
            bucket.forget(self.revision)


EVENTS: Final = "events"

# events.k8s.io/v1 on the left, v1, which is stored, on the right.
_EVENT_NAMES: Final = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
# v1 writes these although they are empty.
_LEFT_OUT: Final = frozenset({"reportingComponent", "reportingInstance"})
_STORED_NAMES: Final = {stored: name for name, stored in _EVENT_NAMES.items()}


def to_storage(kind: ResourceKind, obj: Object) -> Object:
    """``obj`` as it is stored; the same dict when nothing differs."""
    if kind.storage == EVENTS and kind.group:
        renamed = {_EVENT_NAMES.get(key, key): value for key, value in obj.items()}
        return {**renamed, "apiVersion": "v1"}
    return obj


def from_storage(kind: ResourceKind, obj: Object) -> Object:
    """A stored object in the version of ``kind``; shares its parts, and is the same dict when nothing differs."""
    if obj["apiVersion"] == kind.api_version:
        return obj
    if kind.storage == EVENTS:
        obj = {_STORED_NAMES.get(key, key): value for key, value in obj.items() if value or key not in _LEFT_OUT}
    return {**obj, "apiVersion": kind.api_version}


def in_version(kind: ResourceKind, stored: Stored) -> Stored:
    """The same for what keeps its JSON."""
    obj = from_storage(kind, stored.obj)
    return stored if obj is stored.obj else Stored(obj, stored.revision)
