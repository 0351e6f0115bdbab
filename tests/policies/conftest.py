import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.controlplane.plane import ControlPlane
from tests.policies.native import install
from tests.policies.pack import native


@pytest.fixture(scope="session")
def plane_of_the_pack() -> Iterator[ControlPlane]:
    """A control plane with every native policy of the pack; its own, for their JobSets' namespaces have plain names."""

    async def start() -> ControlPlane:
        plane = await ControlPlane.start("1.37", ("jobset",))
        try:
            await install(plane.api, tuple(native()))
        except BaseException:
            await plane.close()
            raise
        return plane

    with ThreadPoolExecutor(max_workers=1) as executor:
        plane = executor.submit(asyncio.run, start()).result()
        yield plane
        executor.submit(asyncio.run, plane.close()).result()
