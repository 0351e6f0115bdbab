"""The table of what was said of worlds and what happened in them."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import Final, Protocol

from gangctl.fit.report import FitReport

_UNKNOWN: Final = 0.1


class World(Protocol):
    """One that a generator made."""

    @property
    def seed(self) -> int:
        """By which it can be made again."""


class Outcome(Protocol):
    """What was said of a world, and what happened."""

    @property
    def world(self) -> World:
        """With its seed."""

    @property
    def report(self) -> FitReport:
        """What was said."""

    @property
    def kind(self) -> str:
        """The cell of the table."""

    @property
    def wrong(self) -> bool:
        """Whether the verdict is false."""


def check(outcomes: Sequence[Outcome], most_unknown: float = _UNKNOWN) -> None:
    """Show the table and each world with a false verdict: there is none, and at most this share is unknown."""
    table = Counter(outcome.kind for outcome in outcomes)
    unknown = sum(outcome.report["verdict"] == "unknown" for outcome in outcomes)
    wrong = [outcome for outcome in outcomes if outcome.wrong]
    lines = [f"{kind:24} {count}" for kind, count in sorted(table.items())]
    sys.stdout.write("\n".join(["", *lines, *map(str, wrong), ""]))
    assert [outcome.world.seed for outcome in wrong] == [], "false verdicts"
    assert unknown <= most_unknown * len(outcomes)
