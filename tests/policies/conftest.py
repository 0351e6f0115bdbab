import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pytest

from tests.controlplane.components.addon import create_crds
from tests.controlplane.plane import ControlPlane
from tests.manifests.files import MANIFESTS, one
from tests.policies.native import install
from tests.policies.pack import native

CRDS: Final = MANIFESTS / "policies" / "crds"


@pytest.fixture(scope="module")
def plane_of_the_pack() -> Iterator[ControlPlane]:
    """A control plane with every native policy; its own, for the pack's JobSets are in namespaces with plain names."""

    async def start() -> ControlPlane:
        plane = await ControlPlane.start("1.37", ("jobset",), scheduler=False)
        try:
            await create_crds(
                plane.api, [one(CRDS / name) for name in ("gangpolicies.yaml", "gangpolicyexceptions.yaml")]
            )
            await install(plane.api, tuple(native()))
        except BaseException:
            await plane.close()
            raise
        return plane

    with ThreadPoolExecutor(max_workers=1) as executor:
        plane = executor.submit(asyncio.run, start()).result()
        yield plane
        executor.submit(asyncio.run, plane.close()).result()
