"""What a simulated controller knows of one kind: every object as last seen, from one list and one watch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import aclosing
from typing import Final

from gangctl.api.objects import Key
from gangctl.sandbox.api import Api
from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.kinds import ResourceKind
from gangctl.sandbox.objects import Object, name_of, namespace_of, resource_version

Notice = Callable[[Object], None]
"""Told the new state of an object, or the last one of an object that is gone."""

Index = Callable[[Object], str | None]
"""The one value that an object is found by, or None."""

_GONE: Final = 410


def key_of(obj: Object) -> Key:
    """Namespace and name of an object."""
    return namespace_of(obj), name_of(obj)


class Mirror:
    """Objects of one kind in the order in which they were first seen. They are the server's own: never change one."""

    def __init__(self, api: Api, kind: ResourceKind, notice: Notice, index: Index | None = None) -> None:
        """Tell ``notice`` of every change; ``index`` says what :meth:`indexed` finds an object by."""
        self.kind = kind
        self._api = api
        self._notice = notice
        self._index = index
        self._objects: dict[Key, Object] = {}
        self._indexed: dict[str, dict[Key, Object]] = {}
        self.synced = asyncio.Event()

    def __iter__(self) -> Iterator[Object]:
        return iter(list(self._objects.values()))

    def get(self, key: Key) -> Object | None:
        """The object of that namespace and name."""
        return self._objects.get(key)

    def indexed(self, value: str) -> list[Object]:
        """The objects whose index is ``value``."""
        return list(self._indexed.get(value, {}).values())

    async def follow(self) -> None:
        """Stay up to date until cancelled."""
        while True:
            answer = await self._api.list(self.kind)
            self._replace(answer.items)
            self.synced.set()
            try:
                async with aclosing(self._api.watch(self.kind, resource_version=answer.resource_version)) as events:
                    async for event in events:
                        if event.type == "DELETED":
                            self._forget(event.object)
                        else:
                            self.saw(event.object)
            except StatusError as error:
                if error.code != _GONE:
                    raise

    def saw(self, obj: Object) -> None:
        """Take a state from the watch, or the answer to an own write, which comes earlier; older ones are ignored."""
        key = key_of(obj)
        known = self._objects.get(key)
        if known is not None and int(resource_version(known)) >= int(resource_version(obj)):
            return
        if known is not None and known["metadata"]["uid"] != obj["metadata"]["uid"]:
            self._forget(known)
        self._objects[key] = obj
        self._reindex(key, known, obj)
        self._notice(obj)

    def _replace(self, objects: list[Object]) -> None:
        there = {obj["metadata"]["uid"] for obj in objects}
        for known in self:
            if known["metadata"]["uid"] not in there:
                self._forget(known)
        for obj in objects:
            self.saw(obj)

    def _forget(self, obj: Object) -> None:
        key = key_of(obj)
        known = self._objects.get(key)
        if known is not None and known["metadata"]["uid"] == obj["metadata"]["uid"]:
            del self._objects[key]
            self._reindex(key, known, None)
            self._notice(obj)

    def _reindex(self, key: Key, old: Object | None, new: Object | None) -> None:
        if self._index is None:
            return
        before = self._index(old) if old is not None else None
        after = self._index(new) if new is not None else None
        if before is not None and before != after:
            entries = self._indexed[before]
            entries.pop(key, None)
            if not entries:
                del self._indexed[before]
        if after is not None and new is not None:
            self._indexed.setdefault(after, {})[key] = new
