"""Where pure work is done: at once, or in a thread beside the event loop."""

from __future__ import annotations

import threading

import pytest

from gangctl.runtime.threads import AT_ONCE, computed
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
