"""What networks and busy API servers do to gangctl's requests: it notices, comes back, and never floods them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.controlplane.wait import NotYet, wait_for
from tests.jobsets import jobset, rj
from tests.live.cluster import Cluster
from tests.live.gangctl import USER, Gangctl
from tests.live.proxy import Proxy

pytestmark = pytest.mark.controlplane

REFUSED_SECONDS = 4
"""For how long everything is refused, at least: long enough for delays to have grown."""
REFUSED = 20
IMPATIENT = str(Path(__file__).with_name("impatient.py"))


@asynccontextmanager
async def gangctl_behind_a_proxy(cluster: Cluster) -> AsyncIterator[tuple[Gangctl, Proxy]]:
    plane = cluster.plane
    async with Proxy(plane, USER) as proxy:
        kubeconfig = proxy.kubeconfig(plane.directory / f"{cluster.namespace}.json")
        async with Gangctl(plane, kubeconfig=kubeconfig, program=["-P", IMPATIENT]) as gangctl:
            await cluster.asked()
            yield gangctl, proxy


async def create(cluster: Cluster, names: Sequence[str]) -> None:
    for name in names:
        await cluster.create_jobset(jobset(name, rj("w", 1, 1, 1, mode="Gang")))


async def ganged(cluster: Cluster, names: Sequence[str]) -> None:
    async def have_gangs() -> bool:
        gangs = await cluster.gangs()
        for objects in (gangs.workloads, gangs.groups):
            owners = sorted(each["metadata"]["ownerReferences"][0]["name"] for each in objects.values())
            if owners != sorted(names):
                raise NotYet(str(owners))
        return True

    await wait_for(have_gangs, f"one gang for each of {names}")


async def test_broken_or_silent_connections_are_reopened(bare: Cluster) -> None:
    async with gangctl_behind_a_proxy(bare) as (gangctl, proxy):
        await create(bare, ["before"])
        proxy.cut()
        await create(bare, ["cut"])
        await ganged(bare, ["before", "cut"])

        proxy.fall_silent()
        await create(bare, ["silent"])
        proxy.speak()
        await ganged(bare, ["before", "cut", "silent"])
        await wait_for(gangctl.is_ready, what="gangctl to be ready")
        assert "Traceback" not in gangctl.log


async def test_an_api_server_that_refuses_everything_is_not_flooded(bare: Cluster) -> None:
    made: list[str] = []
    async with gangctl_behind_a_proxy(bare) as (gangctl, proxy):
        for status in (429, 500):
            await refused_everything(bare, proxy, status, made)
            assert gangctl.process.running
        assert "Traceback" not in gangctl.log


async def refused_everything(cluster: Cluster, proxy: Proxy, status: int, made: list[str]) -> None:
    """For a while; what could not be made meanwhile is made afterwards."""
    names = [f"js-{status}-{number}" for number in range(5)]
    proxy.refusal = status
    await create(cluster, names)
    made += names
    proxy.cut()
    heard, began = len(proxy.requests), time.monotonic()

    async def has_tried() -> tuple[float, Counter[str]]:
        seconds, refused = time.monotonic() - began, Counter(proxy.requests[heard:])
        if seconds < REFUSED_SECONDS or refused.total() <= REFUSED:
            raise NotYet(f"{refused.total()} in {seconds:.1f} s")
        return seconds, refused

    seconds, refused = await wait_for(has_tried, what="refusals")
    # Five JobSets, six watches, events and the registration, each with growing delays. On a machine that is slow they
    # are fewer, never more.
    assert refused.total() < 30 * seconds, refused
    proxy.refusal = None
    await ganged(cluster, made)
