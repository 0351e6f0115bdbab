"""How a judge works, and who is told about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gangctl.policy.cel.meter import POLICY_SECONDS, REQUEST_SECONDS
from gangctl.runtime.workers import WorkersObserver

Lane = Literal["inline", "fast", "slow"]
"""Where a policy is judged: on the event loop, or in a worker beside well-behaved or beside costly ones."""


@dataclass(frozen=True, slots=True)
class JudgeOptions:
    """Budgets in seconds, counts and bytes.

    ``minor`` is whose CEL counts for native policies.
    ``inline_seconds`` is what one review may take of the event loop, measured while it is judged.
    A review takes ``request_seconds`` at most, whatever its policies
    do; what these may take is CPU time, so that no verdict depends on what else the machine does:
    ``policy_seconds`` each. One that keeps the fast lane for ``patience_seconds`` is killed there and gets the rest
    of its time in the slow lane. That is where from then on, for a while, it is judged; so are policies that took
    ``fair_seconds`` in the fast lane, and those whose bound is more than its patience. When one keeps the fast
    lane for ``impatience_seconds``, a worker of the reserve helps out, so that nobody waits for longer than that.

    ``workers`` processes judge in the fast lane, one in the slow lane; for each lane ``spares`` more are ready to
    take their places. With ``ahead`` they are started at once, otherwise when they are needed; ``ahead_seconds`` is
    how long policies wait for them to learn before they are in force. No more than
    ``waiting`` reviews wait for the fast lane, and ``waiting_each`` of each policy for the slow one.
    """

    minor: str = "1.37"
    inline_seconds: float = 0.004
    inline_text: int = 16 << 10
    impatience_seconds: float = 0.03
    fair_seconds: float = 0.1
    patience_seconds: float = 0.25
    policy_seconds: float = POLICY_SECONDS
    request_seconds: float = REQUEST_SECONDS
    lesson_seconds: float = 5.0
    ahead_seconds: float = 60.0
    workers: int = 1
    spares: int = 1
    ahead: bool = True
    waiting: int = 64
    waiting_each: int = 4
    memory_bytes: int = 512 << 20
    quarantine_seconds: float = 60.0
    quarantine_cap_seconds: float = 3600.0


class JudgeObserver(WorkersObserver):
    """Told what becomes of reviews; the default ignores it all."""

    def judged(self, policy: str, lane: Lane, seconds: float) -> None:
        """Tell of one policy and one review: how long it took without any waiting."""

    def killed(self, policy: str, lane: Lane, why: str) -> None:
        """Tell of one policy that ended its worker: time, memory or crash."""

    def refused(self, lane: Lane, why: str) -> None:
        """Tell of one policy without an answer for a review: full (too many waited) or late."""

    def waiting(self, lane: Lane, count: int) -> None:
        """Tell how many wait for a lane now."""
