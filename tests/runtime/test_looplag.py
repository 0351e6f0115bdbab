"""What keeps the event loop busy shows as lateness."""

from __future__ import annotations

import asyncio

import pytest

from gangctl.manager.metrics import measure_lag
from tests.client.clock import VirtualClock, settle


async def test_the_lag_of_the_event_loop_is_measured(clock: VirtualClock) -> None:
    reported: list[float] = []
    task = asyncio.create_task(measure_lag(reported.append, period_seconds=1, clock=clock))
    await clock.advance(2)
    assert reported == [0, 0]
    # No other task runs while the clock ticks.
    clock.tick(3)
    await settle()
    assert reported[2:] == [pytest.approx(2)]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
