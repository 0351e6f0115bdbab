"""A replay of two JobSets on a real control plane: what is lost is done again, and no work is left out."""

from __future__ import annotations

import pytest

from benchmarks.day.arms import ARMS
from benchmarks.day.figures import Kind, figures_of
from benchmarks.day.run import play
from benchmarks.day.windows import NODE_GPUS, Outage, Replay
from tests.benchmarks.day.replays import demand

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.timeout(1800),
    pytest.mark.full("it is a benchmark that it shows to work; gangs on lost nodes are in the restart tests"),
]

SECONDS = 600.0


@pytest.mark.parametrize("arm", ["gangctl", "gangctl-kueue", "gangctl-topology"])
async def test_jobsets_that_lose_their_node_are_done_in_the_end(arm: str) -> None:
    # One node has room for one of both. Seconds of the trace are a sixtieth of a second.
    demands = [demand(name, NODE_GPUS, hours=SECONDS / 3600) for name in ("first", "second")]
    outages = (Outage("node-0", 180.0, 240.0),)
    replay = Replay(tuple(demands), ("node-0",), 0, outages, 60.0)
    played = await play(ARMS[arm], replay)
    figures = figures_of(replay, played.events, played.end)
    assert figures.done == 2
    assert figures.makespan is not None
    assert {Kind.LOST, Kind.BACK} <= {event.kind for event in played.events}
    worked = figures.useful * NODE_GPUS * replay.seconds
    assert worked > 0.99 * 2 * SECONDS * NODE_GPUS
    assert all(wait.begun for wait in figures.waits)
    assert played.cpu["gangctl"] > 0
