"""Two replicas: one that dies, hangs or leaves is followed by the other, and nothing is done twice."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from functools import partial
from typing import Final

import pytest

from tests.controlplane.api import ApiFailure, Object
from tests.controlplane.wait import NotYet, wait_for
from tests.jobsets import jobset, rj
from tests.live.cluster import Cluster
from tests.live.gangctl import Gangctl
from tests.live.load import Load, Outcome
from tests.live.proxy import Proxy
from tests.live.replicas import LEASE_SECONDS, NAMES, Replicas, Stalls, moment, now, two_replicas

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("rough")]

HANDOVER_SECONDS: Final = 2
"""Within this a Lease that was given back is taken. Who stands by looks every second and a half; one that waited for
the Lease to run out could not have it before ten seconds and a half, in which it lasts twelve after a renewal."""
UNDETECTED_SECONDS: Final = 1
"""For how long creates may fail after the balancer has seen that a replica is dead: API servers notice a moment later
that their connections have ended. If only leaders answered, creates would fail for ten seconds."""
HANG_SECONDS: Final = 2
"""How long API servers wait for a replica that hangs, where that is measured."""
HUNG_SECONDS: Final = 8
"""Within this they have given up: the default, which they must not have taken instead, is ten seconds."""


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

    # Where a leader has died or hangs, most of a Lease's length passes before anybody makes them.
    await wait_for(all_there, what="the gangs", interval=0.02)


async def accepted(request: Callable[[], Awaitable[Object]]) -> None:
    """Ask until it is not refused: API servers go on with connections that lead to a replica that hangs.

    Where they wait for two seconds only, any replica may be too late. What is shown of refusals, the load shows.
    """
    await wait_for(request, what="a request to be accepted", tolerate=(ApiFailure,))


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
    async with two_replicas(rough.plane, lease_seconds=LEASE_SECONDS) as replicas, Load(rough, pace=10) as load:
        leader, follower = await replicas.roles()
        position, left = rough.plane.audit_position, now()
        async with Stalls() as stalls:
            leader.process.terminate()
            await create(rough, "left")
            await have_gangs(rough, "left")
        took = (first_write(replicas, follower, position) - left).total_seconds()
        assert took - stalls.seconds < HANDOVER_SECONDS
        await leader.process.stop(grace=20)
        await leader.process.start()
        await replicas.balancer.settled(leader, follower)
        assert load.failures == [], "graceful"

        position, killed = rough.plane.audit_position, now()
        async with Stalls() as stalls:
            await follower.process.kill()
            await replicas.balancer.settled(leader)
            detected = time.monotonic()
            await create(rough, "killed")
            await have_gangs(rough, "killed")
        took = (first_write(replicas, leader, position) - killed).total_seconds()
        await load.more()
        assert took - stalls.seconds < LEASE_SECONDS
        # Where nobody listens any more, nobody waits for an answer.
        assert [each for each in load.failures if "context deadline exceeded" in each.failure] == []
        late = [each for each in load.failures if each.began - detected - stalls.seconds >= UNDETECTED_SECONDS]
        assert late == []
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
    hung = two_replicas(rough.plane, lease_seconds=LEASE_SECONDS, webhook_timeout=HANG_SECONDS)
    async with hung as replicas, Load(rough, pace=10) as load, Stalls() as stalls:
        frozen, other = await replicas.roles()
        position = rough.plane.audit_position
        for name in names:
            await accepted(partial(create, rough, name))
        # In the middle of it all: what it has begun, and what it would do next, is done by the other one meanwhile.
        frozen.process.pause()
        await have_gangs(rough, *names)
        await replicas.balancer.settled(other)
        for name in names[:3]:
            await accepted(partial(rough.patch_jobset, name, {"spec": {"suspend": True}}))
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
        assert [each for each in load.failures if not given_up_in_time(each, stalls)] == []


def given_up_in_time(outcome: Outcome, stalls: Stalls) -> bool:
    """Whether the API server refused a JobSet because of the webhook, and did not wait for it longer than it should."""
    asked = "failed calling webhook" in outcome.failure and f"timeout={HANG_SECONDS}s" in outcome.failure
    return asked and outcome.seconds - stalls.seconds < HUNG_SECONDS


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
        replicas = await stack.enter_async_context(two_replicas(plane, ways, lease_seconds=LEASE_SECONDS))
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
            await accepted(partial(rough.patch_jobset, name, {"spec": {"suspend": True}}))
        await retired(rough, names[:2])
        woken = plane.audit_position
        frozen.process.resume()

        await harmless(replicas, frozen, woken)
        await other.settle()
        await retired(rough, names[:2])
        await have_gangs(rough, *names[2:])
