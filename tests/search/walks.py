"""Random walks through a model of one gang: drawn by a seed, and shortened to what a violation needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from gangctl.gang.reasons import Reason
from gangctl.readiness.result import Readiness
from tests.search.mutants import Patch


class Walk(NamedTuple):
    """The seed of the first state, and what happens after it."""

    seed: int
    actions: tuple[str, ...]


@dataclass(frozen=True)
class Model:
    """What may happen, what is wrong on a walk, and what each mutant brings back."""

    actions: Sequence[str]
    violation: Callable[[Walk], str]
    """What is wrong on the way, or in the end; empty if nothing is."""
    mutants: Sequence[tuple[str, Patch]]

    def walk(self, seed: int) -> Walk:
        """A random one."""
        draw = Random(f"actions of {seed}")
        return Walk(seed, tuple(draw.choices(self.actions, k=draw.randint(2, 9))))

    def shortest(self, walk: Walk) -> Walk:
        """The walk without the actions that its violation does not need."""
        what = self.violation(walk)
        for number in reversed(range(len(walk.actions))):
            fewer = walk._replace(actions=(*walk.actions[:number], *walk.actions[number + 1 :]))
            walk = fewer if self.violation(fewer) == what else walk
        return walk

    def search(self, seeds: range) -> str:
        """The first violation, with its walk; empty if there is none."""
        bad = next((walk for walk in map(self.walk, seeds) if self.violation(walk)), None)
        return "" if bad is None else f"{self.violation(bad)}: {self.shortest(bad)}"


def blocking(readiness: Readiness) -> set[Reason]:
    """The reasons of its causes that block."""
    return {cause.reason for cause in readiness.causes if cause.blocking}
