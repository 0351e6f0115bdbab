"""What ``gangctl why`` advises starts the gang, once it is done: random small clusters, by seed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.controlplane.plane import ControlPlane
from tests.live.nodeground import said
from tests.live.nodeworlds import world
from tests.live.whyground import Cure, check, cures

pytestmark = pytest.mark.controlplane

FIRST = range(2000, 2060)
FULL = range(3000, 3500)


async def played(seeds: Sequence[int], directory: Path) -> list[Cure]:
    """What comes of the advice in these worlds, on a plane of their own."""
    async with ControlPlane.start("1.37", (), controller_manager=False, audit=False) as plane:
        return await cures(plane, seeds, directory)


async def test_what_is_advised_helps(tmp_path: Path) -> None:
    # In the others the gang starts at once: test_node_fit_live plays such worlds.
    check(await played([seed for seed in FIRST if said(world(seed))["verdict"] != "fits"], tmp_path))


@pytest.mark.full("a search")
@pytest.mark.timeout(3600)
async def test_what_is_advised_helps_in_many_worlds(tmp_path: Path) -> None:
    check(await played(FULL, tmp_path))
