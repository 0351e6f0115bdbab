"""The namespaces that have JobSets, of those that this replica looks after: pods are followed in these alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from gangctl.api.jobset import JobSet
from gangctl.runtime.informer import Informer
from gangctl.runtime.shards import Share


class InhabitedNamespaces:
    """Hears of JobSets from the moment it is made."""

    def __init__(self, jobsets: Informer[JobSet], share: Share) -> None:
        """Count those of ``jobsets``."""
        self._share = share
        self._jobsets: Counter[str] = Counter()
        self._on_change: list[Callable[[], None]] = []
        jobsets.subscribe(self._count)

    def current(self) -> list[str]:
        """Their names at the moment."""
        return [namespace for namespace in self._jobsets if self._share.holds(namespace)]

    def subscribe(self, on_change: Callable[[], None]) -> None:
        """Call this when one gets its first JobSet, or has lost its last."""
        self._on_change.append(on_change)

    def _count(self, old: JobSet | None, new: JobSet | None) -> None:
        jobset = new or old
        if jobset is None or (old is not None and new is not None):
            return
        namespace = jobset.namespace
        self._jobsets[namespace] += 1 if new is not None else -1
        if not self._jobsets[namespace]:
            del self._jobsets[namespace]
        elif self._jobsets[namespace] > 1 or new is None:
            return
        for call in self._on_change:
            call()
