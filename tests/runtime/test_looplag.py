"""What keeps the event loop busy shows as lateness."""

from __future__ import annotations

import asyncio

import pytest

from gangctl.manager.processmetrics import LoopLag
from tests.client.clock import VirtualClock, settle


async def test_it_tells_how_late_it_was_woken(clock: VirtualClock) -> None:
    told: list[float] = []
    task = asyncio.create_task(LoopLag(told.append, period_seconds=1, clock=clock).run())
    await clock.advance(2)
    assert told == [0, 0]
    # Nobody else runs while the clock ticks.
    clock.tick(3)
    await settle()
    assert told[2:] == [pytest.approx(2)]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
