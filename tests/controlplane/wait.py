"""Waiting for a condition, and an error message that says what was seen instead."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

HUNG_SECONDS = 300.0
"""After this long a condition counts as one that never comes; no test is about how long something takes."""

# One check and the pause after it count for no more: a machine that was suspended has done nothing meanwhile.
_COUNTED_SECONDS = 10.0
# Each check costs the components that are waited for: the pause grows to a tenth of what was waited, up to the longest.
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 0.5
_PAUSE_OF_WAITED = 0.1
_SHOWN = 4000


class NotYet(Exception):  # noqa: N818 - it is an answer, not an error
    """Raised by a condition that does not hold yet, to say what it saw."""


async def wait_for(
    condition: Callable[[], Awaitable[T]],
    what: str = "the condition",
    *,
    interval: float | None = None,
    hung: float = HUNG_SECONDS,
    tolerate: tuple[type[Exception], ...] = (),
) -> T:
    """
    Poll until the condition returns something truthy, and return that.

    A condition that raises NotYet (or a tolerated exception) counts as not holding. `hung` is no bound
    that a test is about, and only benchmarks choose it: a busy machine may take its time. The TimeoutError says what
    was seen last. Without an `interval` the pauses grow.
    """
    patient: tuple[type[Exception], ...] = (NotYet, *tolerate)
    waited = 0.0
    cause: Exception | None
    while True:
        began = time.monotonic()
        try:
            result = await condition()
        except patient as error:
            seen, cause = str(error) or type(error).__name__, error
        else:
            if result:
                return result
            seen, cause = repr(result), None
        if waited >= hung:
            raise TimeoutError(f"waited {hung:g} s for {what}; last seen: {seen}") from cause
        pause = _pause(waited) if interval is None else interval
        await asyncio.sleep(pause)
        waited += min(time.monotonic() - began, max(_COUNTED_SECONDS, 2 * pause))


def _pause(waited: float) -> float:
    return min(max(_FIRST_PAUSE, _PAUSE_OF_WAITED * waited), _LONGEST_PAUSE)


async def read_until(
    read: Callable[[], Awaitable[T]],
    holds: Callable[[T], object],
    what: str = "the condition",
    *,
    interval: float | None = None,
    tolerate: tuple[type[Exception], ...] = (),
) -> T:
    """Read again and again until what was read holds, and return it; the TimeoutError says what was read last."""

    async def condition() -> tuple[T]:
        value = await read()
        if not holds(value):
            raise NotYet(repr(value)[:_SHOWN])
        return (value,)

    (value,) = await wait_for(condition, what, interval=interval, tolerate=tolerate)
    return value


async def wait_until(look: Callable[[], T], what: str = "the condition", *, interval: float = 0.05) -> T:
    """Wait for something truthy that is here to be looked at: no request is needed for it."""

    async def condition() -> T:
        return look()

    return await wait_for(condition, what, interval=interval)
