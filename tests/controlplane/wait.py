"""Waiting for a condition with a deadline, and an error message that says what was seen instead."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

# A look and the pause after it count for no more, and for no more than a tenth of the time there is: a machine that
# stood still for a while has done nothing meanwhile. Pauses that the caller wants count.
_COUNTED_SECONDS = 10.0
_COUNTED_SHARE = 0.1


class NotYet(Exception):  # noqa: N818 - it is an answer, not an error
    """Raised by a condition that does not hold yet, to say what it saw."""


async def wait_for(
    condition: Callable[[], Awaitable[T]],
    timeout: float = 30,  # noqa: ASYNC109 - the deadline is part of the message
    what: str = "the condition",
    *,
    interval: float = 0.05,
    tolerate: tuple[type[Exception], ...] = (),
) -> T:
    """
    Poll until the condition returns something truthy, and return that.

    A condition that raises NotYet (or a tolerated exception) counts as not holding. The TimeoutError says what was
    seen last.
    """
    patient: tuple[type[Exception], ...] = (NotYet, *tolerate)
    most = min(_COUNTED_SECONDS, max(timeout * _COUNTED_SHARE, 2 * interval))
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
        if waited >= timeout:
            raise TimeoutError(f"waited {timeout:g} s for {what}; last seen: {seen}") from cause
        await asyncio.sleep(interval)
        waited += min(time.monotonic() - began, most)
