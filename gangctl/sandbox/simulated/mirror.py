"""A simulated controller's cache of one kind, in its version: every object, in the order of arrival."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gangctl.api.objects import Key
from gangctl.sandbox.api import Api
from gangctl.sandbox.conversion import from_storage
from gangctl.sandbox.kinds import ResourceKind
from gangctl.sandbox.objects import Object, name_of, namespace_of
from gangctl.sandbox.store import Change

Notice = Callable[[Object], None]
"""Called with the new state of an object, or the last one of a deleted object."""

Index = Callable[[Object], str | None]
"""The one value that an object is found by, or None."""


def key_of(obj: Object) -> Key:
    """Namespace and name of an object."""
    return namespace_of(obj), name_of(obj)


class Mirror:
    """Objects of one kind in the order in which they came. They are the server's own: never change one."""

    def __init__(self, api: Api, kind: ResourceKind, notice: Notice, index: Index | None = None) -> None:
        """Call ``notice`` for all objects, and for every change; ``index`` returns the value for :meth:`indexed`."""
        self.kind = kind
        self._notice = notice
        self._index = index
        self._objects: dict[Key, Object] = {}
        self._indexed: dict[str, dict[Key, Object]] = {}
        for stored in api.store.items(kind.storage):
            self._put(key_of(stored.obj), None, stored.obj)
        api.store.listen(self._changed)

    def __iter__(self) -> Iterator[Object]:
        return iter(list(self._objects.values()))

    def get(self, key: Key) -> Object | None:
        """The object of that namespace and name."""
        return self._objects.get(key)

    def indexed(self, value: str) -> list[Object]:
        """The objects whose index is ``value``."""
        return list(self._indexed.get(value, {}).values())

    def _changed(self, storage: str, change: Change) -> None:
        if storage == self.kind.storage:
            old = None if change.old is None else change.old.obj
            self._put(change.key, old, change.new.obj, gone=change.gone)

    def _put(self, key: Key, old: Object | None, new: Object, *, gone: bool = False) -> None:
        new = from_storage(self.kind, new)
        if gone:
            del self._objects[key]
        else:
            self._objects[key] = new
        if self._index is not None:
            before = None if old is None else self._index(old)
            after = None if gone else self._index(new)
            if before is not None and before != after:
                self._indexed[before].pop(key)
                if not self._indexed[before]:
                    del self._indexed[before]
            if after is not None:
                self._indexed.setdefault(after, {})[key] = new
        self._notice(new)
