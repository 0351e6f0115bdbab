"""What a fit with fixed nodes says of a gang is what kube-scheduler does: random small clusters, by seed."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence

import pytest

from tests.controlplane.plane import ControlPlane
from tests.live.nodeground import Outcome, outcomes

pytestmark = pytest.mark.controlplane

FIRST = range(40)
FULL = range(1000, 1500)
UNKNOWN = 0.1


async def played(seeds: Sequence[int]) -> list[Outcome]:
    """What happens in these worlds, on a plane of their own."""
    async with ControlPlane.start("1.37", (), controller_manager=False, audit=False) as plane:
        return await outcomes(plane, seeds)


def check(found: Sequence[Outcome]) -> None:
    """Show the table and each world with a false verdict."""
    table = Counter(outcome.kind for outcome in found)
    unknown = sum(outcome.report["verdict"] == "unknown" for outcome in found)
    wrong = [outcome for outcome in found if outcome.wrong]
    lines = [f"{kind:24} {count}" for kind, count in sorted(table.items())]
    sys.stdout.write("\n".join(["", *lines, *map(str, wrong), ""]))
    assert [outcome.world.seed for outcome in wrong] == [], "false verdicts"
    assert unknown <= UNKNOWN * len(found)


async def test_fits_of_random_clusters_are_right() -> None:
    check(await played(FIRST))


@pytest.mark.full("a search")
@pytest.mark.timeout(3600)
async def test_fits_of_many_random_clusters_are_right() -> None:
    check(await played(FULL))
