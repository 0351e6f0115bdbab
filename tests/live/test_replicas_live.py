"""Two replicas: one that dies, hangs or leaves is followed by the other, and nothing is done twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from http import HTTPStatus
from typing import Final

import pytest

from tests.controlplane.api import UNREACHABLE, ApiFailure, Object
from tests.controlplane.wait import NotYet, wait_for, wait_until
from tests.jobsets import jobset, rj
from tests.live.cluster import Cluster
from tests.live.faultyproxy import FaultyProxy, nothing
from tests.live.gangctl import Gangctl
from tests.live.load import Load
from tests.live.replicas import (
    LEASE_SECONDS,
    NAMES,
    UNTIL_TOLD_SECONDS,
    Replicas,
    deeds,
    run_out,
    two_replicas,
    without_lease,
)

pytestmark = pytest.mark.controlplane

HANG_SECONDS: Final = 2
"""How long API servers wait for a replica, where one hangs."""


async def create(cluster: Cluster, name: str) -> Object:
    return await cluster.create_jobset(jobset(name, rj("w", 2, 1, 1, mode="ReplicatedGang")))


async def owners(cluster: Cluster) -> Counter[str]:
    """How many gang objects each JobSet has."""
    gangs = await cluster.gangs()
    return Counter(
        o["metadata"]["ownerReferences"][0]["name"] for o in (*gangs.workloads.values(), *gangs.groups.values())
    )


async def have_gangs(cluster: Cluster, *names: str) -> None:
    """Wait until each has its Workload and its two PodGroups."""

    async def all_there() -> bool:
        found = await owners(cluster)
        if missing := [name for name in names if found[name] != 3]:
            raise NotYet(f"{missing} of {found}")
        return True

    await wait_for(all_there, what="the gangs", interval=0.02)


async def accepted(request: Callable[[], Awaitable[Object]]) -> None:
    """Ask until it is not refused: API servers go on with connections that lead to a replica that hangs.

    Where they wait for two seconds only, any replica may be too late. What is shown of refusals, the load shows.
    """
    await wait_for(request, what="a request to be accepted", tolerate=(ApiFailure, *UNREACHABLE))


async def test_a_standby_takes_over_from_a_terminated_and_from_a_killed_leader(bare: Cluster) -> None:
    plane, begun = bare.plane, bare.plane.audit_position
    made = two_replicas(plane, shutdown_delay=UNTIL_TOLD_SECONDS)
    async with made as replicas, Load(bare, pace=10) as load:
        first, second = await replicas.roles()
        await create(bare, "stays")
        await have_gangs(bare, "stays")
        await replicas.leave(first, load)
        await create(bare, "left")
        await have_gangs(bare, "left")
        assert load.refusals == [], "nobody notices that a replica leaves"
        await first.process.start()
        await replicas.balancer.settled(first, second)

        await second.process.kill()
        await replicas.balancer.settled(first)
        await load.well()
        await run_out(plane)
        await create(bare, "killed")
        await have_gangs(bare, "killed")
        # Where nobody listens any more, nobody waits for an answer.
        assert [each for each in load.refusals if "context deadline exceeded" in each.failure] == []
        wrote = {each: replicas.writes(each, begun) for each in replicas.both}
        for entries in wrote.values():
            mine = [each for each in entries if each["objectRef"].get("namespace") == bare.namespace]
            assert deeds(mine), "each has led"
            assert without_lease(plane, mine) == [], "who makes gangs has the Lease"
        assert set(deeds(wrote[first])) & set(deeds(wrote[second])) == set()


async def retired(cluster: Cluster, names: Sequence[str]) -> None:
    """Wait until none of these has any object."""

    async def without_objects() -> bool:
        if left := (await owners(cluster)).keys() & set(names):
            raise NotYet(f"{left} have objects")
        return True

    await wait_for(without_objects, what="suspended JobSets to be without objects")


async def harmless(replicas: Replicas, woken: Gangctl, since: int) -> None:
    """Wait until a replica that was frozen stands by; what it still sent is refused, or a create.

    Kubernetes cannot fence it: a create may come through, and the one who leads takes the object away again. On a
    machine that is slow it may lead again later, and do whatever is due then.
    """
    await wait_until(lambda: "leadership lost" in woken.log, "the old leader to stand by")
    done = [each for each in replicas.writes(woken, since) if each["responseStatus"]["code"] < 300]
    assert without_lease(replicas.plane, [each for each in done if each["verb"] != "create"]) == []


def _of_gangs(method: str, path: str) -> bool:
    return method == "POST" and path.startswith("/apis/scheduling.k8s.io")


async def test_a_leader_that_was_frozen_past_its_lease_does_no_harm(bare: Cluster) -> None:
    """Neither with what it would do next, nor with what it had begun and sends again before it looks at the time."""
    plane, begun = bare.plane, bare.plane.audit_position
    names = [f"j{number}" for number in range(6)]
    suspended, others = (names[0], names[3]), [names[1], names[2], *names[4:]]
    async with AsyncExitStack() as stack:
        proxies = {name: await stack.enter_async_context(FaultyProxy(plane, name)) for name in NAMES}
        ways = {name: proxy.kubeconfig(plane.directory / f"{name}.json") for name, proxy in proxies.items()}
        made = two_replicas(plane, ways, lease_seconds=LEASE_SECONDS, webhook_timeout=HANG_SECONDS)
        replicas = await stack.enter_async_context(made)
        load = await stack.enter_async_context(Load(bare, pace=10))
        for name in names[:3]:
            await accepted(partial(create, bare, name))
        for proxy in proxies.values():
            proxy.fails, proxy.status = _of_gangs, HTTPStatus.TOO_MANY_REQUESTS
        for name in names[3:]:
            await accepted(partial(create, bare, name))

        await wait_until(lambda: any(proxy.failed for proxy in proxies.values()), "writes that are put off")
        frozen, other = await replicas.freeze()
        for proxy in proxies.values():
            proxy.fails = nothing
        await have_gangs(bare, *names)
        for name in suspended:
            await accepted(partial(bare.patch_jobset, name, {"spec": {"suspend": True}}))
        await retired(bare, suspended)
        born = [deed for each in replicas.both for deed in deeds(replicas.writes(each, begun)) if deed[0] == "create"]
        assert len(born) == len(set(born)), "nothing is created twice"
        woken = plane.audit_position
        await replicas.thaw(frozen)
        await harmless(replicas, frozen, woken)
        await load.well()
        await other.settle()
        await retired(bare, suspended)
        await have_gangs(bare, *others)
        # Who met the frozen one was refused when the webhook's time was over, and for no other reason.
        asked = ("failed calling webhook", f"timeout={HANG_SECONDS}s")
        assert [each for each in load.refusals if any(words not in each.failure for words in asked)] == []
