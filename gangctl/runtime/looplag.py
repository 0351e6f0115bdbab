"""How late the event loop is: what keeps it busy keeps everybody waiting, webhooks first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gangctl.client.pacing import Clock

PERIOD_SECONDS: Final = 0.25


class LoopLag:
    """Asks to be woken every so often, and tells how much later it was."""

    def __init__(
        self, observe: Callable[[float], None], *, period_seconds: float = PERIOD_SECONDS, clock: Clock | None = None
    ) -> None:
        """``observe`` is told of each waking, in seconds."""
        self._observe = observe
        self._period = period_seconds
        self._clock = clock or Clock()

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            due = self._clock.now() + self._period
            await self._clock.sleep(self._period)
            self._observe(max(0.0, self._clock.now() - due))
