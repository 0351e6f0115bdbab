"""What the API server does not announce, and so is asked for again and again."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Final

import structlog

from gangctl.client.pacing import Backoff
from gangctl.errors import ApiError

PERIOD_SECONDS: Final = 30.0
_AGAIN_SECONDS: Final = 0.5

log = structlog.get_logger(__name__)


class Polling(ABC):
    """Checks periodically, and at once when :meth:`trigger` is called."""

    def __init__(self, what: str, period_seconds: float) -> None:
        """Do nothing yet; ``what`` is looked for, for the log."""
        self._what = what
        self._period = period_seconds
        self._trigger = asyncio.Event()
        self._trouble = ""

    def trigger(self) -> None:
        """Check now: there is a sign of a change."""
        self._trigger.set()

    async def run(self) -> None:
        """Check until cancelled; without an answer of the server nothing changes, and the next try comes soon.

        Of equal failures in a row only the first is logged.
        """
        again = Backoff(_AGAIN_SECONDS, self._period)
        while True:
            # Before the check: a trigger during it causes another one.
            self._trigger.clear()
            try:
                settled = await self._check()
                self._trouble = ""
            except ApiError as error:
                settled = False
                if str(error) != self._trouble:
                    log.warning("discovery failed", of=self._what, error=str(error), status=error.status)
                self._trouble = str(error)
            if settled:
                again.reset()
            pause = self._period if settled else min(again.next(), self._period)
            try:
                await asyncio.wait_for(self._trigger.wait(), pause)
            except TimeoutError:
                continue

    @abstractmethod
    async def _check(self) -> bool:
        """Look once; return whether the next look may wait for a period."""
