"""JobSets that restart again and again: the times of their last restarts, as far as this process has seen them.

A restart that is followed by days of work is normal, and the JobSet's status has only their number.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from typing import Final

from gangctl.api.objects import Key
from gangctl.readiness.metrics import Queue, queue_of
from gangctl.readiness.result import Readiness

MANY: Final = 3
"""So many restarts of one JobSet within :data:`WITHIN` seconds are a loop."""
WITHIN: Final = 7200.0


class RestartLog:
    """The last :data:`MANY` restarts of each JobSet that is not over."""

    def __init__(self) -> None:
        """Start without any."""
        self._times: dict[Key, tuple[Queue, deque[float]]] = {}

    def stands(self, before: Readiness | None, now: Readiness | None, at: float) -> bool:
        """Take a JobSet's new readiness; returns whether it has restarted. ``at`` is in seconds of a steady clock."""
        if now is None or now.phase.over:
            if (stated := now or before) is not None:
                self._times.pop(stated.key, None)
            return False
        if before is None or before.uid != now.uid or before.attempt >= now.attempt:
            return False
        _, times = self._times.get(now.key) or (None, deque(maxlen=MANY))
        times.append(at)
        self._times[now.key] = queue_of(now), times
        return True

    def loops(self, now: float) -> Mapping[Queue, int]:
        """JobSets in a loop, by queue."""
        return Counter(
            queue for queue, times in self._times.values() if len(times) == MANY and now - times[0] <= WITHIN
        )
