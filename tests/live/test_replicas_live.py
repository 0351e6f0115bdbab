"""Two replicas: one that dies, hangs or leaves is followed by the other, and nothing is done twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import datetime

import pytest

from tests.controlplane.api import Object
from tests.controlplane.wait import NotYet, wait_for
from tests.jobsets import jobset, rj
from tests.live.cluster import Cluster
from tests.live.gangctl import Gangctl
from tests.live.load import Load
from tests.live.proxy import Proxy
from tests.live.replicas import LEASE_SECONDS, NAMES, TIMEOUT_SECONDS, Replicas, moment, now, two_replicas

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("rough")]

UNDETECTED_SECONDS = 1.5
"""How long the balancer may go on sending to a replica that does not answer."""


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


def first_write(replicas: Replicas, replica: Gangctl, since: int) -> datetime:
    return min(moment(entry) for entry in replicas.writes(replica, since))


def deeds(entries: list[Object]) -> list[tuple[str, str, str]]:
    """What was really changed: verb, resource, name."""
    return [
        (entry["verb"], entry["objectRef"]["resource"], entry["objectRef"]["name"])
        for entry in entries
        if entry["responseStatus"]["code"] < 300
    ]


async def test_a_leader_that_leaves_hands_over_and_one_that_is_killed_is_followed(rough: Cluster) -> None:
    begun = rough.plane.audit_position
    async with two_replicas(rough.plane) as replicas, Load(rough, pace=10) as load:
        leader, follower = await replicas.roles()
        position, left = rough.plane.audit_position, now()
        leader.process.terminate()
        await create(rough, "left")
        await have_gangs(rough, "left")
        assert (first_write(replicas, follower, position) - left).total_seconds() < 2
        await leader.process.stop(grace=20)
        await leader.process.start()
        await replicas.balancer.settled(leader, follower)
        assert load.failures == [], "graceful"

        position, killed = rough.plane.audit_position, now()
        await follower.process.kill()
        await replicas.balancer.settled(leader)
        await create(rough, "killed")
        await have_gangs(rough, "killed")
        took = (first_write(replicas, leader, position) - killed).total_seconds()
        await load.more()
        assert took < LEASE_SECONDS
        assert all(each.seconds < TIMEOUT_SECONDS for each in load.failures)
        assert load.failures == [] or load.failures[-1].began - load.failures[0].began < UNDETECTED_SECONDS
    # From here on: other tests have had replicas of these names on the same plane, and other leaders among them.
    assert set(deeds(replicas.writes(leader, begun))) & set(deeds(replicas.writes(follower, begun))) == set()


async def retired(cluster: Cluster, names: Sequence[str]) -> None:
    """Wait until none of these has any object."""

    async def without_objects() -> bool:
        if left := (await owners(cluster)).keys() & set(names):
            raise NotYet(f"{left} have objects")
        return True

    await wait_for(without_objects, what="suspended JobSets to be without objects")


async def test_a_leader_that_was_frozen_past_its_lease_does_no_harm(rough: Cluster) -> None:
    names = [f"j{number}" for number in range(6)]
    async with two_replicas(rough.plane) as replicas, Load(rough, pace=10) as load:
        frozen, other = await replicas.roles()
        position = rough.plane.audit_position
        for name in names:
            await create(rough, name)
        # In the middle of it all: what it has begun, and what it would do next, is done by the other one meanwhile.
        frozen.process.pause()
        await have_gangs(rough, *names)
        await replicas.balancer.settled(other)
        for name in names[:3]:
            await rough.patch_jobset(name, {"spec": {"suspend": True}})
        await retired(rough, names[:3])
        born = [
            deed for each in replicas.both for deed in deeds(replicas.writes(each, position)) if deed[0] == "create"
        ]
        assert len(born) == len(set(born))
        woken = rough.plane.audit_position
        frozen.process.resume()
        await replicas.balancer.settled(frozen, other)
        await load.more(20)
        await other.settle()
        await harmless(replicas, frozen, woken)
        await retired(rough, names[:3])
        await have_gangs(rough, *names[3:])
        assert all(each.seconds < TIMEOUT_SECONDS + 1 for each in load.failures)


async def harmless(replicas: Replicas, woken: Gangctl, since: int) -> None:
    """Wait until a replica that was frozen stands by; what it still sent is refused, or a create.

    Kubernetes cannot fence it: a create may come through, and the one who leads takes the object away again.
    """

    async def stands_by() -> bool:
        return "leadership lost" in woken.log

    await wait_for(stands_by, what="the old leader to stand by")
    assert {verb for verb, _, _ in deeds(replicas.writes(woken, since))} <= {"create"}


async def test_what_a_leader_had_begun_when_it_froze_does_no_harm_when_it_goes_on(rough: Cluster) -> None:
    names = [f"j{number}" for number in range(4)]
    plane = rough.plane
    async with AsyncExitStack() as stack:
        proxies = {name: await stack.enter_async_context(Proxy(plane, name)) for name in NAMES}
        ways = {name: proxy.kubeconfig(plane.directory / f"{name}.json") for name, proxy in proxies.items()}
        replicas = await stack.enter_async_context(two_replicas(plane, ways))
        frozen, other = await replicas.roles()
        proxy = proxies[frozen.user]
        proxy.refusal = 429
        for name in names:
            await create(rough, name)

        async def put_off() -> bool:
            writes = {each for each in proxy.requests if each.startswith("POST") and each.endswith("/workloads")}
            if not writes:
                raise NotYet("nothing was written")
            return True

        # It will send these writes again when it goes on, before it looks at the time.
        await wait_for(put_off, what="writes that are put off", interval=0.01)
        frozen.process.pause()
        proxy.refusal = None
        await have_gangs(rough, *names)
        for name in names[:2]:
            await rough.patch_jobset(name, {"spec": {"suspend": True}})
        await retired(rough, names[:2])
        woken = plane.audit_position
        frozen.process.resume()

        await harmless(replicas, frozen, woken)
        await other.settle()
        await retired(rough, names[:2])
        await have_gangs(rough, *names[2:])
