"""What a fit says where pods and nodes have what they rarely have is what kube-scheduler does: by seed."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.controlplane.plane import ControlPlane
from tests.live.detailedground import DetailedGround
from tests.live.detailedworlds import PLAYED, world
from tests.live.nodeground import Outcome, outcomes
from tests.live.verdicttable import check

pytestmark = pytest.mark.controlplane

FULL = range(1000, 1500)


async def played(seeds: Iterable[int]) -> list[Outcome]:
    """What happens in these worlds, on a plane of their own."""
    async with ControlPlane.start("1.37", (), controller_manager=False, audit=False) as plane:
        return await outcomes(plane, map(world, seeds), ground=DetailedGround)


async def test_fits_of_gangs_with_rare_details_are_right() -> None:
    check(await played(PLAYED))


@pytest.mark.full("a search")
@pytest.mark.timeout(3600)
async def test_fits_of_many_gangs_with_rare_details_are_right() -> None:
    check(await played(FULL))
