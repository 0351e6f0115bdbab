"""With ``--namespace-selector`` gangctl leaves what is in other namespaces alone, and follows their labels."""

from __future__ import annotations

from functools import partial

import pytest

from tests.controlplane.api import path_of
from tests.controlplane.wait import read_until
from tests.jobsets import jobset, rj
from tests.live.cluster import Cluster
from tests.live.fixtures import place_for
from tests.live.gangctl import Gangctl
from tests.live.observe import gang_of, said

pytestmark = pytest.mark.controlplane

GANG = jobset("js", rj("w", 1, 1, 1), mode="Gang")
ASKED_LATER = jobset("later", rj("w", 1, 1, 1), mode="Gang")


async def label(cluster: Cluster, managed: str | None) -> None:
    """Set or remove the label by which gangctl serves a namespace."""
    patch = {"metadata": {"labels": {"gangctl.dev/managed": managed}}}
    await cluster.api.patch(path_of("v1", "namespaces", name=cluster.namespace), patch)


async def test_labels_decide_which_namespaces_are_served(bare: Cluster) -> None:
    other = await place_for(bare.plane, "other")
    await label(bare, "true")
    async with Gangctl(bare.plane, "--namespace-selector=gangctl.dev/managed=true") as gangctl:
        await bare.asked()
        await other.create_jobset(GANG)
        await bare.create_jobset(GANG)
        before = await gang_of(bare, "js")
        lost = partial(gangctl.metric, "gangctl_guarantee_lost_gangs", {"namespace": other.namespace})
        counted = partial(gangctl.metric, "gangctl_gangs")
        # The JobSet of the other namespace was created first: where this one is counted, that one was seen.
        await read_until(counted, lambda gangs: gangs > 0, "gangs to be counted")
        await gangctl.settle()
        assert await counted() == 1
        assert (await lost(), await other.reasons(), (await other.gangs()).names) == (0, [], set())

        await label(other, "true")
        event = await said(other, "NotGanged")
        assert "webhook was not asked" in event["note"]
        await read_until(lost, lambda gangs: gangs == 1, "the lost gang to be counted")
        await other.asked()
        await other.create_jobset(ASKED_LATER)
        await gang_of(other, "later")

        await label(other, None)
        await read_until(lost, lambda gangs: gangs == 0, "the lost gang to be counted no more")
        # What was made a gang stays one.
        await label(bare, None)
        for name in before.workloads:
            await bare.api.delete(bare.scheduling("workloads", name))
        after = await read_until(
            bare.gangs,
            lambda gangs: gangs.workloads.keys() == before.workloads.keys() and gangs.uids() != before.uids(),
            "its Workload to be made again",
        )
        assert after.references == before.references
