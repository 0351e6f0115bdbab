"""Two JobSets that would strand each other no longer do: with the real scheduler, with and without gangctl."""

from __future__ import annotations

import pytest

from tests.controlplane.plane import ControlPlane
from tests.live.cluster import Cluster
from tests.live.contention import JOBSETS, contend
from tests.live.gangctl import Gangctl, create_namespaces

pytestmark = [pytest.mark.controlplane]


async def test_stranded_without_gangctl_and_never_with_it(
    plane: ControlPlane, running: Gangctl, namespace: str
) -> None:
    bare = f"{namespace}-bare"
    await create_namespaces(plane, [bare])
    await running.process.stop()
    try:
        without = await contend(Cluster(plane, bare), gangs=False)
    finally:
        await running.process.start()
    assert without.stranded > 0
    with_gangs = await contend(Cluster(plane, namespace), gangs=True)
    assert with_gangs.stranded == 0
    assert with_gangs.finished == JOBSETS
