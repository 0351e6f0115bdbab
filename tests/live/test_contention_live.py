"""Two JobSets that would strand each other no longer do: with the real scheduler, with and without gangctl."""

from __future__ import annotations

import asyncio

import pytest

from tests.controlplane.minors import MINORS
from tests.controlplane.plane import ControlPlane
from tests.live.cluster import Cluster
from tests.live.contention import JOBSETS, Result, contend
from tests.live.gangctl import Gangctl, create_namespaces


async def _both_acts(minor: str) -> tuple[Result, Result]:
    async with ControlPlane.start(minor, ("jobset",)) as plane:
        await create_namespaces(plane, ["without", "with"])
        without = await contend(Cluster(plane, "without"), gangs=False)
        async with Gangctl(plane):
            return without, await contend(Cluster(plane, "with"), gangs=True)


@pytest.mark.controlplane
@pytest.mark.xdist_group("contention")
@pytest.mark.timeout(1500)  # the scheduler of 1.35 may wait for five minutes, more than once
async def test_stranded_without_gangctl_and_never_with_it() -> None:
    """On all minors at once, because it is mostly waiting."""
    results = await asyncio.gather(*(_both_acts(minor) for minor in MINORS))
    for minor, (without, with_gangs) in zip(MINORS, results, strict=True):
        assert without.stranded > 0, f"{minor}: {without}"
        assert with_gangs.stranded == 0, f"{minor}: {with_gangs}"
        assert with_gangs.finished == JOBSETS, f"{minor}: {with_gangs}"
