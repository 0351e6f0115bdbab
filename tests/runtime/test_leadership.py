"""Lost leadership is raised as LeadershipLostError, whatever tasks it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

import pytest

from gangctl.errors import LeadershipLostError
from gangctl.runtime.election import unwrapped_leadership_loss


async def _lose() -> None:
    raise LeadershipLostError("another one leads")


async def _fail() -> None:
    raise ValueError("something else")


async def _within() -> None:
    await _all(_lose())


async def _all(*works: Coroutine[None, None, None]) -> None:
    async with asyncio.TaskGroup() as group:
        for work in works:
            group.create_task(work)


async def test_tasks_that_end_with_leadership_raise_leadership_lost_alone() -> None:
    with pytest.raises(LeadershipLostError, match="another one leads"), unwrapped_leadership_loss():
        await _all(_within(), _lose())


async def test_another_error_beside_lost_leadership_is_not_hidden() -> None:
    with pytest.raises(ExceptionGroup) as raised, unwrapped_leadership_loss():
        await _all(_lose(), _fail())
    assert raised.value.subgroup(ValueError) is not None
