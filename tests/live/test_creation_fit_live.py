"""What a fit says where the API server may refuse to create pods is what it does: random namespaces, by seed."""

from __future__ import annotations

import pytest

from tests.live.creationground import Outcome, outcomes
from tests.live.creationworlds import PLAYED, world
from tests.live.verdicttable import check

pytestmark = pytest.mark.controlplane

FULL = range(3000, 5000)
SHARD = 500
"""Worlds on one plane."""


async def test_fits_where_pods_are_refused_are_right() -> None:
    check(await outcomes([world(seed) for seed in PLAYED]))


@pytest.mark.full("a search")
@pytest.mark.timeout(3600)
async def test_fits_of_many_gangs_where_pods_are_refused_are_right() -> None:
    found: list[Outcome] = []
    for first in range(FULL.start, FULL.stop, SHARD):
        found += await outcomes([world(seed) for seed in range(first, first + SHARD)])
    check(found)
