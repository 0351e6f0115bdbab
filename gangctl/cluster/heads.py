"""The heads of StrictFIFO queues: thousands may wait behind one, and to find it sorts them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from gangctl.kueue.objects import ClusterQueue, QueuedWorkload
from gangctl.kueue.queues import Head, find_head, is_queued

if TYPE_CHECKING:
    from gangctl.cluster.queues import Queues

HEAD_SECONDS: Final = 5.0
"""How long a head is cached, unless its Workload changes, or one comes that goes before it."""


class Heads:
    """Found from ``queues`` at ``now()`` and cached."""

    def __init__(self, queues: Queues, now: Callable[[], datetime]) -> None:
        """Find nothing yet."""
        self._queues = queues
        self._now = now
        self._cached: dict[str, tuple[datetime, Head | None]] = {}
        self._listeners: list[Callable[[str], None]] = []

    def subscribe(self, on_change: Callable[[str], None]) -> None:
        """Call ``on_change`` with the name of each ClusterQueue whose Workloads wait for another reason than before."""
        self._listeners.append(on_change)

    def of(self, queue: ClusterQueue, now: datetime | None = None) -> Head | None:
        """The head of a queue; None for another strategy, and where nothing waits."""
        now = now or self._now()
        until, known = self._cached.get(queue.name, (None, None))
        if until is not None and now < until:
            return known
        return self._find(queue, now)

    def forget(self, queue: str) -> None:
        """Find the head of a queue again when it is asked for: the queue, or one that leads to it, has changed."""
        self._cached.pop(queue, None)

    def changed(self, workload: QueuedWorkload) -> None:
        """Find the head of its queue again if it was it, or may be now: those behind have no change of their own."""
        name = workload.cluster_queue or self._queues.cluster_queue_of((workload.namespace, workload.queue))
        queue = self._queues.cluster_queue(name)
        if name not in self._cached or queue is None:
            return
        _, head = self._cached[name]
        was = head is not None and head.workload.uid == workload.uid
        if was or (is_queued(workload) and (head is None or not head.precedes(workload))):
            self._find(queue, self._now())

    def _find(self, queue: ClusterQueue, now: datetime) -> Head | None:
        head = find_head(queue, self._tried(queue), now)
        _, known = self._cached.get(queue.name, (None, head))
        self._cached[queue.name] = now + timedelta(seconds=HEAD_SECONDS), head
        if _reason(known) != _reason(head):
            for listener in self._listeners:
                listener(queue.name)
        return head

    def _tried(self, queue: ClusterQueue) -> list[QueuedWorkload]:
        """Workloads in a ClusterQueue, without those of stopped LocalQueues, which Kueue does not try."""

        def is_open(workload: QueuedWorkload) -> bool:
            local_queue = self._queues.local_queue(workload.namespace, workload.queue)
            return local_queue is not None and local_queue.stop_policy == "None"

        return [workload for workload in self._queues.inside(queue.name) if is_open(workload)]


def _reason(head: Head | None) -> tuple[str, bool] | None:
    """What those behind a head wait for: which it is, and whether it blocks them."""
    return None if head is None else (head.workload.uid, head.effect("", joined=True) is not None)
