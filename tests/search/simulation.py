"""The simulation: all of gangctl over the sandbox in virtual time, with users, pods and faults of a seed.

``play(draw(7))`` is one run, the same each time; what is wrong in the end, or on the way, is a :class:`Failure` with
the shortest list of actions that still shows it.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from tests.faults.world import world
from tests.sandbox.faults import Record
from tests.search.cluster import Cluster
from tests.search.draws import Plan, draw, summary
from tests.search.memory import run

_GATES: Final = {"RestartJob": True}


@dataclass
class Totals:
    """What a run leaves beside its result."""

    requests: list[Record] = field(default_factory=list)
    """To the API server, in order."""
    seconds: float = 0.0
    """On the clock of the simulation."""
    faults: int = 0


@dataclass(frozen=True)
class Failure:
    """What is wrong, and the actions that lead to it."""

    plan: Plan
    what: str

    def __str__(self) -> str:
        actions = "".join(f"\n        {action!r}," for action in self.plan.actions)
        plan = self.plan
        jobs = "".join(f"\n    {name}: {summary(raw)}" for name, raw in plan.manifests.items())
        where = f"seed {plan.seed}, Kubernetes {plan.minor}, room for {plan.room or 'all'}, {plan.operation}"
        return f"{where}: {self.what}{jobs}\n    replay({plan.seed}, [{actions}\n    ])"


def play(plan: Plan, totals: Totals | None = None) -> str:
    """What goes wrong when all of the plan is done; empty if nothing does."""
    with tempfile.TemporaryDirectory() as directory:
        return run(plan.seed, lambda: _play(plan, Path(directory), totals or Totals()))


async def _play(plan: Plan, directory: Path, totals: Totals) -> str:
    wrong = ""
    try:
        async with world(plan.minor, directory, gates=_GATES) as here:
            cluster = Cluster(here, directory, plan.manifests, plan.room, plan.operation)
            try:
                wrong = await _wrong(plan, cluster)
            finally:
                await cluster.replicas.close()
                totals.requests += here.sandbox.audit
                totals.seconds += asyncio.get_running_loop().time()
                totals.faults += cluster.faults
    except ExceptionGroup:
        # What ended the simulated controllers is raised again with the end of the world.
        if not wrong:
            raise
    return wrong


async def _wrong(plan: Plan, cluster: Cluster) -> str:
    await cluster.open()
    for action in plan.actions:
        if wrong := await cluster.perform(action):
            return wrong
    seen = cluster.inspection
    return await cluster.settle() or await seen.at_rest() or await seen.resync() or await seen.left()


def replay(seed: int, actions: Sequence[str]) -> str:
    """The same world with these actions; what is wrong, empty if nothing is."""
    return play(replace(draw(seed), actions=tuple(actions)))


def shrink(plan: Plan, what: str) -> Failure:
    """Leave out actions one at a time while something is still wrong."""
    position = len(plan.actions) - 1
    while position >= 0:
        shorter = replace(plan, actions=(*plan.actions[:position], *plan.actions[position + 1 :]))
        if wrong := play(shorter):
            plan, what = shorter, wrong
        position = min(position - 1, len(plan.actions) - 1)
    return Failure(plan, what)


def failures(seeds: Iterable[int], totals: Totals | None = None) -> Iterator[Failure]:
    """The seeds that fail, each with its shortest actions."""
    for seed in seeds:
        plan = draw(seed)
        if what := play(plan, totals):
            yield shrink(plan, what)
