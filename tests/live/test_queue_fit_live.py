"""What a fit says of a gang in a queue is what Kueue and kube-scheduler do: random small clusters, by seed."""

from __future__ import annotations

import pytest

from tests.live.queueground import Outcome, outcomes
from tests.live.verdicttable import check

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(3600)]

FIRST = range(5000, 5012)
FULL = range(6000, 6500)
SHARD = 25
"""Worlds on one plane."""


async def test_fits_in_queues_of_random_clusters_are_right() -> None:
    check(await outcomes(FIRST))


@pytest.mark.full("a search")
async def test_fits_in_queues_of_many_random_clusters_are_right() -> None:
    found: list[Outcome] = []
    for first in range(FULL.start, FULL.stop, SHARD):
        found += await outcomes(range(first, first + SHARD))
    check(found)
