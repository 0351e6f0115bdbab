"""What a lane does: reviews and lessons that stand in its line, a policy's turn, and how that may end."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from gangctl.client.pacing import Timer
from gangctl.judge.hearing import Hearing
from gangctl.judge.policyset import Docket, Entry
from gangctl.runtime.workerprocess import Exit


@dataclass(eq=False)
class Work:
    """Some policies of a review; ``left`` gets shorter as they speak.

    ``unread`` counts the workers that ended before they had read the review. ``relieved``
    tells that others do the rest, because one policy keeps the worker.
    """

    hearing: Hearing
    left: deque[Entry]
    unread: int = 0
    relieved: bool = False

    @property
    def over(self) -> bool:
        """Whether nobody waits for it any more."""
        return self.hearing.over


@dataclass(eq=False)
class Teaching:
    """A docket that workers should know before they are asked; ``replaced`` tells whether there is another by now.

    ``done`` is set when a worker knows all of it that can be taught.
    """

    docket: Docket
    replaced: Callable[[Docket], bool]
    done: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def over(self) -> bool:
        """Whether it is of no use any more."""
        return self.replaced(self.docket)


@dataclass
class Turn:
    """A policy's turn: times of the clock and CPU seconds, at its beginning and spent."""

    entry: Entry
    began: float
    cpu: float
    spent: float = 0.0
    timer: Timer | None = None

    def over(self) -> None:
        """Look no more."""
        if self.timer is not None:
            self.timer.cancel()


class Ended(Exception):  # noqa: N818 - it states what happened
    """A worker ended: at which policy (None: before any), how (None: it cannot load it), after how many CPU seconds."""

    def __init__(self, entry: Entry | None, ended: Exit | None, seconds: float) -> None:
        """Keep the parts."""
        super().__init__("a worker ended")
        self.entry = entry
        self.exit = ended
        self.seconds = seconds
