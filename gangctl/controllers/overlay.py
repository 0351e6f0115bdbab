"""Own writes, remembered until the informer has seen them.

Between a write and its watch event the cache is behind; a reconcile in that gap would
write again. The overlay lays what gangctl's own writes returned over what the cache says,
and forgets an entry as soon as the cache has caught up, or after a while at the latest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from gangctl.api.scheduling import Observed
from gangctl.gang.diff import Kind

TTL_SECONDS = 30.0
Key = tuple[Kind, str, str]


@dataclass(frozen=True, slots=True)
class _Entry:
    observed: Observed
    expires: float


def _version(observed: Observed) -> int:
    """ResourceVersions of one resource grow (guaranteed to be comparable since Kubernetes 1.35)."""
    return int(observed.resource_version) if observed.resource_version.isdigit() else 0


class Overlay:
    """Objects as gangctl's last write left them, by kind, namespace and name."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Use ``clock`` (monotonic seconds) for expiry."""
        self._clock = clock
        self._entries: dict[Key, _Entry] = {}

    def wrote(self, kind: Kind, observed: Observed) -> None:
        """Remember what a create or patch returned."""
        entry = _Entry(observed, self._clock() + TTL_SECONDS)
        self._entries[kind, observed.namespace, observed.name] = entry

    def deleted(self, kind: Kind, observed: Observed) -> None:
        """Remember that a delete was accepted."""
        self.wrote(kind, replace(observed, deleting=True))

    def saw(self, kind: Kind, namespace: str, name: str, new: Observed | None) -> None:
        """Hear from the informer: a deletion, or the object at some version, settles older entries."""
        entry = self._entries.get((kind, namespace, name))
        if entry is None:
            return
        newer = new is not None and _version(new) >= _version(entry.observed)
        if new is None or (newer and (new.deleting or not entry.observed.deleting)):
            del self._entries[kind, namespace, name]

    def view(self, kind: Kind, namespace: str, name: str, cached: Observed | None) -> Observed | None:
        """The later of what the cache holds and what was written."""
        key = (kind, namespace, name)
        entry = self._entries.get(key)
        if entry is None:
            return cached
        if entry.expires < self._clock():
            del self._entries[key]
            return cached
        if cached is not None and cached.uid != entry.observed.uid and _version(cached) > _version(entry.observed):
            return cached
        return entry.observed

    def clear(self) -> None:
        """Forget everything: the cluster serves another generation now."""
        self._entries.clear()

    def of_owner(self, kind: Kind, uid: str) -> Iterator[Observed]:
        """Remembered objects that a JobSet controls."""
        for (entry_kind, _, _), entry in list(self._entries.items()):
            if entry_kind == kind and entry.observed.owner_uid == uid:
                yield entry.observed
