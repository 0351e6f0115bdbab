"""What ``gangctl why`` advises starts a gang that waits in a queue of Kueue: random small clusters, by seed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.live.queueward import cures
from tests.live.whyground import Cure, check

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(3600)]

FIRST = range(8000, 8010)
FULL = range(9000, 9500)
SHARD = 25
"""Worlds on one plane."""


async def test_what_is_advised_helps_in_queues(tmp_path: Path) -> None:
    check(await cures(FIRST, tmp_path))


@pytest.mark.full("a search")
async def test_what_is_advised_helps_in_queues_of_many_worlds(tmp_path: Path) -> None:
    found: list[Cure] = []
    for first in range(FULL.start, FULL.stop, SHARD):
        found += await cures(range(first, first + SHARD), tmp_path)
    check(found)
