"""JobSets that restart again and again: the times of their last restarts, as far as this process has seen them.

A restart that is followed by days of work is normal, and the JobSet's status has only their number.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from typing import Final

from gangctl.api.objects import Key
from gangctl.readiness.metrics import Queue, queue_of
from gangctl.readiness.result import Readiness

MANY: Final = 3
"""So many restarts of one JobSet, or of one of its Jobs (RestartJob), within :data:`WITHIN` seconds are a loop."""
WITHIN: Final = 7200.0


_Restarted = tuple[int, int] | None
"""A Job, by the place of its ReplicatedJob and its index; None is the whole JobSet."""


class RestartLog:
    """The last :data:`MANY` restarts of each JobSet that is not over, and of each of its Jobs."""

    def __init__(self) -> None:
        """Start without any."""
        self._times: dict[Key, tuple[Queue, dict[_Restarted, deque[float]]]] = {}

    def stands(self, before: Readiness | None, now: Readiness | None, at: float) -> bool:
        """Take a JobSet's new readiness; returns whether it has restarted. ``at`` is in seconds of a steady clock."""
        if now is None or now.phase.over:
            if (stated := now or before) is not None:
                self._times.pop(stated.key, None)
            return False
        _, times = self._times.pop(now.key, None) or (None, {})
        # Another UID is another JobSet of the name.
        if before is None or before.uid != now.uid:
            return False
        restarted = list(_restarted(before, now))
        for what in restarted:
            times.setdefault(what, deque(maxlen=MANY)).append(at)
        if times:
            # In its queue of now: it may have been moved.
            self._times[now.key] = queue_of(now), times
        return bool(restarted)

    def loops(self, now: float) -> Mapping[Queue, int]:
        """JobSets in a loop, by queue."""
        return Counter(
            queue
            for queue, times in self._times.values()
            if any(len(last) == MANY and now - last[0] <= WITHIN for last in times.values())
        )


def _restarted(before: Readiness, now: Readiness) -> Iterator[_Restarted]:
    """What has restarted: the JobSet, or some of its Jobs alone."""
    if before.attempt < now.attempt:
        yield None
    if before.job_restarts == now.job_restarts:
        return
    for place, counts in enumerate(now.job_restarts):
        known = before.job_restarts[place] if place < len(before.job_restarts) else ()
        for index, count in enumerate(counts):
            if count > (known[index] if index < len(known) else 0):
                yield place, index
