"""What a fit says of a gang in a queue is what Kueue and kube-scheduler do: random small clusters, by seed."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence

import pytest

from tests.live.queueground import Outcome, outcomes

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(3600)]

FIRST = range(5000, 5012)
FULL = range(6000, 6500)
SHARD = 25
"""Worlds on one plane."""
UNKNOWN = 0.1


def check(found: Sequence[Outcome]) -> None:
    """Show the table and each world with a false verdict."""
    table = Counter(outcome.kind for outcome in found)
    unknown = sum(outcome.report["verdict"] == "unknown" for outcome in found)
    wrong = [outcome for outcome in found if outcome.wrong]
    lines = [f"{kind:24} {count}" for kind, count in sorted(table.items())]
    sys.stdout.write("\n".join(["", *lines, *map(str, wrong), ""]))
    assert [outcome.world.seed for outcome in wrong] == [], "false verdicts"
    assert unknown <= UNKNOWN * len(found)


async def test_fits_in_queues_of_random_clusters_are_right() -> None:
    check(await outcomes(FIRST))


@pytest.mark.full("a search")
async def test_fits_in_queues_of_many_random_clusters_are_right() -> None:
    found: list[Outcome] = []
    for first in range(FULL.start, FULL.stop, SHARD):
        found += await outcomes(range(first, first + SHARD))
    check(found)
