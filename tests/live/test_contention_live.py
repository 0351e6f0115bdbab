"""Two JobSets that would strand each other no longer do: with the real scheduler, with and without gangctl."""

from __future__ import annotations

import pytest

from tests.controlplane.components.addon import remove_namespace
from tests.controlplane.plane import ControlPlane
from tests.live.contention import JOBSETS, contend
from tests.live.fixtures import place_for
from tests.live.gangctl import Gangctl


@pytest.mark.timeout(1500)  # a gang that did not fit may be tried again after five minutes
async def test_pods_are_stranded_without_gangctl_and_never_with_it(plane: ControlPlane, running: Gangctl) -> None:
    places = [await place_for(plane, name) for name in ("without", "with")]
    await running.process.stop()
    try:
        without = await contend(places[0], gangs=False)
    finally:
        await running.process.start()
    assert without.stranded > 0, without
    # The scheduler of 1.35 retries gangs after five minutes, and they can hold each other's nodes for another five.
    to_the_end = plane.minor.name != "1.35"
    with_gangs = await contend(places[1], gangs=True, to_the_end=to_the_end)
    assert (with_gangs.stranded, with_gangs.finished) == (0, JOBSETS if to_the_end else 0), with_gangs
    for place in places:
        await remove_namespace(plane.api, place.namespace)
