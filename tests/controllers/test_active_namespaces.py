"""A namespace is active from its first JobSet to its last, if it is in the shard."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gangctl.api.jobset import JobSet
from gangctl.cluster.members import project_jobset
from gangctl.controllers.readiness.sources import ActiveNamespaces
from gangctl.runtime.informer import Handler
from gangctl.runtime.shards import Share
from tests.jobsets import jobset, rj

NAMES = st.sampled_from(["a", "b", "c", "d"])


class JobSets:
    """Delivers JobSets as an informer does."""

    def __init__(self) -> None:
        self.there: dict[tuple[str, str], JobSet] = {}
        self._handlers: list[Handler[JobSet]] = []

    def subscribe(self, on_change: Handler[JobSet]) -> None:
        self._handlers.append(on_change)

    def set(self, namespace: str, name: str, *, exists: bool) -> None:
        key = namespace, name
        old = self.there.pop(key, None)
        new = project_jobset(jobset(name, rj("w"), namespace=namespace, uid=name)) if exists else None
        if new is not None:
            self.there[key] = new
        if old is not None or new is not None:
            for handler in self._handlers:
                handler(old, new)


@given(st.lists(st.tuples(NAMES, NAMES, st.booleans())), st.integers(1, 3))
def test_active_namespaces_are_those_with_jobsets_of_the_shard(
    changes: list[tuple[str, str, bool]], total: int
) -> None:
    jobsets: Any = JobSets()
    share = Share(total)
    share.take(total - 1)
    found = ActiveNamespaces(jobsets, share)
    reported: list[set[str]] = []
    found.subscribe(lambda: reported.append(set(found.current())))
    last: set[str] = set()
    for namespace, name, exists in changes:
        jobsets.set(namespace, name, exists=exists)
        now = {each for each, _ in jobsets.there if share.holds(each)}
        assert set(found.current()) == now
        if now != last:
            assert reported[-1] == now, "its followers are notified"
        last = now
