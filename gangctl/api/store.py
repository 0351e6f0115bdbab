"""Projections of objects by namespace and name, with indexes: kept by informers, or filled from a listing or files."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from gangctl.api.objects import Key

T = TypeVar("T")

Indexer = Callable[[T], Iterable[Hashable]]


@dataclass(frozen=True, slots=True)
class Entry(Generic[T]):
    """A projection and the identity of the object it was made from."""

    uid: str
    resource_version: str
    value: T


class Change(NamedTuple, Generic[T]):
    """A change of one object: ``old`` is None for a new one, ``new`` is None for a deleted one."""

    old: T | None
    new: T | None


class Store(Generic[T]):
    """Projections by :data:`Key`, in order of arrival; only the informer writes."""

    def __init__(self, indexers: Mapping[str, Indexer[T]] | None = None) -> None:
        """Keep one index per entry of ``indexers``, which return the values to find an object by."""
        self._entries: dict[Key, Entry[T]] = {}
        self._indexers = dict(indexers or {})
        # Values are dictionaries used as ordered sets, so that what they return has an order.
        self._indexes: dict[str, dict[Hashable, dict[Key, None]]] = {name: {} for name in self._indexers}

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: Key) -> bool:
        return key in self._entries

    def get(self, namespace: str, name: str) -> T | None:
        """Return the projection of one object, None if it is unknown or ignored."""
        entry = self._entries.get((namespace, name))
        return entry.value if entry else None

    def entry(self, key: Key) -> Entry[T] | None:
        """Return a projection with uid and resourceVersion."""
        return self._entries.get(key)

    def keys(self) -> Iterator[Key]:
        """Iterate over a snapshot of the keys."""
        return iter(list(self._entries))

    def values(self) -> Iterator[T]:
        """Iterate over a snapshot of the projections."""
        return iter([entry.value for entry in self._entries.values()])

    def by_index(self, index: str, value: Hashable) -> list[T]:
        """Return the projections found under ``value``."""
        return [self._entries[key].value for key in self._indexes[index].get(value, ())]

    def keys_by_index(self, index: str, value: Hashable) -> list[Key]:
        """Return the keys found under ``value``."""
        return list(self._indexes[index].get(value, ()))

    def put(self, key: Key, entry: Entry[T]) -> list[Change[T]]:
        """Keep ``entry`` and return the changes.

        Another uid under the same name is another object: the old one is deleted, then the new one is added. A change
        that the projection does not show is none.
        """
        old = self._entries.get(key)
        if old is not None and old.uid != entry.uid:
            return [*self.discard(key), *self.put(key, entry)]
        if old is not None and old.value == entry.value:
            # The resourceVersion is new, although the projection is not.
            self._entries[key] = entry
            return []
        if old is not None:
            self._unindex(key, old.value)
        key = sys.intern(key[0]), key[1]  # there may be 100,000 keys in one namespace
        self._entries[key] = entry
        for name, indexer in self._indexers.items():
            for value in indexer(entry.value):
                self._indexes[name].setdefault(value, {})[key] = None
        return [Change(old.value if old else None, entry.value)]

    def discard(self, key: Key) -> list[Change[T]]:
        """Forget one object, known or not."""
        old = self._entries.pop(key, None)
        if old is None:
            return []
        self._unindex(key, old.value)
        return [Change(old.value, None)]

    def retain(self, keys: Collection[Key], namespace: str | None = None) -> list[Change[T]]:
        """Drop everything (of a namespace) but ``keys``: what a complete list does not name was deleted unseen."""
        gone = [key for key in self._entries if key not in keys and namespace in {None, key[0]}]
        return [change for key in gone for change in self.discard(key)]

    def clear(self) -> None:
        """Forget everything at once."""
        self._entries = {}
        self._indexes = {name: {} for name in self._indexers}

    def _unindex(self, key: Key, projection: T) -> None:
        for name, indexer in self._indexers.items():
            index = self._indexes[name]
            for value in indexer(projection):
                bucket = index.get(value)
                if bucket is not None:
                    bucket.pop(key, None)
                    if not bucket:
                        del index[value]
