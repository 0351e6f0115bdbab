"""Pure work that is too long for the event loop, in a thread beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

AT_ONCE: Final = 1000
"""Items that are worked through at once: some ten microseconds each."""


async def computed(items: int, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """``function(*args)``, in a thread where there are more items than :data:`AT_ONCE`.

    Python gives the event loop its turn every five milliseconds meanwhile (``sys.getswitchinterval``). The function
    may look at nothing that others change.
    """
    if items <= AT_ONCE:
        return function(*args, **kwargs)
    return await asyncio.to_thread(function, *args, **kwargs)
