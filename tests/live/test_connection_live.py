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
from tests.live.impatient import IDLE_SECONDS
from tests.live.proxy import Proxy

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("rough")]

REFUSED_SECONDS = 4
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


async def test_connections_that_are_cut_or_fall_silent_are_opened_again(rough: Cluster) -> None:
    async with gangctl_behind_a_proxy(rough) as (gangctl, proxy):
        await create(rough, ["before"])
        proxy.cut()
        await create(rough, ["cut"])
        await ganged(rough, ["before", "cut"])

        proxy.fall_silent()
        await create(rough, ["silent"])
        began = time.monotonic()
        proxy.speak()
        # Longer than it may take, so that a failure says how long it took.
        await ganged(rough, ["before", "cut", "silent"])
        took = time.monotonic() - began
        # One limit for the watch, one for a request that finds another dead connection in the pool, and delays.
        assert took < 3 * IDLE_SECONDS
        assert await gangctl.is_ready()
        assert "Traceback" not in gangctl.log


@pytest.mark.parametrize("status", [429, 500])
async def test_an_api_server_that_refuses_everything_is_not_flooded(rough: Cluster, status: int) -> None:
    names = [f"js-{number}" for number in range(5)]
    async with gangctl_behind_a_proxy(rough) as (gangctl, proxy):
        proxy.refusal = status
        await create(rough, names)
        proxy.cut()
        heard, began = len(proxy.requests), time.monotonic()

        async def has_tried() -> tuple[float, Counter[str]]:
            seconds, refused = time.monotonic() - began, Counter(proxy.requests[heard:])
            if seconds < REFUSED_SECONDS or refused.total() <= REFUSED:
                raise NotYet(f"{refused.total()} in {seconds:.1f} s")
            return seconds, refused

        seconds, refused = await wait_for(has_tried, what="some time of refusals")
        # Five JobSets, six watches, events and the registration, each with growing delays.
        assert refused.total() < 30 * seconds, refused
        assert gangctl.process.running
        proxy.refusal = None
        await ganged(rough, names)
        assert "Traceback" not in gangctl.log
