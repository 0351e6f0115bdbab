"""Gangs that compete for two real nodes: without gangctl pods hold CPUs for JobSets that cannot start, with it none."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest

from tests.controlplane.api import Object
from tests.controlplane.components.jobset import JOBSET_NAME
from tests.controlplane.wait import NotYet, wait_for
from tests.live.cluster import Cluster
from tests.live.placing import nothing_to_place
from tests.node.base import base
from tests.node.cluster import RealCluster, example

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.full("real nodes take minutes"),
    pytest.mark.xdist_group("real-node"),
]

JOBSETS = ("one", "two", "three")
WORKERS = 4
SLOTS = 6


def competitor(name: str, *, gang: bool) -> Object:
    """Four workers that train until they are deleted; three of them fill a node."""
    raw = example(STEPS="1000000", STEP_SECONDS="1")
    raw["metadata"] |= {"name": name, "annotations": {"gangctl.dev/gang-mode": "Gang"} if gang else {}}
    (container,) = raw["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"]
    container["resources"] = {"requests": {"cpu": "600m"}}
    return raw


async def bound(cluster: Cluster) -> Mapping[str, int]:
    """How many pods of each JobSet have a node, and end with none."""
    pods = await cluster.pods()
    if len(pods) != WORKERS * len(JOBSETS):
        raise NotYet(f"{len(pods)} pods")
    return Counter(pod["metadata"]["labels"][JOBSET_NAME] for pod in pods if pod["spec"].get("nodeName"))


@asynccontextmanager
async def contention(real: RealCluster, *, gangs: bool) -> AsyncIterator[Cluster]:
    """Three JobSets that together need twice the nodes; they run until the end."""
    async with real.namespace() as cluster:
        if gangs:
            await cluster.asked()
        for name in JOBSETS:
            await cluster.create_jobset(competitor(name, gang=gangs))
        yield cluster


async def test_without_gangctl_some_hold_nodes_and_never_start(real: RealCluster) -> None:
    async with contention(real, gangs=False) as cluster:

        async def full() -> Mapping[str, int]:
            found = await bound(cluster)
            if sum(found.values()) != SLOTS:
                raise NotYet(str(found))
            return found

        found = await wait_for(full, "the nodes to be full")
        await nothing_to_place(real.plane, full=True)
        # Six places cannot be shared by whole JobSets of four.
        assert sum(count for count in found.values() if count < WORKERS) >= 2
        assert await bound(cluster) == found


async def test_with_gangctl_one_runs_and_the_others_hold_nothing(real: RealCluster) -> None:
    async with base(real), contention(real, gangs=True) as cluster:

        async def one() -> Mapping[str, int]:
            found = await bound(cluster)
            if sum(found.values()) < WORKERS:
                raise NotYet(str(found))
            return found

        # That they take turns is tests/live/test_contention_live.py's: a gang may be tried again minutes later.
        found = await wait_for(one, "one JobSet to have its nodes")
        await nothing_to_place(real.plane, full=True)
        assert await bound(cluster) == found
        assert [*found.values()] == [WORKERS]
