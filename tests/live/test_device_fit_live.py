"""What a fit says of a gang whose pods claim devices is what kube-scheduler does: random small clusters, by seed."""

from __future__ import annotations

import pytest

from tests.controlplane.api import path_of
from tests.controlplane.plane import ControlPlane
from tests.live.deviceground import DeviceGround
from tests.live.deviceworlds import API_VERSION, CLASS, world
from tests.live.nodeground import Outcome, outcomes
from tests.live.verdicttable import check

pytestmark = pytest.mark.controlplane

FIRST = range(40)
FULL = range(1000, 1300)


async def played(seeds: range) -> list[Outcome]:
    """What happens in these worlds, on a plane of their own."""
    async with ControlPlane.start("1.37", (), controller_manager=False, audit=False) as plane:
        await plane.api.create(path_of(API_VERSION, "deviceclasses"), CLASS)
        return await outcomes(plane, map(world, seeds), 4, DeviceGround)


async def test_fits_of_gangs_with_devices_are_right() -> None:
    check(await played(FIRST))


@pytest.mark.full("a search")
@pytest.mark.timeout(3600)
async def test_fits_of_many_gangs_with_devices_are_right() -> None:
    check(await played(FULL))
