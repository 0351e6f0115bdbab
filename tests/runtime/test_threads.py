"""Where pure work is done: at once, in a thread beside the event loop, or in parts."""

from __future__ import annotations

import asyncio
import threading

import pytest

from gangctl.runtime.controller import AT_ONCE, computed, in_parts
from tests.rows import each


def where() -> threading.Thread:
    return threading.current_thread()


async def test_small_work_runs_at_once_and_large_work_in_a_thread() -> None:
    assert await computed(AT_ONCE, where) is threading.current_thread()
    assert await computed(AT_ONCE + 1, where) is not threading.current_thread()


@each("items", [1, AT_ONCE + 1])
async def test_an_error_in_the_thread_is_raised_to_the_caller(items: int) -> None:
    def fails(value: str, *, more: str) -> None:
        raise ValueError(value + more)

    with pytest.raises(ValueError, match="ab"):
        await computed(items, fails, "a", more="b")


async def test_other_tasks_run_between_parts_and_may_change_what_the_items_are_from() -> None:
    numbers = dict.fromkeys(range(2 * AT_ONCE))
    seen: list[int | str] = []

    async def other() -> None:
        seen.append("other")
        numbers.clear()

    task = asyncio.create_task(other())
    await in_parts(numbers, seen.append)
    await task
    assert seen == [*range(AT_ONCE), "other", *range(AT_ONCE, 2 * AT_ONCE)]
