"""The worlds: a table, and a generator for more."""

from __future__ import annotations

from typing import Final

from tests.search.world import ReplicatedJob, World

FAST: Final = frozenset({"jobset", "job", "kubelet", "gc", "watch"})
TABLE: Final = (
    World("one-gang", (ReplicatedJob("w", 1, 2, 2),), steps={"pod.succeeds": 2, "user.suspend": 1}, eager=FAST),
)
