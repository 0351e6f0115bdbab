"""The facts of a JobSet in Kueue's queues: one function, for what the controller writes and what commands print."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from gangctl.kueue.blocked import Blocked
from gangctl.kueue.configuration import KueueConfiguration
from gangctl.kueue.objects import ClusterQueue, QueuedWorkload
from gangctl.kueue.order import head_of, in_order, is_queued
from gangctl.kueue.stuck import Stuck, effect_of_head

MOST_PODSETS: Final = 18
"""Podsets of a Workload since Kueue 0.19."""


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """State of a JobSet in Kueue; ``workload`` is None if Kueue has created none (yet)."""

    local_queue: str
    cluster_queue: str
    workload: QueuedWorkload | None = None
    blocked: Blocked | None = None
    stuck: Stuck | None = None
    never: str = ""
    """Why it can never be admitted, with the arithmetic; empty if unknown."""
    cluster: str = ""
    """The worker cluster on which MultiKueue runs it, or ran it; empty for none."""
    queues_known: bool = True
    """Whether ClusterQueues may be read."""


@dataclass(frozen=True, slots=True)
class Head:
    """The first Workload that waits in a StrictFIFO queue, at one time; ``behind`` are the others that wait."""

    workload: QueuedWorkload
    behind: int
    queue: ClusterQueue
    now: datetime

    def effect(
        self, reader: str | None, *, joined: bool = False, impossible: bool = False, kept: bool = False
    ) -> Stuck | None:
        """Its effect on those behind it, and on one that has ``joined``; None if it blocks none.

        ``reader`` is the namespace of the readers, None for those who may read all that the objects were read from.
        ``impossible`` is one that can never be admitted. ``kept`` texts have absolute times.
        """
        return effect_of_head(
            self.workload,
            self.behind + joined,
            self.queue,
            self.now,
            impossible=impossible,
            kept=kept,
            reader=reader,
        )

    def precedes(self, workload: QueuedWorkload) -> bool:
        """Whether Kueue tries it, and nothing else, before another Workload of its queue."""
        if workload.uid == self.workload.uid or not is_queued(workload):
            return False
        return head_of(in_order([self.workload, workload], self.queue), self.queue) is self.workload


def current(workloads: Iterable[QueuedWorkload]) -> QueuedWorkload | None:
    """The current one of Kueue's Workloads for one JobSet.

    One that has not finished before one that has, then one with quota, then the newest that is not being deleted.
    """

    def rank(workload: QueuedWorkload) -> tuple[bool, bool, bool, str, str]:
        finished, quota = workload.holds("Finished"), workload.holds("QuotaReserved")
        return not finished, quota, not workload.deleting, workload.created, workload.name

    return max(workloads, key=rank, default=None)


def pods_ready_seconds(configuration: KueueConfiguration, podset_limit: int | None) -> int | None:
    """The timeout of ``waitForPodsReady``; None if it is off or unknown."""
    ready = configuration.wait_for_pods_ready
    # It is on by default since 0.19, the first version that takes so many podsets.
    on = ready.on if ready.on is not None else podset_limit is not None and podset_limit >= MOST_PODSETS
    return ready.timeout if configuration.known and on else None


def find_head(queue: ClusterQueue, inside: Iterable[QueuedWorkload], now: datetime) -> Head | None:
    """The head of a StrictFIFO queue with these Workloads; None for another strategy, and where nothing waits."""
    if queue.strategy != "StrictFIFO":
        return None
    ordered = in_order(inside, queue)
    first = head_of(ordered, queue)
    return None if first is None else Head(first, len(ordered) - 1, queue, now)
