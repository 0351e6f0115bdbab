"""Own writes, remembered until the informer has seen them.

Between a write and its watch event the cache is behind; a reconcile in that gap would
write again. The overlay lays what gangctl's own writes returned over what the cache says,
and forgets an entry as soon as the cache has caught up, or after a while at the latest.
"""

from __future__ import annotations

from collections.abc import Callable
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


def _supersedes(cached: Observed, written: Observed) -> bool:
    """Whether the cache is past a write; an accepted delete is only past when the cache shows it."""
    if _version(cached) < _version(written):
        return False
    return cached.uid != written.uid or cached.deleting or not written.deleting


class Overlay:
    """Objects as gangctl's last write left them, by kind, namespace and name.

    A watch event may overtake the answer to the write that caused it, so deletions that
    the informer has told are remembered for a while too.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """Use ``clock`` (monotonic seconds) for expiry."""
        self._clock = clock
        self._entries: dict[Key, _Entry] = {}
        self._gone: dict[str, float] = {}
        """UIDs of deleted objects, oldest first, and until when they are remembered."""

    def wrote(self, kind: Kind, observed: Observed) -> None:
        """Remember what a create or patch returned."""
        key: Key = (kind, observed.namespace, observed.name)
        if observed.uid in self._gone:
            self._entries.pop(key, None)
        else:
            self._entries[key] = _Entry(observed, self._clock() + TTL_SECONDS)

    def deleted(self, kind: Kind, observed: Observed) -> None:
        """Remember that a delete was accepted."""
        self.wrote(kind, replace(observed, deleting=True))

    def saw(self, kind: Kind, old: Observed | None, new: Observed | None) -> None:
        """Hear from the informer: a deletion, or the object at some version, settles older entries."""
        if new is not None:
            self.view(kind, new.namespace, new.name, new)
        elif old is not None:
            self._remember_gone(old.uid)
            entry = self._entries.get((kind, old.namespace, old.name))
            if entry is not None and entry.observed.uid == old.uid:
                del self._entries[kind, old.namespace, old.name]

    def view(self, kind: Kind, namespace: str, name: str, cached: Observed | None) -> Observed | None:
        """The later of what the cache holds and what was written."""
        key = (kind, namespace, name)
        entry = self._entries.get(key)
        if entry is None:
            return cached
        if entry.expires < self._clock() or (cached is not None and _supersedes(cached, entry.observed)):
            del self._entries[key]
            return cached
        return entry.observed

    def _remember_gone(self, uid: str) -> None:
        now = self._clock()
        while self._gone and next(iter(self._gone.values())) < now:
            del self._gone[next(iter(self._gone))]
        self._gone[uid] = now + TTL_SECONDS

    def clear(self) -> None:
        """Forget everything: the cluster serves another generation now."""
        self._entries.clear()

    def written(self, kind: Kind) -> list[Observed]:
        """The objects of a kind that are remembered now."""
        return [entry.observed for (each, _, _), entry in self._entries.items() if each == kind]
