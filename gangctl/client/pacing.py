"""Clock, growing delays, and the client's own rate limit.

Everything that waits takes a :class:`Clock`, so tests run hours in no time.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, Protocol


class Timer(Protocol):
    """A callback that has not run yet."""

    def cancel(self) -> None:
        """Make sure it never runs."""


class Clock:
    """The event loop's monotonic clock, and the wall clock for output to users."""

    def now(self) -> float:
        """Monotonic seconds; only differences are meaningful."""
        return asyncio.get_running_loop().time()

    def wall(self) -> datetime:
        """Time of day, in UTC."""
        return datetime.now(UTC)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Run ``callback`` once, ``seconds`` from now."""
        return asyncio.get_running_loop().call_later(seconds, callback)

    async def sleep(self, seconds: float) -> None:
        """Return ``seconds`` from now, at once if that is not positive."""
        # Not ``asyncio.sleep``, which uses the loop's clock: a subclass replaces ``call_later`` alone.
        rung = asyncio.Event()
        timer = self.call_later(max(0.0, seconds), rung.set)
        try:
            await rung.wait()
        finally:
            timer.cancel()


def micro_time(moment: datetime) -> str:
    """Format as ``MicroTime`` of ``k8s.io/apimachinery``: RFC 3339 in UTC with six fractional digits."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


_JITTER: Final = 0.5


class Backoff:
    """Delays in seconds that double from ``base`` up to ``cap``, each shortened by a random part.

    The random part, at most half of the delay, keeps many clients that failed
    together from coming back together.
    """

    def __init__(self, base: float, cap: float, *, randomness: Callable[[], float] = random.random) -> None:
        """Start at ``base``; ``randomness`` returns numbers in [0, 1)."""
        self._base = base
        self._cap = cap
        self._randomness = randomness
        self.failures = 0

    def next(self) -> float:
        """Count one more failure and return the delay."""
        delay = backoff_delay(self.failures, self._base, self._cap)
        self.failures += 1
        return delay * (1 - _JITTER * self._randomness())

    def reset(self) -> None:
        """Start again at ``base``: something succeeded."""
        self.failures = 0


def backoff_delay(failures: int, base: float, cap: float) -> float:
    """Seconds to wait after ``failures`` earlier failures, before jitter."""
    # The exponent is bounded because 2.0**1024 overflows, and a key may fail for weeks.
    return float(min(cap, base * 2 ** min(failures, 64)))


class TokenBucket:
    """At most ``burst`` requests at once and ``qps`` per second over time, in order of arrival."""

    def __init__(self, qps: float, burst: int, clock: Clock) -> None:
        """Start full."""
        self._qps = qps
        self._burst = burst
        self._clock = clock
        self._tokens = float(burst)
        self._updated: float | None = None

    async def acquire(self, within: float = math.inf) -> bool:
        """Wait for a token; False at once, without one, where that takes longer than ``within`` seconds."""
        now = self._clock.now()
        elapsed = 0.0 if self._updated is None else now - self._updated
        self._updated = now
        # The balance may fall below zero: each waiter owes one token more than the one before it.
        self._tokens = min(float(self._burst), self._tokens + elapsed * self._qps) - 1
        if self._tokens >= 0:
            return True
        wait = -self._tokens / self._qps
        if wait > within:
            self._tokens += 1
            return False
        try:
            await self._clock.sleep(wait)
        except asyncio.CancelledError:
            self._tokens += 1
            raise
        return True
