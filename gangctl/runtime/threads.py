"""Long work beside the event loop, which answers webhooks: in a thread, or a part at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

AT_ONCE: Final = 1000
"""Up to this many items are processed inline: some ten microseconds each."""


async def computed(items: int, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """``function(*args)``, in a thread where there are more items than :data:`AT_ONCE`.

    Meanwhile Python switches to the event loop every five milliseconds (``sys.getswitchinterval``). The function must
    not read data that others change.
    """
    if items <= AT_ONCE:
        return function(*args, **kwargs)
    return await asyncio.to_thread(function, *args, **kwargs)


async def in_parts(items: Iterable[T], function: Callable[[T], object]) -> None:
    """``function(item)`` for all items; other tasks run after each :data:`AT_ONCE` of them.

    What they change meanwhile does not change the items.
    """
    for number, item in enumerate(list(items), 1):
        function(item)
        if number % AT_ONCE == 0:
            await asyncio.sleep(0)
