"""Two JobSets that would strand each other no longer do: with the real scheduler, with and without gangctl."""

from __future__ import annotations

import pytest

from tests.controlplane.minors import MINORS
from tests.controlplane.plane import ControlPlane
from tests.live.cluster import Cluster
from tests.live.contention import JOBSETS, contend
from tests.live.gangctl import Gangctl, create_namespaces

EACH_MINOR = [
    pytest.param(minor, marks=[pytest.mark.xdist_group(f"contention-{minor}"), pytest.mark.minor(minor)])
    for minor in MINORS
]


@pytest.mark.controlplane
@pytest.mark.timeout(1500)  # a gang that did not fit may be tried again after five minutes
@pytest.mark.parametrize("minor", EACH_MINOR)
async def test_pods_are_stranded_without_gangctl_and_never_with_it(minor: str) -> None:
    async with ControlPlane.start(minor, ("jobset",)) as plane:
        await create_namespaces(plane, ["without", "with"])
        without = await contend(Cluster(plane, "without"), gangs=False)
        assert without.stranded > 0, without
        # The scheduler of 1.35 retries gangs after five minutes, and they can hold each other's nodes for another five.
        to_the_end = minor != "1.35"
        async with Gangctl(plane):
            with_gangs = await contend(Cluster(plane, "with"), gangs=True, to_the_end=to_the_end)
        assert (with_gangs.stranded, with_gangs.finished) == (0, JOBSETS if to_the_end else 0), with_gangs
