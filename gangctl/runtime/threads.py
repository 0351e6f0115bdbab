"""Runs pure work that is too long for the event loop in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

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
