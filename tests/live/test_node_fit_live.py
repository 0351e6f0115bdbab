"""What a fit with fixed nodes says of a gang is what kube-scheduler does: random small clusters, by seed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from tests.controlplane.plane import ControlPlane, Starting
from tests.live.gangctl import shared
from tests.live.nodeground import AT_ONCE, Outcome, outcomes
from tests.live.nodeworlds import NodeWorld, with_gangs, with_minimum, world
from tests.live.verdicttable import check

pytestmark = pytest.mark.controlplane

FIRST = range(40)
FULL = range(1000, 1500)
SEVERAL = range(4000, 4020)
MINIMA = range(4020, 4040)
"""Other seeds: a world's namespace has the name of its seed, and stays."""
MANY = range(4000, 4500)
MIXED = 0.25
"""Of different pods it is not known which ones the scheduler places: such gangs have no verdict."""


def start() -> Starting:
    gates = {"TopologyAwareWorkloadScheduling": True}
    return ControlPlane.start("1.37", (), controller_manager=False, audit=False, gates=gates)


@pytest.fixture(scope="module")
def scheduling() -> Iterator[ControlPlane]:
    """A plane for worlds one after the other, of which no nodes and pods are left."""

    async def started() -> ControlPlane:
        return await start()

    yield from shared(started)


async def played(worlds: Iterable[NodeWorld], at_once: int = AT_ONCE) -> list[Outcome]:
    """What happens in these worlds, on a plane of their own."""
    async with start() as plane:
        return await outcomes(plane, worlds, at_once)


async def test_fits_of_random_clusters_are_right(scheduling: ControlPlane) -> None:
    check(await outcomes(scheduling, map(world, FIRST)))


async def test_fits_of_several_gangs_and_of_gangs_in_one_domain_are_right(scheduling: ControlPlane) -> None:
    # A domain has the nodes of all worlds that are there.
    check(await outcomes(scheduling, (with_gangs(world(seed)) for seed in SEVERAL), 1))


async def test_fits_of_gangs_that_start_with_fewer_pods_are_right(scheduling: ControlPlane) -> None:
    check(await outcomes(scheduling, (with_minimum(world(seed)) for seed in MINIMA)), MIXED)


@pytest.mark.full("a search")
@pytest.mark.timeout(3600)
async def test_fits_of_many_random_clusters_are_right() -> None:
    check(await played(map(world, FULL)))


@pytest.mark.full("a search")
@pytest.mark.timeout(3600)
async def test_fits_of_several_gangs_in_many_clusters_are_right() -> None:
    check(await played((with_gangs(world(seed)) for seed in MANY), 1))


@pytest.mark.full("a search")
@pytest.mark.timeout(3600)
async def test_fits_of_gangs_with_fewer_pods_in_many_clusters_are_right() -> None:
    check(await played(with_minimum(world(seed)) for seed in MANY), MIXED)
